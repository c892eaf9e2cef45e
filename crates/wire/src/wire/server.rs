//! The link to one server over two streams.
//!
//! *Theory of operation.* One task reads the server's lines. Answers and progress go to whoever
//! waits for them ([`Link::request`]). What the server asks or tells is handed to a [`Hear`] in the
//! reading task itself, so that it is heard in order and before any later answer. At the end of
//! input every waiting request fails at once and [`Link::closed`] resolves.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::task::yield_now;
use tokio_util::task::TaskTracker;

use crate::raw::{Member, Raw};
use crate::wire::aside::aside;
use crate::wire::budget::Intake;
use crate::wire::envelope::Message;
use crate::wire::incoming::{self, Incoming};
use crate::wire::line::{Line, LineReader};
use crate::wire::peer::Peer;
use crate::wire::writer::Writer;

pub use crate::wire::envelope::Outcome;
pub use crate::wire::mailbox::RequestError;
pub use crate::wire::outgoing::{Pending, Step};

/// Takes what a server asks and tells unasked. Must not block.
pub trait Hear: Send + 'static {
    /// Takes one request or notification.
    fn hear(&mut self, incoming: Incoming);
}

impl<F: FnMut(Incoming) + Send + 'static> Hear for F {
    fn hear(&mut self, incoming: Incoming) {
        self(incoming);
    }
}

/// A cloneable handle to the link.
#[derive(Clone)]
pub struct Link {
    peer: Peer,
    writer: Writer,
    far: Arc<Far>,
}

/// The way in which the end of a server over HTTP has gone that a link led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// The server does not know the session any more.
    Session,
    /// The connection that the session depends on has ended.
    Connection,
}

/// The news of a server over HTTP that stand in no message.
#[derive(Default)]
struct Far {
    lost: OnceLock<Lost>,
    trouble: watch::Sender<Option<Arc<str>>>,
    is_old: AtomicBool,
}

/// After a message of more bytes than this, other tasks have their turn before the next is taken: a server that sends
/// one after the other would hold them up.
const LONG: usize = 64 * 1024;

/// Connects to a server over its streams. Both halves of the link run as tasks on `tasks`.
///
/// `label` names the server in the log; `intake` bounds what is read.
pub fn connect<R, W>(
    reader: R,
    writer: W,
    intake: impl Into<Intake>,
    label: &str,
    hear: impl Hear,
    tasks: &TaskTracker,
) -> Link
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let link = Link::new(Peer::new(), Writer::start(writer, tasks));
    let (reading, label) = (link.clone(), label.to_owned());
    let Intake { max, account } = intake.into();
    let lines = LineReader::new(reader, max).paid_by(account);
    tasks.spawn(async move {
        let peer = reading.peer.clone();
        let reading = read(lines, reading, hear, label);
        tokio::select! {
            () = peer.closed() => {}
            () = reading => {}
        }
        peer.close();
    });
    link
}

async fn read<R: AsyncRead + Unpin>(
    mut lines: LineReader<R>,
    link: Link,
    mut hear: impl Hear,
    server: String,
) {
    while let Some(line) = lines.next().await {
        match line {
            Line::Message(line) => {
                if let Some(message) = link.read(&line, &server).await {
                    link.take(message, &mut hear);
                }
                if line.len() > LONG {
                    yield_now().await;
                }
            }
            Line::Oversized { head, tail, length } => {
                tracing::warn!(server, length, "a message was too long and has been dropped");
                link.peer.take_oversized(&head, &tail, length);
            }
        }
    }
}

fn excerpt(line: &Bytes) -> String {
    String::from_utf8_lossy(&line[..line.len().min(200)]).into_owned()
}

impl Link {
    /// A link of which somebody else carries the messages.
    pub(crate) fn new(peer: Peer, writer: Writer) -> Self {
        Self { peer, writer, far: Arc::default() }
    }

    /// Who has asked what, for whoever carries the messages.
    pub(crate) fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Reads one message that the server sent; `None`: it is none.
    pub(crate) async fn read(&self, text: &Bytes, server: &str) -> Option<Message> {
        let whole = text.clone();
        let read = aside(text.len(), move || Message::parse(&whole)).await;
        read.inspect_err(
            |malformed| tracing::debug!(server, ?malformed, line = %excerpt(text), "not a message"),
        )
        .ok()
    }

    /// Takes one message that the server sent.
    pub(crate) fn take(&self, message: Message, hear: &mut impl Hear) {
        if let Some(incoming) = self.peer.take_message(message, &self.writer) {
            hear.hear(incoming);
        }
    }

    /// Sends a request with these members of `params` and of `params._meta`. Where progress is
    /// wanted, the request's own id is its progress token.
    pub async fn request(
        &self,
        method: &str,
        params: &[(&str, &Raw)],
        meta: &[Member],
        wants_progress: bool,
    ) -> Result<Pending, RequestError> {
        self.peer.request(&self.writer, method, params, meta, wants_progress).await
    }

    /// Sends a notification, if there is room for it; never waits.
    pub fn notify(&self, method: &str, params: Option<Raw>) {
        if self.writer.try_send(incoming::notification(method, params)).is_err() {
            tracing::debug!(method, "a notification could not be sent");
        }
    }

    /// Ends the link to a server over HTTP that is lost in this way.
    pub(crate) fn lose(&self, how: Lost) {
        // The first loss is the one that ended it.
        let _ = self.far.lost.set(how);
        self.close();
    }

    /// Returns how a server over HTTP was lost, if that is what ended the link.
    pub fn lost(&self) -> Option<Lost> {
        self.far.lost.get().copied()
    }

    /// Notes that a server over HTTP speaks the transport before streamable HTTP.
    pub(crate) fn note_old(&self) {
        self.far.is_old.store(true, Ordering::Relaxed);
    }

    /// Returns `true` if a server over HTTP was found to speak the transport before streamable HTTP.
    pub fn is_old(&self) -> bool {
        self.far.is_old.load(Ordering::Relaxed)
    }

    /// Notes why a server over HTTP cannot be reached; `None`: it can be.
    pub(crate) fn note_trouble(&self, why: Option<&str>) {
        self.far.trouble.send_if_modified(|now| {
            let is_other = now.as_deref() != why;
            if is_other {
                *now = why.map(Arc::from);
            }
            is_other
        });
    }

    /// Tells why a server over HTTP cannot be reached, for as long as it cannot be.
    pub fn trouble(&self) -> watch::Receiver<Option<Arc<str>>> {
        self.far.trouble.subscribe()
    }

    /// Resolves when the server's output has ended, or the link.
    pub async fn closed(&self) {
        self.peer.closed().await;
    }

    /// Returns `true` if the server's output has ended, or the link.
    pub fn is_closed(&self) -> bool {
        self.peer.is_closed()
    }

    /// Resolves when the server takes nothing any more, or its input has been ended.
    pub async fn input_closed(&self) {
        self.writer.closed().await;
    }

    /// Ends the server's input, which asks it to leave. A server that has let so much wait that
    /// there is no room for the end is not told.
    pub fn close_input(&self) {
        self.writer.close();
    }

    /// Ends the link, though something else may still hold the server's output open: what waits
    /// for an answer fails at once.
    pub fn close(&self) {
        self.peer.close();
    }
}

#[cfg(test)]
mod tests;
