//! The progress and the response received for one outgoing request.

use std::collections::VecDeque;
use std::task::Waker;

use parking_lot::Mutex;

use crate::envelope::RpcOutcome;
use crate::json::RawJson;

/// Progress notifications queued for one request. Further ones are dropped until the agent catches
/// up.
pub(crate) const MAX_PROGRESS: usize = 1024;
/// Bytes of queued progress notifications, after the first. Further ones are dropped.
const MAX_PROGRESS_BYTES: usize = 1024 * 1024;

/// Why a request got no response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// The connection was closed before anything was sent.
    NotSent,
    /// The connection closed after sending. The other side may have received the request.
    Closed,
    /// The response exceeded the message limit. Holds its length in bytes.
    Oversized(usize),
    /// The name of a member in the response has an unpaired surrogate. Holds the response for
    /// readers of lists, where only the entry with that name is invalid.
    UnreadableName(RpcOutcome),
    /// The response can't be parsed. Holds the reason, with an excerpt of the response.
    Malformed(String),
}

#[derive(Default)]
pub(crate) struct Mailbox(Mutex<Arrived>);

#[derive(Default)]
pub(crate) struct Arrived {
    pub(crate) progress: VecDeque<RawJson>,
    pub(crate) answer: Option<Result<RpcOutcome, RequestError>>,
    pub(crate) waker: Option<Waker>,
}

impl Mailbox {
    pub(crate) fn with<T>(&self, f: impl FnOnce(&mut Arrived) -> T) -> T {
        f(&mut self.0.lock())
    }

    pub(crate) fn answer(&self, answer: Result<RpcOutcome, RequestError>) {
        let waker = self.with(|arrived| {
            arrived.answer = Some(answer);
            arrived.waker.take()
        });
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(crate) fn progress(&self, params: RawJson) {
        let waker = self.with(|arrived| {
            let Some(first) = arrived.progress.front() else {
                arrived.progress.push_back(params);
                return arrived.waker.take();
            };
            let queued: usize = arrived.progress.iter().map(RawJson::len).sum();
            if arrived.progress.len() == MAX_PROGRESS
                || queued - first.len() + params.len() > MAX_PROGRESS_BYTES
            {
                tracing::debug!("dropped progress: its queue is full");
                return None;
            }
            // A copy doesn't keep the buffer in memory that the message was read to.
            arrived.progress.push_back(params.to_detached());
            arrived.waker.take()
        });
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
