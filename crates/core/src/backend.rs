//! Connections to MCP servers, each started on first use and never left behind.
//!
//! A [`Backend`] is a cheap handle to one actor task (`actor`), which owns the server process: it
//! starts the server once for all concurrent callers, rereads changed lists, stops an idle server,
//! and backs off if the server keeps crashing. Calls bypass the actor: the handle's state holds the
//! [`BackendConnection`] while the server runs. The `message_router` finds the agent that an
//! unsolicited message is for. [`Pool`] gives entries with equal launches the same backend.

mod account;
mod actor;
mod agent_handle;
mod capabilities;
mod change_feed;
mod connection;
mod direct;
mod error;
pub mod events;
mod exit_cause;
pub mod handshake;
mod id;
pub mod installed_package;
pub mod launch;
pub mod listing_reader;
mod listing_store;
mod login_scope;
mod message_router;
mod paused_servers;
mod pool;
mod principal;
mod process_reaper;
mod quota;
mod remote_error;
mod resource_subscriptions;
pub mod server_quota;
mod server_request;
mod spec;
mod start;
mod start_scheduler;
mod status;
mod subscriptions;
mod upstream;
pub mod watchdog;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use thiserror::Error;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::backend::change_feed::ChangeFeed;
use crate::backend::direct::DirectRecords;
use crate::backend::launch::grants::GrantRegistry;
use crate::backend::listing_store::ListingStoreWorker;
pub(crate) use crate::backend::message_router::task_key;
use crate::backend::message_router::{Grace, InFlightRequest, MessageRouter};
use crate::backend::paused_servers::PausedServers;
use crate::backend::principal::Principal;
use crate::backend::process_reaper::ProcessReaper;
use crate::backend::start_scheduler::StartScheduler;
use crate::backend::status::StatusRecorder;
use crate::catalog::Listing;
use crate::policy::{Admission, Permit};
use crate::telemetry::Telemetry;
use mcp_workbench_login::LoginRegistry;
use mcp_workbench_settings::CallerLimits;
use mcp_workbench_wire::json::RawJson;
use mcp_workbench_wire::memory_pool::MemoryPool;

pub use crate::backend::account::Account;
pub use crate::backend::agent_handle::{
    Affinity, AgentHandle, LogLevel, may_require_input, requests_roots,
};
pub use crate::backend::capabilities::{APPS_NAME, ClientCapabilities};
use crate::backend::connection::LeasedConnection;
pub use crate::backend::connection::{BackendConnection, CallTimeouts, OutgoingRequest};
pub use crate::backend::direct::{DirectProgram, StartMethod};
pub use crate::backend::error::StartError;
pub use crate::backend::exit_cause::{StderrTail, strip_stderr_tail};
pub use crate::backend::handshake::Era;
pub use crate::backend::id::BackendId;
pub use crate::backend::launch::{ChildEnvironment, find_launch_problem};
pub use crate::backend::listing_store::{
    Fingerprint, ListingRecord, ListingRecordError, ListingStore, SharedListingCache,
    StoredListing as StoreEntry,
};
pub(crate) use crate::backend::listing_store::{KnownTexts, TextKey, text_key};
pub use crate::backend::login_scope::{LoginScope, tell_of_login};
pub use crate::backend::pool::{Pool, PoolOptions, ServedAgents};
pub use crate::backend::principal::AgentId;
pub use crate::backend::quota::{
    CallerQuota, MemoryPools, QuotaExceededError, QuotaGuard, QuotaRegistry, SubscriptionLimitError,
};
pub use crate::backend::remote_error::RemoteError;
pub use crate::backend::server_request::{AgentEvent, ServerRequest};
pub use crate::backend::spec::{BackendSpec, HttpEndpoint, ReviewedPackage, ServerTransport};
pub use crate::backend::start_scheduler::StartPriority;
pub use crate::backend::status::{BackendStatus, Phase};
pub use mcp_workbench_wire::server::RpcOutcome;

/// Maximum number of HTTP sessions opened for one call if the server keeps losing them.
const MAX_SESSIONS: u32 = 3;

/// Why a call got no response from the server.
#[derive(Clone, Debug, Error)]
pub enum BackendError {
    /// The server did not start, so nothing was sent to it.
    #[error(transparent)]
    StartFailed(Arc<StartError>),
    /// The server exited during the call, which may have taken effect.
    #[error("{0}")]
    Crashed(Arc<str>),
    /// No response and no progress for this long; the call was cancelled at the server.
    #[error("no response or progress for {} ms", .0.as_millis())]
    IdleTimeout(Duration),
    /// No response within this total time, even with progress; the call was cancelled at the
    /// server.
    #[error("no response within {} ms in total", .0.as_millis())]
    TotalTimeout(Duration),
    #[error(transparent)]
    Remote(Arc<RemoteError>),
    #[error("response of {0} bytes exceeds `limits.maxMessageBytes`")]
    Oversized(usize),
    #[error("invalid response: {0}")]
    InvalidResponse(Arc<str>),
    #[error("the workbench is shutting down")]
    ShuttingDown,
}

