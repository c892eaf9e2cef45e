//! Runs the handler of a request inside the task of its connection while that waits for the answer,
//! and spawns the rest afterwards.
//!
//! A task per request would cost more than most requests: an allocation, a queue, and two wakeups
//! across threads.

use std::future::poll_fn;
use std::pin::Pin;

use tokio_util::task::TaskTracker;

use crate::frontend::request_set::poll_catching_panic;
use crate::wire::writer::{Outbox, QueuedMessage};

/// The handler of one request. If dropped unfinished, it continues as a separate task.
pub(crate) struct RequestTask {
    left: Option<Pin<Box<dyn Future<Output = Option<()>> + Send>>>,
    tasks: TaskTracker,
}

impl RequestTask {
    pub(crate) fn new(
        tasks: &TaskTracker,
        work: impl Future<Output = Option<()>> + Send + 'static,
    ) -> Self {
        Self { left: Some(Box::pin(work)), tasks: tasks.clone() }
    }

    /// Returns the next message sent, and polls the handler until then.
    pub(crate) async fn next_message(&mut self, outbox: &mut Outbox) -> Option<QueuedMessage> {
        poll_fn(|context| {
            if let Some(work) = &mut self.left {
                // The outbox is polled right after, so it need not wake this task.
                outbox.clear_waker();
                if poll_catching_panic(work.as_mut(), context).is_ready() {
                    self.left = None;
                }
            }
            outbox.poll_next(context)
        })
        .await
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
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll, Wake};

    use bytes::Bytes;
    use tokio::sync::oneshot;
    use tokio::task::yield_now;

    use super::*;
    use crate::wire::writer::MessageWriter;

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

    #[test]
    fn finished_work_spawns_no_task_and_needs_no_extra_wakeup() {
        struct Bell(AtomicUsize);
        impl Wake for Bell {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let (tasks, (writer, mut outbox)) = (TaskTracker::new(), MessageWriter::detached());
        let (begin, begun) = oneshot::channel();
        let mut work = RequestTask::new(&tasks, async move {
            begun.await.ok()?;
            writer.send(vec![Bytes::from("done")]).await.ok()
        });
        let bell = Arc::new(Bell(AtomicUsize::new(0)));
        let waker = Arc::clone(&bell).into();
        let mut context = Context::from_waker(&waker);
        {
            let mut sent = pin!(work.next_message(&mut outbox));
            assert!(sent.as_mut().poll(&mut context).is_pending());
            begin.send(()).unwrap();
            let Poll::Ready(sent) = sent.poll(&mut context) else { panic!("not sent") };
            assert_eq!((text(sent).as_str(), bell.0.load(Ordering::Relaxed)), ("done", 1));
        }
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
