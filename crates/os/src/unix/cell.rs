//! Sandboxing of the current process, on systems that support it.

#[cfg(not(target_os = "linux"))]
mod fallback;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
mod seccomp;

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

#[cfg(not(target_os = "linux"))]
use crate::unix::cell::fallback as native;
#[cfg(target_os = "linux")]
use crate::unix::cell::linux as native;

pub use crate::unix::cell::native::{check_sandbox_support, enter_sandbox, supports_signal_scope};

/// Replaces this program with the command. Returns only on failure.
pub fn exec(command: &mut Command) -> io::Error {
    command.exec()
}
