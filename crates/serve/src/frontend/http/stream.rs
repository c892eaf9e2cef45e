//! Streams of server-sent events: how messages become events, and who carries them to a client.
//!
//! A modern stream belongs to one request and to one connection: when the client leaves, the
//! request is cancelled. A legacy stream belongs to a session and outlives connections: a client
//! that has lost one goes on with another, after the last event that it got.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::frontend::http::drain::Ticket;
use crate::raw::one_line;
use crate::wire::cancellation::Cancellation;
use crate::wire::writer::{Message, Outbox};

/// How often a stream on which nothing happens shows that it is alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How many events of a legacy stream are kept: those that wait for a client, and those that a
/// client may not have got before it lost its connection.
pub(crate) const KEPT: usize = 64;
/// How long a legacy stream that has ended waits for a client that did not get its end.
const LINGER: Duration = Duration::from_mins(1);
/// How soon a client that has lost its connection should come back, in milliseconds.
const RETRY_MS: u64 = 1000;
/// An event that says nothing and keeps a connection open.
const COMMENT: Bytes = Bytes::from_static(b":\n\n");

/// The event that carries a message.
fn event(id: Option<(u64, u64)>, parts: Vec<Bytes>) -> Bytes {
    let mut text = Vec::with_capacity(64 + parts.iter().map(Bytes::len).sum::<usize>());
    if let Some((stream, number)) = id {
        text.extend_from_slice(format!("id: {stream}-{number}\n").as_bytes());
    }
    text.extend_from_slice(b"event: message\ndata: ");
    for part in parts {
        text.extend_from_slice(&one_line(part));
    }
    text.extend_from_slice(b"\n\n");
    text.into()
}

/// Reads the id of an event: its stream and its number.
pub(crate) fn position(id: &str) -> Option<(u64, u64)> {
    let (stream, number) = id.split_once('-')?;
    Some((stream.parse().ok()?, number.parse().ok()?))
}

/// Carries what belongs to one modern request, until its answer or until the client leaves.
pub(crate) async fn carry(
    first: Option<Message>,
    mut outbox: Outbox,
    events: mpsc::Sender<Bytes>,
    cancelled: Cancellation,
    ticket: Option<Ticket>,
) {
    let mut next = first;
    loop {
        if let Some(Message { parts, written }) = next.take() {
            if events.send(event(None, parts)).await.is_err() {
                break;
            }
            Message::done(written);
        }
        tokio::select! {
            () = events.closed() => break,
            message = outbox.next() => match message {
                Some(message) => next = Some(message),
                None => return drop(ticket),
            },
            () = sleep(KEEP_ALIVE) => {
                // Where there is no room, something else is on its way.
                let _ = events.try_send(COMMENT);
            }
        }
    }
    cancelled.cancel();
}

/// A client that wants a legacy stream.
pub(crate) struct Reader {
    /// Where its events go.
    pub(crate) events: mpsc::Sender<Bytes>,
    /// The last event that it has got already, if it says so.
    pub(crate) after: Option<u64>,
    /// `true` if it knows events without data, which say where to go on before there is a message.
    pub(crate) is_primed: bool,
}

/// A legacy stream.
pub(crate) struct Stream {
    number: u64,
    outbox: Outbox,
    /// The newest events, with their numbers.
    kept: VecDeque<(u64, Bytes)>,
    /// The number of the newest event.
    newest: u64,
    /// The number of the newest event that a client has been given.
    given: u64,
    reader: Option<mpsc::Sender<Bytes>>,
    readers: mpsc::Receiver<Reader>,
    /// The request that it belongs to, until its answer has been read.
    ticket: Option<Ticket>,
}

impl Stream {
    /// A stream of what comes out of `outbox`, beginning with what has come already. Readers come
    /// over the sender, each in place of the one before it.
    pub(crate) fn new(
        number: u64,
        outbox: Outbox,
        first: Option<Message>,
        ticket: Option<Ticket>,
    ) -> (Self, mpsc::Sender<Reader>) {
        let (sender, readers) = mpsc::channel(4);
        let kept = VecDeque::new();
        let mut stream =
            Self { number, outbox, kept, newest: 0, given: 0, reader: None, readers, ticket };
        if let Some(first) = first {
            stream.keep(first);
        }
        (stream, sender)
    }

    /// Carries messages to whoever reads, until the last has been read or nobody asks for it.
    pub(crate) async fn run(mut self) {
        let mut has_ended = false;
        loop {
            let waiting = self.kept.iter().find(|(number, _)| *number > self.given).cloned();
            if has_ended && waiting.is_none() {
                self.reader = None;
                self.ticket = None;
            }
            // Where somebody reads, nothing is dropped.
            let has_room = self.reader.is_none() || self.newest - self.given < KEPT as u64;
            let reader = self.reader.clone();
            let is_read = reader.is_some();
            tokio::select! {
                reader = self.readers.recv() => match reader {
                    Some(reader) => self.attach(&reader),
                    None => return,
                },
                message = self.outbox.next(), if !has_ended && has_room => match message {
                    Some(message) => self.keep(message),
                    None => has_ended = true,
                },
                is_gone = give(reader.as_ref(), waiting.as_ref().map(|(_, text)| text)) => {
                    match (is_gone, waiting) {
                        (true, _) => self.reader = None,
                        (false, Some((number, _))) => self.given = number,
                        (false, None) => {}
                    }
                }
                () = sleep(LINGER), if has_ended && !is_read => return,
            }
        }
    }

    fn keep(&mut self, Message { parts, written }: Message) {
        self.newest += 1;
        if self.kept.len() == KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back((self.newest, event(Some((self.number, self.newest)), parts)));
        Message::done(written);
    }

    fn attach(&mut self, reader: &Reader) {
        if let Some(after) = reader.after {
            self.given = after.min(self.newest);
        }
        if reader.is_primed {
            let id = format!("id: {}-{}\nretry: {RETRY_MS}\ndata: \n\n", self.number, self.given);
            // Nothing else is in it yet, so there is room.
            let _ = reader.events.try_send(id.into());
        }
        self.reader = Some(reader.events.clone());
    }
}

/// Gives the reader what waits for it, or a sign of life after a while; returns whether it is gone.
async fn give(reader: Option<&mpsc::Sender<Bytes>>, waiting: Option<&Bytes>) -> bool {
    let Some(reader) = reader else {
        return std::future::pending().await;
    };
    match waiting {
        Some(text) => reader.send(text.clone()).await.is_err(),
        None => {
            tokio::select! {
                () = reader.closed() => true,
                () = sleep(KEEP_ALIVE) => {
                    // Where there is no room, something else is on its way.
                    let _ = reader.try_send(COMMENT);
                    false
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
