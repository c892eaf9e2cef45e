//! The connection to one agent over two streams.
//!
//! The frontend pulls messages out of [`Messages`]. Input that isn't a message is answered with an
//! error here, and the connection continues. At the end of input [`Messages::next`] returns `None`
//! immediately, even if requests are still running.

use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::task::TaskTracker;

use crate::ConnectionClosed;
use crate::code::{INVALID_REQUEST, UNAVAILABLE};
use crate::envelope::{self, MessageParseError, RpcOutcome};
use crate::incoming::{self, IncomingMessage, error_object};
use crate::json::RawJson;
use crate::line::{InputLine, LineReader};
use crate::mailbox::RequestError;
use crate::memory_pool::ReadLimits;
use crate::outgoing::{self, PendingRequest};
use crate::peer::Peer;
use crate::writer::MessageWriter;

/// How long a message waits for memory while none of the agent's is released. Messages behind it
/// wait as well, such as cancellations.
const MEMORY_TIMEOUT: Duration = Duration::from_secs(30);
const NO_MEMORY: &str = "was not read, because too many bytes are in flight \
                         (limits.maxBytesInFlight, limits.perCaller.maxBytesInFlight)";

/// Connects to an agent over its streams. The writer runs as a task on `tasks`.
///
/// `intake` limits incoming messages. A longer one is answered with an error, and so is one that
/// gets no memory in time: waiting for it forever could block the responses that release memory.
pub fn connect<R, W>(
    reader: R,
    writer: W,
    intake: impl Into<ReadLimits>,
    tasks: &TaskTracker,
) -> (Messages<R>, Notifier)
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let notifier = Notifier { peer: Peer::new(), writer: MessageWriter::start(writer, tasks) };
    let ReadLimits { max_message_bytes: max, account, .. } = intake.into();
    let lines = LineReader::new(reader, max).with_consumer(account).with_patience(MEMORY_TIMEOUT);
    (Messages { lines, notifier: notifier.clone() }, notifier)
}

/// The messages of an agent, in the order of its lines.
pub struct Messages<R> {
    lines: LineReader<R>,
    notifier: Notifier,
}

impl<R: AsyncRead + Unpin> Messages<R> {
    /// Returns the next request or notification; `None` once the agent's output has ended.
    pub async fn next(&mut self) -> Option<IncomingMessage> {
        let Notifier { peer, writer } = &self.notifier;
        loop {
            let refusal = match self.lines.next().await? {
                InputLine::Message(line) => match incoming::receive(peer, &line, writer) {
                    Ok(Some(incoming)) => return Some(incoming),
                    Ok(None) => continue,
                    Err(malformed) => parse_error_response(&malformed),
                },
                InputLine::Oversized { head, tail, length, lacks_memory } => {
                    let why = if lacks_memory { NO_MEMORY } else { "exceeds the size limit" };
                    tracing::warn!(length, "client message {why}");
                    let id = peer.take_oversized(&head, &tail, length);
                    if lacks_memory { refuse_for_memory(id) } else { refuse_oversized(id, length) }
                }
            };
            // If the agent no longer reads, its input ends soon as well.
            let _ = writer.send(refusal).await;
        }
    }
}

/// Returns the error response to input that isn't a message.
pub(crate) fn parse_error_response(malformed: &MessageParseError) -> Vec<Bytes> {
    let (code, message) = malformed.to_rpc_error("expected one JSON-RPC message per line");
    let id = malformed.request_id().cloned().unwrap_or_else(|| RawJson::encode(&()));
    incoming::encode_response(id, RpcOutcome::Error(error_object(code, &message, None)))
}

/// Returns the error response to an oversized message, from its beginning and end.
pub(crate) fn refuse_edges(head: &[u8], tail: &[u8], length: usize) -> Vec<Bytes> {
    refuse_oversized(envelope::recover_id(head, tail), length)
}

fn refuse_for_memory(id: Option<RawJson>) -> Vec<Bytes> {
    let message =
        format!("the message {NO_MEMORY}; wait for running requests to finish, then retry");
    let error = error_object(UNAVAILABLE, &message, None);
    incoming::encode_response(id.unwrap_or_else(|| RawJson::encode(&())), RpcOutcome::Error(error))
}

fn refuse_oversized(id: Option<RawJson>, length: usize) -> Vec<Bytes> {
    let message = format!("message of {length} bytes exceeds limits.maxMessageBytes");
    let error = error_object(INVALID_REQUEST, &message, None);
    incoming::encode_response(id.unwrap_or_else(|| RawJson::encode(&())), RpcOutcome::Error(error))
}

/// Sends messages that belong to no request.
#[derive(Clone)]
pub struct Notifier {
    peer: Peer,
    writer: MessageWriter,
}

impl Notifier {
    pub fn new(peer: Peer, writer: MessageWriter) -> Self {
        Self { peer, writer }
    }

    /// Fails all requests to the agent, now and later: its output has ended, so that it can't
    /// respond.
    pub fn fail_requests(&self) {
        self.peer.close();
    }

    /// Waits until all earlier messages are written.
    pub async fn flush(&self) -> Result<(), ConnectionClosed> {
        self.writer.flush().await
    }

    /// Sends a notification; waits while the write queue is full.
    pub async fn notify(
        &self,
        method: &str,
        params: Option<RawJson>,
    ) -> Result<(), ConnectionClosed> {
        self.writer.send(incoming::encode_notification(method, params)).await
    }

    /// Sends the agent a request that doesn't belong to one of the agent's own.
    pub async fn send_request(
        &self,
        method: &str,
        params: Option<RawJson>,
    ) -> Result<PendingRequest, RequestError> {
        outgoing::send_raw_request(&self.peer, &self.writer, method, params).await
    }
}

#[cfg(test)]
mod tests;
