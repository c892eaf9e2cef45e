//! The Windows implementation. It is incomplete and has never been run.

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::future::pending;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::pin::Pin;
use std::process::Command;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::signal::ctrl_c;

use crate::{SandboxRules, Signal};

/// Changes nothing: a new file inherits the access list of its folder, and folders in a user's
/// profile are private to that user.
pub fn set_private_mode(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// Not supported: the capacity of a pipe is set when it is created.
pub fn widen<P>(_: &P, _: usize) -> io::Result<()> {
    Err(ErrorKind::Unsupported.into())
}

/// Never resolves: not implemented.
pub async fn output_closed() {
    pending().await
}

pub fn widen_input<S>(stream: &S, bytes: usize) -> io::Result<()> {
    widen(stream, bytes)
}

pub fn widen_output<S>(stream: &S, bytes: usize) -> io::Result<()> {
    widen(stream, bytes)
}

/// Changes nothing: files in folders are never pipes, and creating a link needs a privilege.
pub(crate) fn set_guarded(_: &mut OpenOptions, _: bool) {}

pub(crate) fn set_blocking(_: &File) -> io::Result<()> {
    Ok(())
}

pub(crate) fn is_fifo(_: &Metadata) -> bool {
    false
}

pub(crate) fn special_kind(_: &Metadata) -> &'static str {
    "a device"
}

/// Not implemented: access lists aren't read.
pub fn check_owner(_: &Metadata, _: Option<&Path>, _: &str) -> io::Result<()> {
    Ok(())
}

/// Creates a folder and its missing parents, with the access list of the parent.
pub fn make_private_folder(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)
}

/// Not implemented: succeeds without reading the access list.
pub fn check_private_dir(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Not implemented: access lists aren't read.
pub fn is_writable_by_others(_: &Path) -> bool {
    false
}

pub fn is_private_key_exposed(_: &Path) -> bool {
    false
}

pub fn can_others_read(_: &Path) -> bool {
    false
}

/// Returns `true` if both files have the same creation time. The standard library has no stable
/// file id for Windows.
pub fn is_same_file(one: &Metadata, other: &Metadata) -> bool {
    one.created().ok() == other.created().ok()
}

/// Accepts every name: Windows adds extensions and searches more folders than `PATH`.
pub fn check_executable(_: &Path) -> Result<(), ErrorKind> {
    Ok(())
}

/// Returns `None`: Windows has access lists instead of mode bits.
pub fn strictest_permissions(_: &[&Path]) -> Option<Permissions> {
    None
}

/// Returns `None`: Windows users have no numeric ids.
pub fn user() -> Option<(u32, u32)> {
    None
}

/// Does nothing: Windows has no process groups.
pub fn lead_group(_: &mut Command) {}

/// Does nothing: Windows has no sessions.
pub fn lead_session(_: &mut Command) {}

/// Does nothing: handles are inherited only if a program asks for it.
pub fn hide_inherited_files() {}

pub fn unblock_child_exits() {}

/// Not implemented: files have no identity, so nothing can be granted.
pub(crate) fn identity_of(_: &Path) -> io::Result<(u64, u64)> {
    Err(ErrorKind::Unsupported.into())
}

pub fn terminate_group(_: u32) {}

pub fn kill_group(_: u32) {}

/// A process to signal, which Windows doesn't have.
#[derive(Debug)]
pub enum ProcessHandle {}

impl ProcessHandle {
    /// Always fails: Windows has no signals.
    pub fn open(_: u32) -> io::Result<Self> {
        Err(io::Error::new(ErrorKind::Unsupported, "Windows has no signals"))
    }

    pub fn reload(&self) -> io::Result<()> {
        match *self {}
    }

    pub fn terminate(&self) -> io::Result<()> {
        match *self {}
    }
}

/// Returns `None`: the number of open files is unlimited.
pub fn raise_file_limit() -> Option<u64> {
    None
}

/// Does nothing: Windows doesn't limit open files.
pub fn restore_file_limit(_: &mut Command) {}

#[derive(Debug)]
pub struct ChildGuard(());

pub fn spawn_tracked<C>(
    spawn: impl FnOnce() -> io::Result<C>,
    id: impl FnOnce(&C) -> Option<u32>,
) -> io::Result<(C, Option<ChildGuard>)> {
    let child = spawn()?;
    let started = id(&child).map(|_| ChildGuard(()));
    Ok((child, started))
}

/// A stub: orphans have no parent process on Windows.
#[derive(Debug)]
pub struct OrphanReaper(());

impl OrphanReaper {
    pub fn install() -> io::Result<Self> {
        Ok(Self(()))
    }

    /// Never returns: Windows doesn't signal exits of children.
    pub async fn child_ended(&mut self) {
        pending::<()>().await;
    }

    pub fn reap(&self) -> Vec<u32> {
        Vec::new()
    }
}

/// Returns an error: there isn't a sandbox on Windows.
pub fn check_sandbox_support() -> Result<(), String> {
    Err("sandboxes are supported only on Linux".to_owned())
}

pub fn enter_sandbox(_: &SandboxRules) -> Result<(), String> {
    check_sandbox_support()
}

pub fn supports_signal_scope() -> bool {
    false
}

/// Not supported: a process can't replace its program.
pub fn exec(_: &mut Command) -> io::Error {
    ErrorKind::Unsupported.into()
}

/// Not implemented: no orphans are found that could be killed.
pub fn kill(_: u32) {}

pub fn kill_if(_: u32, _: impl FnOnce(u32) -> bool) {}

pub fn start_time(_: u32) -> Option<u64> {
    None
}

pub fn variable_of(_: u32, _: &str) -> Option<String> {
    None
}

pub fn list_processes() -> Vec<u32> {
    Vec::new()
}

pub fn drop_clean_program_pages() {}

/// Not supported: does nothing.
pub fn disable_process_dumping() -> io::Result<()> {
    Ok(())
}

/// Receives Ctrl-C, the only supported signal.
#[derive(Debug)]
pub struct Signals;

impl Signals {
    /// The handler is installed by the first call of [`Self::next`].
    pub fn listen() -> io::Result<Self> {
        Ok(Self)
    }

    /// Waits for Ctrl-C. Must be called inside a Tokio runtime.
    pub async fn next(&mut self) -> Signal {
        // Without a handler, the end of input still shuts the program down.
        if ctrl_c().await.is_err() {
            pending::<()>().await;
        }
        Signal::End("Ctrl-C")
    }
}

/// Returns `false`: closing a terminal never causes a [`Signal::Hangup`].
pub fn has_terminal() -> bool {
    false
}

/// A socket as a standard stream, which Windows doesn't have.
#[derive(Debug)]
pub enum Socket {}

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

/// Not implemented: one end of a connection between two processes of this user.
pub type LocalStream = Socket;

/// Not implemented: a listener for processes of this user.
#[derive(Debug)]
pub enum LocalListener {}

impl LocalListener {
    /// Not implemented: this needs a named pipe.
    pub fn bind(_: &Path) -> io::Result<Self> {
        Err(not_yet())
    }

    pub async fn serve(&self, _: impl FnMut(LocalStream)) -> io::Result<()> {
        match *self {}
    }
}

pub async fn connect_locally(_: &Path) -> io::Result<LocalStream> {
    Err(not_yet())
}

pub async fn listening_process(_: &Path) -> io::Result<u32> {
    Err(not_yet())
}

pub fn remove_dead_socket(_: &Path) {}

fn not_yet() -> io::Error {
    io::Error::new(ErrorKind::Unsupported, "local sockets are not supported on Windows yet")
}
