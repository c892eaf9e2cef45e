//! Windows, as far as it is written: nobody has run it there yet.

use std::fs::{self, Metadata, OpenOptions, Permissions};
use std::future::pending;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::pin::Pin;
use std::process::Command;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::signal::ctrl_c;

use crate::os::{Cell, Signal};

/// Changes nothing: a new file has the access list of its folder, which in a user's profile is for
/// that user.
pub fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// Fails: how much a pipe holds is said when it is made.
pub fn widen<P>(_: &P, _: usize) -> io::Result<()> {
    Err(ErrorKind::Unsupported.into())
}

/// Fails, as [`widen`] does.
pub fn widen_input<S>(stream: &S, bytes: usize) -> io::Result<()> {
    widen(stream, bytes)
}

/// Fails, as [`widen`] does.
pub fn widen_output<S>(stream: &S, bytes: usize) -> io::Result<()> {
    widen(stream, bytes)
}

/// Changes nothing: no file of a folder is a pipe.
pub fn without_waiting(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// Creates a folder and those above it, with the access list of the folder that they are in.
pub fn make_private_folder(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)
}

/// Checks nothing: who may write to a folder is not looked up in its access list.
pub fn check_owner(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Returns `false`: who may write is not looked up in its access list.
pub fn is_open_to_others(_: &Path) -> bool {
    false
}

/// Returns `false`: who may read is not looked up in its access list.
pub fn can_strangers_read(_: &Path) -> bool {
    false
}

/// Returns `false`: who may read is not looked up in its access list.
pub fn can_others_read(_: &Path) -> bool {
    false
}

/// Returns `true` if both files were created at one time, which is as much as the standard library
/// tells of a file's identity.
pub fn is_same_file(one: &Metadata, other: &Metadata) -> bool {
    one.created().ok() == other.created().ok()
}

/// Takes everything for a program: the system adds endings to names and looks in folders of its own,
/// so it alone can tell.
pub fn is_program(_: &Path) -> Result<(), ErrorKind> {
    Ok(())
}

/// Returns `None`: there are no mode bits to take over.
pub fn strictest_permissions(_: &[&Path]) -> Option<Permissions> {
    None
}

/// Returns nothing: users have no numbers.
pub fn user() -> Option<(u32, u32)> {
    None
}

/// Changes nothing: there are no process groups that could be ended.
pub fn lead_group(_: &mut Command) {}

/// Does nothing, as there are no process groups.
pub fn terminate_group(_: u32) {}

/// Does nothing, as there are no process groups.
pub fn kill_group(_: u32) {}

/// Asks nobody: there is no signal for it.
///
/// # Errors
///
/// Always.
pub fn ask_to_reload(_: u32) -> io::Result<()> {
    Err(io::Error::new(ErrorKind::Unsupported, "this system has no signal that asks for it"))
}

/// Returns `None`: files are not limited in number.
pub fn raise_file_limit() -> Option<u64> {
    None
}

/// Changes nothing: there is no limit that a child could have.
pub fn keep_file_limit(_: &mut Command) {}

/// A child that we started.
#[derive(Debug)]
pub struct Started(());

/// Starts a child by `spawn`; `id` is its id.
///
/// # Errors
///
/// The errors of `spawn`.
pub fn start<C>(
    spawn: impl FnOnce() -> io::Result<C>,
    id: impl FnOnce(&C) -> Option<u32>,
) -> io::Result<(C, Option<Started>)> {
    let child = spawn()?;
    let started = id(&child).map(|_| Started(()));
    Ok((child, started))
}

/// Nothing: a process whose parent has ended has none.
#[derive(Debug)]
pub struct Orphans(());

impl Orphans {
    /// Takes in nothing.
    ///
    /// # Errors
    ///
    /// Never.
    pub fn adopt() -> io::Result<Self> {
        Ok(Self(()))
    }

    /// Waits for ever: no signal says that a child has ended.
    pub async fn child_ended(&mut self) {
        pending::<()>().await;
    }

    /// Returns none.
    pub fn list(&self) -> Vec<u32> {
        Vec::new()
    }
}

/// Returns why processes cannot be confined here.
///
/// # Errors
///
/// Always.
pub fn can_confine() -> Result<(), String> {
    Err("servers can be confined on Linux alone".to_owned())
}

/// Confines nothing.
///
/// # Errors
///
/// Always.
pub fn confine(_: &Cell) -> Result<(), String> {
    can_confine()
}

/// Returns `false`: nothing is confined.
pub fn hides_from_signals() -> bool {
    false
}

/// Does nothing: a program cannot become another one.
pub fn become_program(_: &mut Command) -> io::Error {
    ErrorKind::Unsupported.into()
}

/// Does nothing: no orphans are found that could be killed.
pub fn kill(_: u32) {}

/// Returns `None`: it is not looked up.
pub fn variable_of(_: u32, _: &str) -> Option<String> {
    None
}

/// Returns none: they are not looked up.
pub fn processes() -> Vec<u32> {
    Vec::new()
}

/// Does nothing: the allocator decides it itself.
pub fn reuse_memory() {}

/// Keeps all pages: it is not known here which of them nothing has written to.
pub fn release_program_pages() {}

/// Does nothing: a process cannot be kept from its own user here.
pub fn seal_process() -> io::Result<()> {
    Ok(())
}

/// Ctrl-C, the one signal there is.
#[derive(Debug)]
pub struct Signals;

impl Signals {
    /// Begins to listen, with the first call of [`Self::next`].
    ///
    /// # Errors
    ///
    /// Never.
    pub fn listen() -> io::Result<Self> {
        Ok(Self)
    }

    /// Waits for Ctrl-C. Must be called inside a Tokio runtime.
    pub async fn next(&mut self) -> Signal {
        // Without the signal there is still the end of input.
        if ctrl_c().await.is_err() {
            pending::<()>().await;
        }
        Signal::End("Ctrl-C")
    }
}

/// Returns `false`: no [`Signal::Hangup`] comes when a terminal is closed.
pub fn has_terminal() -> bool {
    false
}

/// A socket as a standard stream, of which there is none.
#[derive(Debug)]
pub enum Socket {}

/// Returns `None`: a standard stream is no socket.
pub fn standard_sockets() -> Option<(Socket, Socket)> {
    None
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match *self {}
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        match *self {}
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match *self {}
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match *self {}
    }
}

/// One end of a connection between two processes of this user; there are none yet.
pub type LocalStream = Socket;

/// A socket that other processes of this user come to; there are none yet.
#[derive(Debug)]
pub enum LocalListener {}

impl LocalListener {
    /// Fails: that needs a named pipe, which is not written yet.
    pub fn bind(_: &Path) -> io::Result<Self> {
        Err(not_yet())
    }

    /// Takes nothing.
    pub async fn take(&self, _: impl FnMut(LocalStream)) -> io::Result<()> {
        match *self {}
    }
}

/// Fails: nobody listens.
pub async fn connect_locally(_: &Path) -> io::Result<LocalStream> {
    Err(not_yet())
}

/// Does nothing: there are no sockets.
pub fn remove_dead_socket(_: &Path) {}

fn not_yet() -> io::Error {
    io::Error::new(ErrorKind::Unsupported, "sockets between processes are not on Windows yet")
}
