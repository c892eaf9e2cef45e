//! Children whose streams are ours: how they are started, waited for and killed.

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod linux;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

use tokio::process::{ChildStderr, ChildStdin, ChildStdout};

#[cfg(not(target_os = "linux"))]
use crate::os::child::elsewhere as native;
#[cfg(target_os = "linux")]
use crate::os::child::linux as native;

/// The folders in which a program is looked for whose environment has no `PATH`.
pub const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// A program, and all that it is started with.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// A path, or a name that is looked for in the folders of `PATH` in `env`.
    pub name: OsString,
    /// The arguments after the name.
    pub args: Vec<OsString>,
    /// The whole environment.
    pub env: BTreeMap<OsString, OsString>,
    /// The folder that it runs in, from which the paths in `name` and `PATH` go.
    pub folder: PathBuf,
    /// `true` if its input is to be written; it is empty otherwise.
    pub has_input: bool,
}

/// A child of ours. Dropping it kills it.
#[derive(Debug)]
pub struct Child {
    /// The writing end of its input, if it has any.
    pub stdin: Option<ChildStdin>,
    /// The reading end of its output.
    pub stdout: Option<ChildStdout>,
    /// The reading end of its errors.
    pub stderr: Option<ChildStderr>,
    running: native::Running,
}

impl Child {
    /// Starts one, which leads a process group of its own and may open as many files as we could before
    /// [`raise_file_limit`](crate::os::raise_file_limit). On Linux, the kernel kills it when the thread ends that
    /// calls this. Must be called inside a Tokio runtime.
    ///
    /// # Errors
    ///
    /// When there is no such program or folder, or it may not be executed.
    pub fn start(program: &Program) -> io::Result<Self> {
        native::start(program)
    }

    /// Returns its id, which is that of its process group too; `None` after it has been waited for.
    pub fn id(&self) -> Option<u32> {
        self.running.id()
    }

    /// Waits until it has ended, and says how; as often as it is asked.
    ///
    /// # Errors
    ///
    /// When somebody else has waited for it.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.running.wait().await
    }

    /// Kills it, if it has not been waited for.
    pub fn kill(&mut self) {
        self.running.kill();
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests;
