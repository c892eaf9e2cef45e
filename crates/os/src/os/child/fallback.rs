//! Spawns children through the standard library, on systems other than Linux.

use std::io;
use std::process::{ExitStatus, Stdio};

use tokio::process::{self, Command};

use crate::os::child::{Child, CommandSpec};
use crate::os::native::{self, ChildGuard, lead_group, restore_file_limit};

#[derive(Debug)]
pub(super) struct Running {
    child: process::Child,
    _started: Option<ChildGuard>,
}

pub(super) fn start(program: &CommandSpec) -> io::Result<Child> {
    #[expect(clippy::disallowed_methods, reason = "how the launcher spawns")]
    let mut command = Command::new(&program.name);
    command
        .args(&program.args)
        .env_clear()
        .envs(&program.env)
        .current_dir(&program.folder)
        .stdin(if program.has_input { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    lead_group(command.as_std_mut());
    restore_file_limit(command.as_std_mut());
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
