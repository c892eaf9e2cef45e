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

mod body;
pub mod bridge;
mod connection;
mod credentials;
mod exchange;
mod failure;
mod headers;
mod outbound_message;
mod retry;
mod session;
mod sink;
mod sse;
mod sse_transport;
mod transport;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use reqwest::redirect::{Attempt, Policy};
use reqwest::{Client, Url};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use crate::http_client::connection::{HttpConnection, InFlightExchange, or_closed};
use crate::http_client::exchange::{delete_session, exchange, listen};
use crate::http_client::outbound_message::OutboundMessage;
use crate::http_client::sink::{ConnectionSink, MessageSink};
use crate::http_client::transport::TransportState;
use crate::memory_pool::ReadLimits;
use crate::peer::Peer;
use crate::server::{IncomingHandler, ServerConnection};
use crate::writer::{self, MessageWriter, Outbox};

pub use crate::http_client::credentials::{
    BoxFuture, Challenge, Credentials, RetryDecision, StaticHeaders,
};
pub use crate::http_client::failure::HttpTransportError;
pub use crate::http_client::transport::{ServerAddress, TransportMode};

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
    (address, credentials): (ServerAddress, Arc<dyn Credentials>),
    intake: ReadLimits,
    label: &str,
    to: T,
    outbox: Outbox,
    tasks: &TaskTracker,
) -> Result<(), String> {
    let remote = HttpConnection {
        client: client(&address.url).map_err(failure::root_cause_without_url)?,
        credentials,
        intake,
        label: label.to_owned(),
        to,
        session: Mutex::default(),
        way: TransportState::new(address),
        tools: Mutex::default(),
        running: Mutex::default(),
        tasks: tasks.clone(),
    };
    tasks.spawn(run(Arc::new(remote), outbox).in_current_span());
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

/// Sends the messages of the outbox until the connection ends, then deletes the session.
async fn run<T: MessageSink>(remote: Arc<HttpConnection<T>>, mut outbox: Outbox) {
    while let Some(Some(message)) = or_closed(&remote.to, outbox.next()).await {
        // The server may receive the message from here on.
        writer::QueuedMessage::done(message.written);
        if let Some(sent) = OutboundMessage::new(&message.parts) {
            dispatch(&remote, sent).await;
        } else {
            tracing::debug!(server = remote.label, "cannot send a malformed message");
        }
    }
    // No further messages are accepted. Requests in flight can still complete while the session
    // is deleted.
    drop(outbox);
    if timeout(SESSION_DELETE_TIMEOUT, delete_session(&remote)).await.is_err() {
        tracing::debug!(server = remote.label, "timed out deleting the session");
    }
    remote.to.close();
}

async fn dispatch<T: MessageSink>(remote: &Arc<HttpConnection<T>>, sent: OutboundMessage) {
    if let Some(id) = sent.cancels() {
        let running = remote.running.lock().get(&id).map(|r| (r.is_modern, r.dropped.clone()));
        match running {
            // The response would arrive on a stream shared with other requests, so tell the
            // server.
            None if remote.way.uses_sse() => {
                let of_task = Arc::clone(remote);
                remote.spawn(async move { exchange(&of_task, &sent).await });
            }
            // The request was answered or never sent.
            None => {}
            // A modern request is cancelled by closing its response.
            Some((true, dropped)) => dropped.cancel(),
            Some((false, dropped)) => {
                let of_task = Arc::clone(remote);
                remote.spawn(async move {
                    exchange(&of_task, &sent).await;
                    dropped.cancel();
                });
            }
        }
    } else if sent.method == "notifications/initialized" {
        // The server must not get a request before this notification.
        let heard = or_closed(&remote.to, exchange(remote, &sent));
        if timeout(HANDSHAKE, heard).await.is_err() {
            tracing::debug!(
                server = remote.label,
                "`notifications/initialized` was not acknowledged in time"
            );
        }
        if remote.way.uses_sse() {
            return;
        }
        let of_task = Arc::clone(remote);
        remote.spawn(async move { listen(&of_task).await });
    } else if let Some(id) = sent.id.clone() {
        let (is_modern, dropped) = (sent.modern.is_some(), CancellationToken::new());
        let running = InFlightExchange {
            id: id.clone(),
            is_modern,
            is_untaken: false,
            dropped: dropped.clone(),
        };
        let id = id.into_bytes();
        remote.running.lock().insert(id.clone(), running);
        let of_task = Arc::clone(remote);
        remote.spawn(async move {
            dropped.run_until_cancelled(exchange(&of_task, &sent)).await;
            of_task.running.lock().remove(&id);
        });
    } else {
        let of_task = Arc::clone(remote);
        remote.spawn(async move { exchange(&of_task, &sent).await });
    }
}

#[cfg(test)]
mod tests;
