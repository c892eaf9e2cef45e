//! Request bookkeeping of one JSON-RPC connection, in both directions.
//!
//! *Theory of operation.* Both sides of a connection send requests, responses and notifications. A
//! [`Peer`] tracks the requests in flight in both directions and doesn't touch streams: incoming
//! messages are passed to [`Peer::receive_message`], outgoing ones to a
//! [`MessageWriter`](crate::writer::MessageWriter). Responses and progress go to the mailbox
//! of their request, in the order that they were read. Responses that match no request (late,
//! repeated, invented) are dropped. A cancellation is applied to the request that it names.
//! Everything else is returned as an [`IncomingMessage`](crate::incoming::IncomingMessage)
//! with its parameters untouched.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use foldhash::{HashMap, HashMapExt};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::cancellation::Cancellation;
use crate::envelope::{self, RpcOutcome};
use crate::json::RawJson;
use crate::mailbox::{Mailbox, RequestError};

/// The requests of one connection. Clones refer to the same connection.
#[derive(Clone)]
pub struct Peer(Arc<Shared>);

struct Shared {
    /// Unanswered requests from the other side, by the JSON text of their ids.
    incoming: Mutex<HashMap<Bytes, RunningRequest>>,
    /// Number of unanswered requests from the other side, also of those that wrongly share an id.
    open: AtomicUsize,
    /// Requests to the other side, by id. `None` once the connection has ended.
    outgoing: Mutex<Option<HashMap<u64, Arc<Mailbox>>>>,
    next_id: AtomicU64,
    next_serial: AtomicU64,
    closed: CancellationToken,
    /// Error response for incoming requests that are dropped unanswered. Unset: a generic error.
    shutdown_error: OnceLock<RawJson>,
    /// `true` if a notification was sent after the last response arrived.
    has_notified: AtomicBool,
    unusable_output: Mutex<VecDeque<String>>,
}

/// Unusable lines of output that are stored, and the bytes of each.
const KEPT_LINES: usize = 4;
const KEPT_BYTES: usize = 300;

struct RunningRequest {
    /// Distinguishes requests that wrongly share an id.
    serial: u64,
    cancelled: Cancellation,
}

impl Default for Peer {
    fn default() -> Self {
        Self::with_first_id(1)
    }
}

impl Peer {
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a connection whose outgoing request ids start at `first`. A connection that
    /// continues another one uses this, so that a late response to an earlier request can't match a
    /// new id.
    pub fn with_first_id(first: u64) -> Self {
        Self(Arc::new(Shared {
            incoming: Mutex::default(),
            open: AtomicUsize::new(0),
            outgoing: Mutex::new(Some(HashMap::new())),
            next_id: AtomicU64::new(first),
            next_serial: AtomicU64::new(0),
            closed: CancellationToken::new(),
            shutdown_error: OnceLock::new(),
            has_notified: AtomicBool::new(false),
            unusable_output: Mutex::default(),
        }))
    }

    /// Sets the error that answers incoming requests dropped from now on. Only the first call has
    /// an effect.
    pub fn set_shutdown_error(&self, error: RawJson) {
        // The first caller knows the cause.
        let _ = self.0.shutdown_error.set(error);
    }

    pub(crate) fn shutdown_error(&self) -> Option<RawJson> {
        self.0.shutdown_error.get().cloned()
    }

    fn incoming<T>(&self, f: impl FnOnce(&mut HashMap<Bytes, RunningRequest>) -> T) -> T {
        f(&mut self.0.incoming.lock())
    }

    fn outgoing<T>(&self, f: impl FnOnce(&mut Option<HashMap<u64, Arc<Mailbox>>>) -> T) -> T {
        f(&mut self.0.outgoing.lock())
    }

    /// Handles a message that exceeded the limit. If it is a response, its request fails with
    /// `RequestError::Oversized`; otherwise the id is returned, if it could be recovered.
    pub(crate) fn take_oversized(
        &self,
        head: &[u8],
        tail: &[u8],
        length: usize,
    ) -> Option<RawJson> {
        let id = envelope::recover_id(head, tail)?;
        match self.take_waiting(&id) {
            Some(waiting) => {
                waiting.answer(Err(RequestError::Oversized(length)));
                None
            }
            None => Some(id),
        }
    }

    /// Completes the outgoing request `id` without a message from the other side. Does nothing if
    /// the request isn't waiting.
    pub(crate) fn settle(&self, id: &RawJson, answer: Result<RpcOutcome, RequestError>) {
        if let Some(waiting) = self.take_waiting(id) {
            waiting.answer(answer);
        }
    }

    /// Returns `true` if the outgoing request `id` still waits for its response.
    pub fn is_waiting(&self, id: &RawJson) -> bool {
        let id = number(id);
        id.is_some_and(|id| {
            self.outgoing(|table| table.as_ref().is_some_and(|t| t.contains_key(&id)))
        })
    }

