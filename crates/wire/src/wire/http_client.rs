//! Client connection to one server over streamable HTTP (2025-03-26 to 2026-07-28).
//!
//! *Theory of operation.* [`connect`] returns a [`ServerConnection`], as for a child process. One
//! task drains its outbox and turns every message into a POST. Each runs in its own task
//! ([`exchange`]), except `notifications/initialized`, which must arrive before later requests.
//! Response bodies and event streams ([`sse`]) are passed in order to a [`sink`]: the connection
//! itself, or a [`bridge`] that forwards the messages of another program. A message with a protocol
//! version in `_meta` is modern and described by [`headers`]. All others are legacy and belong to
//! the session that `initialize` started. Transport errors become the response of the failed
//! request ([`failure`]); only the loss of the session ends the connection. [`sse_transport`]
//! handles servers of the older transport (2024-11-05, HTTP with SSE).

pub mod bridge;
mod credentials;
mod exchange;
mod failure;
mod headers;
mod retry;
mod session;
mod sink;
mod sse;
mod sse_transport;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::{Attempt, Policy};
use reqwest::{Client, Url};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::json::{self, RawJson};
use crate::wire::code::INTERNAL_ERROR;
use crate::wire::envelope::{JsonRpcMessage, MessageParseError, RpcOutcome};
use crate::wire::http_client::headers::ToolHeaderParams;
use crate::wire::http_client::session::Session;
use crate::wire::http_client::sink::{ConnectionSink, MessageSink};
use crate::wire::http_client::sse_transport::TransportState;
use crate::wire::incoming;
use crate::wire::mailbox::RequestError;
use crate::wire::memory_pool::ReadLimits;
use crate::wire::peer::Peer;
use crate::wire::server::{DisconnectReason, IncomingHandler, ServerConnection};
use crate::wire::writer::{self, MessageWriter, Outbox};

pub use crate::wire::http_client::credentials::{
    BoxFuture, Challenge, Credentials, RetryDecision, StaticHeaders,
};
pub use crate::wire::http_client::failure::HttpTransportError;
pub use crate::wire::http_client::sse_transport::{ServerAddress, TransportMode};

/// Timeout to establish a connection.
const CONNECTING: Duration = Duration::from_secs(30);
/// Idle timeout of pooled connections. Common servers close theirs after 5 s, and a request sent at
/// that moment is lost.
const IDLE_CONNECTION: Duration = Duration::from_secs(4);
/// How long requests wait for the server to acknowledge `notifications/initialized`.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// Timeout of the DELETE that ends the session.
const SESSION_DELETE_TIMEOUT: Duration = Duration::from_millis(700);
const REDIRECTS: usize = 4;
/// Longer messages aren't searched for errors of the transport, in bytes.
const MAX_ERROR: usize = 16 * 1024;

const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// Connects to the server at `address`, sending `credentials` with every request. Sends nothing
/// yet.
///
/// The connection ends with [`ServerConnection::close_input`] or [`ServerConnection::close`]. Its
/// tasks run on `tasks`. `label` names the server in the log; `intake` limits incoming messages.
/// Fails if the HTTP client can't be created.
pub fn connect(
    address: impl Into<ServerAddress>,
    credentials: Arc<dyn Credentials>,
    intake: impl Into<ReadLimits>,
    label: &str,
    handler: impl IncomingHandler,
    tasks: &TaskTracker,
) -> Result<ServerConnection, String> {
    let (writer, outbox) = MessageWriter::detached();
    let connection = ServerConnection::new(Peer::new(), writer);
    let linked = ConnectionSink::new(connection.clone(), handler, label);
    start((address.into(), credentials), intake.into(), label, linked, outbox, tasks)?;
    Ok(connection)
}

