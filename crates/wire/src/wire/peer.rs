//! One JSON-RPC connection: what each side has asked of the other and not yet been answered.
//!
//! *Theory of operation.* Both sides of the wire are peers that ask, answer and notify. A [`Peer`]
//! knows the requests that are under way in both directions and nothing of streams: what was read
//! is given to [`Peer::take`], and what is to be sent goes to a [`Writer`](crate::wire::writer::Writer). Answers and progress
//! for our requests are delivered to whoever waits for them, in the order in which they were read;
//! answers that nobody waits for (late, repeated, invented) are dropped. A cancellation reaches
//! the request it names. Everything else comes out as [`Incoming`](crate::wire::incoming::Incoming), its parameters untouched.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use foldhash::{HashMap, HashMapExt};
use tokio_util::sync::CancellationToken;

use crate::raw::Raw;
use crate::wire::cancellation::Cancellation;
use crate::wire::envelope::{self, Outcome};
use crate::wire::mailbox::{Mailbox, RequestError};

/// A handle to one connection's requests; clones are the same connection.
#[derive(Clone)]
pub struct Peer(Arc<Shared>);

struct Shared {
    /// Requests of the other side that are not answered yet, by the raw text of their ids.
    incoming: Mutex<HashMap<Bytes, Running>>,
    /// Requests of ours that wait; `None` once the connection has ended.
    outgoing: Mutex<Option<HashMap<u64, Arc<Mailbox>>>>,
    next_id: AtomicU64,
    next_serial: AtomicU64,
    closed: CancellationToken,
    /// The error that answers requests of the other side which are given up from now on, where there is
    /// more to say than usual.
    farewell: OnceLock<Raw>,
}

struct Running {
    /// Tells apart requests that were wrongly given the same id.
    serial: u64,
    cancelled: Cancellation,
}

impl Default for Peer {
    fn default() -> Self {
        Self::numbering_from(1)
    }
}

impl Peer {
    /// A connection on which nothing has been said yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A connection on which our requests are numbered from here on, so that no answer to one that
    /// somebody else has made before is taken for an answer to ours.
    pub fn numbering_from(first: u64) -> Self {
        Self(Arc::new(Shared {
            incoming: Mutex::default(),
            outgoing: Mutex::new(Some(HashMap::new())),
            next_id: AtomicU64::new(first),
            next_serial: AtomicU64::new(0),
            closed: CancellationToken::new(),
            farewell: OnceLock::new(),
        }))
    }

    /// Answers requests of the other side with this error, if they are given up from now on.
    pub fn bid_farewell(&self, error: Raw) {
        // The first who knows why is right.
        let _ = self.0.farewell.set(error);
    }

    /// The error for a request of the other side that is given up.
    pub(crate) fn farewell(&self) -> Option<Raw> {
        self.0.farewell.get().cloned()
    }

