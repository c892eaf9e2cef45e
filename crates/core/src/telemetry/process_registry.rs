//! Files that show which workbench processes of this user are running (`mcp-workbench ps`).
//!
//! Each process has a unique run ID and two files named after it in a per-user folder: `.open`
//! describes the process, its agents and its servers; `.log` holds its log. [`publisher`]
//! keeps the description in memory and a thread writes changes to disk, at most every 200 ms. The
//! process locks its `.open` file for as long as it runs, so an unlocked file is an orphan. Both
//! files are private to their owner, bounded in size, and removed when the process ends.

pub mod logs;
pub(crate) mod publisher;

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::telemetry::rotating_file::{RotatingFile, is_at, rotated_path};
use mcp_workbench_os::{
    OpenMode, ProcessHandle, check_private_dir, listening_process, make_private_folder, open_own,
    start_time,
};

const FOLDER: &str = "running";
const NAME: &str = "workbench";
const OPEN: &str = "open";
const LOG: &str = "log";
/// Maximum size of the log in bytes before it is rotated; one rotated file is retained.
const MAX_LOG: u64 = 1024 * 1024;
const KEPT_LOGS: u32 = 1;
/// Maximum number of bytes read from a file.
const MAX_FILE: u64 = 1024 * 1024;
/// Attempts to open a file that its owner keeps replacing.
const TRIES: usize = 8;
/// How long the files of a killed process remain.
const LEFT: Duration = Duration::from_hours(24);

/// Paths of the `.open` and `.log` files of one process.
#[derive(Clone, Debug)]
pub struct ProcessFiles {
    folder: PathBuf,
    /// Run ID: the process ID and a random part, which distinguishes runs that reuse a process ID.
    run: String,
    /// Set at shutdown: later log lines are dropped.
    is_over: Arc<AtomicBool>,
}

impl ProcessFiles {
    /// Names the files of this process below the user's cache folder, without touching the disk.
    pub fn new(cache: &Path, run: &str) -> Self {
        let run = format!("{}-{run}", std::process::id());
        Self { folder: cache.join(FOLDER), run, is_over: Arc::default() }
    }

    /// Returns the folder with the files of all processes.
    pub fn folder(cache: &Path) -> PathBuf {
        cache.join(FOLDER)
    }

    /// Returns a writer for whole log lines. It creates the log file at the first line.
    pub fn log(&self) -> impl Write + Send + use<> {
        ProcessLog { files: self.clone(), file: None }
    }

    /// Creates the private folder and removes orphaned files older than a day.
    fn prepare_folder(&self) -> io::Result<()> {
        make_folder(&self.folder)?;
        for entry in fs::read_dir(&self.folder)?.flatten() {
            let path = entry.path();
            let is_ours = entry.file_name().to_string_lossy().starts_with(NAME);
            let age = entry.metadata().and_then(|metadata| metadata.modified()).ok();
            let is_old = age.is_some_and(|time| time.elapsed().is_ok_and(|age| age > LEFT));
            if is_ours && is_old && held(&open_of(&path)).is_none() {
                // Another process may have removed it already.
                let _ = fs::remove_file(path);
            }
        }
        Ok(())
    }

    /// Path without run ID and extension, as `LeaseFile` expects it.
    fn base(&self) -> PathBuf {
        self.folder.join(NAME)
    }

    pub fn run_id(&self) -> &str {
        &self.run
    }

    fn path(&self, extension: &str) -> PathBuf {
        self.folder.join(format!("{NAME}.{}.{extension}", self.run))
    }

    /// Removes the log and drops all later log lines.
    pub fn remove_log(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        let log = self.path(LOG);
        for path in [rotated_path(&log, KEPT_LOGS), log] {
            // Either file may be missing.
            let _ = fs::remove_file(path);
        }
    }
}

/// Returns the `.open` file of the process that owns `path`.
fn open_of(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let run = name.split('.').nth(1).unwrap_or_default();
    path.with_file_name(format!("{NAME}.{run}.{OPEN}"))
}

struct ProcessLog {
    files: ProcessFiles,
    file: Option<RotatingFile>,
}

