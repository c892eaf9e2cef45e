//! The task that writes messages to a stream. A single writer keeps messages from interleaving, and
//! a cancelled sender never leaves half a message behind.

use bytes::Bytes;
use thiserror::Error;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, yield_now};
use tokio_util::task::TaskTracker;

/// Messages queued before senders have to wait.
const QUEUE: usize = 256;
/// Queued messages written together, at most.
const BATCH: usize = 64;
/// Parts up to this size in bytes are copied into one write. Larger ones are written separately.
pub(crate) const COPIED: usize = 16 * 1024;

/// The connection is closed, so nothing can be sent.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("the connection is closed")]
pub struct ConnectionClosed;

enum Job {
    Message(QueuedMessage),
    /// A message that may be batched with the ones that follow.
    InCompany(QueuedMessage),
    /// Signaled once all earlier messages are written.
    Flush(oneshot::Sender<()>),
    Close,
}

/// A message to be written.
pub struct QueuedMessage {
    pub parts: Vec<Bytes>,
    /// Signaled once the message is written. `None` if nothing waits for that.
    pub written: Option<oneshot::Sender<()>>,
}

impl QueuedMessage {
    fn new(parts: Vec<Bytes>) -> Self {
        Self { parts, written: None }
    }

    pub fn done(written: Option<oneshot::Sender<()>>) {
        if let Some(written) = written {
            // The waiter may be gone.
            let _ = written.send(());
        }
    }
}

/// The queued messages, for transports that don't write lines to a stream.
pub struct Outbox {
    waiting: mpsc::Receiver<Job>,
}

impl Outbox {
    /// Returns the next message, or `None` once nothing more can be sent. Cancel safe.
    pub async fn next(&mut self) -> Option<QueuedMessage> {
        loop {
            match self.waiting.recv().await? {
                Job::Message(message) | Job::InCompany(message) => return Some(message),
                Job::Flush(written) => QueuedMessage::done(Some(written)),
                Job::Close => {
                    self.waiting.close();
                    return None;
                }
            }
        }
    }
}

/// A handle to the writing task. Messages of one sender stay in order.
#[derive(Clone)]
pub struct MessageWriter {
    jobs: mpsc::Sender<Job>,
    /// `None` if an [`Outbox`] takes the messages.
    task: Option<AbortHandle>,
}

impl MessageWriter {
    /// Starts the writing task on `tasks`. The task ends, and closes the stream, when the stream
    /// fails, when `close` is called or when the last handle is dropped.
    pub fn start<W>(stream: W, tasks: &TaskTracker) -> Self
    where
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let (jobs, waiting) = mpsc::channel(QUEUE);
        let task = tasks.spawn(async move {
            let mut stream = stream;
            write_all(&mut stream, waiting).await;
            // Dropping the stream closes it anyway, so an error doesn't matter.
            let _ = stream.shutdown().await;
        });
        Self { jobs, task: Some(task.abort_handle()) }
    }

    /// Returns a writer whose messages are read from an [`Outbox`].
    pub fn detached() -> (Self, Outbox) {
        let (jobs, waiting) = mpsc::channel(QUEUE);
        (Self { jobs, task: None }, Outbox { waiting })
    }

    /// Queues one message, given in parts; the task appends a newline. Waits until the queue has
    /// room.
    pub async fn send(&self, parts: Vec<Bytes>) -> Result<(), ConnectionClosed> {
        self.queue(Job::Message(QueuedMessage::new(parts))).await
    }

    /// Queues one message like [`MessageWriter::send`], but delays the write briefly so that it can
    /// be batched with following messages.
    pub(crate) async fn send_batched(&self, parts: Vec<Bytes>) -> Result<(), ConnectionClosed> {
        self.queue(Job::InCompany(QueuedMessage::new(parts))).await
    }

    async fn queue(&self, job: Job) -> Result<(), ConnectionClosed> {
        match self.jobs.try_send(job) {
            Ok(()) => Ok(()),
            Err(TrySendError::Closed(_)) => Err(ConnectionClosed),
            // Boxed because a full queue is rare, and the inlined future would enlarge every
            // request.
            Err(TrySendError::Full(job)) => {
                Box::pin(self.jobs.send(job)).await.map_err(|_| ConnectionClosed)
            }
        }
    }

    /// Sends a message and returns once it is written.
    pub async fn send_flushed(&self, parts: Vec<Bytes>) -> Result<(), ConnectionClosed> {
        let (written, done) = oneshot::channel();
        let message = QueuedMessage { written: Some(written), ..QueuedMessage::new(parts) };
        self.jobs.send(Job::Message(message)).await.map_err(|_| ConnectionClosed)?;
        done.await.map_err(|_| ConnectionClosed)
    }

    /// Returns once all queued messages are written.
    pub(crate) async fn flush(&self) -> Result<(), ConnectionClosed> {
        let (written, done) = oneshot::channel();
        self.jobs.send(Job::Flush(written)).await.map_err(|_| ConnectionClosed)?;
        done.await.map_err(|_| ConnectionClosed)
    }

    /// Queues one message if the queue has room. Never waits.
    pub(crate) fn try_send(&self, parts: Vec<Bytes>) -> Result<(), ConnectionClosed> {
        self.jobs.try_send(Job::Message(QueuedMessage::new(parts))).map_err(|_| ConnectionClosed)
    }

    /// Resolves once nothing can be sent any more.
    pub async fn closed(&self) {
        self.jobs.closed().await;
    }

    /// Closes the stream after the queued messages; later ones are rejected. If the queue is full,
    /// the other side isn't reading, and the queued messages are dropped.
    pub(crate) fn close(&self) {
        if let Err(TrySendError::Full(_)) = self.jobs.try_send(Job::Close)
            && let Some(task) = &self.task
        {
            task.abort();
        }
    }
}

