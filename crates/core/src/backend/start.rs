//! Starts servers: protocol attempts, handshake and first listing.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::Instrument;

use crate::backend::direct::run_follow_up;
use crate::backend::exit_cause::{ExitCause, StderrTail, with_stderr_tail, with_stdout};
use crate::backend::handshake::{self, Era, HandshakeError, HandshakeRejection, HandshakeResult};
use crate::backend::launch::grants;
use crate::backend::listing_reader::{self, ListKinds};
use crate::backend::listing_store::ProtocolHint;
use crate::backend::message_router::{MessageRouter, NOT_FOR_CLIENTS};
use crate::backend::remote_error::{
    ENDED_TRANSPORT, OTHER_PATH, UNTRUSTED, of_sign_in, of_unauthorized,
};
use crate::backend::server_quota::ServerQuota;
use crate::backend::upstream::Upstream;
use crate::backend::{
    BackendSpec, PoolContext, ServerTransport, StartError, StartPriority, start_scheduler,
    subscriptions,
};
use crate::catalog::Listing;
use crate::telemetry::Redactor;
use mcp_workbench_settings::Protocol;
use mcp_workbench_wire::http_client::HttpTransportError;
use mcp_workbench_wire::server::ServerConnection;

/// How long to wait for the last lines of stderr.
const STDERR_DRAIN_TIMEOUT: Duration = Duration::from_millis(100);

/// Retry delays for an HTTP server that was reachable before.
const UNREACHABLE_RETRY_DELAYS: [Duration; 3] =
    [Duration::from_millis(300), Duration::from_millis(900), Duration::from_millis(1800)];

/// How long a server waits for its predecessor, which may have long calls in flight.
const HANDING_OVER: Duration = Duration::from_secs(10);

pub(crate) struct StartedServer {
    upstream: Upstream,
    pub(crate) handshake: Arc<HandshakeResult>,
    pub(crate) connection: ServerConnection,
    pub(crate) listing: Arc<Listing>,
}

impl StartedServer {
    pub(crate) fn found(&self) -> ProtocolHint {
        ProtocolHint { era: self.handshake.era, uses_sse: self.connection.uses_sse() }
    }

    pub(crate) async fn end(self) -> ExitCause {
        self.upstream.end(&self.connection).await
    }

    pub(crate) fn id(&self) -> Option<u32> {
        self.upstream.id()
    }

    /// The last lines of stderr, updated live; `None` for an HTTP server.
    pub(crate) fn stderr_tail(&self) -> Option<StderrTail> {
        self.upstream.stderr_tail()
    }

    /// Resolves when the process has exited; never for an HTTP server.
    pub(crate) async fn left(&mut self) {
        self.upstream.exited().await;
    }
}

pub(crate) struct FailedStart {
    /// The error with stderr, for the agent that caused the start.
    pub(crate) whole: Arc<StartError>,
    /// The error without stderr, for everyone else.
    pub(crate) public: Arc<StartError>,
    pub(crate) stderr_tail: Option<StderrTail>,
    /// `true` if the server is temporarily unreachable, as during a restart.
    is_away: bool,
}

impl From<StartError> for FailedStart {
    fn from(failure: StartError) -> Self {
        let failure = Arc::new(failure);
        Self { whole: Arc::clone(&failure), public: failure, stderr_tail: None, is_away: false }
    }
}

impl FailedStart {
    /// `reason` is called with `true` if it may quote stderr.
    fn new(reason: impl Fn(bool) -> String, hint: &str) -> Self {
        let [whole, public] =
            [true, false].map(|is_told| Arc::new(StartError::new(reason(is_told), hint)));
        Self { whole, public, stderr_tail: None, is_away: false }
    }
}

/// Returns the protocol to try first on a server that this process has not started: the stored one
/// that worked last, else legacy for a child process and modern over HTTP.
async fn first_protocol(spec: &Arc<BackendSpec>, context: &PoolContext) -> ProtocolHint {
    if let Some(worker) = &context.worker
        && let Some(found) = worker.way(spec).await
    {
        return found;
    }
    let era = match spec.reach {
        ServerTransport::Stdio(_) => Era::Legacy,
        ServerTransport::Http(_) => Era::Modern,
    };
    ProtocolHint { era, uses_sse: false }
}

pub(crate) struct StartGate {
    pub(crate) not_before: Option<Instant>,
    /// Turns `true` when the predecessor has stopped.
    pub(crate) after: Option<watch::Receiver<bool>>,
    pub(crate) urgency: watch::Receiver<StartPriority>,
}

