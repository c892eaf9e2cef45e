//! Children on Linux, which begin beside our memory and not with a copy of it, as those of `posix_spawn` do.
//!
//! A copy costs the more the more memory we have, when it is made and again for every page that we write to
//! afterwards. `posix_spawn` itself cannot tie a child to us, nor give it a limit of open files.

mod begin;

use std::fs::File;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::thread;

use rustix::io::{Errno, retry_on_intr};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::signal::unix::{self, SignalKind};

use crate::os::child::linux::begin::begin;
use crate::os::child::{Child, Program};
use crate::os::native::{self, Started};

/// A child without its streams.
#[derive(Debug)]
pub(super) struct Running {
    process: Pid,
    /// How it has ended, once it has been waited for: its id may then be somebody else's.
    status: Option<ExitStatus>,
    /// Hears of every child that ends.
    ended: unix::Signal,
    started: Option<Started>,
}

pub(super) fn start(program: &Program) -> io::Result<Child> {
    // It can end before anybody waits for it.
    let ended = unix::signal(SignalKind::child())?;
    let (input, stdin) = if program.has_input {
        let (theirs, ours) = pipe_with(PipeFlags::CLOEXEC)?;
        (theirs, Some(ChildStdin::from_std(ours.into())?))
    } else {
        (File::open("/dev/null")?.into(), None)
    };
    let (stdout, output) = pipe_with(PipeFlags::CLOEXEC)?;
    let (stderr, errors) = pipe_with(PipeFlags::CLOEXEC)?;
    let stdout = Some(ChildStdout::from_std(stdout.into())?);
    let stderr = Some(ChildStderr::from_std(stderr.into())?);
    let begin = || begin(program, [&input, &output, &errors]);
    let (process, started) = native::start(begin, |process| id(*process))?;
    Ok(Child { stdin, stdout, stderr, running: Running { process, status: None, ended, started } })
}

fn id(process: Pid) -> Option<u32> {
    u32::try_from(process.as_raw_pid()).ok()
}

impl Running {
    pub(super) fn id(&self) -> Option<u32> {
        id(self.process).filter(|_| self.status.is_none())
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
            // An error means that it has ended.
            let _ = kill_process(self.process, Signal::KILL);
        }
    }

    /// Takes note of its end, if it has ended.
    fn has_ended(&mut self) -> Result<bool, Errno> {
        if self.status.is_none()
            && let Some((_, status)) = waitpid(Some(self.process), WaitOptions::NOHANG)?
        {
            self.status = Some(ExitStatus::from_raw(status.as_raw()));
            self.started = None;
        }
        Ok(self.status.is_some())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
        if self.has_ended() == Ok(false) {
            let (process, started) = (self.process, self.started.take());
            let wait = move || {
                let _ = retry_on_intr(|| waitpid(Some(process), WaitOptions::empty()));
                drop(started);
            };
            // Without a thread it is an orphan, as `Started` says.
            let _ = thread::Builder::new().name("last wait".to_owned()).spawn(wait);
        }
    }
}
