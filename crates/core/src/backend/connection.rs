//! Connection to a running server, which calls go through.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until, timeout};

use crate::backend::agent_handle::LogLevel;
use crate::backend::exit_cause::ExitCause;
use crate::backend::handshake::{Era, HandshakeResult};
use crate::backend::message_router::{InFlightRequest, MessageRouter};
use crate::backend::principal::ProcessUsers;
use crate::backend::server_request::AgentEvent;
use crate::backend::{BackendError, RemoteError, RpcOutcome, VersionedListing, events};
use mcp_workbench_login::OAuthLogin;
use mcp_workbench_names::untrusted_text;
use mcp_workbench_wire::UNREADABLE_NAME;
use mcp_workbench_wire::code::INTERNAL_ERROR;
use mcp_workbench_wire::incoming::error_object;
use mcp_workbench_wire::json::{Member, RawJson};
use mcp_workbench_wire::server::{RequestError, RequestEvent, ServerConnection};

/// How long a failed call waits for the crash report.
const CRASH_REPORT_TIMEOUT: Duration = Duration::from_secs(2);

/// Timeout of control requests, such as setting the log level.
const CONTROL_REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
#[derive(Clone, Copy)]
pub struct OutgoingRequest<'a> {
    /// Members of `params`, except `_meta` and a tool's name.
    pub params: &'a [(&'a str, &'a RawJson)],
    pub meta: &'a [Member],
    /// Log level for this request. Legacy servers have one for all requests.
    pub log: LogLevel,
    /// Receives the server's progress.
    pub events: Option<&'a events::Sender>,
    pub patience: CallTimeouts,
    /// Set to `true` just before the request is sent.
    pub sent: Option<&'a AtomicBool>,
}

#[derive(Clone, Copy, Debug)]
pub struct CallTimeouts {
    /// Maximum time without a response or progress.
    pub idle: Duration,
    /// Maximum total time, including progress and server requests to the agent.
    pub total: Duration,
}

impl CallTimeouts {
    /// Returns the error of a timeout; `last` is the end of the total time.
    fn error(self, last: Instant) -> BackendError {
        if last <= Instant::now() {
            return BackendError::TotalTimeout(self.total);
        }
        BackendError::IdleTimeout(self.idle)
    }
}

#[derive(Clone)]
pub struct BackendConnection(Arc<ConnectionInner>);

struct ConnectionInner {
    connection: ServerConnection,
    handshake: Arc<HandshakeResult>,
    listed: watch::Receiver<VersionedListing>,
    death: watch::Receiver<Option<Arc<CrashReport>>>,
    is_remote: bool,
    login: Option<Arc<OAuthLogin>>,
    usage: Mutex<Usage>,
    unused: Notify,
}

pub(crate) struct CrashReport {
    pub(crate) cause: ExitCause,
    /// Principals that used the process; `None` if everyone may see it.
    pub(crate) users: Option<ProcessUsers>,
}

#[derive(Debug)]
struct Usage {
    running: usize,
    since: Instant,
    is_closing: bool,
}

pub(crate) struct ConnectionParts {
    pub(crate) connection: ServerConnection,
    pub(crate) handshake: Arc<HandshakeResult>,
    pub(crate) listed: watch::Receiver<VersionedListing>,
    pub(crate) death: watch::Receiver<Option<Arc<CrashReport>>>,
    pub(crate) is_remote: bool,
    pub(crate) login: Option<Arc<OAuthLogin>>,
}

impl BackendConnection {
    pub(crate) fn new(parts: ConnectionParts) -> Self {
        let ConnectionParts {
            connection: link,
            handshake: greeting,
            listed,
            death,
            is_remote,
            login,
        } = parts;
        let usage = Usage { running: 0, since: Instant::now(), is_closing: false };
        let (usage, unused) = (Mutex::new(usage), Notify::new());
        Self(Arc::new(ConnectionInner {
            connection: link,
            handshake: greeting,
            listed,
            death,
            is_remote,
            login,
            usage,
            unused,
        }))
    }

    pub fn listed(&self) -> VersionedListing {
        self.0.listed.borrow().clone()
    }