fn start<T: MessageSink>(
    (ServerAddress { url, transport }, credentials): (ServerAddress, Arc<dyn Credentials>),
    intake: ReadLimits,
    label: &str,
    to: T,
    outbox: Outbox,
    tasks: &TaskTracker,
) -> Result<(), String> {
    let remote = HttpConnection {
        client: client(&url).map_err(failure::root_cause_without_url)?,
        url,
        credentials,
        intake,
        label: label.to_owned(),
        to,
        session: Mutex::default(),
        way: TransportState::new(transport),
        tools: Mutex::default(),
        running: Mutex::default(),
        tasks: tasks.clone(),
    };
    tasks.spawn(Arc::new(remote).run(outbox));
    Ok(())
}

fn client(url: &Url) -> reqwest::Result<Client> {
    // Fails if the process already has a default provider, which works as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = Client::builder()
        .connect_timeout(CONNECTING)
        .pool_idle_timeout(IDLE_CONNECTION)
        .tcp_keepalive(Duration::from_mins(1))
        .redirect(Policy::custom(redirect));
    if url.scheme() == "http" {
        // Plain HTTP needs no root certificates, and the system may have none.
        builder = builder.tls_certs_only([]);
    }
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    if host == "localhost" || host.parse().is_ok_and(|host: std::net::IpAddr| host.is_loopback()) {
        builder = builder.no_proxy();
    }
    builder.build()
}

/// Follows 307 and 308 redirects within the server's origin. Another origin must not see the
/// request's headers.
fn redirect(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let from = attempt.previous().first().map(Url::origin);
    let is_kept = matches!(attempt.status().as_u16(), 307 | 308);
    if is_kept && from == Some(attempt.url().origin()) && attempt.previous().len() <= REDIRECTS {
        attempt.follow()
    } else {
        attempt.stop()
    }
}

struct HttpConnection<T> {
    client: Client,
    url: Url,
    credentials: Arc<dyn Credentials>,
    intake: ReadLimits,
    label: String,
    to: T,
    session: Mutex<Session>,
    way: TransportState,
    tools: Mutex<ToolHeaderParams>,
    /// Requests in flight, by the JSON text of their ids.
    running: Mutex<HashMap<Bytes, InFlightExchange>>,
    tasks: TaskTracker,
}

struct InFlightExchange {
    id: RawJson,
    is_modern: bool,
    /// `true` while the request is certainly undelivered and waits for its retry.
    is_untaken: bool,
    dropped: CancellationToken,
}

struct OutboundMessage {
    body: Bytes,
    /// Set for requests only.
    id: Option<RawJson>,
    /// Empty for a response.
    method: String,
    params: Option<RawJson>,
    /// Protocol version in `_meta`. `None` for a legacy message.
    modern: Option<HeaderValue>,
}

impl OutboundMessage {
    /// Returns `None` if `parts` aren't a message, which a connection never sends.
    fn new(parts: &[Bytes]) -> Option<Self> {
        #[derive(Default, Deserialize)]
        struct Params<'a> {
            #[serde(borrow, default, rename = "_meta")]
            meta: Option<&'a RawValue>,
        }
        #[derive(Deserialize)]
        struct Meta {
            #[serde(rename = "io.modelcontextprotocol/protocolVersion")]
            version: String,
        }

        let mut body = BytesMut::with_capacity(parts.iter().map(Bytes::len).sum());
        for part in parts {
            body.extend_from_slice(part);
        }
        let body = body.freeze();
        let (id, method, params) = match JsonRpcMessage::parse(&body).ok()? {
            JsonRpcMessage::Request { id, method, params } => (Some(id), method, params),
            JsonRpcMessage::Notification { method, params } => (None, method, params),
            JsonRpcMessage::Response { .. } => (None, String::new(), None),
        };
        let version = params.as_ref().and_then(|params| {
            let params: Params<'_> = serde_json::from_slice(params.as_bytes()).ok()?;
            serde_json::from_str::<Meta>(params.meta?.get()).ok()
        });
        let modern = version.and_then(|meta| HeaderValue::try_from(meta.version).ok());
        Some(Self { body, id, method, params, modern })
    }

    fn is_handshake(&self) -> bool {
        matches!(self.method.as_str(), "initialize" | "server/discover")
    }

    fn cancels(&self) -> Option<Bytes> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Cancelled {
            request_id: Box<RawValue>,
        }

        let params = self.params.as_ref().filter(|_| self.method == "notifications/cancelled")?;
        let cancelled: Cancelled = params.parse().ok()?;
        Some(Bytes::copy_from_slice(cancelled.request_id.get().as_bytes()))
    }
}

