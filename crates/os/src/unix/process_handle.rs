//! Signals to another workbench.

use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::process::{Pid, Signal};

/// A running process. On Linux, signals reach no later process with the same PID.
#[derive(Debug)]
pub struct ProcessHandle {
    pid: Pid,
    /// `None` if the kernel or a container's filter refuses it.
    #[cfg(target_os = "linux")]
    descriptor: Option<OwnedFd>,
}

impl ProcessHandle {
    /// Check after this call that the process is the intended one.
    ///
    /// # Errors
    ///
    /// Returns [`io::ErrorKind::NotFound`] if no process has this PID.
    pub fn open(pid: u32) -> io::Result<Self> {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or(io::ErrorKind::InvalidInput)?;
        #[cfg(target_os = "linux")]
        let descriptor =
            match rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()) {
                Ok(descriptor) => Some(descriptor),
                Err(error) if error == Errno::SRCH => return Err(explain(error)),
                Err(_) => None,
            };
        Ok(Self {
            pid,
            #[cfg(target_os = "linux")]
            descriptor,
        })
    }

    /// Asks a workbench to reload its configuration.
    ///
    /// # Errors
    ///
    /// Returns an error if the process has ended or belongs to another user.
    pub fn reload(&self) -> io::Result<()> {
        self.send(Signal::HUP)
    }

    /// Asks a workbench to shut down; it ends its servers.
    ///
    /// # Errors
    ///
    /// Returns an error if the process has ended or belongs to another user.
    pub fn terminate(&self) -> io::Result<()> {
        self.send(Signal::TERM)
    }

    fn send(&self, signal: Signal) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        if let Some(descriptor) = &self.descriptor {
            return rustix::process::pidfd_send_signal(descriptor, signal).map_err(explain);
        }
        rustix::process::kill_process(self.pid, signal).map_err(explain)
    }
}

fn explain(error: Errno) -> io::Error {
    match error {
        Errno::SRCH => io::Error::new(io::ErrorKind::NotFound, "no such process"),
        error => error.into(),
    }
}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Child, CommandSpec, start_time};

    #[test]
    fn start_distinguishes_processes() {
        let start = start_time(std::process::id());
        assert!(start.is_some() && start != start_time(1));
        assert_eq!(start_time(u32::MAX), None);
        assert!(ProcessHandle::open(0).is_err() && ProcessHandle::open(u32::MAX).is_err());
    }

    #[tokio::test]
    async fn signals_reach_only_the_opened_process() {
        let sleeper = CommandSpec {
            name: "sleep".into(),
            args: ["1000".into()].into(),
            folder: "/".into(),
            ..CommandSpec::default()
        };
        let mut child = Child::spawn(&sleeper).unwrap();
        let handle = ProcessHandle::open(child.id().unwrap()).unwrap();
        handle.terminate().unwrap();
        child.wait().await.unwrap();
        // An exited child keeps its ID until it is dropped.
        drop(child);
        assert_eq!(handle.reload().unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
