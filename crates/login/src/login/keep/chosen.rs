//! Records in files or in the system's keyring, whichever the user has chosen.
//!
//! The choice is a file beside the records, so that every process of the user goes by it, also one that runs while it
//! changes. A keyring has no locks and cannot be listed without being shown whole, so that for each record in it there
//! is a file here, with the digest of the record: it tells that there is one, and whether it is the one that this process
//! has read before. The digest is written first. Whoever is killed then leaves one that fits nothing, and the keyring
//! is asked each time.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use sha2::{Digest, Sha256};

use crate::login::keep::folder::RECORD;
use crate::login::keep::{Folder, Guard, Store};

/// The ending of the names of files that stand for what is in the keyring.
const DIGEST: &str = "keyring";
/// The name of the file that says that the keyring is chosen, and its ending.
const CHOICE: (&str, &str) = ("chosen", "store");
/// The name of what is put into the keyring to try it out.
const TRIAL: &str = "trial";

/// A keyring of the system. All functions block, and fail where it cannot be reached.
#[expect(clippy::missing_errors_doc, reason = "all fail alike")]
pub trait Keyring: Send + Sync {
    /// The secret of this name, if there is one.
    fn get(&self, name: &str) -> io::Result<Option<Vec<u8>>>;

    /// Puts a secret in the place of what is there.
    fn put(&self, name: &str, secret: &[u8]) -> io::Result<()>;

    /// Removes a secret, if there is one.
    fn remove(&self, name: &str) -> io::Result<()>;
}

/// The two places for records that a user chooses between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// Files of a folder.
    File,
    /// The system's keyring.
    Keyring,
}

/// A store that keeps records where the user has chosen.
pub struct Chosen {
    folder: Folder,
    keyring: Box<dyn Keyring>,
    /// Records that the keyring has given, by key.
    known: Mutex<HashMap<String, Known>>,
}

/// A record that the keyring has given.
struct Known {
    digest: Vec<u8>,
    record: Vec<u8>,
}

impl Chosen {
    /// The store of a folder, with the keyring that may be chosen in its place.
    pub fn new(folder: PathBuf, keyring: impl Keyring + 'static) -> Self {
        let (folder, keyring) = (Folder::new(folder), Box::new(keyring));
        Self { folder, keyring, known: Mutex::default() }
    }

    /// The place where records are kept.
    ///
    /// # Errors
    ///
    /// When that cannot be read.
    pub fn home(&self) -> io::Result<Home> {
        let choice = self.folder.get(CHOICE.0, CHOICE.1)?;
        Ok(if choice.is_some() { Home::Keyring } else { Home::File })
    }

    /// Chooses where records are kept, and moves all there. Returns how many.
    ///
    /// # Errors
    ///
    /// When a place cannot be reached, or somebody is changing a record. Everything is as before then.
    pub fn move_to(&self, to: Home) -> io::Result<usize> {
        let _choosing = self.lock(CHOICE.0)?;
        let from = self.home()?;
        if from == to {
            return Ok(0);
        }
        if to == Home::Keyring {
            self.try_out()?;
        }
        let keys = self.folder.keys(ending(from))?;
        let _locks = keys.iter().map(|key| self.lock(key)).collect::<io::Result<Vec<Guard>>>()?;
        let copied = self.copy(&keys, from, to).and_then(|copied| self.choose(to).map(|()| copied));
        let left = if copied.is_ok() { from } else { to };
        for key in &keys {
            let removed = self.remove_from(left, key);
            if let (Ok(_), Err(error)) = (&copied, removed) {
                tracing::warn!(%error, "a login that was moved is still where it was, too");
            }
        }
        copied
    }

    fn copy(&self, keys: &[String], from: Home, to: Home) -> io::Result<usize> {
        let mut copied = 0;
        for key in keys {
            if let Some(record) = self.load_from(from, key)? {
                self.save_to(to, key, &record)?;
                copied += 1;
            }
        }
        Ok(copied)
    }

    fn choose(&self, home: Home) -> io::Result<()> {
        match home {
            Home::Keyring => self.folder.put(CHOICE.0, CHOICE.1, b"keyring\n"),
            Home::File => self.folder.discard(CHOICE.0, CHOICE.1).map(drop),
        }
    }

    /// Finds out whether the keyring keeps what it is given.
    fn try_out(&self) -> io::Result<()> {
        self.keyring.put(TRIAL, b"trial")?;
        let got = self.keyring.get(TRIAL)?;
        self.keyring.remove(TRIAL)?;
        if got.as_deref() == Some(b"trial") {
            return Ok(());
        }
        Err(io::Error::other("the keyring does not give back what it was given"))
    }

    fn lock(&self, key: &str) -> io::Result<Guard> {
        let busy = || io::Error::other("a login is being changed right now; try again");
        self.folder.try_lock(key)?.ok_or_else(busy)
    }

    fn load_from(&self, home: Home, key: &str) -> io::Result<Option<Vec<u8>>> {
        if home == Home::File {
            return self.folder.load(key);
        }
        let Some(digest) = self.folder.get(key, DIGEST)? else { return Ok(None) };
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known().get(key).filter(|known| known.digest == digest) {
            return Ok(Some(known.record.clone()));
        }
        let record = self.keyring.get(key)?;
        if let Some(record) = record.as_ref().filter(|record| digest_of(record) == digest) {
            known().insert(key.to_owned(), Known { digest, record: record.clone() });
        }
        Ok(record)
    }

    fn save_to(&self, home: Home, key: &str, record: &[u8]) -> io::Result<()> {
        if home == Home::File {
            return self.folder.save(key, record);
        }
        self.folder.put(key, DIGEST, &digest_of(record))?;
        self.keyring.put(key, record)
    }

    fn remove_from(&self, home: Home, key: &str) -> io::Result<bool> {
        if home == Home::File {
            return self.folder.remove(key);
        }
        if self.folder.get(key, DIGEST)?.is_none() {
            return Ok(false);
        }
        self.keyring.remove(key)?;
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
        self.folder.discard(key, DIGEST)
    }
}

impl Store for Chosen {
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

    fn try_lock(&self, key: &str) -> io::Result<Option<Guard>> {
        self.folder.try_lock(key)
    }
}

/// The ending of the files that tell which records are there.
fn ending(home: Home) -> &'static str {
    match home {
        Home::File => RECORD,
        Home::Keyring => DIGEST,
    }
}

fn digest_of(record: &[u8]) -> Vec<u8> {
    Sha256::digest(record).to_vec()
}

#[cfg(test)]
mod tests;