    fn usage<T>(&self, f: impl FnOnce(&mut Usage) -> T) -> T {
        f(&mut self.0.usage.lock())
    }

    /// Counts as a use until the guard is dropped. `None` if the connection is closing.
    pub(crate) fn try_acquire(&self) -> Option<ConnectionUseGuard> {
        self.usage(|usage| {
            (!usage.is_closing).then(|| {
                usage.running += 1;
                ConnectionUseGuard(self.clone())
            })
        })
    }

    pub(crate) fn lease(self) -> LeasedConnection {
        let in_use = self.try_acquire();
        (self, in_use)
    }

    pub(crate) fn idle_since(&self) -> Option<Instant> {
        self.usage(|usage| (usage.running == 0).then_some(usage.since))
    }

    pub(crate) async fn wait_unused(&self) {
        while self.idle_since().is_none() {
            self.0.unused.notified().await;
        }
    }

    /// Stops accepting calls unless one is running. Returns `true` if the connection is closing.
    pub(crate) fn close_if_unused(&self) -> bool {
        self.usage(|usage| {
            usage.is_closing |= usage.running == 0;
            usage.is_closing
        })
    }

    pub(crate) fn is_remote(&self) -> bool {
        self.0.is_remote
    }

    /// Returns the server's `Implementation` (MCP).
    pub fn info(&self) -> Option<RawJson> {
        self.0.handshake.info.clone()
    }

    pub fn era(&self) -> Era {
        self.0.handshake.era
    }

    /// Sends a control request and waits at most 10 s. Discards the result; returns the error to
    /// relay.
    pub(crate) async fn request_ack(
        &self,
        method: &str,
        params: &[(&str, &RawJson)],
    ) -> Result<(), RpcOutcome> {
        let asked = async {
            match self.0.connection.send_request(method, params, &[], false).await {
                Ok(mut asked) => asked.response().await,
                Err(error) => Err(error),
            }
        };
        let failed = |why| Err(RpcOutcome::Error(error_object(INTERNAL_ERROR, why, None)));
        match timeout(CONTROL_REQUEST_TIMEOUT, asked).await {
            Ok(Ok(RpcOutcome::Result(_))) => Ok(()),
            Ok(Ok(error @ RpcOutcome::Error(_))) => Err(error),
            Ok(Err(_)) => failed("the server exited"),
            Err(_) => failed("no response from the server"),
        }
    }

    /// Returns `true` if the server supports `logging/setLevel`.
    pub(crate) fn has_log_level(&self) -> bool {
        self.era() == Era::Legacy && self.0.handshake.capabilities.logging.is_some()
    }

    /// Sends the log level to a legacy server if agents have changed it.
    pub(crate) async fn pass_on_log_level(&self, router: &MessageRouter) {
        if self.has_log_level()
            && let Some(level) = router.take_wanted_log()
            && self.request_ack("logging/setLevel", &[("level", &level)]).await.is_err()
        {
            tracing::debug!("server rejected the log level");
        }
    }

    pub(crate) fn notify(&self, method: &str, params: Option<RawJson>) {
        self.0.connection.notify(method, params);
    }

