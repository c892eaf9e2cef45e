//! On-disk store of server listings, so that tools are known before their server runs.
//!
//! One folder contains a file per server ([`record`]), named by a [`fingerprint`], and the key of
//! the fingerprints. Files are replaced atomically, so readers never see half a listing. Several
//! processes can share a store; the last writer wins. A file's modification time is when its
//! listing was last confirmed. An unreadable file counts as missing: the store only saves time.
//!
//! All functions block; [`ListingStoreWorker`] runs them apart from the tasks that serve agents.
//! Embedding vectors are stored in a folder next to the listings.

mod fingerprint;
mod record;
mod shared_cache;
mod vectors;
mod worker;

use std::collections::HashMap;
use std::fs::{self, DirEntry, Metadata};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use tempfile::NamedTempFile;

use crate::backend::ServerTransport;
use crate::backend::listing_store::fingerprint::StoreKey;
use mcp_workbench_os::{OpenMode, check_private_dir, make_private_folder, open_own, read_own};
use mcp_workbench_settings::Protocol;

pub use crate::backend::listing_store::fingerprint::Fingerprint;
pub(crate) use crate::backend::listing_store::record::ProtocolHint;
pub use crate::backend::listing_store::record::{ListingRecord, ListingRecordError};
pub use crate::backend::listing_store::shared_cache::SharedListingCache;
pub(crate) use crate::backend::listing_store::vectors::{KnownTexts, TextKey, text_key};
pub(crate) use crate::backend::listing_store::worker::{ListingStoreWorker, PendingSave};

const FOLDER: &str = "listings";
const KEY: &str = "key";
const EXTENSION: &str = "listing";
const UNFINISHED: &str = ".unfinished-";
/// Maximum bytes of a listing; a longer one isn't stored.
const MAX_FILE: u64 = 8 * 1024 * 1024;
/// Maximum number and total bytes of listings; the oldest ones are removed first.
const MAX_FILES: usize = 512;
const MAX_BYTES: u64 = 64 * 1024 * 1024;
/// How long measured usage is trusted: other processes write to the folder too.
const LOOK_AGAIN: Duration = Duration::from_mins(1);
/// Unfinished files that are older count as abandoned.
const ABANDONED: Duration = Duration::from_hours(1);

#[derive(Debug)]
pub struct ListingStore {
    folder: PathBuf,
    vectors: PathBuf,
    key: Mutex<Option<StoreKey>>,
    /// Usage when the folder was last pruned, plus later writes.
    held: Mutex<Option<DiskUsage>>,
    ways: Mutex<HashMap<ServerTransport, CachedProtocolHint>>,
    elsewhere: OnceLock<Arc<dyn SharedListingCache>>,
}

#[derive(Clone, Copy, Debug)]
struct CachedProtocolHint {
    protocol: Protocol,
    /// `None` if the store had no hint.
    found: Option<ProtocolHint>,
}

#[derive(Debug)]
struct DiskUsage {
    files: usize,
    bytes: u64,
    at: Instant,
}

#[derive(Debug)]
pub struct StoredListing {
    pub fingerprint: Fingerprint,
    pub bytes: u64,
    /// When the listing was last confirmed.
    pub since: SystemTime,
    pub record: Result<ListingRecord, ListingRecordError>,
}

impl ListingStore {
    /// Opens the store in a cache folder, without touching the disk.
    pub fn new(cache: &Path) -> Self {
        let (folder, vectors) = (cache.join(FOLDER), cache.join(vectors::FOLDER));
        let (key, held, ways) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { folder, vectors, key, held, ways, elsewhere: OnceLock::new() }
    }