    /// Registers an incoming request and returns its serial number and cancellation.
    pub(crate) fn register_incoming(&self, id: &RawJson) -> (u64, Cancellation) {
        let cancelled = Cancellation::new();
        let serial = self.0.next_serial.fetch_add(1, Ordering::Relaxed);
        let running = RunningRequest { serial, cancelled: cancelled.clone() };
        self.incoming(|table| table.insert(id.clone().into_bytes(), running));
        self.0.open.fetch_add(1, Ordering::Relaxed);
        (serial, cancelled)
    }

    /// Returns the number of unanswered requests from the other side.
    pub(crate) fn open_requests(&self) -> usize {
        self.0.open.load(Ordering::Relaxed)
    }

    pub(crate) fn forget(&self, id: &RawJson, serial: u64) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
        self.incoming(|table| {
            // A later request with the same id keeps its entry.
            if let Some((id, running)) = table.remove_entry(id.as_bytes())
                && running.serial != serial
            {
                table.insert(id, running);
            }
        });
    }

    /// Cancels the running incoming request that a cancellation notification names.
    pub(crate) fn cancel(&self, params: Option<&RawJson>) {
        let Some((params, id)) =
            params.and_then(|params| Some((params, params.member("requestId")?)))
        else {
            return;
        };
        let id = id.as_bytes();
        if let Some(token) = self.incoming(|table| table.get(id).map(|r| r.cancelled.clone())) {
            match params.member("reason").as_ref().and_then(RawJson::decode_string) {
                Some(reason) => token.cancel_because(&reason),
                None => token.cancel(),
            }
        }
    }

    /// Delivers progress to its outgoing request. Returns it if no request matches.
    pub(crate) fn progress(&self, params: RawJson) -> Option<RawJson> {
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

    pub(crate) fn take_waiting(&self, id: &RawJson) -> Option<Arc<Mailbox>> {
        let id = number(id)?;
        let waiting = self.outgoing(|table| table.as_mut()?.remove(&id))?;
        self.0.has_notified.store(false, Ordering::Relaxed);
        Some(waiting)
    }

    /// Records that a notification was sent. The other side may wrongly respond to it.
    pub(crate) fn note_notification(&self) {
        self.0.has_notified.store(true, Ordering::Relaxed);
    }

    /// Completes the only outgoing request with an error response that has no id. Returns `false`
    /// if the error may belong to another request or to a notification.
    pub(crate) fn settle_only(&self, error: &RawJson) -> bool {
        if self.0.has_notified.swap(false, Ordering::Relaxed) {
            return false;
        }
        let only = self.outgoing(|table| {
            let table = table.as_mut().filter(|table| table.len() == 1)?;
            let id = *table.keys().next()?;
            table.remove(&id)
        });
        only.map(|waiting| waiting.answer(Ok(RpcOutcome::Error(error.clone())))).is_some()
    }

    /// Stores the beginning of a line of output that isn't a message or matches no request.
    pub(crate) fn note_unusable(&self, line: &str) {
        let mut lines = self.0.unusable_output.lock();
        if lines.len() == KEPT_LINES {
            lines.pop_front();
        }
        lines.push_back(line[..line.floor_char_boundary(KEPT_BYTES)].to_owned());
    }

    /// Returns the last unusable lines of output, oldest first.
    pub(crate) fn unusable_output(&self) -> Vec<String> {
        let lines = self.0.unusable_output.lock();
        lines.iter().cloned().collect()
    }

    /// Registers an outgoing request and returns its id and mailbox. Returns `None` once the
    /// connection has ended.
    pub(crate) fn register_outgoing(&self) -> Option<(u64, Arc<Mailbox>)> {
        let id = self.0.next_id.fetch_add(1, Ordering::Relaxed);
        let mailbox = Arc::new(Mailbox::default());
        self.outgoing(|table| table.as_mut().map(|table| table.insert(id, Arc::clone(&mailbox))))?;
        Some((id, mailbox))
    }

    pub(crate) fn are_several(&self) -> bool {
        self.outgoing(|table| table.as_ref().is_some_and(|table| table.len() > 1))
    }

    /// Removes an outgoing request and returns `true` if it was still waiting.
    pub(crate) fn abandon(&self, id: u64) -> bool {
        self.outgoing(|table| table.as_mut().and_then(|table| table.remove(&id)).is_some())
    }

    /// Closes the connection: outgoing requests fail immediately with `RequestError::Closed`.
    pub fn close(&self) {
        for waiting in self.outgoing(Option::take).into_iter().flatten() {
            waiting.1.answer(Err(RequestError::Closed));
        }
        self.0.closed.cancel();
    }

    pub async fn closed(&self) {
        self.0.closed.cancelled().await;
    }

    pub fn is_closed(&self) -> bool {
        self.0.closed.is_cancelled()
    }
}

/// Parses the id of an outgoing request. Some servers return it as a string.
fn number(id: &RawJson) -> Option<u64> {
    let id = id.as_bytes();
    let digits = id.strip_prefix(b"\"").and_then(|id| id.strip_suffix(b"\"")).unwrap_or(id);
    let number = digits.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    });
    number.filter(|_| !digits.is_empty())
}