impl StartGate {
    /// Waits for both conditions, but not for a start slot.
    async fn wait(&mut self, spec: &BackendSpec) {
        if let Some(then) = self.not_before {
            sleep_until(then).await;
        }
        let Some(mut gone) = self.after.take() else { return };
        // An error means that the actor has ended, and the server with it.
        if timeout(HANDING_OVER, gone.wait_for(|gone| *gone)).await.is_err() {
            let server = &spec.label;
            tracing::info!(server, "started while the previous process is still in use");
        }
    }
}

/// Starts a server with the protocol that worked last, or else another one. Retries an HTTP server
/// that was reachable before and is temporarily gone.
pub(crate) async fn start(
    spec: Arc<BackendSpec>,
    context: Arc<PoolContext>,
    router: Arc<MessageRouter>,
    found: Option<ProtocolHint>,
    mut when: StartGate,
) -> Result<StartedServer, FailedStart> {
    when.wait(&spec).await;
    let mut pauses = UNREACHABLE_RETRY_DELAYS.iter().copied().filter(|_| found.is_some());
    loop {
        let failed = match start_now(&spec, &context, &router, found, &when.urgency).await {
            Err(failed) if failed.is_away => failed,
            Ok(mut started) => {
                if let Some(work) = started.upstream.take_follow_up() {
                    let work = run_follow_up(work, Arc::clone(&context));
                    context.tasks.spawn(work.in_current_span());
                }
                return Ok(started);
            }
            Err(failed) => return Err(failed),
        };
        let Some(pause) = pauses.next() else { return Err(failed) };
        sleep(pause).await;
    }
}

async fn start_now(
    spec: &Arc<BackendSpec>,
    context: &Arc<PoolContext>,
    router: &Arc<MessageRouter>,
    found: Option<ProtocolHint>,
    urgency: &watch::Receiver<StartPriority>,
) -> Result<StartedServer, FailedStart> {
    let ProtocolHint { era, uses_sse: is_old } = match found {
        Some(found) => found,
        None => first_protocol(spec, context).await,
    };
    if is_old {
        let protocol = match spec.protocol {
            pinned @ Protocol::Pinned(_) => pinned,
            _ => Protocol::Legacy,
        };
        let way = AttemptProtocol { protocol, era: Era::Legacy, is_old: true };
        match attempt(spec, context, router, way, urgency).await {
            Ok(started) => return Ok(started),
            Err(AttemptError::Refused(failed) | AttemptError::Failed(failed)) if failed.is_away => {
                return Err(failed);
            }
            // The server may have been upgraded.
            Err(_) => {}
        }
    }
    let protocol = spec.spoken();
    let way = AttemptProtocol { protocol, era, is_old: false };
    let first = match attempt(spec, context, router, way, urgency).await {
        Ok(started) => return Ok(started),
        Err(AttemptError::Failed(failure)) => return Err(failure),
        Err(AttemptError::Refused(first)) => first,
    };
    // A server may exit because of the first hello, or of the second one after it. So each era gets
    // a process that receives no other hello.
    let alone = match (protocol, &spec.reach) {
        (Protocol::Auto, ServerTransport::Stdio(_)) => [era.other(), era],
        _ => return Err(first),
    };
    for era in alone {
        let protocol = match era {
            Era::Legacy => Protocol::Legacy,
            Era::Modern => Protocol::Modern,
        };
        let way = AttemptProtocol { protocol, era, is_old: false };
        if let Ok(started) = attempt(spec, context, router, way, urgency).await {
            return Ok(started);
        }
    }
    // Report the first attempt: it used the era that servers commonly speak.
    Err(first)
}

#[derive(Clone, Copy)]
struct AttemptProtocol {
    protocol: Protocol,
    /// Tried first if `protocol` allows both.
    era: Era,
    /// `true` if the server is known to use HTTP with SSE.
    is_old: bool,
}

enum AttemptError {
    /// The server rejected the hello, or exited after the second one.
    Refused(FailedStart),
    Failed(FailedStart),
}

impl AttemptError {
    /// Redacts secrets that the server may have repeated.
    fn without(self, secrets: &Redactor) -> Self {
        let redacted = |FailedStart { whole, public, stderr_tail: words, is_away }: FailedStart| {
            let [whole, public] = [whole, public].map(|failure| {
                let reason = secrets.redact_json_text(&failure.reason).into_owned();
                Arc::new(StartError { reason, ..(*failure).clone() })
            });
            FailedStart { whole, public, stderr_tail: words, is_away }
        };
        match self {
            Self::Refused(failed) => Self::Refused(redacted(failed)),
            Self::Failed(failed) => Self::Failed(redacted(failed)),
        }
    }
}

