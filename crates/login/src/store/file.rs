//! Login records as files that only their owner can read.
//!
//! Files are replaced atomically. Each record has an empty lock file next to it, which is never
//! replaced: writers hold a lock on it.

use std::fs::{self, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::store::login_store::{LoginStore, RecordLockGuard};
use mcp_workbench_os::{OpenMode, check_private_dir, make_private_folder, open_own, read_own};

pub(super) const RECORD: &str = "json";
const LOCK: &str = "lock";
/// Prefix of temporary files.
const UNFINISHED: &str = ".unfinished-";
/// Minimum age of a temporary file that counts as left behind by a crash.
const ABANDONED: Duration = Duration::from_hours(1);
/// In bytes.
const MAX_FILE: u64 = 1024 * 1024;

pub(crate) struct FileStore(PathBuf);

impl FileStore {
    /// The folder is created by the first write.
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self(folder)
    }

    fn path(&self, key: &str, extension: &str) -> PathBuf {
        self.0.join(format!("{key}.{extension}"))
    }

    /// Creates the folder, and checks that only its owner can write to it.
    fn own(&self) -> io::Result<()> {
        make_private_folder(&self.0)?;
        check_private_dir(&self.0)
    }

    /// Removes temporary files left behind by a crash.
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

    pub(super) fn put(&self, key: &str, extension: &str, content: &[u8]) -> io::Result<()> {
        self.own()?;
        let mut file = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(&self.0)?;
        file.write_all(content)?;
        // After token rotation the old token is invalid, so a crash must not lose the new one.
        file.as_file().sync_all()?;
        file.persist(self.path(key, extension))?;
        self.tidy();
        Ok(())
    }

    pub(super) fn get(&self, key: &str, extension: &str) -> io::Result<Option<Vec<u8>>> {
        let content = Self::read(&self.path(key, extension))?;
        if content.is_some() {
            check_private_dir(&self.0)?;
        }
        Ok(content)
    }

    pub(super) fn discard(&self, key: &str, extension: &str) -> io::Result<bool> {
        match fs::remove_file(self.path(key, extension)) {
            Ok(()) => Ok(true),
            Err(error) if is_absent(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(super) fn keys(&self, extension: &str) -> io::Result<Vec<String>> {
        let files = match fs::read_dir(&self.0) {
            Ok(files) => files,
            Err(error) if is_absent(&error) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        check_private_dir(&self.0)?;
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
        match read_own(path, MAX_FILE) {
            Ok(content) => Ok(Some(content)),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl LoginStore for FileStore {
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

    fn try_lock(&self, key: &str) -> io::Result<Option<RecordLockGuard>> {
        self.own()?;
        let file = open_own(&self.path(key, LOCK), OpenMode::Write)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(RecordLockGuard::new(file))),
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
    use std::fs::File;
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn only_stale_temporary_files_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let store = FileStore::new(folder.path().to_owned());
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
    fn record_lock_is_exclusive() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) =
            (FileStore::new(folder.path().to_owned()), FileStore::new(folder.path().to_owned()));
        let held = one.try_lock("key").unwrap();
        assert!(held.is_some());
        assert!(other.try_lock("key").unwrap().is_none());
        assert!(other.try_lock("another").unwrap().is_some());
        drop(held);
        assert!(other.try_lock("key").unwrap().is_some());
    }
}
