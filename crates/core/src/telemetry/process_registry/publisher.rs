//! Collects the state of this process from events and writes it to its `.open` file.

use std::collections::BTreeMap;
use std::io;
use std::mem;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::telemetry::event::{Event, EventKinds, ServerContext};
use crate::telemetry::event_bus::EventListener;
use crate::telemetry::lease_file::LeaseFile;
use crate::telemetry::process_registry::{
    ProcessAgentRecord, ProcessFiles, ProcessRecord, ProcessServerRecord, ServerRunState,
};
use mcp_workbench_names::AgentName;
use mcp_workbench_os::start_time;

/// Minimum time between two writes.
const PAUSE: Duration = Duration::from_millis(200);
/// Maximum number of servers, and of agents, in the file.
const MAX_TOLD: usize = 256;
/// Maximum length of a name or reason, in bytes.
const MAX_TEXT: usize = 400;

/// Listens for events and publishes the state of this process. Clones share it.
#[derive(Clone)]
pub(crate) struct ProcessPublisher(Arc<PublisherShared>);

struct PublisherShared {
    now: Mutex<PublisherState>,
    changed: Condvar,
}

struct PublisherState {
    record: ProcessRecord,
    /// By session number.
    agents: BTreeMap<u64, ProcessAgentRecord>,
    /// By run number.
    servers: BTreeMap<u64, ProcessServerRecord>,
    is_changed: bool,
    /// `true` while the writer thread sleeps until the next change.
    is_idle: bool,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Writing,
    /// The writer thread should remove the file and exit.
    Ending,
    /// The file has been removed.
    Over,
}

impl ProcessPublisher {
    /// Spawns the thread that writes to the files of this process.
    pub(crate) fn start(files: &ProcessFiles, record: ProcessRecord) -> io::Result<Self> {
        files.prepare_folder()?;
        let now = PublisherState {
            record: ProcessRecord {
                pid: std::process::id(),
                since: seconds(SystemTime::now()),
                ticks: start_time(std::process::id()),
                ..record
            },
            agents: BTreeMap::new(),
            servers: BTreeMap::new(),
            is_changed: true,
            is_idle: false,
            stage: Stage::Writing,
        };
        let shared = Arc::new(PublisherShared { now: Mutex::new(now), changed: Condvar::new() });
        let publisher = Self(Arc::clone(&shared));
        let file = LeaseFile::new(&files.base(), files.run_id());
        std::thread::Builder::new().name("running".to_owned()).spawn(move || shared.write(file))?;
        Ok(publisher)
    }

    fn change(&self, change: impl FnOnce(&mut PublisherState)) {
        let mut now = self.0.lock();
        change(&mut now);
        now.is_changed = true;
        // Notify only a sleeping thread: a wakeup for every change would cost more than the change
        // itself.
        if mem::take(&mut now.is_idle) {
            drop(now);
            self.0.changed.notify_all();
        }
    }
}

impl EventListener for ProcessPublisher {
    fn interest(&self) -> EventKinds {
        EventKinds::SERVERS.union(EventKinds::SESSIONS).union(EventKinds::PROGRAM)
    }

    fn on_event(&self, event: Event<'_>) {
        match event {
            Event::ServerStarting(server) => {
                self.change(|now| now.show(server, ServerRunState::Starting, None));
            }
            Event::ServerStarted(server, _) => {
                self.change(|now| now.show(server, ServerRunState::Running, None));
            }
            Event::ServerFailed(server, reason) => {
                self.change(|now| now.show(server, ServerRunState::Failed, Some(reason)));
            }
            Event::ServerUnreachable(server, why) => {
                let state =
                    if why.is_some() { ServerRunState::Failed } else { ServerRunState::Running };
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
                let agent = ProcessAgentRecord { name, client: None, since };
                self.change(|now| {
                    now.agents.insert(session.session, agent);
                });
            }
            Event::ClientIdentified(session, client, _) => self.change(|now| {
                if let Some(agent) = now.agents.get_mut(&session.session) {
                    agent.client = Some(short(client)).filter(|client| !client.is_empty());
                }
            }),
            Event::SessionClosed(session) => self.change(|now| {
                now.agents.remove(&session.session);
            }),
            Event::ReloadPending { .. } => {
                self.change(|now| now.record.has_pending_changes = true);
            }
            Event::Reloaded { .. } | Event::ConfigUnchanged => {
                self.change(|now| now.record.has_pending_changes = false);
            }
            Event::Serving(address) => self.change(|now| address.clone_into(&mut now.record.at)),
            _ => {}
        }
    }

    /// Removes the file; waits for at most `patience`.
    fn flush(&self, patience: Duration) {
        let mut now = self.0.lock();
        now.stage = Stage::Ending;
        self.0.changed.notify_all();
        // On a timeout the file remains as an orphan, which a later process removes.
        let _ = self.0.changed.wait_while_for(&mut now, |now| now.stage != Stage::Over, patience);
    }
}

impl PublisherShared {
    fn lock(&self) -> MutexGuard<'_, PublisherState> {
        self.now.lock()
    }

    /// The writer thread: writes the file after changes and removes it at the end.
    fn write(&self, mut file: LeaseFile) {
        loop {
            let is_still = |now: &mut PublisherState| {
                now.is_idle = !now.is_changed && now.stage == Stage::Writing;
                now.is_idle
            };
            let mut now = self.lock();
            self.changed.wait_while(&mut now, is_still);
            if now.stage == Stage::Ending {
                break;
            }
            now.is_changed = false;
            let record = now.whole();
            drop(now);
            // Serialization can't fail. If a write fails, other processes see an outdated state.
            let noted = serde_json::to_vec(&record).map(|json| file.replace(&json));
            if let Ok(Err(error)) = noted {
                tracing::debug!(%error, "failed to update the state for `ps`");
            }
            let is_writing = |now: &mut PublisherState| now.stage == Stage::Writing;
            let _ = self.changed.wait_while_for(&mut self.lock(), is_writing, PAUSE);
        }
        // Another process may have removed it already.
        let _ = file.replace(b"");
        self.lock().stage = Stage::Over;
        self.changed.notify_all();
    }
}

impl PublisherState {
    /// Records a server's state. A failed run stays listed until the server starts again.
    fn show(&mut self, server: &ServerContext, state: ServerRunState, reason: Option<&str>) {
        let told = ProcessServerRecord {
            server: short(&server.label),
            state,
            pid: server.pid,
            since: seconds(SystemTime::now()),
            reason: reason.map(short),
        };
        self.servers.retain(|_, other| {
            other.state != ServerRunState::Failed || other.server != told.server
        });
        self.servers.insert(server.run, told);
    }

    fn whole(&self) -> ProcessRecord {
        ProcessRecord {
            agents: self.agents.values().take(MAX_TOLD).cloned().collect(),
            servers: self.servers.values().take(MAX_TOLD).cloned().collect(),
            ..self.record.clone()
        }
    }
}

fn short(text: &str) -> String {
    let end = (0..=MAX_TEXT.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    text[..end.unwrap_or_default()].to_owned()
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}