/// A state change of a backend, sent to every subscriber.
#[derive(Clone, Debug)]
pub struct BackendChange {
    pub backend: BackendId,
    pub change: ChangeKind,
}

#[derive(Clone, Debug)]
pub enum ChangeKind {
    Listed(VersionedListing),
    /// The server did not start; [`Backend::start_error`] has the reason.
    Failed,
    /// The server crashed. Its last listing was valid until then.
    Crashed,
}

/// A listing with a version, which lets callers wait until a snapshot includes it.
#[derive(Clone, Debug)]
pub struct VersionedListing {
    /// Counts from 1 and never repeats for one backend.
    pub version: u64,
    pub listing: Arc<Listing>,
}

/// The resources that starting a server process needs.
pub(crate) struct LaunchResources {
    pub(crate) program: Option<PathBuf>,
    pub(crate) homes: Option<PathBuf>,
    pub(crate) grants: Arc<GrantRegistry>,
    pub(crate) reaper: Arc<ProcessReaper>,
}

/// State that direct starts of servers share.
pub(crate) struct DirectStarts {
    pub(crate) records: DirectRecords,
    /// Package managers run one at a time, so that they leave processors to servers.
    pub(crate) turn: Semaphore,
}

pub(crate) struct PoolContext {
    pub(crate) direct: DirectStarts,
    pub(crate) launch: LaunchResources,
    pub(crate) tasks: TaskTracker,
    pub(crate) shutdown: CancellationToken,
    pub(crate) worker: Option<Arc<ListingStoreWorker>>,
    pub(crate) scheduler: StartScheduler,
    /// `true` if only one agent can connect.
    pub(crate) is_sole: bool,
    pub(crate) observer: Arc<Telemetry>,
    /// Memory pool for messages from servers.
    pub(crate) said: MemoryPool,
    pub(crate) paused: PausedServers,
    /// Logins at HTTP servers; `None` disables sign-in.
    pub(crate) logins: Option<Arc<LoginRegistry>>,
}

#[derive(Clone, Debug)]
pub(crate) struct LastKnownListing {
    pub(crate) listing: Arc<Listing>,
    /// When the listing was last confirmed.
    pub(crate) since: SystemTime,
}

/// A handle to a backend. Clones share it; dropping the last one stops the server.
#[derive(Clone)]
pub struct Backend {
    /// The server's name in this handle's entry. Entries that share the process may use other
    /// names.
    name: Arc<str>,
    /// Behind one `Arc`, because every call clones the handle.
    shared: Arc<BackendInner>,
}

struct BackendInner {
    id: BackendId,
    commands: mpsc::Sender<actor::ActorCommand>,
    status: watch::Receiver<actor::BackendState>,
    router: Arc<MessageRouter>,
    reports: Arc<ChangeFeed>,
    vitals: StatusRecorder,
    /// `true` once a server that stops when unused has stopped.
    gone: watch::Receiver<bool>,
    /// `true` if a caller has waited in vain for the last start.
    is_slow: AtomicBool,
}

pub(crate) struct WeakBackend(Weak<BackendInner>);

impl WeakBackend {
    pub(crate) fn is_alive(&self) -> bool {
        self.0.strong_count() > 0
    }

    pub(crate) fn upgrade(&self, name: &str) -> Option<Backend> {
        Some(Backend { name: name.into(), shared: self.0.upgrade()? })
    }
}

impl Backend {
    pub(crate) fn downgrade(&self) -> WeakBackend {
        WeakBackend(Arc::downgrade(&self.shared))
    }

    /// Subscribes to later changes and returns the last listing.
    pub(crate) fn subscribe_changes(
        &self,
        hearer: &mpsc::Sender<BackendChange>,
    ) -> Option<VersionedListing> {
        self.shared.reports.subscribe(hearer)
    }

    /// Makes this backend replace `other`: it inherits the agents and subscriptions of `other`, and
    /// starts after that server has stopped, since both may need the same port or file.
    pub(crate) fn start_after(&self, other: &Self) {
        self.shared.router.inherit(&other.shared.router);
        self.command(actor::ActorCommand::StartAfter(other.shared.gone.clone()));
    }

