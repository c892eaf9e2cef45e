//! A write timeout that closes connections whose client reads too slowly.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// Minimum progress in bytes within the timeout, while a write is blocked.
const MIN_PROGRESS_BYTES: usize = 256 * 1024;
const STALL_TIMEOUT: Duration = Duration::from_mins(1);

/// Wraps a stream so that writes fail when the peer reads too little for too long.
pub(crate) struct WriteTimeout<S> {
    stream: S,
    stalled: Option<Pin<Box<Sleep>>>,
    taken: usize,
}

impl<S> WriteTimeout<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, stalled: None, taken: 0 }
    }
}

impl<S: AsyncWrite + Unpin> WriteTimeout<S> {
    fn write(
        &mut self,
        context: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let written = write(Pin::new(&mut self.stream), context);
        if let Poll::Ready(Ok(bytes)) = &written {
            self.taken += bytes;
            if self.taken >= MIN_PROGRESS_BYTES {
                self.stalled = None;
            }
        } else if written.is_pending() && self.stalled.is_none() {
            self.stalled = Some(Box::pin(sleep(STALL_TIMEOUT)));
            self.taken = 0;
        }
        let Some(stalled) = &mut self.stalled else { return written };
        if stalled.as_mut().poll(context).is_pending() {
            return written;
        }
        let message = "the client reads too slowly or not at all";
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, message)))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.write(context, |stream, context| stream.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write(context, |stream, context| stream.poll_write_vectored(context, parts))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // hyper flushes only after it has written its whole buffer.
        self.stalled = None;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests;
