//! Standard input and output where they are sockets.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net;

use rustix::fs::{FileType, fstat};

/// A socket between two processes of this machine.
pub type Socket = tokio::net::UnixStream;

/// Returns our standard input and output where both are sockets, made non-blocking; otherwise they
/// stay as they are. Must be called inside a Tokio runtime.
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

fn socket(stream: &impl AsFd) -> Option<Socket> {
    let copy = stream.as_fd().try_clone_to_owned().ok()?;
    let socket = net::UnixStream::from(copy);
    // The flag is shared with the original descriptor, which nobody else uses in stdio mode.
    socket.set_nonblocking(true).ok()?;
    Socket::from_std(socket).ok()
}
