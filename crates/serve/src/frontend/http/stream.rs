//! Streams of server-sent events: how messages become events, and who carries them to a client.
//!
//! A modern stream belongs to one request and to one connection: when the client leaves, the
//! request is cancelled. A legacy stream belongs to a session and outlives connections: a client
//! that has lost one goes on with another, after the last event that it got.

use std::collections::VecDeque;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc::{self, OwnedPermit};
use tokio::time::sleep;

use crate::backend::Outcome;
use crate::frontend::http::drain::Ticket;
use crate::frontend::http::room::Room;
use crate::raw::one_line;
use crate::wire::budget::{Charge, FREE};
use crate::wire::cancellation::Cancellation;
use crate::wire::code::UNAVAILABLE;
use crate::wire::incoming::{self, error_object};
use crate::wire::writer::{Message, Outbox};

/// The number of the stream of what belongs to no request.
pub(crate) const OWN_STREAM: u64 = 0;
/// How often a stream on which nothing happens shows that it is alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How many events of a legacy stream are kept: those that wait for a client, and those that a
/// client may not have got before it lost its connection.
pub(crate) const KEPT: usize = 64;
/// An event that is longer is not kept for a client that loses its connection, once it has been given:
/// an error stands in for an answer. Nor is it, of what belongs to no request, where there is no client.
const LONG: usize = 1024 * 1024;
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
    room: Room,
) {
    let mut next = first;
    loop {
        if let Some(message) = next.take() {
            let ready = tokio::select! {
                ready = room.wait_for(message) => ready,
                () = events.closed() => break,
            };
            if let Some((Message { parts, written }, charge)) = ready {
                if events.send(charge.attach(event(None, parts))).await.is_err() {
                    break;
                }
                Message::done(written);
            }
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

/// An event of a legacy stream.
struct Kept {
    number: u64,
    text: Bytes,
    /// The room that it holds until it is given to a client.
    charge: Charge,
    /// The event in place of a long answer, once that has been given.
    stand_in: Option<Bytes>,
}

/// The wait of a message for room.
type Waiting = Pin<Box<dyn Future<Output = Option<(Message, Charge)>> + Send>>;

/// A legacy stream.
pub(crate) struct Stream {
    number: u64,
    outbox: Outbox,
    /// The newest events.
    kept: VecDeque<Kept>,
    room: Room,
    /// A long message that waits for room.
    waiting: Option<Waiting>,
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
        room: Room,
    ) -> (Self, mpsc::Sender<Reader>) {
        let (sender, readers) = mpsc::channel(4);
        let mut stream = Self {
            number,
            outbox,
            kept: VecDeque::new(),
            room,
            waiting: None,
            newest: 0,
            given: 0,
            reader: None,
            readers,
            ticket,
        };
        if let Some(first) = first {
            stream.take(first);
        }
        (stream, sender)
    }

    /// Carries messages to whoever reads, until the last has been read or nobody asks for it.
    pub(crate) async fn run(mut self) {
        let mut has_ended = false;
        loop {
            let is_given = self.newest == self.given;
            if has_ended && is_given {
                self.reader = None;
                self.ticket = None;
            }
            // Where somebody reads, nothing is dropped.
            let has_room = self.reader.is_none() || self.newest - self.given < KEPT as u64;
            let takes_more = !has_ended && has_room && self.waiting.is_none();
            let reader = self.reader.clone();
            let is_read = reader.is_some();
            tokio::select! {
                reader = self.readers.recv() => match reader {
                    Some(reader) => self.attach(&reader),
                    None => return,
                },
                message = self.outbox.next(), if takes_more => match message {
                    Some(message) => self.take(message),
                    None => has_ended = true,
                },
                ready = arrival(self.waiting.as_mut()) => {
                    self.waiting = None;
                    if let Some((message, charge)) = ready {
                        self.keep(message, charge);
                    }
                }
                turn = turn(reader, is_given) => match turn {
                    Turn::Gone => self.reader = None,
                    Turn::Quiet => {}
                    Turn::Free(place) => self.give(place),
                },
                () = sleep(LINGER), if has_ended && !is_read => return,
            }
        }
    }

    /// Takes a message, which waits if it is long.
    fn take(&mut self, message: Message) {
        if message.parts.iter().map(Bytes::len).sum::<usize>() <= FREE {
            return self.keep(message, Charge::default());
        }
        let room = self.room.clone();
        self.waiting = Some(Box::pin(async move { room.wait_for(message).await }));
    }

    fn keep(&mut self, Message { parts, written }: Message, charge: Charge) {
        let number = self.newest + 1;
        let position = Some((self.number, number));
        let length: usize = parts.iter().map(Bytes::len).sum();
        let asked = incoming::answered(&parts).filter(|_| length > LONG);
        let stand_in = asked.map(|id| event(position, incoming::answer(id, gone(length))));
        let mut kept = Kept { number, text: event(position, parts), charge, stand_in };
        Message::done(written);
        if self.number == OWN_STREAM && self.reader.is_none() {
            // There may never be a client that takes it.
            if kept.text.len() > LONG {
                return;
            }
            kept.charge = Charge::default();
        }
        self.newest = number;
        if self.kept.len() == KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back(kept);
    }

    /// Gives the reader the first event that it has not got.
    fn give(&mut self, place: OwnedPermit<Bytes>) {
        let Some(at) = self.kept.iter().position(|kept| kept.number > self.given) else {
            self.given = self.newest;
            return;
        };
        let Kept { number, text, charge, stand_in } = &mut self.kept[at];
        self.given = *number;
        place.send(std::mem::take(charge).attach(text.clone()));
        match stand_in.take() {
            Some(stand_in) => *text = stand_in,
            None if text.len() > LONG => drop(self.kept.remove(at)),
            None => {}
        }
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

/// The answer in place of one of this length.
fn gone(length: usize) -> Outcome {
    let text = format!(
        "the answer had {length} bytes, and the connection was lost that it was sent on; so long an \
         answer is not kept: ask again"
    );
    Outcome::Error(error_object(UNAVAILABLE, &text, None))
}

/// The wait for a message that waits for room, if there is one.
async fn arrival(waiting: Option<&mut Waiting>) -> Option<(Message, Charge)> {
    match waiting {
        Some(waiting) => waiting.await,
        None => std::future::pending().await,
    }
}

/// The thing that the reader of a stream is ready for.
enum Turn {
    /// It is gone.
    Gone,
    /// Nothing, for there is nothing for it; it has been shown that the stream is alive.
    Quiet,
    /// The next event.
    Free(OwnedPermit<Bytes>),
}

/// Waits for the reader to be ready for the next event; where it has been given all, shows it after a
/// while that the stream is alive.
async fn turn(reader: Option<mpsc::Sender<Bytes>>, is_given: bool) -> Turn {
    let Some(reader) = reader else {
        return std::future::pending().await;
    };
    if !is_given {
        return reader.reserve_owned().await.map_or(Turn::Gone, Turn::Free);
    }
    tokio::select! {
        () = reader.closed() => Turn::Gone,
        () = sleep(KEEP_ALIVE) => {
            // Where there is no room, something else is on its way.
            let _ = reader.try_send(COMMENT);
            Turn::Quiet
        }
    }
}

#[cfg(test)]
mod tests;
