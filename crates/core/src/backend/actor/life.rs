//! The parts of a server's life, as its actor knows them.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::backend::actor::waiting::Waiter;
use crate::backend::live::Death;
use crate::backend::start::{Failed, Started};
use crate::backend::{Listed, Live, Urgency};
use crate::catalog::Listing;
use crate::observe::{ServerRun, StoppedFor};

/// Which part of its life the server is in.
pub(super) enum State {
    Stopped,
    Starting(Starting),
    Running(Box<Running>),
}

/// A server that is being started.
pub(super) struct Starting {
    pub(super) start: Start,
    pub(super) waiting: Vec<Waiter>,
    pub(super) urgency: watch::Sender<Urgency>,
    pub(super) run: ServerRun,
}

/// A start, until it is over.
pub(super) type Start = JoinHandle<Result<Started, Failed>>;

/// A server that runs.
pub(super) struct Running {
    pub(super) started: Started,
    pub(super) live: Live,
    pub(super) since: Instant,
    pub(super) listed: watch::Sender<Listed>,
    pub(super) death: watch::Sender<Option<Arc<Death>>>,
    /// Tells what becomes of it.
    pub(super) run: ServerRun,
    /// Why it cannot be reached over HTTP, while that is so.
    pub(super) trouble: watch::Receiver<Option<Arc<str>>>,
    /// A new reading of its lists, while there is one.
    pub(super) relisting: Option<JoinHandle<Result<Option<Listing>, String>>>,
}

impl Starting {
    /// Ends the start for this reason; the process ends with it. Returns who waits.
    pub(super) async fn give_up(self, why: StoppedFor) -> Vec<Waiter> {
        self.start.abort();
        let _ = self.start.await;
        self.run.stop(why);
        self.waiting
    }
}
