//! The store: what each server listed when it last ran, on disk, so that it is known before the
//! server runs again.
//!
//! *Theory of operation.* There is one folder with one file for each server ([`record`]), called by
//! its [`fingerprint`], and the key of those. Files are replaced whole, so whoever reads sees one
//! listing or another and never half of one; several processes may share a store, and the last
//! one's word counts. A file's time is when its listing was last found to be true. What cannot be
//! read is as good as not there: the store only ever spares waiting. All functions here block; the
//! [`Keeper`] runs them beside the tasks that serve agents. Beside the listings is what a model has
//! made of texts ([`vectors`]).

mod elsewhere;
mod fingerprint;
mod keeper;
mod record;
mod vectors;

use std::collections::HashMap;
use std::fs::{self, DirEntry, File};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tempfile::NamedTempFile;

use crate::backend::Reach;
use crate::backend::store::fingerprint::Key;
use crate::os::{check_owner, make_private_folder, without_waiting};
use crate::settings::Protocol;

pub use crate::backend::store::elsewhere::Elsewhere;
pub use crate::backend::store::fingerprint::Fingerprint;
pub(crate) use crate::backend::store::keeper::{Keeper, Outgoing};
pub(crate) use crate::backend::store::record::Found;
pub use crate::backend::store::record::{Record, Unusable};
pub(crate) use crate::backend::store::vectors::{KnownTexts, TextKey, text_key};

/// The folder of the store in that of the cache.
const FOLDER: &str = "listings";
/// The file that has the key.
const KEY: &str = "key";
/// The ending of the names of listings.
const EXTENSION: &str = "listing";
/// The beginning of the names of files that are being written.
const UNFINISHED: &str = ".unfinished-";
/// The most bytes of one listing; a longer one is not kept.
const MAX_FILE: u64 = 8 * 1024 * 1024;
/// The most listings, and the most bytes of all; beyond, the oldest go.
const MAX_FILES: usize = 512;
const MAX_BYTES: u64 = 64 * 1024 * 1024;
/// How long after looking how much is in the folder that is looked at again: others put listings there, too.
const LOOK_AGAIN: Duration = Duration::from_mins(1);
/// How old a file that is being written must be to have been left behind.
const ABANDONED: Duration = Duration::from_hours(1);

/// A store of listings in a folder.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    /// Where vectors are.
    vectors: PathBuf,
    key: Mutex<Option<Key>>,
    /// The listings that were in the folder when it was last pruned, and those put there since.
    held: Mutex<Option<Held>>,
    /// The ways to speak to servers that were looked up here, or kept.
    ways: Mutex<HashMap<Reach, LookedUp>>,
    elsewhere: OnceLock<Arc<dyn Elsewhere>>,
}

/// The way to speak to a server in these revisions, when it was looked up last.
#[derive(Clone, Copy, Debug)]
struct LookedUp {
    protocol: Protocol,
    /// `None`: nothing was known of it.
    found: Option<Found>,
}

/// The listings in a folder, by what is known of it.
#[derive(Debug)]
struct Held {
    files: usize,
    bytes: u64,
    /// When it was looked.
    at: Instant,
}

/// A store's entry on one server.
#[derive(Debug)]
pub struct Entry {
    /// Which server.
    pub fingerprint: Fingerprint,
    /// How many bytes the file has.
    pub bytes: u64,
    /// When the listing was last found to be true.
    pub since: SystemTime,
    /// The entry's content.
    pub record: Result<Record, Unusable>,
}

impl Store {
    /// The store in this folder for caches. Nothing is read or written yet.
    pub fn new(cache: &Path) -> Self {
        let (folder, vectors) = (cache.join(FOLDER), cache.join(vectors::FOLDER));
        let (key, held, ways) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { folder, vectors, key, held, ways, elsewhere: OnceLock::new() }
    }

