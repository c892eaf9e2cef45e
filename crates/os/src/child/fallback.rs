//! Spawns children through the standard library, on systems other than Linux.

use std::io;
use std::process::ExitStatus;

use tokio::process;

use crate::child::{Child, CommandSpec, command};
use crate::native::{self, ChildGuard};

#[derive(Debug)]
pub(super) struct Running {
    child: process::Child,
    _started: Option<ChildGuard>,
}

pub(super) fn start(program: &CommandSpec) -> io::Result<Child> {
    let mut command = process::Command::from(command(program));
    command.kill_on_drop(true);
    let (mut child, started) = native::spawn_tracked(|| command.spawn(), process::Child::id)?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    Ok(Child { stdin, stdout, stderr, running: Running { child, _started: started } })
}

impl Running {
    pub(super) fn id(&self) -> Option<u32> {
        self.child.id()
    }

    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    pub(super) fn kill(&mut self) {
        // Fails only if the child has already exited.
        let _ = self.child.start_kill();
    }
}
