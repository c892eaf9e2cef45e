//! Groups of processes, and the end of a child.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// Makes the child lead a process group of its own, whose id is the child's.
pub fn lead_group(command: &mut Command) {
    command.process_group(0);
}

/// Asks every process of a group to end.
pub fn terminate_group(group: u32) {
    signal_group(group, Signal::TERM);
}

/// Kills every process of a group.
pub fn kill_group(group: u32) {
    signal_group(group, Signal::KILL);
}

fn signal_group(group: u32, signal: Signal) {
    if let Some(group) = i32::try_from(group).ok().and_then(Pid::from_raw) {
        // An error means that nothing of the group is left.
        let _ = kill_process_group(group, signal);
    }
}

/// Asks a workbench to read its configuration again, with SIGHUP.
///
/// # Errors
///
/// When there is no such process, or it is another user's.
pub fn ask_to_reload(process: u32) -> io::Result<()> {
    let process = i32::try_from(process).ok().and_then(Pid::from_raw);
    let process = process.ok_or(io::ErrorKind::InvalidInput)?;
    Ok(kill_process(process, Signal::HUP)?)
}

/// Has the kernel kill the child when the thread that spawns it ends.
#[cfg(target_os = "linux")]
pub fn die_with_us(command: &mut Command) {
    use rustix::process::{getpid, getppid, set_parent_process_death_signal};

    let parent = getpid();
    let prepare = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // We may have died before the signal was set.
        if getppid() == Some(parent) { Ok(()) } else { Err(io::Error::from_raw_os_error(3)) }
    };
    #[expect(unsafe_code, reason = "the closure makes two system calls and allocates nothing")]
    // SAFETY: between fork and exec only async-signal-safe functions may run; prctl and getppid
    // are, and nothing here allocates or takes a lock.
    unsafe {
        command.pre_exec(prepare);
    }
}

/// Does nothing: only Linux can tie a child to its parent.
#[cfg(not(target_os = "linux"))]
pub fn die_with_us(_: &mut Command) {}
