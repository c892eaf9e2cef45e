//! The one task that writes to a stream, so that messages never mix and a caller that is cancelled
//! never leaves half a message behind.

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use thiserror::Error;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::oneshot;
use tokio::task::coop::cooperative;
use tokio::task::{AbortHandle, yield_now};
use tokio_util::task::TaskTracker;

use crate::wire::queue::{self, Unsent, queue};

/// How many messages may wait to be written before senders wait too.
const QUEUE: usize = 256;
/// How many waiting messages are written together.
const BATCH: usize = 64;
/// Parts up to this size are copied together into one write; larger ones are written in place.
pub(crate) const COPIED: usize = 16 * 1024;

/// The other side is gone: nothing can be sent to it any more.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("the connection is closed")]
pub struct Closed;

enum Job {
    Message(Message),
    /// One that others may follow at once, with which it can be written.
    InCompany(Message),
    /// Told once what comes before it is written.
    Flush(oneshot::Sender<()>),
    Close,
}

/// One message that is to be written.
pub struct Message {
    /// Its text, in parts.
    pub parts: Vec<Bytes>,
    /// Told once it is written, where somebody waits for that.
    pub written: Option<oneshot::Sender<()>>,
}

impl Message {
    fn new(parts: Vec<Bytes>) -> Self {
        Self { parts, written: None }
    }

    /// Tells whoever waits for it that a message is on its way.
    pub fn done(written: Option<oneshot::Sender<()>>) {
        if let Some(written) = written {
            // Whoever waited may have given up.
            let _ = written.send(());
        }
    }
}

/// The messages that wait to be written, for whoever carries them in another way than as lines.
pub struct Outbox {
    waiting: queue::Receiver<Job>,
}

impl Outbox {
    /// The next message; `None` once nothing more can be sent. Loses nothing when cancelled.
    pub async fn next(&mut self) -> Option<Message> {
        // Others have their turn, however much is sent.
        cooperative(poll_fn(|context| self.poll_next(context))).await
    }

    /// The next message, as [`Self::next`] waits for it.
    pub fn poll_next(&mut self, context: &Context<'_>) -> Poll<Option<Message>> {
        loop {
            match ready!(self.waiting.poll_recv(context)) {
                Some(Job::Message(message) | Job::InCompany(message)) => {
                    return Poll::Ready(Some(message));
                }
                Some(Job::Flush(written)) => Message::done(Some(written)),
                Some(Job::Close) => {
                    self.waiting.close();
                    return Poll::Ready(None);
                }
                None => return Poll::Ready(None),
            }
        }
    }

    /// Lets nobody be woken until the next look, for who looks soon anyway.
    pub fn look_away(&mut self) {
        self.waiting.look_away();
    }
}

/// A handle to the task that writes; messages sent through clones keep each sender's order.
#[derive(Clone)]
pub struct Writer {
    jobs: queue::Sender<Job>,
    /// The task, where there is one.
    task: Option<AbortHandle>,
}

