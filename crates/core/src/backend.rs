//! Backends: our live links to servers, each started when it is first needed and never left behind.
//!
//! *Theory of operation.* A [`Backend`] is a cheap handle to one actor task ([`actor`]) that owns
//! the server's process and everything that happens to it: start on first use, once however many
//! ask; listing again when the server says so; stop when idle; restart after a death, with growing
//! pauses when it keeps dying. A call goes past the actor: the handle's status holds the
//! [`Live`] link while there is one. What a server says unasked goes to its [`switchboard`], which
//! finds out for whom it is. [`Pool`] gives entries with equal launches one backend.

mod abilities;
mod account;
mod actor;
mod agent;
mod condition;
mod deadline;
mod death;
pub mod events;
mod failure;
pub mod guard;
pub mod handshake;
mod id;
pub mod launch;
mod listen;
pub mod lists;
mod live;
mod muted;
mod payers;
mod pool;
mod question;
mod reports;
mod spec;
mod start;
mod store;
mod strays;
mod subscribing;
mod switchboard;
mod turns;
mod unanswered;
mod upstream;
mod users;
mod whose;

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use thiserror::Error;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::backend::condition::Vitals;
use crate::backend::deadline::Deadlines;
use crate::backend::muted::Muted;
use crate::backend::reports::Reports;
use crate::backend::store::Keeper;
use crate::backend::strays::Strays;
use crate::backend::switchboard::{Entry, Grace, Switchboard};
use crate::backend::turns::Turns;
use crate::backend::users::Principal;
use crate::catalog::Listing;
use crate::login::Logins;
use crate::observe::Observer;
use crate::policy::{Admission, Permit};
use crate::raw::Raw;
use crate::wire::budget::Budget;

pub use crate::backend::abilities::ClientAbilities;
pub use crate::backend::account::Account;
pub use crate::backend::agent::{LogLevel, Presence, Tie, asks_for_roots, may_ask};
pub use crate::backend::condition::{Condition, Phase};
pub use crate::backend::death::{StderrTail, without_words};
pub use crate::backend::failure::StartFailure;
pub use crate::backend::handshake::Era;
pub use crate::backend::id::BackendId;
pub use crate::backend::launch::{ChildEnvironment, missing};
use crate::backend::live::Used;
pub use crate::backend::live::{Call, Live, Patience};
pub use crate::backend::payers::{AtLimit, Bytes, Held, Payers, Purse};
pub use crate::backend::pool::{Pool, PoolOptions};
pub use crate::backend::question::{Event, Question};
pub use crate::backend::spec::{Reach, Remote, Spec};
pub use crate::backend::store::{
    Elsewhere, Entry as StoreEntry, Fingerprint, Record, Store, Unusable,
};
pub(crate) use crate::backend::store::{KnownTexts, TextKey, text_key};
pub use crate::backend::turns::Urgency;
pub use crate::backend::unanswered::Unanswered;
pub use crate::backend::users::AgentId;
pub use crate::backend::whose::{Whose, tell_of_login};
pub use crate::wire::server::Outcome;

/// How many sessions of a server over HTTP are begun for one call, where it loses one after the other.
const MOST_SESSIONS: u32 = 3;

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
    /// No answer within this time, whatever progress there was; the call was cancelled at the server.
    #[error("no answer within {} ms in all", .0.as_millis())]
    TookTooLong(Duration),
    /// The server over HTTP gave no answer.
    #[error(transparent)]
    Unanswered(Arc<Unanswered>),
    /// The answer had this many bytes, which is more than a message may have.
    #[error("the answer had {0} bytes, which is more than `limits.maxMessageBytes` allows")]
    Oversized(usize),
    /// The workbench is shutting down.
    #[error("the workbench is shutting down")]
    ShuttingDown,
}

/// Something that happened to a backend and that everybody must see.
#[derive(Clone, Debug)]
pub struct Changed {
    /// Whom it happened to.
    pub backend: BackendId,
    /// The change itself.
    pub change: Change,
}

