//! The frontend serves agents. It owns their sessions, protocol eras, and messages that an agent
//! hasn't requested.
//!
//! Every request arrives as raw text and is routed by [`dispatch`]. Over stdio, one task handles
//! all requests of its agent ([`request_set`]). [`handshake`], [`lists`] and [`subscriptions`]
//! answer requests themselves. [`forwarding`], [`primitives`] and [`extensions`] forward theirs
//! through the gateway, and pass events of the server to the agent in the meantime. The state of an
//! agent is in its [`session`].

mod attribution;
pub mod dispatch;
pub mod era;
mod extensions;
mod forwarding;
mod handshake;
mod known_clients;
mod list_version;
mod lists;
mod name_resolution;
mod primitives;
mod request;
mod request_set;
pub mod session;
mod shown_lists;
mod subscriptions;
mod suspended_calls;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use crate::admin::{AdminApi, ConfigSource};
use crate::frontend::request_set::RequestSet;
use crate::frontend::session::{AgentSession, creation};
use crate::frontend::suspended_calls::SuspendedCalls;
use mcp_workbench_core::gateway::{Caller, GatewayRegistry};
use mcp_workbench_core::state::{SessionKey, round_trip};
use mcp_workbench_core::telemetry::{QuotaKind, QuotaOwner};
use mcp_workbench_wire::agent::{Messages, Notifier};
use mcp_workbench_wire::incoming::IncomingMessage;
use mcp_workbench_wire::memory_pool::ReadLimits;

/// State shared by all sessions. Clones refer to the same state.
#[derive(Clone)]
pub struct AppState {
    pub gateways: Arc<GatewayRegistry>,
    pub(crate) suspended: Arc<SuspendedCalls>,
    pub(crate) tickets: Arc<AtomicU64>,
    pub tasks: TaskTracker,
    pub(crate) admin: AdminApi,
    /// A random name of this process among those that share a store. Not a secret.
    pub replica: Arc<str>,
}

impl AppState {
    /// Creates the state for these gateways. Background work of sessions runs on `tasks`.
    ///
    /// # Errors
    ///
    /// Fails if the operating system provides no random numbers.
    pub fn new(
        gateways: Arc<GatewayRegistry>,
        tasks: &TaskTracker,
    ) -> Result<Self, getrandom::Error> {
        let (mut key, mut name) = ([0; 32], [0; 8]);
        getrandom::fill(&mut key)?;
        getrandom::fill(&mut name)?;
        let replica: Arc<str> = format!("{:016x}", u64::from_ne_bytes(name)).into();
        let admin =
            AdminApi::new(Arc::clone(&gateways), Caller::ANONYMOUS, ConfigSource::default());
        Ok(Self {
            admin,
            gateways,
            suspended: Arc::new(SuspendedCalls::new(key, Arc::clone(&replica))),
            replica,
            tickets: Arc::default(),
            tasks: tasks.clone(),
        })
    }

    #[must_use]
    pub fn with_admin(self, admin: AdminApi) -> Self {
        Self { admin, ..self }
    }

    pub fn admin(&self) -> &AdminApi {
        &self.admin
    }

    /// The longest name of a tool or prompt, in bytes.
    pub(crate) fn max_name_length(&self) -> usize {
        self.gateways.config().max_tool_name_length
    }

    pub(crate) fn next_ticket(&self) -> u64 {
        self.tickets.fetch_add(1, Ordering::Relaxed)
    }
}

/// How to end after the agent's output has ended, with requests in flight.
pub struct StreamDrain<F> {
    /// How long the requests may take.
    pub timeout: Duration,
    /// Resolves if the agent reads no responses any more.
    pub agent_left: F,
}

/// Serves the agent `caller` over two streams until its output ends or `shutdown` is
/// cancelled.
///
/// When the output ends, requests in flight are finished as `drain` says. On `shutdown`, they are
/// dropped at once. Stopping their servers is left to the gateway.
pub async fn serve_stream<R, W, F>(
    app: &AppState,
    caller: Caller,
    (reader, writer): (R, W),
    tasks: &TaskTracker,
    shutdown: &CancellationToken,
    drain: StreamDrain<F>,
) where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
    F: Future<Output = ()> + Send,
{
    let max = app.gateways.config().limits.max_message_bytes;
    let quota = app.gateways.quotas().quota_for(&QuotaOwner::new(caller.agent.as_ref(), None));
    let full = Arc::clone(&quota);
    let account =
        quota.sent().clone().on_full(Arc::new(move || full.report_limit_reached(QuotaKind::Bytes)));
    let intake = ReadLimits { account, ..ReadLimits::from(max) };
    let (messages, notifier) = mcp_workbench_wire::agent::connect(reader, writer, intake, tasks);
    let last_words = notifier.clone();
    let session = creation::create(app, caller, quota, Some(notifier), SessionKey::random());
    let span = session.span().clone();
    serve_session(session, messages, last_words, shutdown, drain).instrument(span).await;
}

async fn serve_session<R: AsyncRead + Unpin, F: Future<Output = ()> + Send>(
    mut session: Arc<AgentSession>,
    mut messages: Messages<R>,
    last_words: Notifier,
    shutdown: &CancellationToken,
    drain: StreamDrain<F>,
) {
    let mut ending = pin!(shutdown.cancelled());
    // Dropped on return, which cancels requests in flight.
    let mut answers = RequestSet::default();
    loop {
        let incoming = {
            let mut next = pin!(messages.next());
            loop {
                tokio::select! {
                    // Requests in flight come first: a flood of new ones can't starve them.
                    biased;
                    Some(()) = answers.next_completed() => {}
                    incoming = &mut next => break Some(incoming),
                    () = &mut ending => break None,
                }
            }
        };
        let Some(incoming) = incoming else {
            session.end();
            return;
        };
        match incoming {
            None => break,
            Some(IncomingMessage::Notification { method, params }) => {
                session.handle_notification(&method, params.as_ref());
            }
            Some(IncomingMessage::Request(request)) => {
                if round_trip::is_on() && answers.is_empty() {
                    session = Box::pin(creation::restored_copy(&session)).await;
                }
                answers.push(dispatch::handle_request(Arc::clone(&session), request));
            }
        }
    }
    // An agent that closes its output right after its last request still reads the answers.
    // Subscriptions end now, and so do requests to the agent, which can't answer them.
    session.close_subscriptions();
    last_words.fail_requests();
    let last_answers = async {
        answers.drain().await;
        last_words.flush().await
    };
    tokio::select! {
        () = ending => {}
        () = drain.agent_left => {}
        _ = timeout(drain.timeout, last_answers) => {}
    }
    session.end();
}
