//! A set of requests that are polled within one task.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use futures_util::future::CatchUnwind;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::task::coop::{Unconstrained, unconstrained};
use tracing::instrument::Instrumented;

use crate::frontend::request::ResponseFuture;

/// The requests of one agent in flight, all polled within one task. Dropping the set cancels them.
#[derive(Default)]
pub(crate) struct RequestSet {
    /// Polled outside tokio's coop budget, which is per task: one request with a full channel would
    /// use up the share of all others.
    running: FuturesUnordered<
        Unconstrained<CatchUnwind<AssertUnwindSafe<Instrumented<ResponseFuture>>>>,
    >,
}

impl RequestSet {
    /// Adds a request, which the next [`Self::next_completed`] starts.
    pub(crate) fn push(&self, answering: Instrumented<ResponseFuture>) {
        // A panic completes only this request. Dropping it sends an error to the agent.
        self.running.push(unconstrained(AssertUnwindSafe(answering).catch_unwind()));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// Runs the requests until one completes. Returns `None` if there are none.
    pub(crate) async fn next_completed(&mut self) -> Option<()> {
        self.running.next().await.map(drop)
    }

    /// Runs the requests until all have completed.
    pub(crate) async fn drain(&mut self) {
        while self.next_completed().await.is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::sync::{mpsc, oneshot};
    use tokio::task::yield_now;
    use tracing::{Instrument, Span};

    use super::*;

    fn request(work: impl Future<Output = ()> + Send + 'static) -> Instrumented<ResponseFuture> {
        (Box::pin(work) as ResponseFuture).instrument(Span::none())
    }

    #[tokio::test]
    async fn a_pending_request_does_not_block_others() {
        let mut answers = RequestSet::default();
        let (sender, done) = oneshot::channel();
        answers.push(request(pending()));
        answers.push(request(async move {
            for _ in 0..5 {
                yield_now().await;
            }
            sender.send(()).unwrap();
        }));
        tokio::select! {
            () = answers.drain() => panic!("one request never ends"),
            done = done => done.unwrap(),
        }
        assert!(!answers.is_empty());
    }

    #[tokio::test]
    async fn a_panicked_request_is_dropped_without_ending_others() {
        let (mut answers, (sender, lost)) = (RequestSet::default(), oneshot::channel::<()>());
        answers.push(request(async move {
            let _sender = sender;
            panic!("lost")
        }));
        answers.push(request(yield_now()));
        answers.drain().await;
        assert!(lost.await.is_err(), "it was dropped");
    }

    #[tokio::test]
    async fn a_busy_request_does_not_starve_others() {
        let (told, mut much) = mpsc::unbounded_channel();
        let (other, mut little) = mpsc::channel(1);
        (0..10_000).for_each(|number| told.send(number).unwrap());
        other.try_send(()).unwrap();
        let mut answers = RequestSet::default();
        answers.push(request(async move { while much.recv().await.is_some() {} }));
        answers.push(request(async move { little.recv().await.unwrap() }));
        assert_eq!(answers.next_completed().await, Some(()), "the other request has been polled");
        assert_eq!(answers.running.len(), 1);
        drop(told);
        answers.drain().await;
    }

    #[tokio::test]
    async fn dropping_the_set_cancels_its_requests() {
        let (mut answers, (sender, given_up)) = (RequestSet::default(), oneshot::channel::<()>());
        answers.push(request(async move {
            let _sender = sender;
            pending::<()>().await;
        }));
        assert_eq!(answers.next_completed().now_or_never(), None);
        drop(answers);
        assert!(given_up.await.is_err());
    }
}
