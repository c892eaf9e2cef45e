//! Connection to one server over two streams.
//!
//! *Theory of operation.* One task reads the server's lines. Responses and progress go to the
//! pending request ([`ServerConnection::send_request`]). Server requests and notifications are
//! passed to an [`IncomingHandler`] within the reading task, so they are handled in order and
//! before any later response. At the end of input, all pending requests fail and
//! [`ServerConnection::closed`] resolves.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::task::yield_now;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use crate::envelope::{self, JsonRpcMessage, MessageParseError, RecoveredIds};
use crate::incoming::{self, IncomingMessage, error_object};
use crate::json::{Member, RawJson};
use crate::line::{InputLine, LineReader};
use crate::memory_pool::ReadLimits;
use crate::offload::offload;
use crate::peer::Peer;
use crate::writer::MessageWriter;

pub use crate::envelope::RpcOutcome;
pub use crate::mailbox::RequestError;
use crate::outgoing;
pub use crate::outgoing::{PendingRequest, RequestEvent};

/// Handles requests and notifications of a server. Must not block.
pub trait IncomingHandler: Send + 'static {
    fn handle(&mut self, incoming: IncomingMessage);
}

impl<F: FnMut(IncomingMessage) + Send + 'static> IncomingHandler for F {
    fn handle(&mut self, incoming: IncomingMessage) {
        self(incoming);
    }
}

/// A handle to the connection. Clones share it.
#[derive(Clone)]
pub struct ServerConnection {
    peer: Peer,
    writer: MessageWriter,
    status: Arc<RemoteStatus>,
}

/// Why the connection to a server over HTTP ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DisconnectReason {
    /// The server doesn't know the session any more.
    Session,
    /// The connection that the session depends on has ended.
    Connection,
}

/// State of a server over HTTP that no message carries.
#[derive(Default)]
struct RemoteStatus {
    lost: OnceLock<DisconnectReason>,
    trouble: watch::Sender<Option<Arc<str>>>,
    is_old: AtomicBool,
}

/// After a message of more bytes than this, the reading task yields: a server that sends one long
/// message after the other would starve other tasks.
const LONG: usize = 64 * 1024;

/// Connects to a server over its streams. Both directions run as tasks on `tasks`.
///
/// `label` names the server in the log; `intake` limits incoming messages.
pub fn connect<R, W>(
    reader: R,
    writer: W,
    intake: impl Into<ReadLimits>,
    label: &str,
    handler: impl IncomingHandler,
    tasks: &TaskTracker,
) -> ServerConnection
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let connection = ServerConnection::new(Peer::new(), MessageWriter::start(writer, tasks));
    let (reading, label) = (connection.clone(), label.to_owned());
    let ReadLimits { max_message_bytes: max, account, .. } = intake.into();
    let lines = LineReader::new(reader, max).with_consumer(account);
    let reading = async move {
        let peer = reading.peer.clone();
        let reading = read(lines, reading, handler, label);
        tokio::select! {
            () = peer.closed() => {}
            () = reading => {}
        }
        peer.close();
    };
    tasks.spawn(reading.in_current_span());
    connection
}

async fn read<R: AsyncRead + Unpin>(
    mut lines: LineReader<R>,
    connection: ServerConnection,
    mut handler: impl IncomingHandler,
    server: String,
) {
    while let Some(line) = lines.next().await {
        match line {
            InputLine::Message(line) => {
                if let Some(message) = connection.read(&line, &server).await {
                    connection.take(message, &mut handler);
                }
                if line.len() > LONG {
                    yield_now().await;
                }
            }
            InputLine::Oversized { head, tail, length, .. } => {
                tracing::warn!(server, length, "dropped a message that exceeds the size limit");
                connection.peer.take_oversized(&head, &tail, length);
            }
        }
    }
}

fn excerpt(line: &Bytes) -> String {
    String::from_utf8_lossy(&line[..line.len().min(200)]).into_owned()
}

impl ServerConnection {
    /// Creates a connection whose messages are transported by the caller.
    pub(crate) fn new(peer: Peer, writer: MessageWriter) -> Self {
        Self { peer, writer, status: Arc::default() }
    }

