//! The cancellation of a request, and those who wait for it.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Poll, Waker};

/// The most bytes of a reason that are kept.
const LONGEST_REASON: usize = 1024;

/// A mark on a request that says if it was cancelled; clones are of the same request.
///
/// Every request has one, so it is as little as that takes: one at a time may wait for it, and
/// whoever waits last is told.
#[derive(Clone, Debug, Default)]
pub struct Cancellation(Arc<Flag>);

#[derive(Debug, Default)]
struct Flag {
    is_cancelled: AtomicBool,
    reason: OnceLock<Box<str>>,
    waiting: Mutex<Option<Waker>>,
}

impl Cancellation {
    /// Of a request that nobody has cancelled yet.
    pub fn new() -> Self {
        Self::default()
    }

    fn waiting<T>(&self, f: impl FnOnce(&mut Option<Waker>) -> T) -> T {
        f(&mut self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Cancels the request.
    pub fn cancel(&self) {
        self.0.is_cancelled.store(true, Ordering::SeqCst);
        if let Some(waker) = self.waiting(Option::take) {
            waker.wake();
        }
    }

    /// Cancels the request for a reason that was given, of which the beginning is kept.
    pub(crate) fn cancel_because(&self, reason: &str) {
        let end = reason.floor_char_boundary(LONGEST_REASON);
        // The first reason is the one that counts.
        let _ = self.0.reason.set(reason[..end].into());
        self.cancel();
    }

    /// Returns why it was cancelled, if that was said.
    pub fn reason(&self) -> Option<&str> {
        self.0.reason.get().map(|reason| &**reason)
    }

    /// Returns `true` if it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled.load(Ordering::SeqCst)
    }

    /// Resolves when it is cancelled.
    pub async fn cancelled(&self) {
        poll_fn(|context| {
            if self.is_cancelled() {
                return Poll::Ready(());
            }
            self.waiting(|waiting| match waiting {
                Some(waker) => waker.clone_from(context.waker()),
                None => *waiting = Some(context.waker().clone()),
            });
            // It may have been cancelled since it was looked at first.
            if self.is_cancelled() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Cancels the request when the result is dropped, unless it is disarmed before.
    pub fn drop_guard(self) -> CancelOnDrop {
        CancelOnDrop(Some(self))
    }
}

/// Cancels a request when it is dropped.
#[derive(Debug)]
pub struct CancelOnDrop(Option<Cancellation>);

impl CancelOnDrop {
    /// Lets the request go on.
    pub fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for CancelOnDrop {
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
    async fn whoever_waits_is_told() {
        let cancellation = Cancellation::new();
        let other = cancellation.clone();
        let ((), ()) = tokio::join!(cancellation.cancelled(), async { other.cancel() });
        assert!(cancellation.is_cancelled());
        cancellation.cancelled().await;
    }

    #[test]
    fn keeps_the_first_reason_and_no_more_than_its_beginning() {
        let cancellation = Cancellation::new();
        assert_eq!(cancellation.reason(), None);
        cancellation.cancel_because(&"ä".repeat(1000));
        cancellation.cancel_because("another");
        assert!(cancellation.is_cancelled());
        assert_eq!(cancellation.reason(), Some(&*"ä".repeat(512)));
    }

    #[test]
    fn a_guard_cancels_unless_it_is_disarmed() {
        let cancellation = Cancellation::new();
        cancellation.clone().drop_guard().disarm();
        assert!(!cancellation.is_cancelled());
        drop(cancellation.clone().drop_guard());
        assert!(cancellation.is_cancelled());
    }
}
