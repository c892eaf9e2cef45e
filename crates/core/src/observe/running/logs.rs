//! The logs of processes that serve, as somebody else reads them.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::observe::file::{aside, is_at};
use crate::observe::running::{KEPT_LOGS, LOG, files};

/// How often a log may be put aside while it is read.
const TRIES: usize = 4;
/// The most bytes of a line that is not finished.
const MAX_LINE: usize = 64 * 1024;

/// A log of a process that serves, or was killed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogFile {
    /// The process.
    pub pid: u32,
    /// The file.
    pub path: PathBuf,
}

/// The logs that there are.
pub fn logs(cache: &Path) -> io::Result<Vec<LogFile>> {
    let all = files(cache, LOG)?.into_iter().filter_map(|path| {
        let name = path.file_name()?.to_str()?.to_owned();
        let mut parts = name.split('.').skip(1);
        let pid = parts.next()?.split('-').next()?.parse().ok()?;
        // What was put aside has a number more.
        (parts.next() == Some(LOG)).then_some(LogFile { pid, path })
    });
    let mut all: Vec<_> = all.collect();
    all.sort();
    Ok(all)
}

/// Reads a log from its beginning, and goes on with what is written later.
pub struct LogReader {
    path: PathBuf,
    file: Option<File>,
    /// The beginning of a line that is not finished.
    rest: Vec<u8>,
}

impl LogReader {
    /// A reader at the beginning of a log and of what was put aside of it.
    pub fn new(log: &LogFile) -> Self {
        let before = File::open(aside(&log.path, KEPT_LOGS)).ok();
        Self { path: log.path.clone(), file: before, rest: Vec::new() }
    }

    /// The lines that have been written since the last time. What cannot be read is passed over.
    pub fn lines(&mut self) -> Vec<Vec<u8>> {
        let mut lines = Vec::new();
        for _ in 0..TRIES {
            if let Some(file) = &mut self.file {
                let mut bytes = std::mem::take(&mut self.rest);
                // What was read before an error is there.
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
            // It was put aside, or there was none yet.
            let Ok(next) = File::open(&self.path) else { break };
            self.file = Some(next);
        }
        lines
    }
}
