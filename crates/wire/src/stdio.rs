//! The process's standard input and output, without blocking threads where the platform allows it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use rmcp::transport::{StdioReader, StdioWriter, stdio_pipes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use mcp_workbench_os::{Pipe, Socket, standard_sockets, widen_input, widen_output};

/// Standard input.
pub enum Input {
    /// A pipe (non-blocking on Linux), or any other stream (read on a blocking thread).
    Other(Pipe<StdioReader>),
    /// A socket, as Node.js passes to its children.
    Socket(Socket),
}

/// Standard output.
pub enum Output {
    /// A pipe (non-blocking on Linux), or any other stream (written on a blocking thread).
    Other(Pipe<StdioWriter>),
    /// A socket, as Node.js passes to its children.
    Socket(Socket),
}

/// Returns the process's standard input and output.
///
/// # Panics
///
/// Panics outside of a Tokio runtime with IO enabled.
pub fn streams() -> (Input, Output) {
    // Both or neither: `stdio_pipes` uses blocking reads and writes, which fail on a socket that
    // was made non-blocking.
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
