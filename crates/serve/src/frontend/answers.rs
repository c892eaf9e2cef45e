//! The requests of one agent that are being answered.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::task::coop::{Unconstrained, unconstrained};

use crate::frontend::asked::Answering;
use crate::frontend::subtasks::{Subtask, Task};

/// The requests of one agent that are being answered, all of them in one task. What still runs when
/// this is dropped is given up.
pub(crate) struct Answers {
    task: Arc<Task>,
    /// A task may take only so much of what is told before it has to wait, and one request that is told
    /// much would take it all from the others. So none is held to that: each waits by itself when it
    /// has taken what there is. Over stdio, on its one thread, nothing adds to that while it runs.
    running: Vec<(Subtask, Unconstrained<Answering>)>,
}

impl Answers {
    /// None yet, in this task.
    pub(crate) fn new(task: &Arc<Task>) -> Self {
        Self { task: Arc::clone(task), running: Vec::new() }
    }

    /// Takes one more, which [`Self::go_on`] begins with.
    pub(crate) fn begin(&mut self, answering: Answering) {
        self.running.push((Subtask::new(&self.task), unconstrained(answering)));
    }

    /// Returns `true` if none is being answered.
    pub(crate) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// Works on those that can go on, within a poll of the task.
    pub(crate) fn go_on(&mut self) {
        self.running.retain_mut(|(subtask, answering)| {
            subtask.poll(|context| poll_alone(Pin::new(answering), context)).is_pending()
        });
    }

    /// Works on all of them until each is answered.
    pub(crate) async fn finish(&mut self) {
        poll_fn(|context| {
            self.task.enter(context);
            self.go_on();
            if self.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

/// Polls work on a request as in a task of its own: what was lost to a panic is done, for dropping it
/// answers, and nothing else ends with it.
pub(crate) fn poll_alone(
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

    fn answers() -> Answers {
        Answers::new(&Arc::new(Task::default()))
    }

    async fn go_on(answers: &mut Answers) {
        poll_fn(|context| {
            answers.task.enter(context);
            answers.go_on();
            Poll::Ready(())
        })
        .await;
    }

    #[tokio::test]
    async fn those_that_wait_keep_no_other() {
        let mut answers = answers();
        let (sender, done) = oneshot::channel();
        answers.begin(Box::pin(pending()));
        answers.begin(Box::pin(async move {
            for _ in 0..5 {
                yield_now().await;
            }
            sender.send(()).unwrap();
        }));
        tokio::select! {
            () = answers.finish() => panic!("one waits for ever"),
            done = done => done.unwrap(),
        }
        assert!(!answers.is_empty());
    }

    #[tokio::test]
    async fn what_is_lost_to_a_panic_is_dropped_and_ends_no_other() {
        let (mut answers, (sender, lost)) = (answers(), oneshot::channel::<()>());
        answers.begin(Box::pin(async move {
            let _sender = sender;
            panic!("lost")
        }));
        answers.begin(Box::pin(yield_now()));
        answers.finish().await;
        assert!(lost.await.is_err(), "it was dropped");
    }

    #[tokio::test]
    async fn one_that_is_told_much_leaves_the_others_their_turn() {
        let (told, mut much) = mpsc::unbounded_channel();
        let (other, mut little) = mpsc::channel(1);
        (0..10_000).for_each(|number| told.send(number).unwrap());
        other.try_send(()).unwrap();
        let mut answers = answers();
        answers.begin(Box::pin(async move { while much.recv().await.is_some() {} }));
        answers.begin(Box::pin(async move { little.recv().await.unwrap() }));
        go_on(&mut answers).await;
        assert_eq!(answers.running.len(), 1, "the other has had its turn");
        drop(told);
        answers.finish().await;
    }

    #[tokio::test]
    async fn whoever_is_dropped_gives_up_what_runs() {
        let (mut answers, (sender, given_up)) = (answers(), oneshot::channel::<()>());
        answers.begin(Box::pin(async move {
            let _sender = sender;
            pending::<()>().await;
        }));
        go_on(&mut answers).await;
        drop(answers);
        assert!(given_up.await.is_err());
    }
}
