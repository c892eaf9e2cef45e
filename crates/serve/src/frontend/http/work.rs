//! The work for a request: done by the task of its connection for as long as that waits for the
//! answer, and by a task of its own from then on.
//!
//! A task for each request costs more than most requests: it is made, put into a queue that another
//! thread is woken for, and wakes the connection's again.

use std::future::poll_fn;
use std::pin::{Pin, pin};

use tokio_util::task::TaskTracker;

use crate::frontend::answers::poll_alone;

/// The work for one request. Where it is dropped before it is done, it goes on by itself.
pub(crate) struct Work {
    /// As much of it as is not done.
    left: Option<Pin<Box<dyn Future<Output = Option<()>> + Send>>>,
    tasks: TaskTracker,
}

impl Work {
    /// This work, which is not begun yet and goes on as one of `tasks`.
    pub(crate) fn new(
        tasks: &TaskTracker,
        work: impl Future<Output = Option<()>> + Send + 'static,
    ) -> Self {
        Self { left: Some(Box::pin(work)), tasks: tasks.clone() }
    }

    /// Waits for something, and does the work meanwhile.
    pub(crate) async fn until<T>(&mut self, something: impl Future<Output = T>) -> T {
        let mut something = pin!(something);
        poll_fn(|context| {
            if let Some(work) = &mut self.left
                && poll_alone(work.as_mut(), context).is_ready()
            {
                self.left = None;
            }
            something.as_mut().poll(context)
        })
        .await
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        if let Some(work) = self.left.take() {
            self.tasks.spawn(work);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use tokio::sync::oneshot;
    use tokio::task::yield_now;

    use super::*;

    #[tokio::test]
    async fn what_is_not_done_goes_on_without_whoever_waited() {
        let (tasks, (sender, receiver)) = (TaskTracker::new(), oneshot::channel());
        let mut work = Work::new(&tasks, async move {
            for _ in 0..5 {
                yield_now().await;
            }
            sender.send("done").ok()
        });
        assert_eq!(work.until(ready(1)).await, 1);
        drop(work);
        assert_eq!(receiver.await, Ok("done"));
    }

    #[tokio::test]
    async fn what_is_done_leaves_no_task() {
        let (tasks, (sender, receiver)) = (TaskTracker::new(), oneshot::channel());
        let mut work = Work::new(&tasks, async move { sender.send(2).ok() });
        assert_eq!(work.until(receiver).await, Ok(2));
        drop(work);
        assert!(tasks.is_empty());
    }

    #[tokio::test]
    async fn what_is_lost_to_a_panic_is_dropped_and_the_wait_goes_on() {
        let (tasks, (sender, receiver)) = (TaskTracker::new(), oneshot::channel::<()>());
        let mut work = Work::new(&tasks, async move {
            let _lost = sender;
            panic!("lost")
        });
        assert!(work.until(receiver).await.is_err(), "it was dropped");
    }
}
