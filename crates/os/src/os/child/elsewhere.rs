//! Children where the standard library starts them.

use std::io;
use std::process::{ExitStatus, Stdio};

use tokio::process::{self, Command};

use crate::os::child::{Child, Program};
use crate::os::native::{self, Started, keep_file_limit, lead_group};

/// A child without its streams.
#[derive(Debug)]
pub(super) struct Running {
    child: process::Child,
    _started: Option<Started>,
}

pub(super) fn start(program: &Program) -> io::Result<Child> {
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
    keep_file_limit(command.as_std_mut());
    let (mut child, started) = native::start(|| command.spawn(), process::Child::id)?;
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
        // An error means that it has ended.
        let _ = self.child.start_kill();
    }
}
