//! The audit file: lines are appended to it whole, and it is put aside when it has become long.
//!
//! Several processes may write to one file. Each takes its lock for as long as it writes a batch of
//! lines, or puts the file aside; whoever gets the lock of a file that was put aside meanwhile
//! takes the one that has its name now. So no line is lost or torn.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::os::{is_same_file, private};

/// How often a file may be put aside by others before we get to write.
const TRIES: usize = 16;

/// The file that lines go to.
#[derive(Debug)]
pub(crate) struct AuditFile {
    path: PathBuf,
    max_bytes: u64,
    keep: u32,
    file: File,
}

impl AuditFile {
    /// Opens the file, and makes it if there is none.
    pub(crate) fn open(path: &Path, max_bytes: u64, keep: u32) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        // A pipe would make us wait for whoever reads it.
        if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            return Err(io::Error::other("it is no regular file"));
        }
        let file = append(path)?;
        Ok(Self { path: path.to_owned(), max_bytes, keep, file })
    }

    /// Appends whole lines.
    pub(crate) fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        for _ in 0..TRIES {
            self.file.lock()?;
            let done = self.write_locked(lines);
            // Whoever closes a file gives up its lock, too.
            let unlocked = self.file.unlock();
            if done? {
                return unlocked;
            }
            self.file = append(&self.path)?;
        }
        Err(io::Error::other("it is put aside all the time"))
    }

    /// Does that, unless the file is not the one of its name any more.
    fn write_locked(&mut self, lines: &[u8]) -> io::Result<bool> {
        if !is_at(&self.file, &self.path)? {
            return Ok(false);
        }
        let length = self.file.metadata()?.len();
        if length > 0 && length.saturating_add(lines.len() as u64) > self.max_bytes {
            self.put_aside()?;
            return Ok(false);
        }
        self.file.write_all(lines)?;
        Ok(true)
    }

    /// Gives the file the name of the newest of those that were put aside; the oldest goes.
    fn put_aside(&self) -> io::Result<()> {
        if self.keep == 0 {
            return fs::remove_file(&self.path);
        }
        for number in (1..self.keep).rev() {
            let (from, to) = (aside(&self.path, number), aside(&self.path, number + 1));
            match fs::rename(from, to) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        fs::rename(&self.path, aside(&self.path, 1))
    }
}

/// The name of a file that was put aside: `audit.1.jsonl` is the newest of `audit.jsonl`.
pub(crate) fn aside(path: &Path, number: u32) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    match path.extension() {
        Some(extension) => {
            path.with_file_name(format!("{stem}.{number}.{}", extension.to_string_lossy()))
        }
        None => path.with_file_name(format!("{stem}.{number}")),
    }
}

/// Opens a file of ours for appending.
pub(crate) fn append(path: &Path) -> io::Result<File> {
    private(OpenOptions::new().append(true).create(true)).open(path)
}

/// Returns `true` if the open file is still the one of this name.
pub(crate) fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let open = file.metadata()?;
    match fs::metadata(path) {
        Ok(named) => Ok(is_same_file(&open, &named)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn lines(path: &Path) -> Vec<String> {
        let text = fs::read_to_string(path).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_file_that_has_become_long_is_put_aside_and_the_oldest_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/audit.jsonl");
        let mut file = AuditFile::open(&path, 10, 2).unwrap();
        for line in ["one\n", "two\n", "three\n", "four\n", "a line that is too long\n", "six\n"] {
            file.write(line.as_bytes()).unwrap();
        }
        assert_eq!(lines(&path), ["six"]);
        assert_eq!(lines(&aside(&path, 1)), ["a line that is too long"]);
        assert_eq!(lines(&aside(&path, 2)), ["four"]);
        assert!(!aside(&path, 3).exists());
    }

    #[cfg(unix)]
    #[test]
    fn only_the_owner_can_read_it() {
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit");
        AuditFile::open(&path, 10, 0).unwrap().write(b"x\n").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(aside(&path, 7), folder.path().join("audit.7"));
    }

    #[test]
    fn a_folder_is_no_file() {
        let folder = tempfile::tempdir().unwrap();
        assert!(AuditFile::open(folder.path(), 10, 1).is_err());
    }

    #[test]
    fn many_that_write_to_one_file_and_put_it_aside_lose_nothing() {
        const WRITERS: usize = 4;
        const LINES: usize = 200;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let path = path.clone();
                thread::spawn(move || {
                    let mut file = AuditFile::open(&path, 400, 500).unwrap();
                    for line in 0..LINES {
                        file.write(format!("{writer} {line}\n").as_bytes()).unwrap();
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.join().unwrap();
        }
        let mut all: Vec<String> = (1..500).flat_map(|n| lines(&aside(&path, n))).collect();
        all.extend(lines(&path));
        assert_eq!(all.len(), WRITERS * LINES);
        all.sort();
        all.dedup();
        assert_eq!(all.len(), WRITERS * LINES, "each line is there once");
    }
}
