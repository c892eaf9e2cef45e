//! States of a server, as its actor tracks them.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::backend::actor::backoff::RelistBackoff;
use crate::backend::actor::waiters::Waiter;
use crate::backend::connection::CrashReport;
use crate::backend::start::{FailedStart, StartedServer};
use crate::backend::{BackendConnection, StartPriority, VersionedListing};
use crate::catalog::Listing;
use crate::telemetry::{ServerRunGuard, ServerStopReason};
use mcp_workbench_wire::pacer::Pacer;

pub(super) enum ActorState {
    Stopped,
    Starting(StartingServer),
    Running(Box<RunningServer>),
}

pub(super) struct StartingServer {
    pub(super) start: StartTask,
    pub(super) waiting: Vec<Waiter>,
    pub(super) urgency: watch::Sender<StartPriority>,
    pub(super) run: ServerRunGuard,
}

pub(super) type StartTask = JoinHandle<Result<StartedServer, FailedStart>>;

pub(super) struct RunningServer {
    pub(super) started: StartedServer,
    pub(super) live: BackendConnection,
    pub(super) since: Instant,
    pub(super) listed: watch::Sender<VersionedListing>,
    pub(super) death: watch::Sender<Option<Arc<CrashReport>>>,
    pub(super) run: ServerRunGuard,
    /// Why the HTTP server is unreachable, while it is.
    pub(super) trouble: watch::Receiver<Option<Arc<str>>>,
    pub(super) relisting: Relisting,
}

/// How changed lists are read again.
pub(super) struct Relisting {
    pub(super) task: Option<JoinHandle<Result<Option<Listing>, String>>>,
    pub(super) backoff: RelistBackoff,
    pub(super) pacer: Pacer,
    /// `true` once the log has mentioned that the lists change too often.
    pub(super) has_warned: bool,
}

impl StartingServer {
    /// Aborts the start, which ends its process, and returns the waiters.
    pub(super) async fn give_up(self, why: ServerStopReason) -> Vec<Waiter> {
        self.start.abort();
        let _ = self.start.await;
        self.run.stop(why);
        self.waiting
    }
}
