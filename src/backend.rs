//! Backends: our live links to servers, each started when it is first needed and never left behind.
//!
//! *Theory of operation.* A [`Backend`] is a cheap handle to one actor task ([`actor`]) that owns
//! the server's process and everything that happens to it: start on first use, once however many
//! ask; listing again when the server says so; stop when idle; restart after a death, with growing
//! pauses when it keeps dying. A call goes past the actor: the handle's status holds the
//! [`Live`] link while there is one. [`Pool`] gives entries with equal launches one backend.

mod actor;
mod deadline;
mod death;
pub mod guard;
pub(crate) mod handshake;
pub(crate) mod launch;
mod live;
mod pool;
mod start;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::backend::deadline::Deadlines;
use crate::backend::guard::Guard;
use crate::catalog::Listing;
use crate::config::StdioLaunch;
use crate::policy::Permit;

pub use crate::backend::death::StderrTail;
pub use crate::backend::launch::ChildEnvironment;
pub use crate::backend::live::{Call, Live};
pub use crate::backend::pool::{Pool, PoolOptions};
pub use crate::wire::server::Outcome;

/// What one backend is made of.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Names it in logs and messages: `server` in the toolbox that asked first.
    pub label: String,
    /// Its process.
    pub launch: StdioLaunch,
    /// How long it may take from its start to its tool list.
    pub startup_timeout: Duration,
    /// How long it may be unused before it is stopped.
    pub idle_timeout: Option<Duration>,
    /// The longest message it may send, in bytes.
    pub max_message_bytes: usize,
}

/// Why a call did not get the server's own answer.
#[derive(Clone, Debug, Error)]
pub enum Error {
    /// The server could not be started; nothing was sent to it.
    #[error(transparent)]
    StartFailed(Arc<StartFailure>),
    /// The server ended while the call was running, which may have had effects.
    #[error("the server ended while the call was running: {0}")]
    Died(Arc<str>),
    /// No answer and no progress for this long; the call was cancelled at the server.
    #[error("no answer and no progress for {} ms", .0.as_millis())]
    TimedOut(Duration),
    /// The answer had this many bytes, which is more than a message may have.
    #[error("the answer had {0} bytes, which is more than `limits.maxMessageBytes` allows")]
    Oversized(usize),
    /// The workbench is shutting down.
    #[error("the workbench is shutting down")]
    ShuttingDown,
}

/// Why a server could not be started, for a person and for a model.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub struct StartFailure {
    /// What happened, with the last lines of its standard error where they explain it.
    pub reason: String,
    /// What to do about it.
    pub hint: String,
}

impl fmt::Display for StartFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

/// Something that happened to a backend and that the gateway's snapshot must show.
#[derive(Clone, Debug)]
pub struct ListingChanged {
    /// Whose listing it is.
    pub backend: BackendId,
    /// What it says now.
    pub listed: Listed,
}

/// A listing and how many there were before it, so that one can wait for it to be shown.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Counts from 1 and never repeats for one backend.
    pub version: u64,
    /// What the server has.
    pub listing: Arc<Listing>,
}

/// Identifies a backend among those of its pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BackendId(usize);

/// What the actors of a pool share.
pub(crate) struct Context {
    pub(crate) environment: ChildEnvironment,
    pub(crate) program: Option<PathBuf>,
    pub(crate) guard: Arc<Guard>,
    pub(crate) tasks: TaskTracker,
    pub(crate) deadlines: Arc<Deadlines>,
    pub(crate) shutdown: CancellationToken,
    pub(crate) events: mpsc::Sender<ListingChanged>,
}

/// A handle to one backend; clones are handles to the same one.
#[derive(Clone)]
pub struct Backend {
    id: BackendId,
    commands: mpsc::Sender<actor::Command>,
    status: watch::Receiver<actor::Status>,
}

impl Backend {
    /// Identifies the backend among those of its pool.
    pub fn id(&self) -> BackendId {
        self.id
    }

    /// The link to the running server, which is started when it is not running.
    pub async fn ready(&self) -> Result<Live, Error> {
        if let actor::Status::Ready(live) = &*self.status.borrow() {
            return Ok(live.clone());
        }
        let (reply, answer) = tokio::sync::oneshot::channel();
        self.commands.send(actor::Command::Ensure(reply)).await.map_err(|_| Error::ShuttingDown)?;
        answer.await.map_err(|_| Error::ShuttingDown)?
    }

    /// Whether the server is running.
    pub fn is_running(&self) -> bool {
        matches!(&*self.status.borrow(), actor::Status::Ready(_))
    }

    /// Calls the permitted tool. A call that was sent is never sent again. Dropping the future
    /// cancels the call at the server.
    pub async fn call(&self, permit: &Permit, call: Call<'_>) -> Result<Outcome, Error> {
        loop {
            let live = self.ready().await?;
            // A link that is being put to rest takes no more calls; the next one does.
            let Some(_use) = live.begin_use() else {
                continue;
            };
            if let Some(outcome) = live.call(permit, call).await? {
                return Ok(outcome);
            }
            // It died before it got the call, so the next one may have it.
            live.cause_of_death().await;
        }
    }
}