impl Writer {
    /// Starts the task on `tasks`. It ends when the stream fails or is closed, or when the last
    /// handle is dropped; the stream is closed with it.
    pub fn start<W>(stream: W, tasks: &TaskTracker) -> Self
    where
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let (jobs, waiting) = queue(QUEUE);
        let task = tasks.spawn(async move {
            let mut stream = stream;
            write_all(&mut stream, waiting).await;
            // The stream is closed by dropping it, which cannot fail in a way that matters here.
            let _ = stream.shutdown().await;
        });
        Self { jobs, task: Some(task.abort_handle()) }
    }

    /// A writer whose messages come out of an [`Outbox`].
    pub fn detached() -> (Self, Outbox) {
        let (jobs, waiting) = queue(QUEUE);
        (Self { jobs, task: None }, Outbox { waiting })
    }

    /// Queues one message, given in parts, to be written with a line end; waits until there is
    /// room for it.
    pub async fn send(&self, parts: Vec<Bytes>) -> Result<(), Closed> {
        self.queue(Job::Message(Message::new(parts))).await
    }

    /// Queues one message as [`Writer::send`] does, and lets it be written a moment later, together
    /// with what follows it by then.
    pub(crate) async fn send_in_company(&self, parts: Vec<Bytes>) -> Result<(), Closed> {
        self.queue(Job::InCompany(Message::new(parts))).await
    }

    async fn queue(&self, job: Job) -> Result<(), Closed> {
        match self.jobs.try_send(job) {
            Ok(()) => Ok(()),
            Err(Unsent::Closed(_)) => Err(Closed),
            // Boxed, for it is rare, and would make every request's future larger.
            Err(Unsent::Full(job)) => Box::pin(self.jobs.send(job)).await.map_err(|_| Closed),
        }
    }

    /// Sends a message, and returns once it is written.
    pub async fn send_written(&self, parts: Vec<Bytes>) -> Result<(), Closed> {
        let (written, done) = oneshot::channel();
        let message = Message { written: Some(written), ..Message::new(parts) };
        self.jobs.send(Job::Message(message)).await.map_err(|_| Closed)?;
        done.await.map_err(|_| Closed)
    }

    /// Returns once everything that was queued before is written.
    pub(crate) async fn flush(&self) -> Result<(), Closed> {
        let (written, done) = oneshot::channel();
        self.jobs.send(Job::Flush(written)).await.map_err(|_| Closed)?;
        done.await.map_err(|_| Closed)
    }

    /// Queues one message if there is room, for use where nothing can wait.
    pub(crate) fn try_send(&self, parts: Vec<Bytes>) -> Result<(), Closed> {
        self.jobs.try_send(Job::Message(Message::new(parts))).map_err(|_| Closed)
    }

    /// Resolves when nothing can be sent any more.
    pub async fn closed(&self) {
        self.jobs.closed().await;
    }

    /// Closes the stream after what is queued. What is sent later is refused. Where the queue is
    /// full, the other side does not read, and what is queued is given up.
    pub(crate) fn close(&self) {
        if let Err(Unsent::Full(_)) = self.jobs.try_send(Job::Close)
            && let Some(task) = &self.task
        {
            task.abort();
        }
    }
}

async fn write_all<W: AsyncWrite + Unpin>(stream: &mut W, mut waiting: queue::Receiver<Job>) {
    let mut batch = Vec::with_capacity(BATCH);
    let mut copied = Vec::new();
    let mut done = Vec::new();
    let mut closing = false;
    while !closing && cooperative(pin!(waiting.recv_many(&mut batch, BATCH))).await > 0 {
        if batch.len() < BATCH && batch.iter().any(|job| matches!(job, Job::InCompany(_))) {
            // The runtime would have us write each by itself; one turn of the others costs less than that.
            yield_now().await;
            while batch.len() < BATCH
                && let Some(job) = waiting.try_recv()
            {
                batch.push(job);
            }
        }
        for job in batch.drain(..) {
            let Message { parts, written } = match job {
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
            Message::done(Some(written));
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
    use std::io;
    use std::pin::Pin;
    use std::sync::{Arc, Mutex};
    use std::task::{Context, Poll};

    use pretty_assertions::assert_eq;

    use super::*;

    /// Keeps each write by itself.
    #[derive(Clone, Default)]
    struct Writes(Arc<Mutex<Vec<String>>>);

    impl AsyncWrite for Writes {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            text: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.0.lock().unwrap().push(String::from_utf8_lossy(text).into_owned());
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
    async fn who_takes_much_leaves_others_their_turn() {
        let (writer, mut outbox) = Writer::detached();
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
    async fn what_is_in_company_is_written_with_what_follows_at_once() {
        let (writes, tasks) = (Writes::default(), TaskTracker::new());
        let writer = Writer::start(writes.clone(), &tasks);
        writer.send(text("alone")).await.unwrap();
        yield_now().await;
        writer.send_in_company(text("first")).await.unwrap();
        yield_now().await;
        writer.send(text("second")).await.unwrap();
        writer.send_in_company(text("last")).await.unwrap();
        writer.flush().await.unwrap();
        assert_eq!(*writes.0.lock().unwrap(), ["alone\n", "first\nsecond\nlast\n"]);
    }

    #[tokio::test]
    async fn what_is_in_company_is_written_where_nothing_follows() {
        let (writes, tasks) = (Writes::default(), TaskTracker::new());
        let writer = Writer::start(writes.clone(), &tasks);
        writer.send_in_company(text("only")).await.unwrap();
        writer.close();
        tasks.close();
        tasks.wait().await;
        assert_eq!(*writes.0.lock().unwrap(), ["only\n"]);
    }
}
