//! Pipes that are enlarged when large messages pass through them.
//!
//! A message larger than the pipe (64 KiB on Linux) takes several turns, and reader and writer wait
//! for each other at each of them. If their processors go idle in between, the waiting takes longer
//! than the rest of a large call: without this, a call of 1 MB over stdio takes 2.3 times as long as
//! through a plain relay instead of 1.1 times (`benches/stdio`, November 2026).

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{Semaphore, SemaphorePermit};

/// The capacity of an enlarged pipe, in bytes.
const ENLARGED_CAPACITY: usize = 512 * 1024;
/// How many pipes this process enlarges at most. They use 16 MiB of the 64 MiB that Linux allows a
/// user's pipes by default; beyond that, new pipes get a minimal capacity.
const MAX_ENLARGED_PIPES: usize = 32;
/// More consecutive bytes than this enlarge a pipe. It is the default capacity on Linux.
const ENLARGE_THRESHOLD: usize = 64 * 1024;
/// A shorter read ends a run: a stream of small messages doesn't enlarge the pipe.
const MIN_CHUNK_BYTES: usize = 8 * 1024;

static ENLARGE_PERMITS: Semaphore = Semaphore::const_new(MAX_ENLARGED_PIPES);

/// A stream over a pipe that grows to 512 KiB when more data arrives than a pipe usually holds. The
/// pipe keeps its size if the system doesn't allow resizing, the stream isn't a pipe, or this
/// process has already enlarged 32 pipes.
#[derive(Debug)]
pub struct Pipe<S> {
    stream: S,
    widen: Widen<S>,
    room: &'static Semaphore,
    /// Bytes read since the last short read.
    run: usize,
    width: Width,
}

/// Sets the minimum capacity of the pipe under a stream, in bytes.
type Widen<S> = fn(&S, usize) -> io::Result<()>;

#[derive(Debug)]
enum Width {
    /// The system's default capacity.
    Usual,
    /// Enlarged; holds its permit until the stream is dropped.
    Wide { _permit: SemaphorePermit<'static> },
    /// Resizing failed.
    Fixed,
}

impl<S> Pipe<S> {
    /// Wraps a stream that is read or written. `widen` sets the minimum capacity of its pipe, such
    /// as [`widen`](crate::widen).
    pub fn new(stream: S, widen: Widen<S>) -> Self {
        Self::within(&ENLARGE_PERMITS, stream, widen)
    }

    fn within(room: &'static Semaphore, stream: S, widen: Widen<S>) -> Self {
        Self { stream, widen, room, run: 0, width: Width::Usual }
    }

    fn widen(&mut self) {
        if !matches!(self.width, Width::Usual) {
            return;
        }
        // A permit may become available later.
        let Ok(permit) = self.room.try_acquire() else { return };
        self.width = match (self.widen)(&self.stream, ENLARGED_CAPACITY) {
            Ok(()) => Width::Wide { _permit: permit },
            Err(_) => Width::Fixed,
        };
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Pipe<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let pipe = self.get_mut();
        let before = buf.filled().len();
        let polled = Pin::new(&mut pipe.stream).poll_read(cx, buf);
        if polled.is_ready() {
            let read = buf.filled().len() - before;
            pipe.run = if read < MIN_CHUNK_BYTES { 0 } else { pipe.run.saturating_add(read) };
            if pipe.run > ENLARGE_THRESHOLD {
                pipe.widen();
            }
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Pipe<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let pipe = self.get_mut();
        let polled = Pin::new(&mut pipe.stream).poll_write(cx, buf);
        if let Poll::Ready(Ok(written)) = polled
            && written < buf.len()
        {
            // The pipe is full.
            pipe.widen();
        }
        polled
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