    /// Sends a request and waits for its response. Returns `None` if the server was gone before it
    /// got the request. Dropping the future cancels the request at the server.
    ///
    /// Rare awaits are boxed here and in the callers: the future of every call has room for all of
    /// its awaits.
    pub(crate) async fn request(
        &self,
        method: &str,
        first: Option<(&str, &RawJson)>,
        call: &OutgoingRequest<'_>,
        entry: &InFlightRequest,
    ) -> Result<Option<RpcOutcome>, BackendError> {
        let params: Vec<_> = first.into_iter().chain(call.params.iter().copied()).collect();
        let mut meta: Vec<_> = call.meta.iter().chain(&self.0.handshake.meta).cloned().collect();
        if self.era() == Era::Modern
            && let Some(level) = call.log.explicit()
        {
            meta.push(("io.modelcontextprotocol/logLevel".into(), level.encode()));
        }
        let CallTimeouts { idle: quiet, total: in_all } = call.patience;
        let last = Instant::now() + in_all;
        let mut deadline = Box::pin(sleep_until(last.min(Instant::now() + quiet)));
        let request = self.0.connection.send_request(method, &params, &meta, true);
        let request = tokio::select! {
            biased;
            request = request => request,
            () = &mut deadline => return Err(call.patience.error(last)),
        };
        drop((params, meta));
        let mut request = match request {
            Ok(request) => request.with_parent(call.events.and_then(events::Sender::cancellation)),
            Err(RequestError::NotSent) => return Ok(None),
            Err(error) => return Err(Box::pin(self.failure(error, entry)).await),
        };
        loop {
            let step = tokio::select! {
                biased;
                step = request.next() => step,
                () = &mut deadline => {
                    // Waiting for a user's answer doesn't count against the idle timeout.
                    match entry.agent_active_at().map(|since| last.min(since + quiet)) {
                        Some(until) if until > Instant::now() => deadline.as_mut().reset(until),
                        _ => return Err(call.patience.error(last)),
                    }
                    continue;
                }
            };
            match step {
                RequestEvent::Progress(params) => {
                    deadline.as_mut().reset(last.min(Instant::now() + quiet));
                    if let Some(events) = call.events {
                        // An agent that is gone takes no progress; its call ends elsewhere.
                        let _ = Box::pin(events.send(AgentEvent::Progress(params))).await;
                    }
                }
                RequestEvent::Completed(Ok(RpcOutcome::Error(error))) if self.0.is_remote => {
                    return match RemoteError::from_rpc_error(&error, self.0.login.as_deref()) {
                        Some(unanswered) => Err(BackendError::Remote(Arc::new(unanswered))),
                        None => Ok(Some(RpcOutcome::Error(error))),
                    };
                }
                RequestEvent::Completed(Ok(outcome)) => return Ok(Some(outcome)),
                // An HTTP server may reject a request together with its session.
                RequestEvent::Completed(Err(RequestError::NotSent)) => return Ok(None),
                RequestEvent::Completed(Err(error)) => {
                    return Err(Box::pin(self.failure(error, entry)).await);
                }
            }
        }
    }

    async fn failure(&self, error: RequestError, entry: &InFlightRequest) -> BackendError {
        match error {
            RequestError::Oversized(length) => BackendError::Oversized(length),
            RequestError::UnreadableName(_) => {
                BackendError::InvalidResponse(UNREADABLE_NAME.into())
            }
            RequestError::Malformed(why) => {
                let why = entry.secrets().redact_json_text(&why);
                BackendError::InvalidResponse(untrusted_text::single_line(&why).into())
            }
            RequestError::NotSent | RequestError::Closed => {
                let death = self.wait_for_crash_report().await;
                let Some(CrashReport { cause, users }) = death.as_deref() else {
                    return BackendError::Crashed("connection closed during the call".into());
                };
                let is_told = users.as_ref().is_none_or(|users| users.are_only(entry.principal()));
                BackendError::Crashed(cause.describe_exit("during the call", is_told).into())
            }
        }
    }

    /// Waits at most 2 s for the crash report.
    pub(crate) async fn wait_for_crash_report(&self) -> Option<Arc<CrashReport>> {
        let mut death = self.0.death.clone();
        let known = death.wait_for(Option::is_some);
        match timeout(CRASH_REPORT_TIMEOUT, known).await {
            Ok(Ok(death)) => death.clone(),
            Ok(Err(_)) | Err(_) => None,
        }
    }
}

pub(crate) struct ConnectionUseGuard(BackendConnection);

/// A connection with a use, which keeps it open until then. The use is `None` if the connection is
/// already closing.
pub(crate) type LeasedConnection = (BackendConnection, Option<ConnectionUseGuard>);

impl Drop for ConnectionUseGuard {
    fn drop(&mut self) {
        let is_last = self.0.usage(|usage| {
            usage.running -= 1;
            usage.since = Instant::now();
            usage.running == 0
        });
        if is_last {
            self.0.0.unused.notify_one();
        }
    }
}
