//! Work that ends early where it is cancelled.
//!
//! There is some of it for each session, stream and request. `CancellationToken::run_until_cancelled_owned` does
//! the same, and is three times as large as the work: each of its two functions keeps a place for what it was
//! given beside the place where that runs.

use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

pin_project! {
    /// The work, and who cancels it.
    pub(crate) struct Until<F> {
        #[pin]
        cancelled: WaitForCancellationFutureOwned,
        #[pin]
        work: F,
        has_begun: bool,
    }
}

/// Does the work until it is done, or `token` is cancelled: then nothing comes of it. Where both are so at once, it is
/// done; where the token is cancelled before it has begun, it never begins.
pub(crate) fn until<F: Future>(token: &CancellationToken, work: F) -> Until<F> {
    Until { cancelled: token.clone().cancelled_owned(), work, has_begun: false }
}

impl<F: Future> Future for Until<F> {
    type Output = Option<F::Output>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if !*this.has_begun {
            if this.cancelled.as_mut().poll(context).is_ready() {
                return Poll::Ready(None);
            }
            *this.has_begun = true;
            // What cancels it from here on wakes us.
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
    fn work_is_done_or_cancelled_and_done_where_it_is_both() {
        let token = CancellationToken::new();
        assert_eq!(poll(Box::pin(until(&token, ready(1))).as_mut()), Poll::Ready(Some(1)));
        let mut waits = Box::pin(until(&token, pending::<()>()));
        assert_eq!(poll(waits.as_mut()), Poll::Pending);
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let mut both = Box::pin(until(&token, receiver));
        assert_eq!(poll(both.as_mut()), Poll::Pending);
        token.cancel();
        sender.send(2).unwrap();
        assert_eq!(poll(waits.as_mut()), Poll::Ready(None));
        assert_eq!(poll(both.as_mut()), Poll::Ready(Some(Ok(2))));
    }

    #[test]
    fn what_is_cancelled_before_it_has_begun_never_begins() {
        let token = CancellationToken::new();
        token.cancel();
        let begins = async { unreachable!("it has begun") };
        assert_eq!(poll(Box::pin(until(&token, begins)).as_mut()), Poll::Ready(None::<()>));
    }

    #[tokio::test]
    async fn whoever_waits_is_woken_by_the_cancellation() {
        let (token, tasks) = (CancellationToken::new(), TaskTracker::new());
        let waiting = tasks.spawn(until(&token, pending::<()>()));
        yield_now().await;
        token.cancel();
        assert_eq!(waiting.await.unwrap(), None);
    }

    #[test]
    fn it_is_hardly_larger_than_the_work() {
        let work = async {
            let large = [0_u8; 4096];
            pending::<()>().await;
            large
        };
        let size = size_of_val(&work);
        assert!(size_of_val(&until(&CancellationToken::new(), work)) < size + 128);
    }
}
