//! Calls that are running, noted beside the audit file, so that a program that is killed leaves an
//! account of them.
//!
//! Each process has a file of its own, `<file>.<process>.open`, while any of its calls runs for
//! longer than a moment, and holds its lock. A file that nobody holds is of a process that is no
//! more: whoever starts next takes what it says into the audit file and removes it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::observe::file::is_at;
use crate::os::private;

/// The most bytes that are read of what somebody has left.
const MAX_LEFT: u64 = 16 * 1024 * 1024;

/// The note of this process.
#[derive(Debug)]
pub(crate) struct Unfinished {
    path: PathBuf,
    /// The current file, which is locked.
    file: Option<File>,
}

impl Unfinished {
    /// Nothing is noted yet.
    pub(crate) fn new(audit: &Path, run: &str) -> Self {
        Self { path: beside(audit, &format!(".{run}.open")), file: None }
    }

    /// Notes these lines in place of those before.
    pub(crate) fn note(&mut self, lines: &[u8]) -> io::Result<()> {
        if lines.is_empty() {
            // Held until it is gone, so that nobody takes it for something left behind.
            let removed = self.file.take().map(|held| (fs::remove_file(&self.path), held));
            return removed.map_or(Ok(()), |(removed, _)| removed);
        }
        let new = self.path.with_extension("new");
        let mut file =
            private(OpenOptions::new().write(true).create(true).truncate(true)).open(&new)?;
        file.lock()?;
        file.write_all(lines)?;
        fs::rename(&new, &self.path)?;
        self.file = Some(file);
        Ok(())
    }
}

/// Takes what processes that are no more have left beside the audit file, in lines.
pub(crate) fn take_left(audit: &Path) -> io::Result<Vec<u8>> {
    let mut lines = Vec::new();
    let name = audit.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let folder = audit.parent().unwrap_or(Path::new("."));
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let found = path.file_name().unwrap_or_default().to_string_lossy();
        let run = found.strip_prefix(name.as_str()).and_then(|rest| rest.strip_suffix(".open"));
        if run.is_none_or(|run| !run.starts_with('.')) {
            continue;
        }
        let Ok(file) = File::open(&path) else { continue };
        // One that is held is of somebody who runs; one that has gone was not left behind.
        if file.try_lock().is_err() || !is_at(&file, &path)? {
            continue;
        }
        let mut left = Vec::new();
        Read::take(&file, MAX_LEFT).read_to_end(&mut left)?;
        let end = left.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        lines.extend_from_slice(&left[..end]);
        fs::remove_file(&path)?;
    }
    Ok(lines)
}

/// A file beside the audit file.
pub(crate) fn beside(audit: &Path, suffix: &str) -> PathBuf {
    let mut name = audit.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    audit.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_taken_once_and_what_is_held_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let audit = folder.path().join("audit.jsonl");
        let mut dead = Unfinished::new(&audit, "dead");
        dead.note(b"{\"a\":1}\n").unwrap();
        dead.note(b"{\"a\":2}\n{\"torn").unwrap();
        // As the end of a process does it.
        drop(dead);
        let mut running = Unfinished::new(&audit, "runs");
        running.note(b"{\"a\":3}\n").unwrap();
        let elsewhere = folder.path().join("other.jsonl.x.open");
        fs::write(&elsewhere, "{}\n").unwrap();

        assert_eq!(take_left(&audit).unwrap(), b"{\"a\":2}\n");
        assert_eq!(take_left(&audit).unwrap(), b"");
        assert!(running.path.exists() && elsewhere.exists());
        running.note(b"").unwrap();
        assert!(!running.path.exists());
    }
}
