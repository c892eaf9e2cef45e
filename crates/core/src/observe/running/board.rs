//! A list in memory of all that runs here, which a thread writes to the files of this process.

use std::collections::BTreeMap;
use std::io;
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::name::AgentName;
use crate::observe::event::{Event, Kinds, ServerContext};
use crate::observe::listeners::Listener;
use crate::observe::running::{Files, Told, ToldAgent, ToldServer, ToldState};
use crate::observe::unfinished::Unfinished;

/// How often the file is written at most.
const PAUSE: Duration = Duration::from_millis(200);
/// The most servers, and the most agents, that are told of.
const MAX_TOLD: usize = 256;
/// The most bytes of a name or a reason.
const MAX_TEXT: usize = 400;

/// A list in memory of all that runs here. Clones share it.
#[derive(Clone)]
pub(crate) struct Board(Arc<Shared>);

struct Shared {
    now: Mutex<Now>,
    changed: Condvar,
}

struct Now {
    told: Told,
    /// The agents by their sessions.
    agents: BTreeMap<u64, ToldAgent>,
    /// The servers by their runs.
    servers: BTreeMap<u64, ToldServer>,
    is_changed: bool,
    /// `true` if the thread sleeps until something changes.
    is_idle: bool,
    stage: Stage,
}

/// The stage that the thread is in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Writing,
    /// It is to remove the file.
    Ending,
    /// The file is removed.
    Over,
}

impl Board {
    /// A board with nothing on it, which a thread writes to the files of this process.
    pub(crate) fn start(files: &Files, told: Told) -> io::Result<Self> {
        files.open()?;
        let now = Now {
            told: Told { pid: std::process::id(), since: seconds(SystemTime::now()), ..told },
            agents: BTreeMap::new(),
            servers: BTreeMap::new(),
            is_changed: true,
            is_idle: false,
            stage: Stage::Writing,
        };
        let shared = Arc::new(Shared { now: Mutex::new(now), changed: Condvar::new() });
        let board = Self(Arc::clone(&shared));
        let file = Unfinished::new(&files.base(), files.run());
        std::thread::Builder::new().name("running".to_owned()).spawn(move || shared.write(file))?;
        Ok(board)
    }

    fn change(&self, change: impl FnOnce(&mut Now)) {
        let mut now = self.0.lock();
        change(&mut now);
        now.is_changed = true;
        // Waking it for each change would cost more than the change.
        if mem::take(&mut now.is_idle) {
            drop(now);
            self.0.changed.notify_all();
        }
    }
}

impl Listener for Board {
    fn wants(&self) -> Kinds {
        Kinds::SERVERS.and(Kinds::SESSIONS).and(Kinds::PROGRAM)
    }

    fn hear(&self, event: Event<'_>) {
        match event {
            Event::ServerStarting(server) => {
                self.change(|now| now.show(server, ToldState::Starting, None));
            }
            Event::ServerStarted(server, _) => {
                self.change(|now| now.show(server, ToldState::Running, None));
            }
            Event::ServerFailed(server, reason) => {
                self.change(|now| now.show(server, ToldState::Failed, Some(reason)));
            }
            Event::ServerAway(server, why) => {
                let state = if why.is_some() { ToldState::Failed } else { ToldState::Running };
                self.change(|now| now.show(server, state, why));
            }
            Event::ServerDied(server, _) | Event::ServerStopped(server, _) => {
                self.change(|now| {
                    now.servers.remove(&server.run);
                });
            }
            Event::SessionOpened(session) => {
                let since = seconds(SystemTime::now());
                let name = session.agent.as_ref().map(AgentName::as_str).map(short);
                let agent = ToldAgent { name, client: None, since };
                self.change(|now| {
                    now.agents.insert(session.session, agent);
                });
            }
            Event::SessionIntroduced(session, client) => self.change(|now| {
                if let Some(agent) = now.agents.get_mut(&session.session) {
                    agent.client = Some(short(client)).filter(|client| !client.is_empty());
                }
            }),
            Event::SessionClosed(session) => self.change(|now| {
                now.agents.remove(&session.session);
            }),
            Event::Serving(address) => self.change(|now| address.clone_into(&mut now.told.at)),
            _ => {}
        }
    }

    /// Removes the file, within `patience`.
    fn flush(&self, patience: Duration) {
        let mut now = self.0.lock();
        now.stage = Stage::Ending;
        self.0.changed.notify_all();
        // One that takes longer is removed by whoever comes next.
        let _ = self.0.changed.wait_timeout_while(now, patience, |now| now.stage != Stage::Over);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes what has changed until the end.
    fn write(&self, mut file: Unfinished) {
        loop {
            let is_still = |now: &mut Now| {
                now.is_idle = !now.is_changed && now.stage == Stage::Writing;
                now.is_idle
            };
            let now = self.changed.wait_while(self.lock(), is_still);
            let mut now = now.unwrap_or_else(PoisonError::into_inner);
            if now.stage == Stage::Ending {
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
            let _ = self.changed.wait_timeout_while(now, PAUSE, |now| now.stage == Stage::Writing);
        }
        // It may have been removed by somebody else.
        let _ = file.note(b"");
        self.lock().stage = Stage::Over;
        self.changed.notify_all();
    }
}

impl Now {
    /// Shows a server. One that could not be started is shown until it is started again.
    fn show(&mut self, server: &ServerContext, state: ToldState, reason: Option<&str>) {
        let told = ToldServer {
            server: short(&server.label),
            state,
            pid: server.pid,
            since: seconds(SystemTime::now()),
            reason: reason.map(short),
        };
        self.servers
            .retain(|_, other| other.state != ToldState::Failed || other.server != told.server);
        self.servers.insert(server.run, told);
    }

    fn whole(&self) -> Told {
        Told {
            agents: self.agents.values().take(MAX_TOLD).cloned().collect(),
            servers: self.servers.values().take(MAX_TOLD).cloned().collect(),
            ..self.told.clone()
        }
    }
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
