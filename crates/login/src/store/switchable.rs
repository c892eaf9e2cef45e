//! Login records in files or in the system's keyring, switchable at run time.
//!
//! The choice is a file next to the records, so that running processes follow a switch, too. A
//! keyring has no locks, and listing it would reveal every secret. Each record in the keyring
//! therefore has a file with the digest of the record: it shows that the record exists, and whether
//! the cached copy is current. The digest is written first. A crash between the two writes leaves a
//! digest that matches no record; the cache then misses, and the keyring is read on every load.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;

use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use crate::store::file::{FileStore, RECORD};
use crate::store::login_store::{LoginStore, RecordLockGuard};

/// Extension of digest files.
const DIGEST: &str = "keyring";
/// Stem and extension of the file whose presence selects the keyring.
const CHOICE: (&str, &str) = ("chosen", "store");
/// Name of the keyring entry for testing the keyring.
const TRIAL: &str = "trial";

/// A system keyring. All methods block, and fail if the keyring is unavailable.
#[expect(clippy::missing_errors_doc, reason = "all methods fail for the same reasons")]
pub trait Keyring: Send + Sync {
    fn get(&self, name: &str) -> io::Result<Option<Vec<u8>>>;

    /// Creates or replaces a secret.
    fn put(&self, name: &str, secret: &[u8]) -> io::Result<()>;

    fn remove(&self, name: &str) -> io::Result<()>;
}

/// Where `SwitchableStore` keeps records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageBackend {
    File,
    Keyring,
}

/// A store in files or in the keyring, according to the user's choice.
pub struct SwitchableStore {
    folder: FileStore,
    keyring: Box<dyn Keyring>,
    /// Read from the keyring, by key.
    known: Mutex<HashMap<String, CachedRecord>>,
}

struct CachedRecord {
    digest: Vec<u8>,
    record: Vec<u8>,
}

impl SwitchableStore {
    /// Creates a store in `folder`, which can be switched to `keyring`.
    pub fn new(folder: PathBuf, keyring: impl Keyring + 'static) -> Self {
        let (folder, keyring) = (FileStore::new(folder), Box::new(keyring));
        Self { folder, keyring, known: Mutex::default() }
    }

    /// Returns the selected backend.
    ///
    /// # Errors
    ///
    /// Returns an error if the choice can't be read.
    pub fn home(&self) -> io::Result<StorageBackend> {
        let choice = self.folder.get(CHOICE.0, CHOICE.1)?;
        Ok(if choice.is_some() { StorageBackend::Keyring } else { StorageBackend::File })
    }

    /// Selects a backend and moves all records there. Returns the number of records moved.
    ///
    /// # Errors
    ///
    /// Returns an error if a backend is unavailable or a record is locked. Nothing changes then.
    pub fn move_to(&self, to: StorageBackend) -> io::Result<usize> {
        let _choosing = self.lock(CHOICE.0)?;
        let from = self.home()?;
        if from == to {
            return Ok(0);
        }
        if to == StorageBackend::Keyring {
            self.try_out()?;
        }
        let keys = self.folder.keys(ending(from))?;
        let _locks =
            keys.iter().map(|key| self.lock(key)).collect::<io::Result<Vec<RecordLockGuard>>>()?;
        let copied = self.copy(&keys, from, to).and_then(|copied| self.choose(to).map(|()| copied));
        let left = if copied.is_ok() { from } else { to };
        for key in &keys {
            let removed = self.remove_from(left, key);
            if let (Ok(_), Err(error)) = (&copied, removed) {
                tracing::warn!(%error, "failed to delete the old copy of a login");
            }
        }
        copied
    }

    fn copy(&self, keys: &[String], from: StorageBackend, to: StorageBackend) -> io::Result<usize> {
        let mut copied = 0;
        for key in keys {
            if let Some(record) = self.load_from(from, key)? {
                self.save_to(to, key, &record)?;
                copied += 1;
            }
        }
        Ok(copied)
    }

    fn choose(&self, home: StorageBackend) -> io::Result<()> {
        match home {
            StorageBackend::Keyring => self.folder.put(CHOICE.0, CHOICE.1, b"keyring\n"),
            StorageBackend::File => self.folder.discard(CHOICE.0, CHOICE.1).map(drop),
        }
    }

    /// Checks that the keyring returns a stored secret.
    fn try_out(&self) -> io::Result<()> {
        self.keyring.put(TRIAL, b"trial")?;
        let got = self.keyring.get(TRIAL)?;
        self.keyring.remove(TRIAL)?;
        if got.as_deref() == Some(b"trial") {
            return Ok(());
        }
        Err(io::Error::other("the keyring does not return stored values"))
    }

    fn lock(&self, key: &str) -> io::Result<RecordLockGuard> {
        let busy = || io::Error::other("a login is being changed; try again");
        self.folder.try_lock(key)?.ok_or_else(busy)
    }

    fn load_from(&self, home: StorageBackend, key: &str) -> io::Result<Option<Vec<u8>>> {
        if home == StorageBackend::File {
            return self.folder.load(key);
        }
        let Some(digest) = self.folder.get(key, DIGEST)? else { return Ok(None) };
        let known = || self.known.lock();
        if let Some(known) = known().get(key).filter(|known| known.digest == digest) {
            return Ok(Some(known.record.clone()));
        }
        let record = self.keyring.get(key)?;
        if let Some(record) = record.as_ref().filter(|record| digest_of(record) == digest) {
            known().insert(key.to_owned(), CachedRecord { digest, record: record.clone() });
        }
        Ok(record)
    }

    fn save_to(&self, home: StorageBackend, key: &str, record: &[u8]) -> io::Result<()> {
        if home == StorageBackend::File {
            return self.folder.save(key, record);
        }
        self.folder.put(key, DIGEST, &digest_of(record))?;
        self.keyring.put(key, record)
    }

    fn remove_from(&self, home: StorageBackend, key: &str) -> io::Result<bool> {
        if home == StorageBackend::File {
            return self.folder.remove(key);
        }
        if self.folder.get(key, DIGEST)?.is_none() {
            return Ok(false);
        }
        self.keyring.remove(key)?;
        self.known.lock().remove(key);
        self.folder.discard(key, DIGEST)
    }
}

impl LoginStore for SwitchableStore {
    fn load(&self, key: &str) -> io::Result<Option<Vec<u8>>> {
        self.load_from(self.home()?, key)
    }

    fn save(&self, key: &str, record: &[u8]) -> io::Result<()> {
        self.save_to(self.home()?, key, record)
    }

    fn remove(&self, key: &str) -> io::Result<bool> {
        self.remove_from(self.home()?, key)
    }

    fn all(&self) -> io::Result<Vec<Vec<u8>>> {
        let home = self.home()?;
        let keys = self.folder.keys(ending(home))?;
        let records = keys.iter().map(|key| self.load_from(home, key));
        records.filter_map(Result::transpose).collect()
    }

    fn try_lock(&self, key: &str) -> io::Result<Option<RecordLockGuard>> {
        self.folder.try_lock(key)
    }
}

fn ending(home: StorageBackend) -> &'static str {
    match home {
        StorageBackend::File => RECORD,
        StorageBackend::Keyring => DIGEST,
    }
}

fn digest_of(record: &[u8]) -> Vec<u8> {
    Sha256::digest(record).to_vec()
}

#[cfg(test)]
mod tests;
