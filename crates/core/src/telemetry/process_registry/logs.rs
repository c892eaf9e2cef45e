//! Reads the logs of other workbench processes (`mcp-workbench logs`).

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::telemetry::process_registry::{KEPT_LOGS, LOG, files};
use crate::telemetry::rotating_file::{is_at, rotated_path};
use mcp_workbench_os::{OpenMode, open_own};

/// Attempts to follow a log that is rotated while it is read.
const TRIES: usize = 4;
/// Maximum number of bytes stored of an incomplete line.
const MAX_LINE: usize = 64 * 1024;

/// The log of a process that is running or was killed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogFile {
    pub pid: u32,
    pub path: PathBuf,
}

/// Lists the logs of all processes, ordered by process ID.
pub fn list_logs(cache: &Path) -> io::Result<Vec<LogFile>> {
    let all = files(cache, LOG)?.into_iter().filter_map(|path| {
        let name = path.file_name()?.to_str()?.to_owned();
        let mut parts = name.split('.').skip(1);
        let pid = parts.next()?.split('-').next()?.parse().ok()?;
        // A rotated file has a number after the extension.
        (parts.next() == Some(LOG)).then_some(LogFile { pid, path })
    });
    let mut all: Vec<_> = all.collect();
    all.sort();
    Ok(all)
}

/// Reads a log from its beginning and follows it across rotations.
pub struct LogReader {
    path: PathBuf,
    file: Option<File>,
    /// The last line, while it is incomplete.
    rest: Vec<u8>,
}

impl LogReader {
    /// Starts at the beginning of the rotated file, if there is one.
    pub fn new(log: &LogFile) -> Self {
        let before = open_own(&rotated_path(&log.path, KEPT_LOGS), OpenMode::Read).ok();
        Self { path: log.path.clone(), file: before, rest: Vec::new() }
    }

    /// Returns the complete lines written since the last call. Unreadable files are skipped.
    pub fn lines(&mut self) -> Vec<Vec<u8>> {
        let mut lines = Vec::new();
        for _ in 0..TRIES {
            if let Some(file) = &mut self.file {
                let mut bytes = std::mem::take(&mut self.rest);
                // On an error, the bytes read so far are still used.
                let _ = file.read_to_end(&mut bytes);
                let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
                self.rest = bytes.split_off(end);
                self.rest.truncate(MAX_LINE);
                let whole = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
                lines.extend(whole.map(<[u8]>::to_vec));
                if is_at(file, &self.path).unwrap_or(true) {
                    break;
                }
            }
            // It was rotated, or did not exist yet.
            let Ok(next) = open_own(&self.path, OpenMode::Read) else { break };
            self.file = Some(next);
        }
        lines
    }
}