async fn attempt(
    spec: &BackendSpec,
    context: &PoolContext,
    router: &Arc<MessageRouter>,
    way: AttemptProtocol,
    urgency: &watch::Receiver<StartPriority>,
) -> Result<StartedServer, AttemptError> {
    // An HTTP server costs no CPU time here, so it needs no start slot.
    let mut turn = match spec.reach {
        ServerTransport::Stdio(_) => context.scheduler.acquire(urgency.clone()).await,
        ServerTransport::Http(_) => None,
    };
    let hear = {
        let (router, process) = (Arc::clone(router), router.begin_process());
        move |incoming| router.dispatch(process, incoming)
    };
    let opened = Upstream::open(spec, router.secrets(), context, way.is_old, hear).await;
    let (mut upstream, connection) =
        opened.map_err(|failure| AttemptError::Failed(failure.into()))?;
    let words = {
        let words = initialize_and_list(&connection, way, spec, context, router);
        let words = timeout(spec.startup_timeout, words);
        let left = async {
            upstream.exited().await;
            // Read the remaining output first. A child of the server may hold it open.
            sleep(STDERR_DRAIN_TIMEOUT).await;
        };
        let given_away = start_scheduler::given_away();
        tokio::pin!(words, left, given_away);
        loop {
            tokio::select! {
                biased;
                words = &mut words => break words,
                () = &mut left => {
                    connection.close();
                    break Ok(Err(HandshakeError::Closed));
                }
                () = &mut given_away, if turn.is_some() => turn = None,
            }
        }
    };
    drop(turn);
    let failure = match words {
        Ok(Ok((handshake, listing))) => {
            return Ok(StartedServer { upstream, handshake, connection, listing });
        }
        Ok(Err(failure)) => Some(failure),
        Err(_) => None,
    };
    // A failed write can be the first sign that the server is exiting.
    let has_ended = match failure {
        None => connection.is_closed(),
        Some(_) => timeout(STDERR_DRAIN_TIMEOUT, connection.closed()).await.is_ok(),
    };
    let last_words = upstream.stderr_tail();
    let death = upstream.end(&connection).await;
    let output = ServerOutput { stderr: last_words.clone(), stdout: connection.unusable_output() };
    let mut failed = explain(failure, has_ended.then_some(death), spec, &output);
    let (AttemptError::Refused(failure) | AttemptError::Failed(failure)) = &mut failed;
    failure.stderr_tail = last_words;
    Err(failed.without(router.secrets()))
}

async fn initialize_and_list(
    connection: &ServerConnection,
    AttemptProtocol { protocol, era, .. }: AttemptProtocol,
    spec: &BackendSpec,
    context: &PoolContext,
    router: &Arc<MessageRouter>,
) -> Result<(Arc<HandshakeResult>, Arc<Listing>), HandshakeError> {
    let patience = spec.startup_timeout / 2;
    let told = spec.capabilities.to_raw();
    let handshake = handshake::negotiate(connection, protocol, era, &told, patience).await?;
    let handshake = Arc::new(handshake);
    // Lists may change while they are read. So subscribe first, and forget earlier changes.
    router.take_changed();
    if handshake.era == Era::Modern {
        let listening = subscriptions::open_subscription(connection, &handshake, router).await;
        let (connection, router) = (connection.clone(), Arc::clone(router));
        context.tasks.spawn(
            subscriptions::run_subscription(listening, connection, Arc::clone(&handshake), router)
                .in_current_span(),
        );
    }
    let listing = listing_reader::read(
        connection,
        &handshake,
        &Listing::default(),
        ListKinds::ALL,
        &ServerQuota::of(spec, &context.observer),
    )
    .await
    .map_err(|unread| {
        if unread.wants_sign_in {
            HandshakeError::SignIn
        } else {
            HandshakeError::InvalidResponse(unread.why)
        }
    })?;
    Ok((handshake, Arc::new(listing)))
}

/// Returns the hint for a server that fails for a reason of its own.
fn by_hand(spec: &BackendSpec) -> String {
    let read_only = match &spec.reach {
        ServerTransport::Stdio(launch) => grants::read_only_variables(launch),
        ServerTransport::Http(_) => BTreeSet::new(),
    };
    let read_only: Vec<_> = read_only.iter().map(|name| format!("`{name}`")).collect();
    let hint = "run its command in a terminal to find the cause (a missing package, folder or \
                `env` variable)";
    if read_only.is_empty() {
        return hint.to_owned();
    }
    format!(
        "{hint}; it can only read the folders in {}: if it must change them, add them to \
         `sandbox.write`",
        read_only.join(", ")
    )
}

/// Output of a server that failed to start, which its error quotes.
struct ServerOutput {
    /// `None` for an HTTP server.
    stderr: Option<StderrTail>,
    /// Lines that were no messages or matched no request.
    stdout: Vec<String>,
}