impl<T: MessageSink> HttpConnection<T> {
    /// Sends the messages of the outbox until the connection ends, then deletes the session.
    async fn run(self: Arc<Self>, mut outbox: Outbox) {
        while let Some(Some(message)) = or_closed(&self.to, outbox.next()).await {
            // The server may receive the message from here on.
            writer::QueuedMessage::done(message.written);
            if let Some(sent) = OutboundMessage::new(&message.parts) {
                self.dispatch(sent).await;
            } else {
                tracing::debug!(server = self.label, "cannot send a malformed message");
            }
        }
        // No further messages are accepted. Requests in flight can still complete while the session
        // is deleted.
        drop(outbox);
        if timeout(SESSION_DELETE_TIMEOUT, self.delete_session()).await.is_err() {
            tracing::debug!(server = self.label, "timed out deleting the session");
        }
        self.to.close();
    }

    async fn dispatch(self: &Arc<Self>, sent: OutboundMessage) {
        if let Some(id) = sent.cancels() {
            let running = self.running.lock().get(&id).map(|r| (r.is_modern, r.dropped.clone()));
            match running {
                // The response would arrive on a stream shared with other requests, so tell the
                // server.
                None if self.way.uses_sse() => {
                    let remote = Arc::clone(self);
                    self.spawn(async move { remote.exchange(&sent).await });
                }
                // The request was answered or never sent.
                None => {}
                // A modern request is cancelled by closing its response.
                Some((true, dropped)) => dropped.cancel(),
                Some((false, dropped)) => {
                    let remote = Arc::clone(self);
                    self.spawn(async move {
                        remote.exchange(&sent).await;
                        dropped.cancel();
                    });
                }
            }
        } else if sent.method == "notifications/initialized" {
            // The server must not get a request before this notification.
            let heard = or_closed(&self.to, self.exchange(&sent));
            if timeout(HANDSHAKE, heard).await.is_err() {
                tracing::debug!(
                    server = self.label,
                    "`notifications/initialized` was not acknowledged in time"
                );
            }
            if self.way.uses_sse() {
                return;
            }
            let remote = Arc::clone(self);
            self.spawn(async move { remote.listen().await });
        } else if let Some(id) = sent.id.clone() {
            let (is_modern, dropped) = (sent.modern.is_some(), CancellationToken::new());
            let running = InFlightExchange {
                id: id.clone(),
                is_modern,
                is_untaken: false,
                dropped: dropped.clone(),
            };
            let id = id.into_bytes();
            self.running.lock().insert(id.clone(), running);
            let remote = Arc::clone(self);
            self.spawn(async move {
                dropped.run_until_cancelled(remote.exchange(&sent)).await;
                remote.running.lock().remove(&id);
            });
        } else {
            let remote = Arc::clone(self);
            self.spawn(async move { remote.exchange(&sent).await });
        }
    }

    /// Runs `work` until the connection closes.
    fn spawn(self: &Arc<Self>, work: impl Future<Output = ()> + Send + 'static) {
        let remote = Arc::clone(self);
        self.tasks.spawn(async move { or_closed(&remote.to, work).await });
    }

    fn session_headers(&self, accept: &'static str) -> HeaderMap {
        let mut headers = accepting(accept);
        let Session { id, version, .. } = self.session.lock().clone();
        headers.extend(id.map(|id| (SESSION_ID, id)));
        headers.extend(version.map(|version| (PROTOCOL_VERSION, version)));
        headers
    }

