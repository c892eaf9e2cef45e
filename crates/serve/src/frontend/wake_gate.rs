//! A future that is polled only after its own waker fired, however often its task is polled.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use pin_project_lite::pin_project;

use crate::frontend::wakers::{ChildWaker, ParentWaker};

pin_project! {
    pub(crate) struct PollWhenWoken<F> {
        task: Arc<ParentWaker>,
        // The waker last passed in. Usually unchanged, which `will_wake` detects cheaply.
        known: Option<Waker>,
        subtask: ChildWaker,
        #[pin]
        future: F,
    }
}

/// Polls `future` only after it was woken. For an expensive poll that shares its task with frequent
/// events, such as the end of an HTTP connection.
pub(crate) fn poll_when_woken<F: Future>(future: F) -> PollWhenWoken<F> {
    let task = Arc::default();
    PollWhenWoken { subtask: ChildWaker::new(&task), task, known: None, future }
}

impl<F: Future> Future for PollWhenWoken<F> {
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
    async fn polls_only_after_its_own_wakeup() {
        let (sender, mut receiver) = oneshot::channel();
        let mut polled = 0;
        let counted = poll_fn(|context| {
            polled += 1;
            Pin::new(&mut receiver).poll(context)
        });
        let mut sender = Some(sender);
        let mut rounds = 0;
        {
            let mut waits = pin!(poll_when_woken(counted));
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
