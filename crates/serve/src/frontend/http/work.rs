//! The work for a request: done by the task of its connection for as long as that waits for the
//! answer, and by a task of its own from then on.
//!
//! A task for each request costs more than most requests: it is made, put into a queue that another
//! thread is woken for, and wakes the connection's again.

use std::future::poll_fn;
use std::pin::Pin;

use tokio_util::task::TaskTracker;

use crate::frontend::answers::poll_alone;
use crate::wire::writer::{Message, Outbox};

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

    /// Waits for what is sent next, and does the work meanwhile.
    pub(crate) async fn until_sent(&mut self, outbox: &mut Outbox) -> Option<Message> {
        poll_fn(|context| {
            if let Some(work) = &mut self.left {
                // What it sends is looked for right after it.
                outbox.look_away();
                if poll_alone(work.as_mut(), context).is_ready() {
                    self.left = None;
                }
            }
            outbox.poll_next(context)
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
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll, Wake};

    use bytes::Bytes;
    use tokio::sync::oneshot;
    use tokio::task::yield_now;

    use super::*;
    use crate::wire::writer::Writer;

    fn text(message: Option<Message>) -> String {
        let text = message.expect("it is sent").parts.concat();
        String::from_utf8(text).unwrap()
    }

    #[tokio::test]
    async fn what_is_not_done_goes_on_without_whoever_waited() {
        let (tasks, (sender, receiver)) = (TaskTracker::new(), oneshot::channel());
        let (writer, mut outbox) = Writer::detached();
        let mut work = Work::new(&tasks, async move {
            writer.send(vec![Bytes::from("begun")]).await.unwrap();
            for _ in 0..5 {
                yield_now().await;
            }
            sender.send("done").ok()
        });
        assert_eq!(text(work.until_sent(&mut outbox).await), "begun");
        drop(work);
        assert_eq!(receiver.await, Ok("done"));
    }

    #[test]
    fn what_is_done_leaves_no_task_and_wakes_nobody_for_what_it_sends() {
        struct Bell(AtomicUsize);
        impl Wake for Bell {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let (tasks, (writer, mut outbox)) = (TaskTracker::new(), Writer::detached());
        let (begin, begun) = oneshot::channel();
        let mut work = Work::new(&tasks, async move {
            begun.await.ok()?;
            writer.send(vec![Bytes::from("done")]).await.ok()
        });
        let bell = Arc::new(Bell(AtomicUsize::new(0)));
        let waker = Arc::clone(&bell).into();
        let mut context = Context::from_waker(&waker);
        {
            let mut sent = pin!(work.until_sent(&mut outbox));
            assert!(sent.as_mut().poll(&mut context).is_pending());
            begin.send(()).unwrap();
            let Poll::Ready(sent) = sent.poll(&mut context) else { panic!("it is sent") };
            assert_eq!((text(sent).as_str(), bell.0.load(Ordering::Relaxed)), ("done", 1));
        }
        drop(work);
        assert!(tasks.is_empty());
    }

    #[tokio::test]
    async fn what_others_send_is_heard_while_the_work_waits() {
        let (tasks, (writer, mut outbox)) = (TaskTracker::new(), Writer::detached());
        let mut work = Work::new(&tasks, std::future::pending());
        let (sent, ()) = tokio::join!(work.until_sent(&mut outbox), async {
            yield_now().await;
            writer.send(vec![Bytes::from("a question")]).await.unwrap();
        });
        assert_eq!(text(sent), "a question");
    }

    #[tokio::test]
    async fn what_is_lost_to_a_panic_is_dropped_and_the_wait_goes_on() {
        let (tasks, (writer, mut outbox)) = (TaskTracker::new(), Writer::detached());
        let mut work = Work::new(&tasks, async move {
            let _lost = writer;
            panic!("lost")
        });
        assert!(work.until_sent(&mut outbox).await.is_none(), "it was dropped");
    }
}
