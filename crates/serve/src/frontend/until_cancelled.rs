//! Futures that a token cancels.
//!
//! `CancellationToken::run_until_cancelled_owned` does the same, but its future is three times as
//! large as the work: each of its two async functions stores the argument in addition to the
//! running future. There is one per session, stream and request, so size matters.

use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

pin_project! {
    pub(crate) struct UntilCancelled<F> {
        #[pin]
        cancelled: WaitForCancellationFutureOwned,
        #[pin]
        work: F,
        has_begun: bool,
    }
}

/// Runs `work` until it is done or `token` is cancelled, which yields `None`. If both happen at
/// once, the result wins. If the token is cancelled before the first poll, the work never starts.
pub(crate) fn until_cancelled<F: Future>(token: &CancellationToken, work: F) -> UntilCancelled<F> {
    UntilCancelled { cancelled: token.clone().cancelled_owned(), work, has_begun: false }
}

impl<F: Future> Future for UntilCancelled<F> {
    type Output = Option<F::Output>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if !*this.has_begun {
            if this.cancelled.as_mut().poll(context).is_ready() {
                return Poll::Ready(None);
            }
            *this.has_begun = true;
            // `cancelled` was polled above, so a later cancellation wakes this task.
            return this.work.poll(context).map(Some);
        }
        if let Poll::Ready(done) = this.work.poll(context) {
            return Poll::Ready(Some(done));
        }
        this.cancelled.poll(context).map(|()| None)
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::task::Waker;

    use tokio::task::yield_now;
    use tokio_util::task::TaskTracker;

    use super::*;

    fn poll<F: Future>(work: Pin<&mut F>) -> Poll<F::Output> {
        work.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn completion_wins_over_simultaneous_cancellation() {
        let token = CancellationToken::new();
        assert_eq!(
            poll(Box::pin(until_cancelled(&token, ready(1))).as_mut()),
            Poll::Ready(Some(1))
        );
        let mut waits = Box::pin(until_cancelled(&token, pending::<()>()));
        assert_eq!(poll(waits.as_mut()), Poll::Pending);
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let mut both = Box::pin(until_cancelled(&token, receiver));
        assert_eq!(poll(both.as_mut()), Poll::Pending);
        token.cancel();
        sender.send(2).unwrap();
        assert_eq!(poll(waits.as_mut()), Poll::Ready(None));
        assert_eq!(poll(both.as_mut()), Poll::Ready(Some(Ok(2))));
    }

    #[test]
    fn work_cancelled_before_the_first_poll_never_starts() {
        let token = CancellationToken::new();
        token.cancel();
        let begins = async { unreachable!("started") };
        assert_eq!(
            poll(Box::pin(until_cancelled(&token, begins)).as_mut()),
            Poll::Ready(None::<()>)
        );
    }

    #[tokio::test]
    async fn cancellation_wakes_the_task() {
        let (token, tasks) = (CancellationToken::new(), TaskTracker::new());
        let waiting = tasks.spawn(until_cancelled(&token, pending::<()>()));
        yield_now().await;
        token.cancel();
        assert_eq!(waiting.await.unwrap(), None);
    }

    #[test]
    fn adds_less_than_128_bytes() {
        let work = async {
            let large = [0_u8; 4096];
            pending::<()>().await;
            large
        };
        let size = size_of_val(&work);
        assert!(size_of_val(&until_cancelled(&CancellationToken::new(), work)) < size + 128);
    }
}
