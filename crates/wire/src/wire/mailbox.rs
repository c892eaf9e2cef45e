//! The mailbox of one request of ours: the progress and the answer that have come for it.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::task::Waker;

use crate::raw::Raw;
use crate::wire::envelope::Outcome;

/// How many progress notifications of one request may wait for a slow agent; more are left out.
pub(crate) const MAX_PROGRESS: usize = 1024;

/// Why a request got no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// The other side was gone before anything was sent.
    NotSent,
    /// The other side is gone, and may have got the request.
    Closed,
    /// The answer was longer than one message may be; it had this many bytes.
    Oversized(usize),
}

/// Everything that has come for a request and was not yet taken.
#[derive(Default)]
pub(crate) struct Mailbox(Mutex<Arrived>);

#[derive(Default)]
pub(crate) struct Arrived {
    pub(crate) progress: VecDeque<Raw>,
    pub(crate) answer: Option<Result<Outcome, RequestError>>,
    pub(crate) waker: Option<Waker>,
}

impl Mailbox {
    pub(crate) fn with<T>(&self, f: impl FnOnce(&mut Arrived) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn answer(&self, answer: Result<Outcome, RequestError>) {
        let waker = self.with(|arrived| {
            arrived.answer = Some(answer);
            arrived.waker.take()
        });
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(crate) fn progress(&self, params: Raw) {
        let waker = self.with(|arrived| {
            if arrived.progress.len() == MAX_PROGRESS {
                tracing::debug!("progress that nobody takes");
                return None;
            }
            arrived.progress.push_back(params);
            arrived.waker.take()
        });
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
