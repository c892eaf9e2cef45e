//! Pipes that hold more where much goes through them.
//!
//! A message that is longer than a pipe holds (64 KiB on Linux) goes through it in pieces, and whoever writes
//! and whoever reads wait for each other at each of them. On processors that sleep meanwhile, that takes longer than
//! all the rest of a long call.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{Semaphore, SemaphorePermit};

/// How many bytes a wide pipe holds.
const WIDE: usize = 512 * 1024;
/// How many pipes of this process are wide at most: 16 MiB of the 64 that the pipes of a user may hold together on
/// Linux, after which new ones hold next to nothing.
const MOST: usize = 32;
/// A pipe through which more than this comes at once is made wide: it is as much as one holds.
const MUCH: usize = 64 * 1024;
/// The least that has to come in one piece: what comes in smaller ones is not much, however long it goes on.
const PIECE: usize = 8 * 1024;

static ROOM: Semaphore = Semaphore::const_new(MOST);

/// A stream over a pipe, which is made to hold 512 KiB once more comes than one usually holds. Where the system does
/// not allow that, the stream is no pipe, or 32 of this process are wide already, it stays as it is.
#[derive(Debug)]
pub struct Pipe<S> {
    stream: S,
    widen: Widen<S>,
    /// The pipes that may still be wide.
    room: &'static Semaphore,
    /// How many bytes have come without a short piece in between.
    run: usize,
    width: Width,
}

/// Makes the pipe under a stream hold as many bytes, unless it holds more.
type Widen<S> = fn(&S, usize) -> io::Result<()>;

#[derive(Debug)]
enum Width {
    /// As the system made it.
    Usual,
    /// It counts among those that may be, until the permit is dropped.
    Wide { _permit: SemaphorePermit<'static> },
    /// It cannot be changed.
    Fixed,
}

impl<S> Pipe<S> {
    /// Takes a stream that is read from or written to, and what makes its pipe hold as many bytes (such as
    /// [`widen`](crate::os::widen)).
    pub fn new(stream: S, widen: Widen<S>) -> Self {
        Self::within(&ROOM, stream, widen)
    }

    fn within(room: &'static Semaphore, stream: S, widen: Widen<S>) -> Self {
        Self { stream, widen, room, run: 0, width: Width::Usual }
    }

    fn widen(&mut self) {
        if !matches!(self.width, Width::Usual) {
            return;
        }
        // There may be room later.
        let Ok(permit) = self.room.try_acquire() else { return };
        self.width = match (self.widen)(&self.stream, WIDE) {
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
            pipe.run = if read < PIECE { 0 } else { pipe.run.saturating_add(read) };
            if pipe.run > MUCH {
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
            // It is full.
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
