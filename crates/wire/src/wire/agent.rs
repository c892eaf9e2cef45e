//! The link to one agent over two streams.
//!
//! *Theory of operation.* Whoever serves the agent pulls what it says out of [`Messages`]; every
//! line is read once. What is no message is answered with an error here, and the link goes on. At
//! the end of input [`Messages::next`] returns `None` at once, whatever is still running.

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::task::TaskTracker;

use crate::raw::Raw;
use crate::wire::Closed;
use crate::wire::code::INVALID_REQUEST;
use crate::wire::envelope::{self, Malformed, Outcome};
use crate::wire::incoming::{self, Incoming, error_object};
use crate::wire::line::{Line, LineReader};
use crate::wire::mailbox::RequestError;
use crate::wire::outgoing::Pending;
use crate::wire::peer::Peer;
use crate::wire::writer::Writer;

/// Connects to an agent over its streams. The writing half runs as a task on `tasks`.
///
/// `max` limits one message, in bytes; a longer one is answered with an error.
pub fn connect<R, W>(
    reader: R,
    writer: W,
    max: usize,
    tasks: &TaskTracker,
) -> (Messages<R>, Notifier)
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let notifier = Notifier { peer: Peer::new(), writer: Writer::start(writer, tasks) };
    (Messages { lines: LineReader::new(reader, max), notifier: notifier.clone() }, notifier)
}

/// The messages of an agent, in the order of the lines.
pub struct Messages<R> {
    lines: LineReader<R>,
    notifier: Notifier,
}

impl<R: AsyncRead + Unpin> Messages<R> {
    /// The next message that is to be dealt with; `None` once the agent's output has ended.
    pub async fn next(&mut self) -> Option<Incoming> {
        let Notifier { peer, writer } = &self.notifier;
        loop {
            let refusal = match self.lines.next().await? {
                Line::Message(line) => match peer.take(&line, writer) {
                    Ok(Some(incoming)) => return Some(incoming),
                    Ok(None) => continue,
                    Err(malformed) => refuse(&malformed),
                },
                Line::Oversized { head, tail, length } => {
                    tracing::warn!(length, "a message of the agent was too long");
                    let id = peer.take_oversized(&head, &tail, length);
                    refuse_oversized(id, length)
                }
            };
            // Where the agent takes nothing any more, its input ends soon.
            let _ = writer.send(refusal).await;
        }
    }
}

/// The answer to what is no message.
pub(crate) fn refuse(malformed: &Malformed) -> Vec<Bytes> {
    let (code, message) = malformed.error("expected one JSON-RPC message a line");
    incoming::answer(Raw::encode(&()), Outcome::Error(error_object(code, &message, None)))
}

/// The answer to a message that was too long, of which these are the beginning and the end.
pub(crate) fn refuse_edges(head: &[u8], tail: &[u8], length: usize) -> Vec<Bytes> {
    refuse_oversized(envelope::id_at_edges(head, tail), length)
}

fn refuse_oversized(id: Option<Raw>, length: usize) -> Vec<Bytes> {
    let message = format!(
        "the message has {length} bytes, which is more than this server takes \
         (limits.maxMessageBytes)"
    );
    let error = error_object(INVALID_REQUEST, &message, None);
    incoming::answer(id.unwrap_or_else(|| Raw::encode(&())), Outcome::Error(error))
}

/// Sends what belongs to no request.
#[derive(Clone)]
pub struct Notifier {
    peer: Peer,
    writer: Writer,
}

impl Notifier {
    /// Sends what belongs to no request of `peer` to `writer`.
    pub fn new(peer: Peer, writer: Writer) -> Self {
        Self { peer, writer }
    }

    /// Returns once everything that was sent before is written.
    pub async fn flush(&self) -> Result<(), Closed> {
        self.writer.flush().await
    }

    /// Sends a notification; waits until there is room for it in the queue of what is to be written.
    pub async fn notify(&self, method: &str, params: Option<Raw>) -> Result<(), Closed> {
        self.writer.send(incoming::notification(method, params)).await
    }

    /// Asks the agent something that belongs to no request of its own.
    pub async fn ask(&self, method: &str, params: Option<Raw>) -> Result<Pending, RequestError> {
        self.peer.ask(&self.writer, method, params).await
    }
}

#[cfg(test)]
mod tests;