    /// Also reads from and writes to a cache that other workbenches share.
    pub fn share(&self, elsewhere: Arc<dyn SharedListingCache>) {
        let _ = self.elsewhere.set(elsewhere);
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn look_up(&self, reach: &ServerTransport, protocol: Protocol) -> Option<StoredListing> {
        let found = self.existing_key().and_then(|key| {
            let Some(key) = key else { return Ok(None) };
            self.entry(Fingerprint::new(&key, reach, protocol))
        });
        found.unwrap_or_else(|error| {
            tracing::debug!(%error, "failed to read the cached tool lists");
            None
        })
    }

    /// Returns a usable record and its time, from the shared cache if the folder has none.
    pub(crate) fn load(
        &self,
        reach: &ServerTransport,
        protocol: Protocol,
    ) -> Option<(ListingRecord, SystemTime)> {
        let here = self.look_up(reach, protocol).and_then(|entry| {
            let StoredListing { fingerprint, since, record, .. } = entry;
            match record {
                Ok(record) => Some((record, since)),
                Err(why) => {
                    let file = fingerprint.as_str();
                    tracing::debug!(file, "ignored a cached tool list: {why}");
                    None
                }
            }
        });
        let recalled =
            here.or_else(|| shared_cache::recall(self.elsewhere.get()?.as_ref(), reach, protocol));
        let found = recalled.as_ref().map(|(record, _)| record.found());
        self.store_hint(reach, protocol, found);
        recalled
    }

    fn cached_hint(
        &self,
        reach: &ServerTransport,
        protocol: Protocol,
    ) -> Option<CachedProtocolHint> {
        let ways = self.ways.lock();
        ways.get(reach).copied().filter(|looked_up| looked_up.protocol == protocol)
    }

    fn store_hint(&self, reach: &ServerTransport, protocol: Protocol, found: Option<ProtocolHint>) {
        let mut ways = self.ways.lock();
        if ways.len() >= MAX_FILES {
            // They are looked up again.
            ways.clear();
        }
        ways.insert(reach.clone(), CachedProtocolHint { protocol, found });
    }

    /// Returns all entries, sorted by fingerprint.
    pub fn entries(&self) -> io::Result<Vec<StoredListing>> {
        let mut entries = Vec::new();
        for file in self.files()? {
            if let Kind::Listing(fingerprint) = kind(&file) {
                entries.extend(self.entry(fingerprint)?);
            }
        }
        entries.sort_by(|a, b| a.fingerprint.cmp(&b.fingerprint));
        Ok(entries)
    }

    /// Saves a new listing. If it is unchanged, only updates the file's time.
    pub(crate) fn save(
        &self,
        reach: &ServerTransport,
        protocol: Protocol,
        record: &ListingRecord,
    ) -> io::Result<()> {
        self.store_hint(reach, protocol, Some(record.found()));
        let text = record.encode().map_err(io::Error::other)?;
        if let Some(elsewhere) = self.elsewhere.get() {
            shared_cache::keep(elsewhere.as_ref(), reach, protocol, &text);
        }
        let path = self.path(&Fingerprint::new(&self.own_key()?, reach, protocol));
        if text.len() as u64 > MAX_FILE {
            tracing::debug!(server = record.server, "tool list too large to cache");
            return absent_is_fine(fs::remove_file(path));
        }
        if read_own(&path, MAX_FILE).is_ok_and(|last| last == text) {
            return open_own(&path, OpenMode::Append)?.set_modified(SystemTime::now());
        }
        let mut file = self.unfinished()?;
        file.write_all(&text)?;
        file.persist(path)?;
        self.make_room(text.len() as u64)
    }

    /// Removes all files of the store, and its folders if nothing else is in them. Returns the
    /// number of listings.
    pub fn clear(&self) -> io::Result<usize> {
        self.clear_vectors()?;
        let mut listings = 0;
        for file in self.files()? {
            let kind = kind(&file);
            if kind != Kind::Foreign {
                absent_is_fine(fs::remove_file(file.path()))?;
            }
            listings += usize::from(matches!(kind, Kind::Listing(_)));
        }
        *self.key.lock() = None;
        *self.held.lock() = None;
        self.ways.lock().clear();
        match fs::remove_dir(&self.folder) {
            // The folder contains other files.
            Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {}
            removed => absent_is_fine(removed)?,
        }
        Ok(listings)
    }

    fn path(&self, fingerprint: &Fingerprint) -> PathBuf {
        self.folder.join(format!("{}.{EXTENSION}", fingerprint.as_str()))
    }

    fn entry(&self, fingerprint: Fingerprint) -> io::Result<Option<StoredListing>> {
        let file = match open_own(&self.path(&fingerprint), OpenMode::Read) {
            Ok(file) => file,
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let metadata = file.metadata()?;
        let record = if metadata.len() > MAX_FILE {
            Err(ListingRecordError::TooLarge)
        } else {
            let mut text = Vec::new();
            file.take(MAX_FILE).read_to_end(&mut text)?;
            ListingRecord::decode(&text)
        };
        Ok(Some(StoredListing {
            fingerprint,
            bytes: metadata.len(),
            since: metadata.modified()?,
            record,
        }))
    }

    fn files(&self) -> io::Result<Vec<DirEntry>> {
        match fs::read_dir(&self.folder) {
            Ok(files) => files.collect(),
            Err(error) if is_absent(&error) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    fn existing_key(&self) -> io::Result<Option<StoreKey>> {
        let mut known = self.key.lock();
        if known.is_none() {
            *known = self.read_key()?;
        }
        Ok(known.clone())
    }

    fn read_key(&self) -> io::Result<Option<StoreKey>> {
        match read_own(&self.folder.join(KEY), MAX_FILE) {
            Ok(key) => {
                // Models read the listings, so files of other users aren't trusted.
                check_private_dir(&self.folder)?;
                Ok(key.try_into().ok().map(StoreKey))
            }
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn own_key(&self) -> io::Result<StoreKey> {
        make_private_folder(&self.folder)?;
        check_private_dir(&self.folder)?;
        // Read it again: another process may have cleared the store.
        let key = if let Ok(Some(key)) = self.read_key() {
            key
        } else {
            let mut key = [0; StoreKey::LENGTH];
            getrandom::fill(&mut key).map_err(io::Error::from)?;
            let mut file = self.unfinished()?;
            file.write_all(&key)?;
            let path = self.folder.join(KEY);
            let is_key = |found: &Metadata| found.is_file() && found.len() == key.len() as u64;
            if path.symlink_metadata().is_ok_and(|found| !is_key(&found)) {
                // Damaged, or a link or FIFO. The rename replaces it without opening it.
                file.persist(path)?;
            } else if let Err(error) = file.persist_noclobber(path)
                && error.error.kind() != ErrorKind::AlreadyExists
            {
                return Err(error.into());
            }
            // Another process may have created it first.
            self.read_key()?.ok_or_else(|| io::Error::other("cannot read the key file"))?
        };
        *self.key.lock() = Some(key.clone());
        Ok(key)
    }

    fn unfinished(&self) -> io::Result<NamedTempFile> {
        tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(&self.folder)
    }

    /// Prunes the folder if `bytes` more exceed its limits. Counts instead of scanning each time,
    /// since scans would dominate while many servers start.
    fn make_room(&self, bytes: u64) -> io::Result<()> {
        let mut held = self.held.lock();
        let has_room = held.as_mut().is_some_and(|held| {
            held.files += 1;
            held.bytes = held.bytes.saturating_add(bytes);
            held.files <= MAX_FILES && held.bytes <= MAX_BYTES && held.at.elapsed() < LOOK_AGAIN
        });
        if !has_room {
            *held = None;
            *held = Some(self.prune()?);
        }
        Ok(())
    }

    /// Removes the oldest listings above the limits, and abandoned files. Returns the remaining
    /// usage.
    fn prune(&self) -> io::Result<DiskUsage> {
        let mut listings = Vec::new();
        for file in self.files()? {
            // Another process may be removing files too.
            let Ok(metadata) = file.metadata() else { continue };
            let time = metadata.modified()?;
            match kind(&file) {
                Kind::Listing(_) => listings.push((time, metadata.len(), file.path())),
                Kind::Unfinished if time.elapsed().is_ok_and(|age| age > ABANDONED) => {
                    absent_is_fine(fs::remove_file(file.path()))?;
                }
                Kind::Unfinished | Kind::Key | Kind::Foreign => {}
            }
        }
        listings.sort_by_key(|(time, ..)| std::cmp::Reverse(*time));
        let mut held = DiskUsage { files: 0, bytes: 0, at: Instant::now() };
        let mut is_full = false;
        for (_, length, path) in listings {
            is_full |= held.files == MAX_FILES || held.bytes.saturating_add(length) > MAX_BYTES;
            if is_full {
                absent_is_fine(fs::remove_file(path))?;
            } else {
                held.files += 1;
                held.bytes += length;
            }
        }
        Ok(held)
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Listing(Fingerprint),
    Key,
    Unfinished,
    /// Not created by the store.
    Foreign,
}

fn kind(file: &DirEntry) -> Kind {
    let name = file.file_name();
    let name = name.to_str().unwrap_or_default();
    match name.split_once('.') {
        _ if name == KEY => Kind::Key,
        _ if name.starts_with(UNFINISHED) => Kind::Unfinished,
        Some((stem, EXTENSION)) => Fingerprint::parse(stem).map_or(Kind::Foreign, Kind::Listing),
        _ => Kind::Foreign,
    }
}

/// Returns `true` if the file or a folder of its path doesn't exist.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn absent_is_fine(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if is_absent(&error) => Ok(()),
        done => done,
    }
}

#[cfg(test)]
mod tests;