impl Write for ProcessLog {
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        if self.files.is_over.load(Ordering::Relaxed) {
            return Ok(lines.len());
        }
        if self.file.is_none() {
            make_folder(&self.files.folder)?;
            self.file = Some(RotatingFile::open(&self.files.path(LOG), MAX_LOG, KEPT_LOGS)?);
        }
        if let Some(file) = &mut self.file {
            file.write(lines)?;
        }
        Ok(lines.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A running workbench process, as read from its `.open` file.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct ProcessRecord {
    pub pid: u32,
    pub version: String,
    /// Start time, in seconds since the Unix epoch.
    pub since: u64,
    /// Start time as [`start_time`] reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticks: Option<u64>,
    /// Path of the configuration, as the user gave it.
    pub config: String,
    /// Absolute path of the configuration file or catalog folder; `None` for the embedded one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// `stdio`, or the HTTP address it listens on.
    pub at: String,
    pub mode: String,
    /// Paths of possible project files, nearest first. Empty if it ignores project files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub project_files: Vec<PathBuf>,
    /// `true` while changes of the configuration wait for an explicit reload.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_pending_changes: bool,
    /// Control socket, for other processes of the same user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<PathBuf>,
    pub agents: Vec<ProcessAgentRecord>,
    /// Servers that are running or failed to start.
    pub servers: Vec<ProcessServerRecord>,
}

impl ProcessRecord {
    /// Returns the process that wrote this record, for signals. A file can name any process, and a
    /// PID can be reused, so the process has to listen on the socket of the record, or, if no
    /// process does, have its start time.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such process, or this can't be proven.
    pub async fn process(&self) -> io::Result<ProcessHandle> {
        // Opened first: from here on, the PID can't be reused unnoticed.
        let handle = ProcessHandle::open(self.pid)?;
        let listener = match &self.socket {
            Some(socket) => listening_process(socket).await.ok(),
            None => None,
        };
        let is_proven = match listener {
            Some(pid) => pid == self.pid,
            None => self.ticks.is_some() && self.ticks == start_time(self.pid),
        };
        if is_proven {
            return Ok(handle);
        }
        Err(io::Error::other(format!("process {} is not known to be a workbench", self.pid)))
    }
}

/// A connected agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct ProcessAgentRecord {
    /// Agent name in the policy; `None` if anonymous.
    pub name: Option<String>,
    /// Name that the client reported.
    pub client: Option<String>,
    /// Connection time, in seconds since the Unix epoch.
    pub since: u64,
}

/// A server of a running process.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct ProcessServerRecord {
    /// Display name, such as `toolbox/server`.
    pub server: String,
    pub state: ServerRunState,
    /// Process ID; `None` for a server reached over HTTP.
    pub pid: Option<u32>,
    /// Time of the last state change, in seconds since the Unix epoch.
    pub since: u64,
    /// Why it failed; only set in state `Failed`.
    pub reason: Option<String>,
}

/// State of a server run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ServerRunState {
    /// Started, but has not yet returned its listing.
    Starting,
    Running,
    /// Failed to start, or unreachable.
    Failed,
}

/// Reads the records of all running processes, oldest first. Orphaned and unreadable files are
/// skipped.
///
/// # Errors
///
/// Fails if the folder belongs to another user, or others can write to it.
pub fn read_processes(cache: &Path) -> io::Result<Vec<ProcessRecord>> {
    let mut all = Vec::new();
    for path in files(cache, OPEN)? {
        let Some(file) = held(&path) else { continue };
        let mut text = Vec::new();
        let read = file.take(MAX_FILE).read_to_end(&mut text);
        all.extend(read.ok().and_then(|_| serde_json::from_slice::<ProcessRecord>(&text).ok()));
    }
    all.sort_by_key(|record| (record.since, record.pid));
    Ok(all)
}

/// Returns the file if a live process holds its lock.
fn held(path: &Path) -> Option<File> {
    for _ in 0..TRIES {
        let file = open_own(path, OpenMode::Read).ok()?;
        if file.try_lock_shared().is_err() {
            return Some(file);
        }
        // Unlocked. Look again if it was replaced after it was opened.
        if is_at(&file, path).unwrap_or(true) {
            return None;
        }
    }
    None
}

fn files(cache: &Path, extension: &str) -> io::Result<Vec<PathBuf>> {
    let folder = cache.join(FOLDER);
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            return Ok(Vec::new());
        }
        Err(error) => return Err(error),
    };
    check_private_dir(&folder)?;
    let paths = entries.flatten().map(|entry| entry.path());
    let is_ours = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(NAME))
            && path.extension().is_some_and(|found| found == extension)
            && path.is_file()
    };
    Ok(paths.filter(is_ours).collect())
}

/// Creates the private folder and fails if another user owns it or can write to it.
fn make_folder(folder: &Path) -> io::Result<()> {
    make_private_folder(folder)?;
    check_private_dir(folder)
}

#[cfg(test)]
mod tests;
