//! A set of requests that are polled within one task.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::task::coop::{Unconstrained, unconstrained};

use crate::frontend::request::ResponseFuture;
use crate::frontend::wakers::{ChildWaker, ParentWaker};

/// The requests of one agent in flight, all polled within one task. Dropping the set cancels them.
pub(crate) struct RequestSet {
    task: Arc<ParentWaker>,
    /// Polled outside tokio's coop budget, which is per task: one request with a full channel would
    /// use up the share of all others. Each still yields when its channel is empty, and on the
    /// single stdio thread nothing refills it during the poll.
    running: Vec<(ChildWaker, Unconstrained<ResponseFuture>)>,
}

impl RequestSet {
    pub(crate) fn new(task: &Arc<ParentWaker>) -> Self {
        Self { task: Arc::clone(task), running: Vec::new() }
    }

    /// Adds a request, which the next [`Self::poll_woken`] starts.
    pub(crate) fn push(&mut self, answering: ResponseFuture) {
        self.running.push((ChildWaker::new(&self.task), unconstrained(answering)));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// Polls the requests that have been woken. Called within a poll of the task.
    pub(crate) fn poll_woken(&mut self) {
        self.running.retain_mut(|(subtask, answering)| {
            subtask.poll(|context| poll_catching_panic(Pin::new(answering), context)).is_pending()
        });
    }

    pub(crate) async fn drain(&mut self) {
        poll_fn(|context| {
            self.task.enter(context);
            self.poll_woken();
            if self.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

/// Polls a request as if it had its own task: a panic completes only this request. Dropping it then
/// sends an error to the agent.
pub(crate) fn poll_catching_panic(
    work: Pin<&mut (impl Future + ?Sized)>,
    context: &mut Context<'_>,
) -> Poll<()> {
    let polled = catch_unwind(AssertUnwindSafe(|| work.poll(context)));
    polled.map_or(Poll::Ready(()), |polled| polled.map(drop))
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::sync::{mpsc, oneshot};
    use tokio::task::yield_now;

    use super::*;

    fn answers() -> RequestSet {
        RequestSet::new(&Arc::new(ParentWaker::default()))
    }

    async fn go_on(answers: &mut RequestSet) {
        poll_fn(|context| {
            answers.task.enter(context);
            answers.poll_woken();
            Poll::Ready(())
        })
        .await;
    }

    #[tokio::test]
    async fn a_pending_request_does_not_block_others() {
        let mut answers = answers();
        let (sender, done) = oneshot::channel();
        answers.push(Box::pin(pending()));
        answers.push(Box::pin(async move {
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
        let (mut answers, (sender, lost)) = (answers(), oneshot::channel::<()>());
        answers.push(Box::pin(async move {
            let _sender = sender;
            panic!("lost")
        }));
        answers.push(Box::pin(yield_now()));
        answers.drain().await;
        assert!(lost.await.is_err(), "it was dropped");
    }

    #[tokio::test]
    async fn a_busy_request_does_not_starve_others() {
        let (told, mut much) = mpsc::unbounded_channel();
        let (other, mut little) = mpsc::channel(1);
        (0..10_000).for_each(|number| told.send(number).unwrap());
        other.try_send(()).unwrap();
        let mut answers = answers();
        answers.push(Box::pin(async move { while much.recv().await.is_some() {} }));
        answers.push(Box::pin(async move { little.recv().await.unwrap() }));
        go_on(&mut answers).await;
        assert_eq!(answers.running.len(), 1, "the other request has been polled");
        drop(told);
        answers.drain().await;
    }

    #[tokio::test]
    async fn dropping_the_set_cancels_its_requests() {
        let (mut answers, (sender, given_up)) = (answers(), oneshot::channel::<()>());
        answers.push(Box::pin(async move {
            let _sender = sender;
            pending::<()>().await;
        }));
        go_on(&mut answers).await;
        drop(answers);
        assert!(given_up.await.is_err());
    }
}