fn explain(
    words: Option<HandshakeError>,
    death: Option<ExitCause>,
    spec: &BackendSpec,
    ServerOutput { stderr, stdout }: &ServerOutput,
) -> AttemptError {
    let Some(stderr) = stderr else {
        return explain_remote(words, spec);
    };
    let words_of = |reason: String| {
        let tail = stderr.text();
        move |is_told| with_stdout(with_stderr_tail(&reason, &tail, is_told), stdout, is_told)
    };
    let by_hand = by_hand(spec);
    let by_hand = by_hand.as_str();
    if let Some(death) = death {
        let before = match &words {
            Some(HandshakeError::Refused(HandshakeRejection { message, .. })) => {
                format!("rejected the handshake ({message}) and ")
            }
            Some(HandshakeError::InvalidResponse(message)) => {
                format!("handshake failed: {message}; then the server ")
            }
            _ => String::new(),
        };
        let exit = |is_told| {
            let exit = format!("{before}{}", death.describe_exit("during startup", is_told));
            with_stdout(exit, stdout, is_told)
        };
        let failed = FailedStart::new(exit, by_hand);
        return match words {
            Some(HandshakeError::Refused(_)) => AttemptError::Refused(failed),
            _ => AttemptError::Failed(failed),
        };
    }
    match words {
        Some(HandshakeError::Refused(HandshakeRejection { message, .. }))
            if message == NOT_FOR_CLIENTS =>
        {
            let reason = "not an MCP server: it sends back its input".to_owned();
            AttemptError::Failed(FailedStart::new(words_of(reason), by_hand))
        }
        Some(HandshakeError::Refused(HandshakeRejection { message, .. })) => AttemptError::Refused(
            FailedStart::new(words_of(format!("handshake rejected: {message}")), by_hand),
        ),
        Some(HandshakeError::InvalidResponse(message)) => AttemptError::Failed(FailedStart::new(
            words_of(format!("handshake failed: {message}")),
            by_hand,
        )),
        // A child process needs no sign-in.
        None | Some(HandshakeError::Closed | HandshakeError::SignIn) => {
            let hint = if stdout.is_empty() {
                "try again (a first start may download packages) or raise `startupTimeoutMs`"
            } else {
                "its stdout must hold only MCP messages, one per line and with the ids of the \
                 requests; if the server only starts slowly, raise `startupTimeoutMs`"
            };
            AttemptError::Failed(FailedStart::new(
                words_of(format!("not ready within {} ms", spec.startup_timeout.as_millis())),
                hint,
            ))
        }
    }
}

fn sign_in_required(spec: &BackendSpec) -> StartError {
    let (reason, hint) = of_sign_in(spec.reach.login().map(|login| &**login));
    StartError { reason, hint, wants_sign_in: true }
}

fn explain_remote(words: Option<HandshakeError>, spec: &BackendSpec) -> AttemptError {
    let timed_out = || format!("not ready within {} ms", spec.startup_timeout.as_millis());
    let is_away = matches!(
        &words,
        Some(HandshakeError::Refused(HandshakeRejection {
            failure: Some(
                HttpTransportError::Unreachable | HttpTransportError::HttpStatus(502..=504)
            ),
            ..
        }))
    );
    let (reason, hint) = match words {
        Some(HandshakeError::Refused(HandshakeRejection { message, failure, .. })) => match failure
        {
            Some(HttpTransportError::Unreachable) => {
                (message, "check that the server is running and that its `url` is correct")
            }
            Some(HttpTransportError::Untrusted) => (message, UNTRUSTED),
            Some(HttpTransportError::SignIn) => {
                return AttemptError::Failed(sign_in_required(spec).into());
            }
            Some(HttpTransportError::HttpStatus(401 | 403)) => {
                let login = spec.reach.login().map(|login| &**login);
                let (reason, hint) = of_unauthorized(message, login);
                return AttemptError::Failed(StartError::new(reason, hint).into());
            }
            Some(HttpTransportError::HttpStatus(410)) => (message, ENDED_TRANSPORT),
            Some(HttpTransportError::HttpStatus(300..500)) => (message, OTHER_PATH),
            Some(HttpTransportError::HttpStatus(_) | HttpTransportError::Broken) => {
                (message, "check its `url` and the server's own log")
            }
            None => (format!("handshake rejected: {message}"), "check its `url` and `headers`"),
        },
        Some(HandshakeError::InvalidResponse(message)) => {
            (format!("handshake failed: {message}"), "check that its `url` is the MCP endpoint")
        }
        Some(HandshakeError::SignIn) => return AttemptError::Failed(sign_in_required(spec).into()),
        Some(HandshakeError::Closed) => (
            "the server closed the session during startup".to_owned(),
            "check the server's own log",
        ),
        None => (timed_out(), "try again or raise `startupTimeoutMs`"),
    };
    let failure = StartError::new(reason, hint.to_owned());
    AttemptError::Failed(FailedStart { is_away, ..failure.into() })
}
