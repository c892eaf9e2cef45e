//! Runs the handler of a request inside the task of its connection while that waits for the answer,
//! and spawns the rest afterwards.
//!
//! A task per request would cost more than most requests: an allocation, a queue, and two wakeups
//! across threads.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio_util::task::TaskTracker;

use mcp_workbench_wire::writer::{Outbox, QueuedMessage};

/// The handler of one request. If dropped unfinished, it continues as a separate task.
pub(crate) struct RequestTask {
    left: Option<BoxFuture<'static, ()>>,
    tasks: TaskTracker,
}

impl RequestTask {
    pub(crate) fn new(
        tasks: &TaskTracker,
        work: impl Future<Output = Option<()>> + Send + 'static,
    ) -> Self {
        // A panic ends only this handler. Dropping it sends an error to the client.
        let caught = AssertUnwindSafe(work).catch_unwind().map(drop);
        Self { left: Some(caught.boxed()), tasks: tasks.clone() }
    }

    /// Returns the next message sent, and polls the handler until then.
    pub(crate) async fn next_message(&mut self, outbox: &mut Outbox) -> Option<QueuedMessage> {
        if let Some(work) = &mut self.left {
            tokio::select! {
                biased;
                () = work => self.left = None,
                message = outbox.next() => return message,
            }
        }
        outbox.next().await
    }
}

impl Drop for RequestTask {
    fn drop(&mut self) {
        if let Some(work) = self.left.take() {
            self.tasks.spawn(work);
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tokio::sync::oneshot;
    use tokio::task::yield_now;

    use super::*;
    use mcp_workbench_wire::writer::MessageWriter;

    fn text(message: Option<QueuedMessage>) -> String {
        let text = message.expect("a message").parts.concat();
        String::from_utf8(text).unwrap()
    }

    #[tokio::test]
    async fn spawns_unfinished_work_on_drop() {
        let (tasks, (sender, receiver)) = (TaskTracker::new(), oneshot::channel());
        let (writer, mut outbox) = MessageWriter::detached();
        let mut work = RequestTask::new(&tasks, async move {
            writer.send(vec![Bytes::from("begun")]).await.unwrap();
            for _ in 0..5 {
                yield_now().await;
            }
            sender.send("done").ok()
        });
        assert_eq!(text(work.next_message(&mut outbox).await), "begun");
        drop(work);
        assert_eq!(receiver.await, Ok("done"));
    }

    #[tokio::test]
    async fn finished_work_spawns_no_task() {
        let (tasks, (writer, mut outbox)) = (TaskTracker::new(), MessageWriter::detached());
        let mut work =
            RequestTask::new(
                &tasks,
                async move { writer.send(vec![Bytes::from("done")]).await.ok() },
            );
        assert_eq!(text(work.next_message(&mut outbox).await), "done");
        assert!(work.next_message(&mut outbox).await.is_none());
        drop(work);
        assert!(tasks.is_empty());
    }

    #[tokio::test]
    async fn yields_messages_of_others_while_the_work_waits() {
        let (tasks, (writer, mut outbox)) = (TaskTracker::new(), MessageWriter::detached());
        let mut work = RequestTask::new(&tasks, std::future::pending());
        let (sent, ()) = tokio::join!(work.next_message(&mut outbox), async {
            yield_now().await;
            writer.send(vec![Bytes::from("a question")]).await.unwrap();
        });
        assert_eq!(text(sent), "a question");
    }

    #[tokio::test]
    async fn panicked_work_is_dropped_and_ends_the_wait() {
        let (tasks, (writer, mut outbox)) = (TaskTracker::new(), MessageWriter::detached());
        let mut work = RequestTask::new(&tasks, async move {
            let _lost = writer;
            panic!("lost")
        });
        assert!(work.next_message(&mut outbox).await.is_none(), "it was dropped");
    }
}
