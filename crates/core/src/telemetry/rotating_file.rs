//! An append-only file of lines that is rotated when it gets too long.
//!
//! Several processes can write to one file. Each holds its lock while it appends a batch or rotates
//! it. A process that gets the lock of a file that has been rotated since then opens the current
//! file instead. So no line is lost or torn.
//!
//! If the disk is full, a partial line is truncated, and the caller learns how much of the batch
//! was written. A partial line left by a killed process is terminated before the next line.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use mcp_workbench_os::{OpenMode, is_same_file, make_private_folder, open_own};

/// How often other processes can rotate the file before a write fails.
const TRIES: usize = 16;

#[derive(Debug)]
pub(crate) struct RotatingFile {
    path: PathBuf,
    max_bytes: u64,
    keep: u32,
    file: File,
}

impl RotatingFile {
    /// Opens the file, and creates it and its folder if necessary.
    pub(crate) fn open(path: &Path, max_bytes: u64, keep: u32) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            make_private_folder(folder)?;
        }
        let file = open_own(path, OpenMode::Append)?;
        Ok(Self { path: path.to_owned(), max_bytes, keep, file })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends whole lines. On an error, `PartialWriteError::written` bytes are in the file.
    pub(crate) fn write(&mut self, lines: &[u8]) -> Result<(), PartialWriteError> {
        for _ in 0..TRIES {
            self.file.lock()?;
            let done = self.write_locked(lines);
            // Closing a file releases its lock too, so this error only matters if the file stays
            // open.
            let unlocked = self.file.unlock();
            if done? {
                // The lines are in the file even if it can't be unlocked.
                return unlocked.map_err(|error| PartialWriteError { error, written: lines.len() });
            }
            self.file = open_own(&self.path, OpenMode::Append)?;
        }
        Err(io::Error::other("rotated by other processes too often").into())
    }

    /// Returns `false` if the file was rotated, so that `path` has to be opened again.
    fn write_locked(&mut self, lines: &[u8]) -> Result<bool, PartialWriteError> {
        if !is_at(&self.file, &self.path)? {
            return Ok(false);
        }
        let length = self.file.metadata()?.len();
        if length > 0 && length.saturating_add(lines.len() as u64) > self.max_bytes {
            self.rotate()?;
            return Ok(false);
        }
        if !self.ends_a_line(length)? {
            self.append(length, b"\n")?;
        }
        let begin = self.file.metadata()?.len();
        self.append(begin, lines)?;
        Ok(true)
    }

    /// Appends to a file of this length, and truncates a partial line if that fails.
    fn append(&mut self, length: u64, lines: &[u8]) -> Result<(), PartialWriteError> {
        let Err(error) = self.file.write_all(lines) else { return Ok(()) };
        let has_now = self.file.metadata().map_or(length, |found| found.len());
        let came = usize::try_from(has_now.saturating_sub(length)).unwrap_or(0).min(lines.len());
        let whole = lines.get(..came).unwrap_or_default();
        let written = whole.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        if written < came && self.file.set_len(length + written as u64).is_err() {
            tracing::warn!("failed to truncate a partial line in the audit log");
        }
        Err(PartialWriteError { error, written })
    }

    fn ends_a_line(&mut self, length: u64) -> io::Result<bool> {
        if length == 0 {
            return Ok(true);
        }
        let mut last = [0];
        self.file.seek(SeekFrom::End(-1))?;
        self.file.read_exact(&mut last)?;
        Ok(last == *b"\n")
    }

    /// Renames the file to the newest rotated name. The oldest rotated file is lost.
    fn rotate(&self) -> io::Result<()> {
        if self.keep == 0 {
            return fs::remove_file(&self.path);
        }
        for number in (1..self.keep).rev() {
            let (from, to) =
                (rotated_path(&self.path, number), rotated_path(&self.path, number + 1));
            match fs::rename(from, to) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        fs::rename(&self.path, rotated_path(&self.path, 1))
    }
}

