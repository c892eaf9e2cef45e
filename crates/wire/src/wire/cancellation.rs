//! Cancellation of a request.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Poll, Waker};

/// The maximum stored length of a reason, in bytes.
const LONGEST_REASON: usize = 1024;

/// The cancellation state of a request; clones share it.
///
/// Every request has one, so it is small: it stores a single waker. If several tasks wait, only the
/// last is woken.
#[derive(Clone, Debug, Default)]
pub struct Cancellation(Arc<Flag>);

#[derive(Debug, Default)]
struct Flag {
    is_cancelled: AtomicBool,
    reason: OnceLock<Box<str>>,
    waiting: Mutex<Option<Waker>>,
}

impl Cancellation {
    pub fn new() -> Self {
        Self::default()
    }

    fn waiting<T>(&self, f: impl FnOnce(&mut Option<Waker>) -> T) -> T {
        f(&mut self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn cancel(&self) {
        self.0.is_cancelled.store(true, Ordering::SeqCst);
        if let Some(waker) = self.waiting(Option::take) {
            waker.wake();
        }
    }

    /// Cancels the request with a reason, which is truncated. Only the first reason is stored.
    pub(crate) fn cancel_because(&self, reason: &str) {
        let end = reason.floor_char_boundary(LONGEST_REASON);
        // Fails if a reason is set already.
        let _ = self.0.reason.set(reason[..end].into());
        self.cancel();
    }

    /// Returns the reason, if one was given.
    pub fn reason(&self) -> Option<&str> {
        self.0.reason.get().map(|reason| &**reason)
    }

    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled.load(Ordering::SeqCst)
    }

    /// Resolves once the request is cancelled. Only one task may wait at a time.
    pub async fn cancelled(&self) {
        poll_fn(|context| {
            if self.is_cancelled() {
                return Poll::Ready(());
            }
            self.waiting(|waiting| match waiting {
                Some(waker) => waker.clone_from(context.waker()),
                None => *waiting = Some(context.waker().clone()),
            });
            // It may have been cancelled between the first check and storing the waker.
            if self.is_cancelled() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Returns a guard that cancels the request on drop, unless it is disarmed first.
    pub fn drop_guard(self) -> CancelGuard {
        CancelGuard(Some(self))
    }
}

#[derive(Debug)]
pub struct CancelGuard(Option<Cancellation>);

impl CancelGuard {
    /// Drops the guard without cancelling the request.
    pub fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for CancelGuard {
    fn drop(&mut self) {
        if let Some(cancellation) = &self.0 {
            cancellation.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn cancel_wakes_the_waiting_task() {
        let cancellation = Cancellation::new();
        let other = cancellation.clone();
        let ((), ()) = tokio::join!(cancellation.cancelled(), async { other.cancel() });
        assert!(cancellation.is_cancelled());
        cancellation.cancelled().await;
    }

    #[test]
    fn first_reason_is_stored_truncated() {
        let cancellation = Cancellation::new();
        assert_eq!(cancellation.reason(), None);
        cancellation.cancel_because(&"ä".repeat(1000));
        cancellation.cancel_because("another");
        assert!(cancellation.is_cancelled());
        assert_eq!(cancellation.reason(), Some(&*"ä".repeat(512)));
    }

    #[test]
    fn guard_cancels_on_drop_unless_disarmed() {
        let cancellation = Cancellation::new();
        cancellation.clone().drop_guard().disarm();
        assert!(!cancellation.is_cancelled());
        drop(cancellation.clone().drop_guard());
        assert!(cancellation.is_cancelled());
    }
}