    /// Applies new timeouts and names to a server that stays, and undoes `stop_when_unused`.
    pub(crate) fn update_spec(&self, spec: Arc<BackendSpec>) {
        self.command(actor::ActorCommand::UpdateSpec(spec));
    }

    /// Stops the server once it is unused, now and after any later start.
    pub(crate) fn stop_when_unused(&self) {
        self.command(actor::ActorCommand::StopWhenUnused);
    }

    fn command(&self, command: actor::ActorCommand) {
        if self.shared.commands.try_send(command).is_err() {
            tracing::warn!(
                server = self.shared.router.server(),
                "command queue full, change not delivered to the server"
            );
        }
    }

    pub fn id(&self) -> BackendId {
        self.shared.id
    }

    /// Returns the connection, and starts the server if needed once it gets a start slot. If the
    /// start fails, only the agent that caused it sees the server's stderr.
    pub async fn ensure_running(
        &self,
        agent: Option<&AgentHandle>,
        urgency: StartPriority,
    ) -> Result<BackendConnection, BackendError> {
        if let Some(live) = self.connection() {
            return Ok(live);
        }
        let (live, _) = self.ensure_leased(agent.map(AgentHandle::principal), urgency).await?;
        Ok(live)
    }

    /// Returns the connection with a lease, so that it isn't closed before its first use.
    async fn ensure_leased(
        &self,
        principal: Option<Principal>,
        urgency: StartPriority,
    ) -> Result<LeasedConnection, BackendError> {
        let (reply, answer) = tokio::sync::oneshot::channel();
        let waiter = actor::Waiter { principal, reply };
        let ensure = actor::ActorCommand::EnsureRunning(waiter, urgency);
        self.shared.commands.send(ensure).await.map_err(|_| BackendError::ShuttingDown)?;
        answer.await.map_err(|_| BackendError::ShuttingDown)?
    }

    /// Returns the connection while the server is running.
    pub fn connection(&self) -> Option<BackendConnection> {
        match &*self.shared.status.borrow() {
            actor::BackendState::Ready(live) => Some(live.clone()),
            actor::BackendState::Stopped | actor::BackendState::Failed(_) => None,
        }
    }

    pub(crate) async fn wait_running(&self) {
        let mut status = self.shared.status.clone();
        let is_running =
            |status: &actor::BackendState| matches!(status, actor::BackendState::Ready(_));
        // Fails only if the actor has ended; nothing starts the server then.
        let _ = status.wait_for(is_running).await;
    }

    pub(crate) async fn wait_stopped(&self) {
        let mut status = self.shared.status.clone();
        let is_stopped =
            |status: &actor::BackendState| !matches!(status, actor::BackendState::Ready(_));
        let _ = status.wait_for(is_stopped).await;
    }

    /// Returns the error of the last start if it failed. Omits stderr if several agents can
    /// connect.
    pub fn start_error(&self) -> Option<Arc<StartError>> {
        match &*self.shared.status.borrow() {
            actor::BackendState::Failed(failure) => Some(Arc::clone(failure)),
            actor::BackendState::Stopped | actor::BackendState::Ready(_) => None,
        }
    }

    /// Returns `true` if a caller has waited in vain for the last start.
    pub fn is_slow_to_start(&self) -> bool {
        self.shared.is_slow.load(Ordering::Relaxed)
    }

    pub fn set_slow_to_start(&self, is_slow: bool) {
        self.shared.is_slow.store(is_slow, Ordering::Relaxed);
    }

    /// Registers a request of an agent, so that server messages about it reach the agent. The
    /// registration ends when the guard is dropped.
    pub fn register_request(
        &self,
        agent: &AgentHandle,
        log: LogLevel,
        events: Option<&events::Sender>,
    ) -> RequestGuard {
        self.shared.router.attach(agent, &self.name);
        RequestGuard(self.shared.router.register_request(agent, &self.name, log, events))
    }

    pub fn attach(&self, agent: &AgentHandle) {
        self.shared.router.attach(agent, &self.name);
    }

    /// Records that the server runs a task for the agent; only `holder` may access it.
    pub fn claim_task(&self, agent: &AgentHandle, task: &str, holder: &Arc<str>) {
        self.shared.router.claim_task(agent, task, holder);
    }

    pub fn can_access_task(&self, task: &str, holder: &str) -> bool {
        self.shared.router.may_hold_task(task, holder)
    }

    pub fn watch_task(
        &self,
        agent: &AgentHandle,
        task: &str,
        limits: &CallerLimits,
    ) -> Result<(), SubscriptionLimitError> {
        self.shared.router.attach(agent, &self.name);
        self.shared.router.watch_task(agent, task, limits)
    }

    /// Reserves the server for one agent. Returns `false` if another agent has used it.
    pub fn claim(&self, agent: &AgentHandle) -> bool {
        self.shared.router.claim(agent)
    }

