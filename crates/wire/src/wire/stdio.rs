//! Our own standard input and output, without blocking threads wherever the platform allows it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use rmcp::transport::{StdioReader, StdioWriter, stdio_pipes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::os::{Pipe, Socket, standard_sockets, widen_input, widen_output};

/// Standard input. Must be taken inside a runtime.
pub enum Input {
    /// A pipe (read without blocking on Linux) or anything else (read on a blocking thread).
    Other(Pipe<StdioReader>),
    /// A socket, which is what Node gives its children.
    Socket(Socket),
}

/// Standard output. Must be taken inside a runtime.
pub enum Output {
    /// A pipe (written without blocking on Linux) or anything else (written on a blocking thread).
    Other(Pipe<StdioWriter>),
    /// A socket, which is what Node gives its children.
    Socket(Socket),
}

/// Takes our standard input and output.
///
/// # Panics
///
/// When called outside of a Tokio runtime with IO enabled.
pub fn streams() -> (Input, Output) {
    // Both or neither: `stdio_pipes` reads what is left to it by blocking, which a stream that was
    // made non-blocking for nothing would answer with an error.
    if let Some((input, output)) = standard_sockets() {
        return (Input::Socket(input), Output::Socket(output));
    }
    let (input, output) = stdio_pipes();
    let (input, output) = (Pipe::new(input, widen_input), Pipe::new(output, widen_output));
    (Input::Other(input), Output::Other(output))
}

impl AsyncRead for Input {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Other(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Socket(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Output {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Other(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Socket(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Other(stream) => Pin::new(stream).poll_flush(cx),
            Self::Socket(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Other(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Socket(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