    fn incoming<T>(&self, f: impl FnOnce(&mut HashMap<Bytes, Running>) -> T) -> T {
        f(&mut self.0.incoming.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn outgoing<T>(&self, f: impl FnOnce(&mut Option<HashMap<u64, Arc<Mailbox>>>) -> T) -> T {
        f(&mut self.0.outgoing.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes note of a message that was too long to be read. Of an answer, whoever waits for it is
    /// told; of anything else, the id is given back where it can be made out.
    pub(crate) fn take_oversized(&self, head: &[u8], tail: &[u8], length: usize) -> Option<Raw> {
        let id = envelope::id_at_edges(head, tail)?;
        match self.take_waiting(&id) {
            Some(waiting) => {
                waiting.answer(Err(RequestError::Oversized(length)));
                None
            }
            None => Some(id),
        }
    }

    /// Ends the wait for a request of ours, for whoever knows better than by a message what became
    /// of it. Does nothing when nobody waits.
    pub(crate) fn settle(&self, id: &Raw, answer: Result<Outcome, RequestError>) {
        if let Some(waiting) = self.take_waiting(id) {
            waiting.answer(answer);
        }
    }

    /// Returns `true` if a request of ours still waits for its answer.
    pub fn is_waiting(&self, id: &Raw) -> bool {
        let id = number(id);
        id.is_some_and(|id| {
            self.outgoing(|table| table.as_ref().is_some_and(|t| t.contains_key(&id)))
        })
    }

    /// Notes a request of the other side: gives it a serial number, and what cancels it.
    pub(crate) fn note(&self, id: &Raw) -> (u64, Cancellation) {
        let cancelled = Cancellation::new();
        let serial = self.0.next_serial.fetch_add(1, Ordering::Relaxed);
        let running = Running { serial, cancelled: cancelled.clone() };
        self.incoming(|table| table.insert(id.clone().into_bytes(), running));
        (serial, cancelled)
    }

    /// Forgets a request of the other side.
    pub(crate) fn forget(&self, id: &Raw, serial: u64) {
        self.incoming(|table| {
            // Where another has been given the same id, it is that one's.
            if let Some((id, running)) = table.remove_entry(id.as_bytes())
                && running.serial != serial
            {
                table.insert(id, running);
            }
        });
    }

    /// Cancels the request of the other side that the notification names, if it is running.
    pub(crate) fn cancel(&self, params: Option<&Raw>) {
        let Some((params, id)) =
            params.and_then(|params| Some((params, params.member("requestId")?)))
        else {
            return;
        };
        let id = id.as_bytes();
        if let Some(token) = self.incoming(|table| table.get(id).map(|r| r.cancelled.clone())) {
            match params.member("reason").as_ref().and_then(Raw::text) {
                Some(reason) => token.cancel_because(&reason),
                None => token.cancel(),
            }
        }
    }

    /// Delivers progress for a request of ours, or gives it back.
    pub(crate) fn progress(&self, params: Raw) -> Option<Raw> {
        let token = params.member("progressToken").and_then(|token| number(&token));
        let waiting =
            token.and_then(|token| self.outgoing(|table| table.as_ref()?.get(&token).cloned()));
        match waiting {
            Some(waiting) => {
                waiting.progress(params);
                None
            }
            None => Some(params),
        }
    }

    pub(crate) fn take_waiting(&self, id: &Raw) -> Option<Arc<Mailbox>> {
        let id = number(id)?;
        self.outgoing(|table| table.as_mut()?.remove(&id))
    }

    /// Gives a request of ours a number, which is in use from here on, and a mailbox. `None` once the
    /// connection has ended.
    pub(crate) fn number(&self) -> Option<(u64, Arc<Mailbox>)> {
        let id = self.0.next_id.fetch_add(1, Ordering::Relaxed);
        let mailbox = Arc::new(Mailbox::default());
        self.outgoing(|table| table.as_mut().map(|table| table.insert(id, Arc::clone(&mailbox))))?;
        Some((id, mailbox))
    }

    /// Returns `true` if several requests of ours wait for their answers.
    pub(crate) fn are_several(&self) -> bool {
        self.outgoing(|table| table.as_ref().is_some_and(|table| table.len() > 1))
    }

    /// Forgets a request of ours, and says whether it was still waiting.
    pub(crate) fn abandon(&self, id: u64) -> bool {
        self.outgoing(|table| table.as_mut().and_then(|table| table.remove(&id)).is_some())
    }

    /// Ends the connection: what waits for an answer fails at once.
    pub fn close(&self) {
        for waiting in self.outgoing(Option::take).into_iter().flatten() {
            waiting.1.answer(Err(RequestError::Closed));
        }
        self.0.closed.cancel();
    }

    /// Resolves when the connection has ended.
    pub async fn closed(&self) {
        self.0.closed.cancelled().await;
    }

    /// Returns `true` if the connection has ended.
    pub fn is_closed(&self) -> bool {
        self.0.closed.is_cancelled()
    }
}

/// The number of a request of ours. Some servers give it back as a string.
fn number(id: &Raw) -> Option<u64> {
    let id = id.as_bytes();
    let digits = id.strip_prefix(b"\"").and_then(|id| id.strip_suffix(b"\"")).unwrap_or(id);
    let number = digits.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    });
    number.filter(|_| !digits.is_empty())
}
