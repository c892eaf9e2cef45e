//! A file that its process keeps locked, so that other processes can tell whether it is alive.
//!
//! The audit lists its calls in flight in `<file>.<run>.open` next to the audit file, so that a
//! killed process leaves a record of them. An unlocked file belongs to a dead process: the next
//! process to start appends its lines to the audit file and deletes it.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::telemetry::rotating_file::is_at;
use mcp_workbench_os::{OpenMode, open_own};

/// Maximum number of bytes read from an orphaned file.
const MAX_LEFT: u64 = 16 * 1024 * 1024;

/// A file whose lock shows that its owner is alive.
#[derive(Debug)]
pub(crate) struct LeaseFile {
    path: PathBuf,
    /// The current file, locked.
    file: Option<File>,
}

impl LeaseFile {
    /// Creates no file yet.
    pub(crate) fn new(audit: &Path, run: &str) -> Self {
        Self { path: sibling_path(audit, &format!(".{run}.open")), file: None }
    }

    /// Replaces the content of the file; empty `lines` remove it.
    pub(crate) fn replace(&mut self, lines: &[u8]) -> io::Result<()> {
        if lines.is_empty() {
            // Keep the lock until the file is gone, or another process takes it for an orphan.
            let removed = self.file.take().map(|held| (fs::remove_file(&self.path), held));
            return removed.map_or(Ok(()), |(removed, _)| removed);
        }
        let new = self.path.with_extension("new");
        let mut file = open_own(&new, OpenMode::Write)?;
        file.lock()?;
        file.set_len(0)?;
        file.write_all(lines)?;
        fs::rename(&new, &self.path)?;
        self.file = Some(file);
        Ok(())
    }
}

/// Returns the lines of orphaned files next to the audit file and deletes the files.
pub(crate) fn take_orphans(audit: &Path) -> io::Result<Vec<u8>> {
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
        let Ok(file) = open_own(&path, OpenMode::ReadShared) else { continue };
        // A locked file has a live owner. If the path now leads to another file, the owner replaced
        // this one.
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

/// Returns the path of the audit file with `suffix` appended to its name.
pub(crate) fn sibling_path(audit: &Path, suffix: &str) -> PathBuf {
    let mut name = audit.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    audit.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_orphaned_files_once_and_skips_held_ones() {
        let folder = tempfile::tempdir().unwrap();
        let audit = folder.path().join("audit.jsonl");
        let mut dead = LeaseFile::new(&audit, "dead");
        dead.replace(b"{\"a\":1}\n").unwrap();
        dead.replace(b"{\"a\":2}\n{\"torn").unwrap();
        // As if the process had ended.
        drop(dead);
        let mut running = LeaseFile::new(&audit, "runs");
        running.replace(b"{\"a\":3}\n").unwrap();
        let elsewhere = folder.path().join("other.jsonl.x.open");
        fs::write(&elsewhere, "{}\n").unwrap();

        assert_eq!(take_orphans(&audit).unwrap(), b"{\"a\":2}\n");
        assert_eq!(take_orphans(&audit).unwrap(), b"");
        assert!(running.path.exists() && elsewhere.exists());
        #[cfg(unix)]
        {
            use rustix::fs::{CWD, Mode, mkfifoat};

            let pipe = folder.path().join("audit.jsonl.pipe.open");
            mkfifoat(CWD, &pipe, Mode::RUSR | Mode::WUSR).unwrap();
            let link = folder.path().join("audit.jsonl.link.open");
            std::os::unix::fs::symlink(&elsewhere, &link).unwrap();
            assert_eq!(take_orphans(&audit).unwrap(), b"", "links and pipes are skipped");
        }
        running.replace(b"").unwrap();
        assert!(!running.path.exists());
    }
}
