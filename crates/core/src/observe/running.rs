//! Files that tell others of this user what runs here now (`mcp-workbench ps`).
//!
//! *Theory of operation.* Each process that serves has a name of its own in a folder of the user, and
//! two files of that name: `.open` says what runs, and `.log` what was logged. A
//! [`Board`] in memory hears what changes and goes on; a thread writes it, a few times a second at most.
//! The `.open` file is locked for as long as its process lives, as the audit's is, so that one that
//! nobody holds was left behind. Both files are for their owner alone, have limits, and go with the
//! process.

mod board;
mod logs;

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::observe::file::{AuditFile, aside, is_at};
use crate::os::{check_owner, make_private_folder};

pub(crate) use crate::observe::running::board::Board;
pub use crate::observe::running::logs::{LogFile, LogReader, logs};

/// The folder in that of the cache.
const FOLDER: &str = "running";
/// The beginning of the names of files.
const NAME: &str = "workbench";
/// Their extensions.
const OPEN: &str = "open";
const LOG: &str = "log";
/// The most bytes of a log before it is put aside; one is kept.
const MAX_LOG: u64 = 1024 * 1024;
const KEPT_LOGS: u32 = 1;
/// The most bytes of a file that are read.
const MAX_FILE: u64 = 1024 * 1024;
/// How often a file may take the place of the one that is looked at.
const TRIES: usize = 8;
/// How long what a process left behind that was killed is kept.
const LEFT: Duration = Duration::from_hours(24);

/// The files of one process.
#[derive(Clone, Debug)]
pub struct Files {
    folder: PathBuf,
    /// The process, and a number that no other has.
    run: String,
    /// Set when the process ends and nothing is to be written any more.
    is_over: Arc<AtomicBool>,
}

impl Files {
    /// The files of this process in the user's folder for what can be made again. Nothing is read or
    /// written yet.
    pub fn new(cache: &Path, run: &str) -> Self {
        let run = format!("{}-{run}", std::process::id());
        Self { folder: cache.join(FOLDER), run, is_over: Arc::default() }
    }

    /// Where the files of all processes are.
    pub fn folder(cache: &Path) -> PathBuf {
        cache.join(FOLDER)
    }

    /// A stream that writes whole lines to the log. What cannot be written is lost.
    pub fn log(&self) -> impl Write + Send + use<> {
        Log { files: self.clone(), file: None }
    }

    /// Makes the folder, which nobody else can read, and removes what was left in it long ago.
    fn open(&self) -> io::Result<()> {
        make_folder(&self.folder)?;
        for entry in fs::read_dir(&self.folder)?.flatten() {
            let path = entry.path();
            let is_ours = entry.file_name().to_string_lossy().starts_with(NAME);
            let age = entry.metadata().and_then(|metadata| metadata.modified()).ok();
            let is_old = age.is_some_and(|time| time.elapsed().is_ok_and(|age| age > LEFT));
            if is_ours && is_old && held(&open_of(&path)).is_none() {
                // Another process may have removed it.
                let _ = fs::remove_file(path);
            }
        }
        Ok(())
    }

    /// The beginning of the path of the file that has what runs here.
    fn base(&self) -> PathBuf {
        self.folder.join(NAME)
    }

    /// The process, and a number that no other has.
    pub fn run(&self) -> &str {
        &self.run
    }

    fn path(&self, extension: &str) -> PathBuf {
        self.folder.join(format!("{NAME}.{}.{extension}", self.run))
    }

    /// Removes the log; nothing is logged any more.
    pub fn remove_log(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        let log = self.path(LOG);
        for path in [aside(&log, KEPT_LOGS), log] {
            // There may be none.
            let _ = fs::remove_file(path);
        }
    }
}

/// The file that has what runs in the process whose file this is.
fn open_of(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let run = name.split('.').nth(1).unwrap_or_default();
    path.with_file_name(format!("{NAME}.{run}.{OPEN}"))
}

/// The log, which is made with its first line.
struct Log {
    files: Files,
    file: Option<AuditFile>,
}

impl Write for Log {
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        if self.files.is_over.load(Ordering::Relaxed) {
            return Ok(lines.len());
        }
        if self.file.is_none() {
            make_folder(&self.files.folder)?;
            self.file = Some(AuditFile::open(&self.files.path(LOG), MAX_LOG, KEPT_LOGS)?);
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

/// A process that serves, as others are told of it.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Told {
    /// The process.
    pub pid: u32,
    /// Which version of the program it is.
    pub version: String,
    /// When it began, in seconds since 1970.
    pub since: u64,
    /// The configuration, as the user named it.
    pub config: String,
    /// How it is reached: `stdio`, or an address.
    pub at: String,
    /// How it presents toolboxes.
    pub mode: String,
    /// Where other processes of the user look at what goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<PathBuf>,
    /// The agents that are there.
    pub agents: Vec<ToldAgent>,
    /// The servers that run, or could not be started.
    pub servers: Vec<ToldServer>,
}

/// An agent, as others are told of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct ToldAgent {
    /// Its name in policy.
    pub name: Option<String>,
    /// The name that its program gives itself.
    pub client: Option<String>,
    /// Since when it is there, in seconds since 1970.
    pub since: u64,
}

/// A server, as others are told of it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct ToldServer {
    /// Its toolbox and its name.
    pub server: String,
    /// Its part of life.
    pub state: ToldState,
    /// Its process; none over HTTP.
    pub pid: Option<u32>,
    /// Since when it does so, in seconds since 1970.
    pub since: u64,
    /// Why it could not be started.
    pub reason: Option<String>,
}

/// The part of its life that a server is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ToldState {
    /// It has been started, and has not said yet what it has.
    Starting,
    /// It runs.
    Running,
    /// It could not be started.
    Failed,
}

/// Reads the files of processes that serve, the oldest first. Files that were left behind are passed
/// over.
pub fn told(cache: &Path) -> io::Result<Vec<Told>> {
    let mut all = Vec::new();
    for path in files(cache, OPEN)? {
        let Some(file) = held(&path) else { continue };
        let mut text = Vec::new();
        let read = file.take(MAX_FILE).read_to_end(&mut text);
        all.extend(read.ok().and_then(|_| serde_json::from_slice::<Told>(&text).ok()));
    }
    all.sort_by_key(|told| (told.since, told.pid));
    Ok(all)
}

/// The file, if a process that lives holds it.
fn held(path: &Path) -> Option<File> {
    for _ in 0..TRIES {
        let file = File::open(path).ok()?;
        if file.try_lock_shared().is_err() {
            return Some(file);
        }
        // Another one may have taken its place since it was opened.
        if is_at(&file, path).unwrap_or(true) {
            return None;
        }
    }
    None
}

/// The files of ours that end so, if the folder is ours.
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
    let paths = entries.flatten().map(|entry| entry.path());
    let is_ours = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(NAME))
            && path.extension().is_some_and(|found| found == extension)
            && path.is_file()
    };
    Ok(paths.filter(is_ours).collect())
}

/// The folder, which nobody else can read or write.
fn make_folder(folder: &Path) -> io::Result<()> {
    make_private_folder(folder)?;
    check_owner(folder)
}

#[cfg(test)]
mod tests;
