//! Streams of server-sent events.
//!
//! A modern stream belongs to one request and one connection; if the client leaves, the request is
//! cancelled. A legacy stream belongs to a session and outlives connections: the client can resume
//! it after the last event received (`Last-Event-ID`).

use std::collections::VecDeque;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use hyper::HeaderMap;
use tokio::sync::mpsc::{self, OwnedPermit};
use tokio::time::sleep;

use crate::drain::InFlightGuard;
use crate::header_value::{PROTOCOL_VERSION, single_value};
use crate::send_quota::SendQuota;
use mcp_workbench_core::backend::RpcOutcome;
use mcp_workbench_wire::cancellation::Cancellation;
use mcp_workbench_wire::code::UNAVAILABLE;
use mcp_workbench_wire::incoming::{self, error_object};
use mcp_workbench_wire::json::join_lines;
use mcp_workbench_wire::memory_pool::{MemoryReservation, UNMETERED_BYTES};
use mcp_workbench_wire::writer::{Outbox, QueuedMessage};

/// The first revision whose clients expect priming events without data.
const KNOWS_PRIMING: &str = "2025-11-25";
/// The stream of messages that belong to no request.
pub(crate) const SESSION_STREAM: u64 = 0;
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Maximum number of events buffered per legacy stream, to be replayed after a reconnect.
pub(crate) const REPLAY_CAPACITY: usize = 64;
/// Maximum size of an event kept for replay, in bytes. A longer answer is replaced by an error; a
/// longer event of the session stream is dropped while no client reads it.
const MAX_REPLAY_BYTES: usize = 1024 * 1024;
/// How long an ended legacy stream can still be resumed.
const LINGER: Duration = Duration::from_mins(1);
/// The reconnection delay sent to clients, in milliseconds.
const RETRY_MS: u64 = 1000;
const COMMENT: Bytes = Bytes::from_static(b":\n\n");

fn event(id: Option<(u64, u64)>, parts: Vec<Bytes>) -> Bytes {
    let mut text = Vec::with_capacity(64 + parts.iter().map(Bytes::len).sum::<usize>());
    if let Some((stream, number)) = id {
        text.extend_from_slice(format!("id: {stream}-{number}\n").as_bytes());
    }
    text.extend_from_slice(b"event: message\ndata: ");
    for part in parts {
        text.extend_from_slice(&join_lines(part));
    }
    text.extend_from_slice(b"\n\n");
    text.into()
}

pub(crate) fn parse_event_id(id: &str) -> Option<(u64, u64)> {
    let (stream, number) = id.split_once('-')?;
    Some((stream.parse().ok()?, number.parse().ok()?))
}

/// Streams the messages of a modern request until its answer is sent. Cancels the request if the
/// client leaves.
pub(crate) async fn stream_request(
    first: Option<QueuedMessage>,
    mut outbox: Outbox,
    events: mpsc::Sender<Bytes>,
    cancelled: Cancellation,
    guard: Option<InFlightGuard>,
    send_quota: SendQuota,
) {
    let mut next = first;
    loop {
        if let Some(message) = next.take() {
            let ready = tokio::select! {
                ready = send_quota.reserve(message) => ready,
                () = events.closed() => break,
            };
            if let Some((QueuedMessage { parts, written }, charge)) = ready {
                if events.send(charge.attach_to(event(None, parts))).await.is_err() {
                    break;
                }
                QueuedMessage::done(written);
            }
        }
        tokio::select! {
            () = events.closed() => break,
            message = outbox.next() => match message {
                Some(message) => next = Some(message),
                None => return drop(guard),
            },
            () = sleep(KEEP_ALIVE) => {
                // A full channel means that another event is on its way.
                let _ = events.try_send(COMMENT);
            }
        }
    }
    cancelled.cancel();
}

pub(crate) struct StreamReader {
    pub(crate) events: mpsc::Sender<Bytes>,
    /// The last event received, from `Last-Event-ID`.
    pub(crate) after: Option<u64>,
    /// `true` if the client's revision allows an initial event without data, which tells it where
    /// to resume.
    pub(crate) wants_priming: bool,
}

struct BufferedEvent {
    number: u64,
    text: Bytes,
    /// Released when the event is sent to a client.
    charge: MemoryReservation,
    /// Replaces a long answer after it was sent once.
    stand_in: Option<Bytes>,
}

type QuotaWait = Pin<Box<dyn Future<Output = Option<(QueuedMessage, MemoryReservation)>> + Send>>;

/// A stream of a session, which survives the loss of its connection.
pub(crate) struct ResumableStream {
    number: u64,
    outbox: Outbox,
    kept: VecDeque<BufferedEvent>,
    send_quota: SendQuota,
    waiting: Option<QuotaWait>,
    newest: u64,
    given: u64,
    reader: Option<mpsc::Sender<Bytes>>,
    readers: mpsc::Receiver<StreamReader>,
    /// Held until the client has read the answer, so that draining waits for it.
    guard: Option<InFlightGuard>,
}