/// A write that failed before the end of the lines.
#[derive(Debug)]
pub(crate) struct PartialWriteError {
    pub(crate) error: io::Error,
    /// Bytes of whole lines that were written nevertheless.
    pub(crate) written: usize,
}

impl From<io::Error> for PartialWriteError {
    fn from(error: io::Error) -> Self {
        Self { error, written: 0 }
    }
}

impl From<PartialWriteError> for io::Error {
    fn from(unwritten: PartialWriteError) -> Self {
        unwritten.error
    }
}

/// Returns the name of a rotated file: `audit.1.jsonl` is the newest for `audit.jsonl`.
pub(crate) fn rotated_path(path: &Path, number: u32) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    match path.extension() {
        Some(extension) => {
            path.with_file_name(format!("{stem}.{number}.{}", extension.to_string_lossy()))
        }
        None => path.with_file_name(format!("{stem}.{number}")),
    }
}

/// Returns `true` if the open file is still the one at `path`.
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
    fn rotates_a_long_file_and_drops_the_oldest() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/audit.jsonl");
        let mut file = RotatingFile::open(&path, 10, 2).unwrap();
        for line in ["one\n", "two\n", "three\n", "four\n", "a line that is too long\n", "six\n"] {
            file.write(line.as_bytes()).unwrap();
        }
        assert_eq!(lines(&path), ["six"]);
        assert_eq!(lines(&rotated_path(&path, 1)), ["a line that is too long"]);
        assert_eq!(lines(&rotated_path(&path, 2)), ["four"]);
        assert!(!rotated_path(&path, 3).exists());
    }

    #[cfg(unix)]
    #[test]
    fn file_is_readable_only_by_its_owner() {
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit");
        RotatingFile::open(&path, 10, 0).unwrap().write(b"x\n").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(rotated_path(&path, 7), folder.path().join("audit.7"));
    }

    #[test]
    fn terminates_a_partial_line_before_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit");
        fs::write(&path, "one\nha").unwrap();
        let mut file = RotatingFile::open(&path, 1000, 0).unwrap();
        file.write(b"two\n").unwrap();
        file.write(b"three\n").unwrap();
        assert_eq!(lines(&path), ["one", "ha", "two", "three"]);
    }

    #[test]
    fn rejects_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        assert!(RotatingFile::open(folder.path(), 10, 1).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn rejects_links_and_pipes_planted_later() {
        use std::os::unix::fs::symlink;

        use rustix::fs::{CWD, Mode, mkfifoat};

        let folder = tempfile::tempdir().unwrap();
        let (path, victim) = (folder.path().join("audit"), folder.path().join("victim"));
        fs::write(&victim, "precious").unwrap();
        symlink(&victim, &path).unwrap();
        assert!(RotatingFile::open(&path, 10, 0).is_err());
        fs::remove_file(&path).unwrap();
        let mut file = RotatingFile::open(&path, 10, 0).unwrap();
        fs::remove_file(&path).unwrap();
        symlink(&victim, &path).unwrap();
        assert!(file.write(b"line\n").is_err());
        fs::remove_file(&path).unwrap();
        mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).unwrap();
        assert!(file.write(b"line\n").is_err());
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    }

    #[test]
    fn concurrent_writers_lose_no_lines_in_rotations() {
        const WRITERS: usize = 4;
        const LINES: usize = 200;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let path = path.clone();
                thread::spawn(move || {
                    let mut file = RotatingFile::open(&path, 400, 500).unwrap();
                    for line in 0..LINES {
                        file.write(format!("{writer} {line}\n").as_bytes()).unwrap();
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.join().unwrap();
        }
        let mut all: Vec<String> = (1..500).flat_map(|n| lines(&rotated_path(&path, n))).collect();
        all.extend(lines(&path));
        assert_eq!(all.len(), WRITERS * LINES);
        all.sort();
        all.dedup();
        assert_eq!(all.len(), WRITERS * LINES, "each line is there once");
    }
}
