//! The audit file: lines are appended to it whole, and it is put aside when it has become long.
//!
//! Several processes may write to one file. Each takes its lock for as long as it writes a batch of
//! lines, or puts the file aside; whoever gets the lock of a file that was put aside meanwhile
//! takes the one that has its name now. So no line is lost or torn.
//!
//! Where the disk is full, what was written of a line is cut off again, and whoever wrote is told how
//! much of the rest is in the file. Half a line that somebody else has left, being killed, is ended
//! before the next.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
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

    /// The name of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends whole lines: all of them, or those that an error says.
    pub(crate) fn write(&mut self, lines: &[u8]) -> Result<(), Unwritten> {
        for _ in 0..TRIES {
            self.file.lock()?;
            let done = self.write_locked(lines);
            // Whoever closes a file gives up its lock, too.
            let unlocked = self.file.unlock();
            if done? {
                // What is in the file stays there.
                return unlocked.map_err(|error| Unwritten { error, written: lines.len() });
            }
            self.file = append(&self.path)?;
        }
        Err(io::Error::other("it is put aside all the time").into())
    }

    /// Does that, unless the file is not the one of its name any more.
    fn write_locked(&mut self, lines: &[u8]) -> Result<bool, Unwritten> {
        if !is_at(&self.file, &self.path)? {
            return Ok(false);
        }
        let length = self.file.metadata()?.len();
        if length > 0 && length.saturating_add(lines.len() as u64) > self.max_bytes {
            self.put_aside()?;
            return Ok(false);
        }
        if !self.ends_a_line(length)? {
            self.append(length, b"\n")?;
        }
        let begin = self.file.metadata()?.len();
        self.append(begin, lines)?;
        Ok(true)
    }

    /// Appends to a file of this length, and cuts off half a line where that fails.
    fn append(&mut self, length: u64, lines: &[u8]) -> Result<(), Unwritten> {
        let Err(error) = self.file.write_all(lines) else { return Ok(()) };
        let has_now = self.file.metadata().map_or(length, |found| found.len());
        let came = usize::try_from(has_now.saturating_sub(length)).unwrap_or(0).min(lines.len());
        let whole = lines.get(..came).unwrap_or_default();
        let written = whole.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        if written < came && self.file.set_len(length + written as u64).is_err() {
            tracing::warn!("half a line stays in the audit file until the next is written");
        }
        Err(Unwritten { error, written })
    }

    /// Returns `true` if the file, which has this length, ends with a whole line.
    fn ends_a_line(&mut self, length: u64) -> io::Result<bool> {
        if length == 0 {
            return Ok(true);
        }
        let mut last = [0];
        self.file.seek(SeekFrom::End(-1))?;
        self.file.read_exact(&mut last)?;
        Ok(last == *b"\n")
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

/// Why lines are not in the file, or not all of them.
#[derive(Debug)]
pub(crate) struct Unwritten {
    pub(crate) error: io::Error,
    /// How many bytes of whole lines are in the file all the same.
    pub(crate) written: usize,
}

impl From<io::Error> for Unwritten {
    fn from(error: io::Error) -> Self {
        Self { error, written: 0 }
    }
}

impl From<Unwritten> for io::Error {
    fn from(unwritten: Unwritten) -> Self {
        unwritten.error
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
    private(OpenOptions::new().read(true).append(true).create(true)).open(path)
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
    fn half_a_line_that_somebody_has_left_is_ended_before_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit");
        fs::write(&path, "one\nha").unwrap();
        let mut file = AuditFile::open(&path, 1000, 0).unwrap();
        file.write(b"two\n").unwrap();
        file.write(b"three\n").unwrap();
        assert_eq!(lines(&path), ["one", "ha", "two", "three"]);
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