/// A change that a backend can go through.
#[derive(Clone, Debug)]
pub enum Change {
    /// It has been listed.
    Listed(Listed),
    /// It could not be started ([`Backend::failure`] says why).
    Failed,
    /// It has died; what it listed was true until then.
    Crashed,
}

/// A listing and how many there were before it, so that one can wait for it to be shown.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Counts from 1 and never repeats for one backend.
    pub version: u64,
    /// The server's listing.
    pub listing: Arc<Listing>,
}

/// The means that the actors of a pool share.
pub(crate) struct Context {
    pub(crate) program: Option<PathBuf>,
    pub(crate) homes: Option<PathBuf>,
    pub(crate) strays: Arc<Strays>,
    pub(crate) tasks: TaskTracker,
    pub(crate) deadlines: Arc<Deadlines>,
    pub(crate) shutdown: CancellationToken,
    pub(crate) keeper: Option<Arc<Keeper>>,
    pub(crate) turns: Turns,
    /// `true` if all agents that can come are one.
    pub(crate) is_sole: bool,
    pub(crate) observer: Arc<Observer>,
    /// How many bytes of what servers say may be held at a time.
    pub(crate) said: Budget,
    /// The servers that are not to be started.
    pub(crate) muted: Muted,
    /// The logins at servers over HTTP, where there are any.
    pub(crate) logins: Option<Arc<Logins>>,
}

/// The knowledge of a server before it runs.
#[derive(Clone, Debug)]
pub(crate) struct Remembered {
    /// The server's listing when it last ran.
    pub(crate) listing: Arc<Listing>,
    /// When that was last found to be true.
    pub(crate) since: SystemTime,
}

/// A handle to one backend; clones are handles to the same one. With the last one the server ends.
#[derive(Clone)]
pub struct Backend {
    /// The server's name in the entry that this handle is for, which others that share the process
    /// need not know.
    name: Arc<str>,
    /// One piece, as every call has a handle of its own.
    shared: Arc<Shared>,
}

/// The means of all handles to one backend.
struct Shared {
    id: BackendId,
    commands: mpsc::Sender<actor::Command>,
    status: watch::Receiver<actor::Status>,
    board: Arc<Switchboard>,
    reports: Arc<Reports>,
    vitals: Vitals,
    /// `true` once its server has gone because nobody wants it any more.
    gone: watch::Receiver<bool>,
}

/// A handle that does not keep the server.
pub(crate) struct WeakBackend(Weak<Shared>);

impl WeakBackend {
    /// Returns `true` if there still is a handle that keeps the server.
    pub(crate) fn is_kept(&self) -> bool {
        self.0.strong_count() > 0
    }

    /// A handle for an entry of this name, if there still is another one.
    pub(crate) fn upgrade(&self, name: &str) -> Option<Backend> {
        Some(Backend { name: name.into(), shared: self.0.upgrade()? })
    }
}

impl Backend {
    /// A handle that does not keep the server.
    pub(crate) fn downgrade(&self) -> WeakBackend {
        WeakBackend(Arc::downgrade(&self.shared))
    }

    /// Lets somebody hear of what happens to the server from now on, and says what it listed last.
    pub(crate) fn report_to(&self, hearer: &mpsc::Sender<Changed>) -> Option<Listed> {
        self.shared.reports.hear(hearer)
    }

    /// Makes this one come after another in the same place: what agents have asked of that one
    /// holds for it too, and it does not start before that one has gone, for there may be a port
    /// or a file that only one of them can have.
    pub(crate) fn follow(&self, other: &Self) {
        self.shared.board.inherit(&other.shared.board);
        self.command(actor::Command::Follow(other.shared.gone.clone()));
    }

    /// Lets what holds now hold for a server that is kept: how long it may take, and what it is
    /// called.
    pub(crate) fn adopt(&self, spec: Arc<Spec>) {
        self.command(actor::Command::Adopt(spec));
    }

    /// Ends the server as soon as it is not used.
    pub(crate) fn dismiss(&self) {
        self.command(actor::Command::Dismiss);
    }

