//! Child processes with piped streams: spawning, waiting and killing.

#[cfg(not(target_os = "linux"))]
mod fallback;
#[cfg(target_os = "linux")]
mod linux;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};

use tokio::process::{ChildStderr, ChildStdin, ChildStdout};

#[cfg(not(target_os = "linux"))]
use crate::child::fallback as native;
#[cfg(target_os = "linux")]
use crate::child::linux as native;
use crate::native::{lead_group, restore_file_limit};

/// The search path for programs whose environment has no `PATH`.
pub const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// A program with its arguments and environment.
#[derive(Clone, Debug, Default)]
pub struct CommandSpec {
    /// A path, or a name that is looked up in the folders of `PATH` in `env`.
    pub name: OsString,
    /// The arguments, without the program name.
    pub args: Vec<OsString>,
    /// The complete environment; nothing is inherited.
    pub env: BTreeMap<OsString, OsString>,
    /// The working directory. Relative paths in `name` and `PATH` start here.
    pub folder: PathBuf,
    /// `true` to pipe stdin; otherwise stdin is empty.
    pub has_input: bool,
}

/// A running child process. Dropping it kills the process.
#[derive(Debug)]
pub struct Child {
    /// The write end of its stdin, if it is piped.
    pub stdin: Option<ChildStdin>,
    pub stdout: Option<ChildStdout>,
    pub stderr: Option<ChildStderr>,
    running: native::Running,
}

impl Child {
    /// Spawns the program as leader of a new process group.
    ///
    /// The child gets the limit of open files that this process had before
    /// [`raise_file_limit`](crate::raise_file_limit). On Linux, the kernel kills the child when
    /// the thread that spawned it exits. Must be called inside a Tokio runtime.
    ///
    /// # Errors
    ///
    /// Returns an error if the program or folder doesn't exist, or the program isn't executable.
    pub fn spawn(program: &CommandSpec) -> io::Result<Self> {
        native::start(program)
    }

    /// Returns the process id, which is also the process group id; `None` once [`Self::wait`] has
    /// seen the exit.
    pub fn id(&self) -> Option<u32> {
        self.running.id()
    }

    /// Waits for the child to exit and returns its status. Can be called again.
    ///
    /// # Errors
    ///
    /// Returns an error if other code has already waited for this process.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.running.wait().await
    }

    /// Kills the child, unless it was already waited for.
    pub fn kill(&mut self) {
        self.running.kill();
    }
}

/// Returns the command that starts the program as leader of a process group, with piped streams.
fn command(program: &CommandSpec) -> Command {
    #[expect(clippy::disallowed_methods, reason = "how the launcher spawns")]
    let mut command = Command::new(&program.name);
    command
        .args(&program.args)
        .env_clear()
        .envs(&program.env)
        .current_dir(&program.folder)
        .stdin(if program.has_input { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    lead_group(&mut command);
    restore_file_limit(&mut command);
    command
}

#[cfg(test)]
#[cfg(unix)]
mod tests;