    /// Looks for listings there as well, and keeps them there, too.
    pub fn share(&self, elsewhere: Arc<dyn Elsewhere>) {
        let _ = self.elsewhere.set(elsewhere);
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The entry on a server that is reached so and spoken to in these revisions.
    pub fn look_up(&self, reach: &Reach, protocol: Protocol) -> Option<Entry> {
        let found = self.existing_key().and_then(|key| {
            let Some(key) = key else { return Ok(None) };
            self.entry(Fingerprint::new(&key, reach, protocol))
        });
        found.unwrap_or_else(|error| {
            tracing::debug!(%error, "the store of listings cannot be read");
            None
        })
    }

    /// The record of such a server and its age, if it can be used.
    pub(crate) fn recall(&self, reach: &Reach, protocol: Protocol) -> Option<(Record, SystemTime)> {
        let here = self.look_up(reach, protocol).and_then(|entry| {
            let Entry { fingerprint, since, record, .. } = entry;
            match record {
                Ok(record) => Some((record, since)),
                Err(why) => {
                    let file = fingerprint.as_str();
                    tracing::debug!(file, "a stored listing is ignored: {why}");
                    None
                }
            }
        });
        let recalled =
            here.or_else(|| elsewhere::recall(self.elsewhere.get()?.as_ref(), reach, protocol));
        let found = recalled.as_ref().map(|(record, _)| record.found());
        self.note_way(reach, protocol, found);
        recalled
    }

    /// The way to speak to such a server, if it was looked up here before.
    fn known_way(&self, reach: &Reach, protocol: Protocol) -> Option<LookedUp> {
        let ways = self.ways.lock().unwrap_or_else(PoisonError::into_inner);
        ways.get(reach).copied().filter(|looked_up| looked_up.protocol == protocol)
    }

    fn note_way(&self, reach: &Reach, protocol: Protocol, found: Option<Found>) {
        let mut ways = self.ways.lock().unwrap_or_else(PoisonError::into_inner);
        if ways.len() >= MAX_FILES {
            // They are looked up again.
            ways.clear();
        }
        ways.insert(reach.clone(), LookedUp { protocol, found });
    }

    /// Everything that there is, in the order of the files' names.
    pub fn entries(&self) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for file in self.files()? {
            if let Kind::Listing(fingerprint) = kind(&file) {
                entries.extend(self.entry(fingerprint)?);
            }
        }
        entries.sort_by(|a, b| a.fingerprint.cmp(&b.fingerprint));
        Ok(entries)
    }

    /// Keeps what a server has just listed.
    pub(crate) fn keep(
        &self,
        reach: &Reach,
        protocol: Protocol,
        record: &Record,
    ) -> io::Result<()> {
        self.note_way(reach, protocol, Some(record.found()));
        let text = record.encode().map_err(io::Error::other)?;
        if let Some(elsewhere) = self.elsewhere.get() {
            elsewhere::keep(elsewhere.as_ref(), reach, protocol, &text);
        }
        let path = self.path(&Fingerprint::new(&self.own_key()?, reach, protocol));
        if text.len() as u64 > MAX_FILE {
            tracing::debug!(server = record.server, "its listing is too long to be kept");
            return absent_is_fine(fs::remove_file(path));
        }
        if read(&path).is_ok_and(|last| last == text) {
            return File::options().append(true).open(path)?.set_modified(SystemTime::now());
        }
        let mut file = self.unfinished()?;
        file.write_all(&text)?;
        file.persist(path)?;
        self.make_room(text.len() as u64)
    }

