//! A future that seldom has anything to say, beside one that goes on all the time.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use pin_project_lite::pin_project;

use crate::frontend::subtasks::{Subtask, Task};

pin_project! {
    /// A future that is polled only when it has been woken itself, however often its task is.
    pub(crate) struct Seldom<F> {
        task: Arc<Task>,
        // The waker that the task is known by, which most often stays the same.
        known: Option<Waker>,
        subtask: Subtask,
        #[pin]
        future: F,
    }
}

/// Lets a future be polled only when it has been woken: to ask the end of a connection whether it
/// has come costs a call over HTTP more than to know that nothing has.
pub(crate) fn seldom<F: Future>(future: F) -> Seldom<F> {
    let task = Arc::default();
    Seldom { subtask: Subtask::new(&task), task, known: None, future }
}

impl<F: Future> Future for Seldom<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        if this.known.as_ref().is_none_or(|known| !known.will_wake(context.waker())) {
            this.task.enter(context);
            *this.known = Some(context.waker().clone());
        }
        this.subtask.poll(|context| this.future.poll(context))
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn it_is_polled_when_it_has_been_woken_and_not_before() {
        let (sender, mut receiver) = oneshot::channel();
        let mut polled = 0;
        let counted = poll_fn(|context| {
            polled += 1;
            Pin::new(&mut receiver).poll(context)
        });
        let mut sender = Some(sender);
        let mut rounds = 0;
        {
            let mut waits = pin!(seldom(counted));
            let told = poll_fn(|context| {
                rounds += 1;
                let told = waits.as_mut().poll(context);
                if rounds < 5 {
                    context.waker().wake_by_ref();
                } else if let Some(sender) = sender.take() {
                    sender.send("told").unwrap();
                }
                told
            });
            assert_eq!(told.await, Ok("told"));
        }
        assert_eq!((rounds, polled), (6, 2));
    }
}