    /// Releases the server from its owner. If the server holds state of that agent, it is stopped,
    /// and the next use starts a new process.
    pub fn release(&self) {
        self.shared.router.release(|patience| {
            let may_end = patience == Grace::None
                || self.connection().is_some_and(|live| live.close_if_unused());
            let is_heard =
                may_end && self.shared.commands.try_send(actor::ActorCommand::Recycle).is_ok();
            if may_end && !is_heard {
                tracing::warn!(
                    server = self.shared.router.server(),
                    "command queue full, server not stopped after its agent left"
                );
            }
            is_heard
        });
    }

    /// Stops the running server; the next use starts a new process.
    pub(crate) fn recycle(&self) {
        self.command(actor::ActorCommand::Recycle);
    }

    /// Stops the server even during calls, and returns when it has stopped. The next use starts it
    /// again.
    pub(crate) async fn stop(&self) {
        let (done, halted) = tokio::sync::oneshot::channel();
        if self.shared.commands.send(actor::ActorCommand::Stop(done)).await.is_ok() {
            // The actor drops the sender when the server has stopped.
            let _ = halted.await;
        }
    }

    pub(crate) fn status(&self) -> BackendStatus {
        self.shared.vitals.snapshot()
    }

    pub fn detach(&self, agent: AgentId) {
        self.shared.router.detach(agent);
    }

    /// Returns `true` if the server sends requests to its client, so that only one agent can use
    /// it.
    pub fn is_interactive(&self) -> bool {
        self.shared.router.is_interactive()
    }

    /// Calls the permitted tool. A call is sent at most once. Dropping the future cancels it at the
    /// server.
    pub async fn call(
        &self,
        permit: &Permit,
        call: OutgoingRequest<'_>,
        guard: &RequestGuard,
    ) -> Result<RpcOutcome, BackendError> {
        let name = RawJson::from_text(&permit.tool().tool);
        Box::pin(self.send("tools/call", Some(("name", &name)), &call, guard)).await
    }

    /// Calls the method of a protocol extension that the permit names, under the same conditions.
    pub async fn call_extension_method(
        &self,
        permit: &Permit,
        call: OutgoingRequest<'_>,
        guard: &RequestGuard,
    ) -> Result<RpcOutcome, BackendError> {
        Box::pin(self.send(&permit.tool().tool, None, &call, guard)).await
    }

    /// Sends any other request, under the same conditions. Tools need `call`.
    pub async fn request(
        &self,
        _: &Admission,
        method: &str,
        call: OutgoingRequest<'_>,
        guard: &RequestGuard,
    ) -> Result<RpcOutcome, BackendError> {
        debug_assert_ne!(method, "tools/call", "tool calls need a permit");
        Box::pin(self.send(method, None, &call, guard)).await
    }

    async fn send(
        &self,
        method: &str,
        first: Option<(&str, &RawJson)>,
        call: &OutgoingRequest<'_>,
        RequestGuard(entry): &RequestGuard,
    ) -> Result<RpcOutcome, BackendError> {
        let mut sessions = 0;
        loop {
            let (live, in_use) = if let Some(live) = self.connection() {
                live.lease()
            } else {
                let principal = entry.principal().clone();
                Box::pin(self.ensure_leased(Some(principal), StartPriority::Call)).await?
            };
            // A connection that is being closed accepts no more calls; wait for its successor.
            let Some(_use) = in_use else {
                Box::pin(self.wait_stopped()).await;
                continue;
            };
            if live.has_log_level() {
                Box::pin(live.pass_on_log_level(&self.shared.router)).await;
            }
            if let Some(sent) = call.sent {
                sent.store(true, Ordering::Relaxed);
            }
            if let Some(outcome) = live.request(method, first, call, entry).await? {
                entry.mark_answered();
                return Ok(outcome);
            }
            // The server ended before it received the call, so its successor can have it.
            Box::pin(live.wait_for_crash_report()).await;
            sessions += 1;
            if sessions == MAX_SESSIONS && live.is_remote() {
                return Err(BackendError::Remote(Arc::new(RemoteError::of_lost_sessions())));
            }
        }
    }

    /// Sends the log level that agents have set to the running server.
    pub async fn sync_log_level(&self) {
        if let Some(live) = self.connection() {
            live.pass_on_log_level(&self.shared.router).await;
        }
    }

    pub fn notify(&self, method: &str, params: Option<RawJson>) {
        if let Some(live) = self.connection() {
            live.notify(method, params);
        }
    }
}

/// The registration of a request in flight, which lets server messages reach its agent.
pub struct RequestGuard(InFlightRequest);
