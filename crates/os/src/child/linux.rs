//! Spawns children on Linux. Unlike `tokio::process`, an exited child keeps its process id until it
//! is dropped.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::thread;

use rustix::io::{Errno, retry_on_intr};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, WaitOptions, kill_process, waitid, waitpid,
};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::signal::unix::{self, SignalKind};

use crate::child::{Child, CommandSpec, command};
use crate::native::{ChildGuard, die_with_parent, spawn_tracked};

#[derive(Debug)]
pub(super) struct Running {
    process: Pid,
    /// Set once the child has exited. It stays a zombie until this value is dropped: meanwhile no
    /// other process or group gets its id, so signals to the id can't reach strangers.
    status: Option<ExitStatus>,
    /// Fires whenever any child exits.
    ended: unix::Signal,
    started: Option<ChildGuard>,
}

pub(super) fn start(program: &CommandSpec) -> io::Result<Child> {
    // Subscribe before spawning: the child may exit before anyone waits for it.
    let ended = unix::signal(SignalKind::child())?;
    let mut command = command(program);
    die_with_parent(&mut command);
    let (mut child, started) = spawn_tracked(|| command.spawn(), |child| Some(child.id()))?;
    // Kills the child on an error.
    let running = Running { process: Pid::from_child(&child), status: None, ended, started };
    let stdin = child.stdin.take().map(ChildStdin::from_std).transpose()?;
    let stdout = child.stdout.take().map(ChildStdout::from_std).transpose()?;
    let stderr = child.stderr.take().map(ChildStderr::from_std).transpose()?;
    Ok(Child { stdin, stdout, stderr, running })
}

impl Running {
    pub(super) fn id(&self) -> Option<u32> {
        let id = u32::try_from(self.process.as_raw_pid()).ok();
        id.filter(|_| self.status.is_none())
    }

    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        loop {
            if let Some(status) = self.status {
                return Ok(status);
            }
            if !self.has_ended()? {
                self.ended.recv().await;
            }
        }
    }

    pub(super) fn kill(&mut self) {
        if self.status.is_none() {
            // Fails only if the child has already exited.
            let _ = kill_process(self.process, Signal::KILL);
        }
    }

    /// Records the exit status if the child has exited.
    fn has_ended(&mut self) -> Result<bool, Errno> {
        if self.status.is_none() {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            let status = retry_on_intr(|| waitid(WaitId::Pid(self.process), options))?;
            self.status = status.as_ref().map(exit_status);
        }
        Ok(self.status.is_some())
    }
}

/// Returns the status in the encoding of `waitpid`.
fn exit_status(status: &WaitIdStatus) -> ExitStatus {
    const CORE_DUMPED: i32 = 0x80;
    let code = status.exit_status().map(|code| code << 8);
    let signal = status.terminating_signal();
    let signal = signal.map(|signal| signal | if status.dumped() { CORE_DUMPED } else { 0 });
    ExitStatus::from_raw(code.or(signal).unwrap_or_default())
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
        let (process, started) = (self.process, self.started.take());
        if let Ok(None) = waitpid(Some(process), WaitOptions::NOHANG) {
            let wait = move || {
                let _ = retry_on_intr(|| waitpid(Some(process), WaitOptions::empty()));
                drop(started);
            };
            // If no thread can be spawned, dropping the `ChildGuard` leaves the child to the orphan
            // reaper.
            let _ = thread::Builder::new().name("last wait".to_owned()).spawn(wait);
        }
    }
}
