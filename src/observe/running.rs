//! Files that tell others of this user what runs here now (`mcp-workbench ps`).
//!
//! *Theory of operation.* Each process that serves has a name of its own in a folder of the user, and
//! two files of that name: `.open` says what runs, and `.log` what was logged. Whoever changes what
//! runs changes a [`Board`] in memory and goes on; a thread writes it, a few times a second at most.
//! The `.open` file is locked for as long as its process lives, as the audit's is, so that one that
//! nobody holds was left behind. Both files are for their owner alone, have bounds, and go with the
//! process.

mod logs;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::observe::file::{AuditFile, aside, is_at};
use crate::observe::unfinished::Unfinished;

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
/// How often the file is written at most.
const PAUSE: Duration = Duration::from_millis(200);
/// The most servers, and the most agents, that are told of.
const MAX_TOLD: usize = 256;
/// The most bytes of a name or a reason.
const MAX_TEXT: usize = 400;
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

/// A list in memory of all that runs here. Clones share it.
#[derive(Clone)]
pub(crate) struct Board(Arc<Shared>);

struct Shared {
    now: Mutex<Now>,
    changed: Condvar,
}

struct Now {
    told: Told,
    agents: BTreeMap<u64, ToldAgent>,
    servers: BTreeMap<u64, ToldServer>,
    next: u64,
    is_changed: bool,
    is_ending: bool,
    has_ended: bool,
}

/// An agent or a server on a board, for as long as this is there.
pub struct Shown {
    board: Option<Board>,
    entry: u64,
}

impl Board {
    /// A board with nothing on it, which a thread writes to the files of this process.
    pub(crate) fn start(files: &Files, told: Told) -> io::Result<Self> {
        files.open()?;
        let now = Now {
            told: Told { pid: std::process::id(), since: seconds(SystemTime::now()), ..told },
            agents: BTreeMap::new(),
            servers: BTreeMap::new(),
            next: 0,
            is_changed: true,
            is_ending: false,
            has_ended: false,
        };
        let shared = Arc::new(Shared { now: Mutex::new(now), changed: Condvar::new() });
        let board = Self(Arc::clone(&shared));
        let file = Unfinished::new(&files.folder.join(NAME), &files.run);
        std::thread::Builder::new().name("running".to_owned()).spawn(move || shared.write(file))?;
        Ok(board)
    }

    fn change<T>(&self, change: impl FnOnce(&mut Now) -> T) -> T {
        let mut now = self.0.lock();
        let changed = change(&mut now);
        now.is_changed = true;
        self.0.changed.notify_all();
        changed
    }

    /// Says what else is to be said of the process.
    pub(crate) fn tell(&self, change: impl FnOnce(&mut Told)) {
        self.change(|now| change(&mut now.told));
    }

    /// Shows a server. One that could not be started is shown until it is started again.
    pub(crate) fn server(&self, server: &str, state: ToldState, pid: Option<u32>) -> Shown {
        self.put(server, state, pid, None)
    }

    /// Shows why a server could not be started, until it is started again.
    pub(crate) fn failed(&self, server: &str, reason: &str) {
        self.put(server, ToldState::Failed, None, Some(short(reason))).entry = u64::MAX;
    }

    fn put(
        &self,
        server: &str,
        state: ToldState,
        pid: Option<u32>,
        reason: Option<String>,
    ) -> Shown {
        let told = ToldServer {
            server: short(server),
            state,
            pid,
            since: seconds(SystemTime::now()),
            reason,
        };
        let entry = self.change(|now| {
            let is_over = |other: &ToldServer| {
                other.state == ToldState::Failed && other.server == told.server
            };
            now.servers.retain(|_, other| !is_over(other));
            now.next += 1;
            now.servers.insert(now.next, told);
            now.next
        });
        Shown { board: Some(self.clone()), entry }
    }

    /// Shows an agent.
    pub(crate) fn agent(&self, name: Option<&str>) -> Shown {
        let since = seconds(SystemTime::now());
        let agent = ToldAgent { name: name.map(short), client: None, since };
        let entry = self.change(|now| {
            now.next += 1;
            now.agents.insert(now.next, agent);
            now.next
        });
        Shown { board: Some(self.clone()), entry }
    }

    /// Removes the file, within `patience`.
    pub(crate) fn close(&self, patience: Duration) {
        let mut now = self.0.lock();
        now.is_ending = true;
        self.0.changed.notify_all();
        // One that takes longer is removed by whoever comes next.
        let _ = self.0.changed.wait_timeout_while(now, patience, |now| !now.has_ended);
    }
}

impl Shown {
    /// Nothing that is shown.
    pub(crate) const NOWHERE: Self = Self { board: None, entry: 0 };

    /// Says what the agent's program says that it is.
    pub(crate) fn is_called(&self, client: &str) {
        let Some(board) = &self.board else { return };
        board.change(|now| {
            if let Some(agent) = now.agents.get_mut(&self.entry) {
                agent.client = Some(short(client)).filter(|client| !client.is_empty());
            }
        });
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        if let Some(board) = &self.board {
            board.change(|now| {
                now.agents.remove(&self.entry);
                now.servers.remove(&self.entry);
            });
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes what has changed until the end.
    fn write(&self, mut file: Unfinished) {
        loop {
            let is_still = |now: &mut Now| !now.is_changed && !now.is_ending;
            let now = self.changed.wait_while(self.lock(), is_still);
            let mut now = now.unwrap_or_else(PoisonError::into_inner);
            if now.is_ending {
                break;
            }
            now.is_changed = false;
            let told = now.whole();
            drop(now);
            // Serializing such a value cannot fail, and what cannot be written is not told.
            let noted = serde_json::to_vec(&told).map(|json| file.note(&json));
            if let Ok(Err(error)) = noted {
                tracing::debug!(%error, "what runs here cannot be told to others");
            }
            let now = self.lock();
            let _ = self.changed.wait_timeout_while(now, PAUSE, |now| !now.is_ending);
        }
        // It may have been removed by somebody else.
        let _ = file.note(b"");
        self.lock().has_ended = true;
        self.changed.notify_all();
    }
}

impl Now {
    fn whole(&self) -> Told {
        Told {
            agents: self.agents.values().take(MAX_TOLD).cloned().collect(),
            servers: self.servers.values().take(MAX_TOLD).cloned().collect(),
            ..self.told.clone()
        }
    }
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
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;

        let found = fs::metadata(folder)?;
        let is_ours = found.uid() == rustix::process::geteuid().as_raw();
        if !is_ours || found.mode() & 0o022 != 0 {
            return Err(io::Error::other("others can write into the folder"));
        }
    }
    Ok(())
}

/// As much of a text as is told.
fn short(text: &str) -> String {
    let end = (0..=MAX_TEXT.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    text[..end.unwrap_or_default()].to_owned()
}

/// A time as it is told.
fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

#[cfg(test)]
mod tests;