    /// Removes everything that a store puts into its folders, and the folders if nothing else is in
    /// them. Says how many listings there were.
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
        *self.key.lock().unwrap_or_else(PoisonError::into_inner) = None;
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.ways.lock().unwrap_or_else(PoisonError::into_inner).clear();
        match fs::remove_dir(&self.folder) {
            // Somebody else has put something there.
            Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {}
            removed => absent_is_fine(removed)?,
        }
        Ok(listings)
    }

    fn path(&self, fingerprint: &Fingerprint) -> PathBuf {
        self.folder.join(format!("{}.{EXTENSION}", fingerprint.as_str()))
    }

    fn entry(&self, fingerprint: Fingerprint) -> io::Result<Option<Entry>> {
        let file = match open(&self.path(&fingerprint)) {
            Ok(file) => file,
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let metadata = file.metadata()?;
        let record = if metadata.len() > MAX_FILE {
            Err(Unusable::TooLarge)
        } else {
            Record::decode(&bounded(file)?)
        };
        Ok(Some(Entry { fingerprint, bytes: metadata.len(), since: metadata.modified()?, record }))
    }

    fn files(&self) -> io::Result<Vec<DirEntry>> {
        match fs::read_dir(&self.folder) {
            Ok(files) => files.collect(),
            Err(error) if is_absent(&error) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// The key, if there is one.
    fn existing_key(&self) -> io::Result<Option<Key>> {
        let mut known = self.key.lock().unwrap_or_else(PoisonError::into_inner);
        if known.is_none() {
            *known = self.read_key()?;
        }
        Ok(known.clone())
    }

    fn read_key(&self) -> io::Result<Option<Key>> {
        match read(&self.folder.join(KEY)) {
            Ok(key) => {
                // Models read the listings in it, so those of others are not believed.
                check_owner(&self.folder)?;
                Ok(key.try_into().ok().map(Key))
            }
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The key, which is made if there is none.
    fn own_key(&self) -> io::Result<Key> {
        make_private_folder(&self.folder)?;
        // Another process may have removed the key, and its listings with it.
        let there_is = self.read_key()?;
        let key = if let Some(key) = there_is {
            key
        } else {
            let mut key = [0; Key::LENGTH];
            getrandom::fill(&mut key).map_err(io::Error::from)?;
            let mut file = self.unfinished()?;
            file.write_all(&key)?;
            let path = self.folder.join(KEY);
            if path.metadata().is_ok_and(|metadata| metadata.len() != key.len() as u64) {
                file.persist(path)?;
            } else if let Err(error) = file.persist_noclobber(path)
                && error.error.kind() != ErrorKind::AlreadyExists
            {
                return Err(error.into());
            }
            // It may be that of a process that was faster.
            self.read_key()?.ok_or_else(|| io::Error::other("the key cannot be read"))?
        };
        *self.key.lock().unwrap_or_else(PoisonError::into_inner) = Some(key.clone());
        Ok(key)
    }

    /// A file of the folder that nobody knows yet, readable by its owner alone.
    fn unfinished(&self) -> io::Result<NamedTempFile> {
        tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(&self.folder)
    }

    /// Makes room for a listing of so many bytes that has come, if it takes that. Where many servers are
    /// listed at once, looking at all files for each would be most of the work.
    fn make_room(&self, bytes: u64) -> io::Result<()> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = held.as_mut().is_some_and(|held| {
            held.files += 1;
            held.bytes += bytes;
            held.files <= MAX_FILES && held.bytes <= MAX_BYTES && held.at.elapsed() < LOOK_AGAIN
        });
        if !has_room {
            *held = None;
            *held = Some(self.prune()?);
        }
        Ok(())
    }

    /// Removes the oldest listings where there are too many, and what was never finished. Returns what
    /// is left.
    fn prune(&self) -> io::Result<Held> {
        let mut listings = Vec::new();
        for file in self.files()? {
            // Others may be removing files, too.
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
        let mut held = Held { files: 0, bytes: 0, at: Instant::now() };
        let mut is_full = false;
        for (_, length, path) in listings {
            is_full |= held.files == MAX_FILES || held.bytes + length > MAX_BYTES;
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

/// The kind of a file in the folder.
#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Listing(Fingerprint),
    Key,
    Unfinished,
    /// Nothing of ours.
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

fn read(path: &Path) -> io::Result<Vec<u8>> {
    bounded(open(path)?)
}

/// Opens a file for reading; a pipe, which would be waited for without end, counts as an error.
fn open(path: &Path) -> io::Result<File> {
    let file = without_waiting(File::options().read(true)).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("this is no file")) }
}

/// Reads a file, or of one that is too large, one byte too many.
fn bounded(file: File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns `true` if there is nothing, or if something on the way to it is no folder.
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