    pub(crate) fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Parses one message of the server, on the blocking pool if it is long. `None` if it is
    /// malformed: a malformed response then fails its request.
    pub(crate) async fn read(&self, text: &Bytes, server: &str) -> Option<JsonRpcMessage> {
        let whole = text.clone();
        let read = offload(text.len(), move || {
            JsonRpcMessage::parse(&whole).map_err(|malformed| {
                let recovered = match malformed {
                    MessageParseError::NotJson(_) | MessageParseError::NoMessage => {
                        Some(envelope::recover_ids(&whole))
                    }
                    _ => None,
                };
                (malformed, recovered)
            })
        });
        let (malformed, recovered) = match read.await {
            Ok(message) => return Some(message),
            Err((malformed, recovered)) => (incoming::reject(&self.peer, malformed)?, recovered),
        };
        match (malformed.request_id().cloned(), recovered) {
            (Some(id), _) => self.reject_request(id, &malformed, server),
            (None, Some(RecoveredIds { ids, is_response: false })) if !ids.is_empty() => {
                self.reject_request(ids[0].clone(), &malformed, server);
            }
            (None, recovered) => {
                let mut ids = recovered.map(|recovered| recovered.ids).unwrap_or_default();
                ids.retain(|id| self.peer.is_waiting(id));
                let is_settled = match &malformed {
                    MessageParseError::ErrorWithoutId(error) => self.peer.settle_only(error),
                    _ => !ids.is_empty(),
                };
                let line = excerpt(text);
                if !is_settled {
                    tracing::debug!(server, ?malformed, line, "ignored a malformed message");
                    self.peer.note_unusable(&line);
                }
                for id in ids {
                    let why = malformed.describe(text);
                    // Without the excerpt, which may hold a secret.
                    let (_, error) = malformed.to_rpc_error("malformed JSON");
                    tracing::warn!(server, id = %id.as_str(), "malformed response: {error}");
                    self.peer.settle(&id, Err(RequestError::Malformed(why)));
                }
            }
        }
        None
    }

    fn reject_request(&self, id: RawJson, malformed: &MessageParseError, server: &str) {
        let (code, message) = malformed.to_rpc_error("expected a JSON-RPC message");
        tracing::warn!(server, "rejected a request of the server: {message}");
        let error = RpcOutcome::Error(error_object(code, &message, None));
        // The server learns nothing if it reads no input.
        let _ = self.writer.try_send(incoming::encode_response(id, error));
    }

    pub(crate) fn take(&self, message: JsonRpcMessage, handler: &mut impl IncomingHandler) {
        if let Some(incoming) = incoming::receive_message(&self.peer, message, &self.writer) {
            handler.handle(incoming);
        }
    }

    /// Sends a request with the given members of `params` and of `params._meta`. If
    /// `wants_progress`, the request's own id is its progress token.
    pub async fn send_request(
        &self,
        method: &str,
        params: &[(&str, &RawJson)],
        meta: &[Member],
        wants_progress: bool,
    ) -> Result<PendingRequest, RequestError> {
        outgoing::send_request(&self.peer, &self.writer, method, params, meta, wants_progress).await
    }

    /// Queues a notification, or drops it if the queue is full. Never waits.
    pub fn notify(&self, method: &str, params: Option<RawJson>) {
        self.peer.note_notification();
        if self.writer.try_send(incoming::encode_notification(method, params)).is_err() {
            tracing::debug!(method, "failed to send a notification");
        }
    }

    /// Returns the last lines of output that were no messages or matched no request, for the report
    /// of a failed start. They aren't redacted.
    pub fn unusable_output(&self) -> Vec<String> {
        self.peer.unusable_output()
    }

    /// Closes the connection to a server over HTTP and records the reason.
    pub(crate) fn disconnect(&self, how: DisconnectReason) {
        // The first reason is the cause.
        let _ = self.status.lost.set(how);
        self.close();
    }

    /// Returns the reason if a transport error of a server over HTTP ended the connection.
    pub fn disconnect_reason(&self) -> Option<DisconnectReason> {
        self.status.lost.get().copied()
    }

    pub(crate) fn mark_sse(&self) {
        self.status.is_old.store(true, Ordering::Relaxed);
    }

    /// Returns `true` if the server was found to use HTTP with SSE.
    pub fn uses_sse(&self) -> bool {
        self.status.is_old.load(Ordering::Relaxed)
    }

    /// Records why the server is unavailable; `None` if it is available.
    pub(crate) fn set_unavailable_reason(&self, why: Option<&str>) {
        self.status.trouble.send_if_modified(|now| {
            let is_other = now.as_deref() != why;
            if is_other {
                *now = why.map(Arc::from);
            }
            is_other
        });
    }

    /// Watches the reason why a server over HTTP is unavailable; `None` while it is available.
    pub fn unavailable_reason(&self) -> watch::Receiver<Option<Arc<str>>> {
        self.status.trouble.subscribe()
    }

    /// Resolves when the server's output has ended or the connection is closed.
    pub async fn closed(&self) {
        self.peer.closed().await;
    }

    /// Returns `true` if the server's output has ended or the connection is closed.
    pub fn is_closed(&self) -> bool {
        self.peer.is_closed()
    }

    /// Resolves when the server's input is closed, by either side.
    pub async fn input_closed(&self) {
        self.writer.closed().await;
    }

    /// Closes the server's input after the queued messages, which asks the server to exit. If the
    /// queue is full, the queued messages are dropped.
    pub fn close_input(&self) {
        self.writer.close();
    }

    /// Closes the connection even if another process holds the server's output open. Pending
    /// requests fail immediately.
    pub fn close(&self) {
        self.peer.close();
    }
}

#[cfg(test)]
mod tests;