    fn headers_of(&self, sent: &OutboundMessage) -> HeaderMap {
        let accept = "application/json, text/event-stream";
        let mut headers = match &sent.modern {
            Some(version) => {
                let mut headers = accepting(accept);
                headers.insert(PROTOCOL_VERSION, version.clone());
                headers.extend(self.tools.lock().headers(&sent.method, sent.params.as_ref()));
                headers
            }
            None if sent.method == "initialize" => accepting(accept),
            None => self.session_headers(accept),
        };
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers
    }

    /// Passes on one message of the server. `sent` is the request that it arrived for; `None` on a
    /// standalone stream.
    async fn take(&self, message: &Bytes, sent: Option<&OutboundMessage>) {
        // The sink needs one line per message, but over HTTP a message can span several.
        let message = json::join_lines(message.clone());
        if let Some(sent) = sent
            && self.take_error(&message, sent).await
        {
            return;
        }
        let changed = sent.and_then(|sent| self.learn(&message, sent));
        self.to.take(changed.unwrap_or(message)).await;
    }

    /// Handles a response that says that the session is lost, and an error without an id, which can
    /// only belong to `sent`. Returns `false` for other messages.
    async fn take_error(&self, message: &Bytes, sent: &OutboundMessage) -> bool {
        if message.len() > MAX_ERROR || memchr::memmem::find(message, b"\"error\"").is_none() {
            return false;
        }
        match JsonRpcMessage::parse_envelope(message) {
            Err(MessageParseError::ErrorWithoutId(error)) => {
                self.fail(sent, error).await;
                true
            }
            Ok(JsonRpcMessage::Response { id, outcome: RpcOutcome::Error(error) })
                if sent.id.as_ref() == Some(&id)
                    && sent.modern.is_none()
                    && !sent.is_handshake()
                    && session::is_lost_error(&self.session.lock(), &error) =>
            {
                self.answer(sent, Err(RequestError::NotSent)).await;
                self.lose_session();
                true
            }
            _ => false,
        }
    }

    /// Records facts for later headers from the response to `sent`. Returns a replacement if the
    /// response has to change.
    fn learn(&self, message: &Bytes, sent: &OutboundMessage) -> Option<Bytes> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Initialized {
            protocol_version: String,
        }

        let is_list = sent.method == "tools/list" && sent.modern.is_some();
        if !is_list && sent.method != "initialize" {
            return None;
        }
        let Ok(JsonRpcMessage::Response { id, outcome: RpcOutcome::Result(result) }) =
            JsonRpcMessage::parse_envelope(message)
        else {
            return None;
        };
        if is_list {
            let outcome = match self.tools.lock().learn(&result, &self.label).transpose()? {
                Ok(list) => RpcOutcome::Result(list),
                Err(error) => {
                    let why = format!("the tool list cannot be filtered: {error}");
                    RpcOutcome::Error(incoming::error_object(INTERNAL_ERROR, &why, None))
                }
            };
            return Some(incoming::encode_response(id, outcome).concat().into());
        }
        let version = result.parse::<Initialized>().ok();
        self.session.lock().version =
            version.and_then(|result| HeaderValue::try_from(result.protocol_version).ok());
        None
    }

    /// Completes `sent` with `outcome`. Only logs it if `sent` isn't a request.
    async fn answer(&self, sent: &OutboundMessage, outcome: Result<RpcOutcome, RequestError>) {
        if let Some(id) = &sent.id {
            self.to.settle(id, outcome).await;
        } else {
            let (server, method) = (&self.label, &sent.method);
            tracing::debug!(server, method, ?outcome, "message without a response failed");
        }
    }

    /// Ends the connection because the server doesn't know the session any more.
    fn lose_session(&self) {
        tracing::debug!(server = self.label, "the server no longer knows the session");
        self.session.lock().is_lost = true;
        self.to.session_lost(DisconnectReason::Session);
    }
}

fn accepting(media_types: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(media_types))])
}

/// Returns the output of `work`, or `None` if the connection closes first.
async fn or_closed<T>(to: &impl MessageSink, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        () = to.closed() => None,
        done = work => Some(done),
    }
}

#[cfg(test)]
mod tests;