impl ResumableStream {
    /// Creates a stream of the messages from `outbox`, starting with `first`. Each reader sent
    /// through the channel replaces the one before.
    pub(crate) fn new(
        number: u64,
        outbox: Outbox,
        first: Option<QueuedMessage>,
        guard: Option<InFlightGuard>,
        send_quota: SendQuota,
    ) -> (Self, mpsc::Sender<StreamReader>) {
        let (sender, readers) = mpsc::channel(4);
        let mut stream = Self {
            number,
            outbox,
            kept: VecDeque::new(),
            send_quota,
            waiting: None,
            newest: 0,
            given: 0,
            reader: None,
            readers,
            guard,
        };
        if let Some(first) = first {
            stream.take(first);
        }
        (stream, sender)
    }

    /// Runs the stream until its last event has been read, or no reader came for `LINGER` after its
    /// end.
    pub(crate) async fn run(mut self) {
        let mut has_ended = false;
        loop {
            let is_given = self.newest == self.given;
            if has_ended && is_given {
                self.reader = None;
                self.guard = None;
            }
            // With a reader attached, apply backpressure instead of dropping events.
            let has_room =
                self.reader.is_none() || self.newest - self.given < REPLAY_CAPACITY as u64;
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
                    ReaderState::Gone => self.reader = None,
                    ReaderState::Quiet => {}
                    ReaderState::Free(place) => self.give(place),
                },
                () = sleep(LINGER), if has_ended && !is_read => return,
            }
        }
    }

    /// Buffers a message. A long one waits for send quota first.
    fn take(&mut self, message: QueuedMessage) {
        if message.parts.iter().map(Bytes::len).sum::<usize>() <= UNMETERED_BYTES {
            return self.keep(message, MemoryReservation::default());
        }
        let send_quota = self.send_quota.clone();
        self.waiting = Some(Box::pin(async move { send_quota.reserve(message).await }));
    }

    fn keep(&mut self, QueuedMessage { parts, written }: QueuedMessage, charge: MemoryReservation) {
        let number = self.newest + 1;
        let position = Some((self.number, number));
        let length: usize = parts.iter().map(Bytes::len).sum();
        let asked = incoming::response_id(&parts).filter(|_| length > MAX_REPLAY_BYTES);
        let stand_in = asked.map(|id| event(position, incoming::encode_response(id, gone(length))));
        let mut kept = BufferedEvent { number, text: event(position, parts), charge, stand_in };
        QueuedMessage::done(written);
        if self.number == SESSION_STREAM && self.reader.is_none() {
            // A client may never connect, so release the quota.
            if kept.text.len() > MAX_REPLAY_BYTES {
                return;
            }
            kept.charge = MemoryReservation::default();
        }
        self.newest = number;
        if self.kept.len() == REPLAY_CAPACITY {
            self.kept.pop_front();
        }
        self.kept.push_back(kept);
    }

    fn give(&mut self, place: OwnedPermit<Bytes>) {
        let Some(at) = self.kept.iter().position(|kept| kept.number > self.given) else {
            self.given = self.newest;
            return;
        };
        let BufferedEvent { number, text, charge, stand_in } = &mut self.kept[at];
        self.given = *number;
        place.send(std::mem::take(charge).attach_to(text.clone()));
        match stand_in.take() {
            Some(stand_in) => *text = stand_in,
            None if text.len() > MAX_REPLAY_BYTES => drop(self.kept.remove(at)),
            None => {}
        }
    }

    fn attach(&mut self, reader: &StreamReader) {
        if let Some(after) = reader.after {
            self.given = after.min(self.newest);
        }
        if reader.wants_priming {
            let id = format!("id: {}-{}\nretry: {RETRY_MS}\ndata: \n\n", self.number, self.given);
            // The channel is new and has capacity.
            let _ = reader.events.try_send(id.into());
        }
        self.reader = Some(reader.events.clone());
    }
}

fn gone(length: usize) -> RpcOutcome {
    let text = format!(
        "the connection was lost while sending an answer of {length} bytes, which is too large to \
         replay; send the request again"
    );
    RpcOutcome::Error(error_object(UNAVAILABLE, &text, None))
}

async fn arrival(waiting: Option<&mut QuotaWait>) -> Option<(QueuedMessage, MemoryReservation)> {
    match waiting {
        Some(waiting) => waiting.await,
        None => std::future::pending().await,
    }
}

enum ReaderState {
    Gone,
    Quiet,
    Free(OwnedPermit<Bytes>),
}

/// Waits until the reader has capacity, or sends a keep-alive comment if all events are sent.
async fn turn(reader: Option<mpsc::Sender<Bytes>>, is_given: bool) -> ReaderState {
    let Some(reader) = reader else {
        return std::future::pending().await;
    };
    if !is_given {
        return reader.reserve_owned().await.map_or(ReaderState::Gone, ReaderState::Free);
    }
    tokio::select! {
        () = reader.closed() => ReaderState::Gone,
        () = sleep(KEEP_ALIVE) => {
            // A full channel means that another event is on its way.
            let _ = reader.try_send(COMMENT);
            ReaderState::Quiet
        }
    }
}

pub(crate) fn reader(
    headers: &HeaderMap,
    events: mpsc::Sender<Bytes>,
    after: Option<u64>,
) -> StreamReader {
    let is_primed =
        single_value(headers, &PROTOCOL_VERSION).is_ok_and(|said| said == Some(KNOWS_PRIMING));
    StreamReader { events, after, wants_priming: is_primed }
}

#[cfg(test)]
mod tests;