    fn command(&self, command: actor::Command) {
        if self.shared.commands.try_send(command).is_err() {
            tracing::warn!(
                server = self.shared.board.server(),
                "it does not take what has changed"
            );
        }
    }

    /// Identifies the backend among those of its pool.
    pub fn id(&self) -> BackendId {
        self.shared.id
    }

    /// The link to the running server, which is started when it is not running, as soon as its start
    /// has its turn.
    /// Only the agent that it was started for is told what it said to that.
    pub async fn ready(&self, agent: Option<&Presence>, urgency: Urgency) -> Result<Live, Error> {
        if let Some(live) = self.running() {
            return Ok(live);
        }
        let (live, _) = self.started(agent.map(Presence::principal), urgency).await?;
        Ok(live)
    }

    /// The link, which is not put to rest before it is used.
    async fn started(&self, principal: Option<Principal>, urgency: Urgency) -> Result<Used, Error> {
        let (reply, answer) = tokio::sync::oneshot::channel();
        let waiter = actor::Waiter { principal, reply };
        let ensure = actor::Command::Ensure(waiter, urgency);
        self.shared.commands.send(ensure).await.map_err(|_| Error::ShuttingDown)?;
        answer.await.map_err(|_| Error::ShuttingDown)?
    }

    /// The link to the server, while it is running.
    pub fn running(&self) -> Option<Live> {
        match &*self.shared.status.borrow() {
            actor::Status::Ready(live) => Some(live.clone()),
            actor::Status::Stopped | actor::Status::Failed(_) => None,
        }
    }

    /// Resolves when the server is running.
    pub(crate) async fn running_again(&self) {
        let mut status = self.shared.status.clone();
        let is_running = |status: &actor::Status| matches!(status, actor::Status::Ready(_));
        // Without an actor nothing will.
        let _ = status.wait_for(is_running).await;
    }

    /// Resolves when the server is not running.
    pub(crate) async fn stopped(&self) {
        let mut status = self.shared.status.clone();
        let is_stopped = |status: &actor::Status| !matches!(status, actor::Status::Ready(_));
        // Without an actor nothing runs.
        let _ = status.wait_for(is_stopped).await;
    }

    /// Why the server could not be started, if that was the last thing that was tried; without what
    /// it said to that, where somebody else may ask.
    pub fn failure(&self) -> Option<Arc<StartFailure>> {
        match &*self.shared.status.borrow() {
            actor::Status::Failed(failure) => Some(Arc::clone(failure)),
            actor::Status::Stopped | actor::Status::Ready(_) => None,
        }
    }

    /// Enters a request of an agent, so that what the server asks finds its way; the request's
    /// place lasts until the result is dropped.
    pub fn enter(&self, agent: &Presence, log: LogLevel, events: Option<&events::Sender>) -> Seat {
        self.shared.board.attach(agent, &self.name);
        Seat(self.shared.board.enter(agent, &self.name, log, events))
    }

    /// Lets the server reach an agent outside of its requests too.
    pub fn attach(&self, agent: &Presence) {
        self.shared.board.attach(agent, &self.name);
    }

    /// Notes that the server runs a task for an agent, which is one of these.
    pub fn claim_task(&self, agent: &Presence, task: &str, holder: &Arc<str>) {
        self.shared.board.claim_task(agent, task, holder);
    }

    /// Returns `true` unless the server runs such a task for somebody else.
    pub fn may_hold_task(&self, task: &str, holder: &str) -> bool {
        self.shared.board.may_hold_task(task, holder)
    }

    /// Lets an agent hear of a task that is its own.
    pub fn watch_task(&self, agent: &Presence, task: &str) {
        self.shared.board.attach(agent, &self.name);
        self.shared.board.watch_task(agent, task);
    }

    /// Makes the server an agent's alone; `false` if another one has used it.
    pub fn claim(&self, agent: &Presence) -> bool {
        self.shared.board.claim(agent)
    }

