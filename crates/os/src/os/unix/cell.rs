//! Confinement of a process, where the system has a way to.

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
mod seccomp;

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

#[cfg(not(target_os = "linux"))]
use crate::os::unix::cell::elsewhere as native;
#[cfg(target_os = "linux")]
use crate::os::unix::cell::linux as native;

pub use crate::os::unix::cell::native::{can_confine, confine, hides_from_signals};

/// Runs the command in place of this program. Returns only if that fails.
pub fn become_program(command: &mut Command) -> io::Error {
    command.exec()
}
