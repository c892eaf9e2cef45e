//! Records in files of a folder, which their owner alone can read.
//!
//! Files are replaced whole. Beside each is one that is never replaced and has no content: whoever changes the
//! record holds a lock on it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::login::keep::{Guard, Store};
use crate::os::{check_owner, make_private_folder, private};

/// The endings of the names of records and of what is locked.
pub(super) const RECORD: &str = "json";
const LOCK: &str = "lock";
/// The beginning of the names of files that are being written.
const UNFINISHED: &str = ".unfinished-";
/// How old such a file must be to have been left behind.
const ABANDONED: Duration = Duration::from_hours(1);
/// The longest record, in bytes.
const MAX_FILE: u64 = 1024 * 1024;

/// A store in a folder.
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// The store in this folder, which is made when something is to be kept.
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self(folder)
    }

    fn path(&self, key: &str, extension: &str) -> PathBuf {
        self.0.join(format!("{key}.{extension}"))
    }

    /// Makes the folder, and checks that nobody else can put anything into it.
    fn own(&self) -> io::Result<()> {
        make_private_folder(&self.0)?;
        check_owner(&self.0)
    }

    /// Removes files that were never finished, because somebody was killed.
    fn tidy(&self) {
        for file in fs::read_dir(&self.0).into_iter().flatten().flatten() {
            let is_unfinished = file.file_name().to_string_lossy().starts_with(UNFINISHED);
            let modified = file.metadata().and_then(|metadata| metadata.modified()).ok();
            let age = modified.and_then(|modified| modified.elapsed().ok());
            if is_unfinished && age.is_some_and(|age| age > ABANDONED) {
                let _ = fs::remove_file(file.path());
            }
        }
    }

    /// Puts a file in the place of what is there.
    pub(super) fn put(&self, key: &str, extension: &str, content: &[u8]) -> io::Result<()> {
        self.own()?;
        let mut file = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(&self.0)?;
        file.write_all(content)?;
        // A token that replaces another is all that is left of a login.
        file.as_file().sync_all()?;
        file.persist(self.path(key, extension))?;
        self.tidy();
        Ok(())
    }

    /// The content of a file, if there is one.
    pub(super) fn get(&self, key: &str, extension: &str) -> io::Result<Option<Vec<u8>>> {
        let content = Self::read(&self.path(key, extension))?;
        if content.is_some() {
            check_owner(&self.0)?;
        }
        Ok(content)
    }

    /// Removes a file. Returns whether there was one.
    pub(super) fn discard(&self, key: &str, extension: &str) -> io::Result<bool> {
        match fs::remove_file(self.path(key, extension)) {
            Ok(()) => Ok(true),
            Err(error) if is_absent(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The keys of all files with this ending.
    pub(super) fn keys(&self, extension: &str) -> io::Result<Vec<String>> {
        let files = match fs::read_dir(&self.0) {
            Ok(files) => files,
            Err(error) if is_absent(&error) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        check_owner(&self.0)?;
        let mut keys = Vec::new();
        for file in files {
            let path = file?.path();
            let stem = path.file_stem().and_then(|stem| stem.to_str());
            if let Some(stem) = stem
                && path.extension().is_some_and(|ending| ending == extension)
            {
                keys.push(stem.to_owned());
            }
        }
        Ok(keys)
    }

    fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut text = Vec::new();
        file.take(MAX_FILE).read_to_end(&mut text)?;
        Ok(Some(text))
    }
}

impl Store for Folder {
    fn load(&self, key: &str) -> io::Result<Option<Vec<u8>>> {
        self.get(key, RECORD)
    }

    fn save(&self, key: &str, record: &[u8]) -> io::Result<()> {
        self.put(key, RECORD, record)
    }

    fn remove(&self, key: &str) -> io::Result<bool> {
        self.discard(key, RECORD)
    }

    fn all(&self) -> io::Result<Vec<Vec<u8>>> {
        let records = self.keys(RECORD)?.into_iter().map(|key| self.load(&key));
        records.filter_map(Result::transpose).collect()
    }

    fn try_lock(&self, key: &str) -> io::Result<Option<Guard>> {
        self.own()?;
        let mut options = OpenOptions::new();
        options.create(true).write(true).truncate(false);
        let file = private(&mut options).open(self.path(key, LOCK))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Guard::new(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn what_was_left_behind_is_removed_and_what_is_being_written_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let store = Folder::new(folder.path().to_owned());
        let [old, new] =
            ["old", "new"].map(|name| folder.path().join(format!("{UNFINISHED}{name}")));
        for path in [&old, &new] {
            fs::write(path, "token").unwrap();
        }
        let long_ago = SystemTime::now() - 2 * ABANDONED;
        File::options().append(true).open(&old).unwrap().set_modified(long_ago).unwrap();
        store.save("key", b"record").unwrap();
        assert!(!old.exists() && new.exists());
        assert_eq!(store.all().unwrap(), [b"record"]);
    }

    #[test]
    fn one_at_a_time_holds_a_lock() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) =
            (Folder::new(folder.path().to_owned()), Folder::new(folder.path().to_owned()));
        let held = one.try_lock("key").unwrap();
        assert!(held.is_some());
        assert!(other.try_lock("key").unwrap().is_none());
        assert!(other.try_lock("another").unwrap().is_some());
        drop(held);
        assert!(other.try_lock("key").unwrap().is_some());
    }
}