    /// Lets the server be anybody's again whose one agent has left. If it runs it ends, for what it
    /// knows of that agent is not for the next one, who starts it anew.
    pub fn vacate(&self) {
        self.shared.board.vacate(|patience| {
            let may_end = patience == Grace::None
                || self.running().is_some_and(|live| live.close_if_unused());
            let is_heard = may_end && self.shared.commands.try_send(actor::Command::Retire).is_ok();
            if may_end && !is_heard {
                tracing::warn!(
                    server = self.shared.board.server(),
                    "it goes on though its agent has left"
                );
            }
            is_heard
        });
    }

    /// Ends the running server; the next use starts it anew.
    pub(crate) fn retire(&self) {
        self.command(actor::Command::Retire);
    }

    /// Ends the server, whatever it does, and returns when it has ended; the next use starts it anew.
    pub(crate) async fn halt(&self) {
        let (done, halted) = tokio::sync::oneshot::channel();
        if self.shared.commands.send(actor::Command::Halt(done)).await.is_ok() {
            // It is told by being dropped.
            let _ = halted.await;
        }
    }

    /// Returns the condition that the server is in.
    pub(crate) fn condition(&self) -> Condition {
        self.shared.vitals.told()
    }

    /// Forgets an agent that has left.
    pub fn detach(&self, agent: AgentId) {
        self.shared.board.detach(agent);
    }

    /// Returns `true` if the server asks questions, so that it can have only one agent.
    pub fn asks(&self) -> bool {
        self.shared.board.asks()
    }

    /// Calls the permitted tool. A call that was sent is never sent again. Dropping the future
    /// cancels the call at the server.
    pub async fn call(
        &self,
        permit: &Permit,
        call: Call<'_>,
        seat: &Seat,
    ) -> Result<Outcome, Error> {
        let name = Raw::of_text(&permit.tool().tool);
        Box::pin(self.send("tools/call", Some(("name", &name)), &call, seat)).await
    }

    /// Makes any other request, under the same conditions. A tool cannot be called in this way.
    pub async fn request(
        &self,
        _: &Admission,
        method: &str,
        call: Call<'_>,
        seat: &Seat,
    ) -> Result<Outcome, Error> {
        debug_assert_ne!(method, "tools/call", "a tool needs a permit");
        Box::pin(self.send(method, None, &call, seat)).await
    }

    async fn send(
        &self,
        method: &str,
        first: Option<(&str, &Raw)>,
        call: &Call<'_>,
        Seat(entry): &Seat,
    ) -> Result<Outcome, Error> {
        let mut sessions = 0;
        loop {
            let (live, in_use) = if let Some(live) = self.running() {
                live.held()
            } else {
                let principal = entry.principal().clone();
                Box::pin(self.started(Some(principal), Urgency::Call)).await?
            };
            // A link that is being put to rest takes no more calls; the next one does.
            let Some(_use) = in_use else {
                Box::pin(self.stopped()).await;
                continue;
            };
            if live.keeps_log() {
                Box::pin(live.pass_on_log_level(&self.shared.board)).await;
            }
            if let Some(sent) = call.sent {
                sent.store(true, Ordering::Relaxed);
            }
            if let Some(outcome) = live.request(method, first, call, entry).await? {
                entry.is_answered();
                return Ok(outcome);
            }
            // It died before it got the call, so the next one may have it.
            Box::pin(live.death()).await;
            sessions += 1;
            if sessions == MOST_SESSIONS && live.is_remote() {
                return Err(Error::Unanswered(Arc::new(Unanswered::of_lost_sessions())));
            }
        }
    }

    /// Tells the running server what its agents want to hear of its log.
    pub async fn pass_on_log_level(&self) {
        if let Some(live) = self.running() {
            live.pass_on_log_level(&self.shared.board).await;
        }
    }

    /// Tells the running server something that concerns no request.
    pub fn notify(&self, method: &str, params: Option<Raw>) {
        if let Some(live) = self.running() {
            live.notify(method, params);
        }
    }
}

/// The place of a running request among those that a server may mean.
pub struct Seat(Entry);