async fn write_all<W: AsyncWrite + Unpin>(stream: &mut W, mut waiting: mpsc::Receiver<Job>) {
    let mut batch = Vec::with_capacity(BATCH);
    let mut copied = Vec::new();
    let mut done = Vec::new();
    let mut closing = false;
    while !closing && waiting.recv_many(&mut batch, BATCH).await > 0 {
        if batch.len() < BATCH && batch.iter().any(|job| matches!(job, Job::InCompany(_))) {
            // Yield once so that concurrent senders can enqueue: one batched write is cheaper than
            // one system call per message.
            yield_now().await;
            while batch.len() < BATCH
                && let Ok(job) = waiting.try_recv()
            {
                batch.push(job);
            }
        }
        for job in batch.drain(..) {
            let QueuedMessage { parts, written } = match job {
                Job::Message(message) | Job::InCompany(message) => message,
                Job::Flush(written) => {
                    done.push(written);
                    continue;
                }
                Job::Close => {
                    closing = true;
                    break;
                }
            };
            for part in parts {
                if part.len() <= COPIED {
                    copied.extend_from_slice(&part);
                } else if flush(stream, &mut copied).await.is_err()
                    || stream.write_all(&part).await.is_err()
                {
                    return;
                }
            }
            copied.push(b'\n');
            done.extend(written);
        }
        if flush(stream, &mut copied).await.is_err() || stream.flush().await.is_err() {
            return;
        }
        for written in done.drain(..) {
            QueuedMessage::done(Some(written));
        }
    }
}

async fn flush<W: AsyncWrite + Unpin>(stream: &mut W, copied: &mut Vec<u8>) -> std::io::Result<()> {
    if !copied.is_empty() {
        stream.write_all(copied).await?;
        copied.clear();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io;
    use std::pin::{Pin, pin};
    use std::sync::Arc;
    use std::task::{Context, Poll};

    use parking_lot::Mutex;
    use pretty_assertions::assert_eq;

    use super::*;

    /// Records each write separately.
    #[derive(Clone, Default)]
    struct Writes(Arc<Mutex<Vec<String>>>);

    impl AsyncWrite for Writes {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            text: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.0.lock().push(String::from_utf8_lossy(text).into_owned());
            Poll::Ready(Ok(text.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    fn text(text: &'static str) -> Vec<Bytes> {
        vec![Bytes::from_static(text.as_bytes())]
    }

    #[tokio::test]
    async fn draining_the_outbox_yields_to_other_tasks() {
        let (writer, mut outbox) = MessageWriter::detached();
        for _ in 0..QUEUE {
            writer.send(text("a")).await.unwrap();
        }
        let mut taken = 0;
        poll_fn(|context| {
            while pin!(outbox.next()).poll(context).is_ready() {
                taken += 1;
            }
            Poll::Ready(())
        })
        .await;
        assert!((1..QUEUE).contains(&taken), "{taken}");
    }

    #[tokio::test]
    async fn batched_message_is_written_with_its_followers() {
        let (writes, tasks) = (Writes::default(), TaskTracker::new());
        let writer = MessageWriter::start(writes.clone(), &tasks);
        writer.send(text("alone")).await.unwrap();
        yield_now().await;
        writer.send_batched(text("first")).await.unwrap();
        yield_now().await;
        writer.send(text("second")).await.unwrap();
        writer.send_batched(text("last")).await.unwrap();
        writer.flush().await.unwrap();
        assert_eq!(*writes.0.lock(), ["alone\n", "first\nsecond\nlast\n"]);
    }

    #[tokio::test]
    async fn batched_message_is_written_without_followers() {
        let (writes, tasks) = (Writes::default(), TaskTracker::new());
        let writer = MessageWriter::start(writes.clone(), &tasks);
        writer.send_batched(text("only")).await.unwrap();
        writer.close();
        tasks.close();
        tasks.wait().await;
        assert_eq!(*writes.0.lock(), ["only\n"]);
    }
}
