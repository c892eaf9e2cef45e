//! Sockets and pipes as standard streams.

use std::future::pending;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net;

use rustix::fs::{FileType, fstat};
#[cfg(target_os = "linux")]
use rustix::pipe::{fcntl_getpipe_size, fcntl_setpipe_size};

use tokio::io::unix::AsyncFd;

/// A socket as a standard stream.
pub type Socket = tokio::net::UnixStream;

/// Returns stdin and stdout, made non-blocking, if both are sockets; otherwise leaves them
/// unchanged. Must be called inside a Tokio runtime.
pub fn standard_sockets() -> Option<(Socket, Socket)> {
    let (input, output) = (io::stdin(), io::stdout());
    if !is_socket(&input) || !is_socket(&output) {
        return None;
    }
    Some((socket(&input)?, socket(&output)?))
}

fn is_socket(stream: &impl AsFd) -> bool {
    fstat(stream).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_socket())
}

/// Sets the minimum capacity of a pipe, in bytes.
#[cfg(target_os = "linux")]
pub fn widen(pipe: &impl AsFd, bytes: usize) -> io::Result<()> {
    if fcntl_getpipe_size(pipe)? < bytes {
        fcntl_setpipe_size(pipe, bytes)?;
    }
    Ok(())
}

/// Not supported: the capacity of a pipe is fixed.
#[cfg(not(target_os = "linux"))]
pub fn widen(_: &impl AsFd, _: usize) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Resolves once nobody reads stdout any more. Never does for a file.
pub async fn output_closed() {
    reader_left(&io::stdout()).await;
}

async fn reader_left(output: &impl AsFd) {
    let copy = output.as_fd().try_clone_to_owned();
    // A file can't be registered.
    #[expect(deprecated, reason = "the safe alternative to `AsyncFd::register`; the copy is owned")]
    let watched = copy.and_then(AsyncFd::new);
    if let Ok(output) = watched {
        // Each change is a new event, so clearing the readiness doesn't lose the next one.
        while let Ok(mut ready) = output.writable().await {
            if ready.ready().is_write_closed() || ready.ready().is_error() {
                return;
            }
            ready.clear_ready();
        }
    }
    pending::<()>().await;
}

/// Sets the minimum capacity of the stdin pipe, as [`widen`] does.
pub fn widen_input<S>(_: &S, bytes: usize) -> io::Result<()> {
    widen(&io::stdin(), bytes)
}

/// Sets the minimum capacity of the stdout pipe, as [`widen`] does.
pub fn widen_output<S>(_: &S, bytes: usize) -> io::Result<()> {
    widen(&io::stdout(), bytes)
}

fn socket(stream: &impl AsFd) -> Option<Socket> {
    let copy = stream.as_fd().try_clone_to_owned().ok()?;
    let socket = net::UnixStream::from(copy);
    // The flag is shared with the original descriptor, which is unused in stdio mode.
    socket.set_nonblocking(true).ok()?;
    Socket::from_std(socket).ok()
}

#[cfg(test)]
mod tests {
    use tokio::task::yield_now;

    use super::*;

    #[tokio::test]
    async fn output_is_closed_when_its_reader_has_left() {
        let (pipe_reader, pipe_writer) = io::pipe().unwrap();
        let (socket_reader, socket_writer) = net::UnixStream::pair().unwrap();
        let (mut pipe, mut socket) =
            (Box::pin(reader_left(&pipe_writer)), Box::pin(reader_left(&socket_writer)));
        for _ in 0..100 {
            tokio::select! {
                biased;
                () = &mut pipe => panic!("the pipe has a reader"),
                () = &mut socket => panic!("the socket has a reader"),
                () = yield_now() => {}
            }
        }
        drop((pipe_reader, socket_reader));
        tokio::join!(pipe, socket);
    }
}
