//! Orphans on Linux, through the child-subreaper attribute and `/proc`.

use std::path::PathBuf;
use std::{fs, io};

use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, kill_process, pidfd_open, pidfd_send_signal,
    set_child_subreaper, waitpid,
};

pub(crate) fn adopt() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// Returns all children of this process. The kernel lists them by thread.
pub(crate) fn children() -> Vec<u32> {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let texts = threads.filter_map(|thread| {
        // If a thread exits, its children move to another thread.
        fs::read_to_string(thread.path().join("children")).ok()
    });
    let mut children = Vec::new();
    for text in texts {
        children.extend(text.split_ascii_whitespace().filter_map(|id| id.parse::<u32>().ok()));
    }
    children
}

/// Reaps a child if it has exited.
pub(crate) fn has_ended(child: u32) -> bool {
    pid(child).is_none_or(|child| !matches!(waitpid(Some(child), WaitOptions::NOHANG), Ok(None)))
}

/// Kills a child or an adopted process: until it is waited for, no other process gets its id.
pub fn kill(process: u32) {
    if let Some(process) = pid(process) {
        // Fails if the process is gone or belongs to another user.
        let _ = kill_process(process, Signal::KILL);
    }
}

/// Kills a process if `is_meant` holds. Check and signal concern the same process, even if its id is
/// reused in between.
pub fn kill_if(process: u32, is_meant: impl FnOnce(u32) -> bool) {
    let Some(id) = pid(process) else { return };
    let handle = pidfd_open(id, PidfdFlags::empty());
    if !is_meant(process) {
        return;
    }
    // Errors mean that the process is gone or belongs to another user.
    match handle {
        Ok(handle) => drop(pidfd_send_signal(handle, Signal::KILL)),
        // Linux before 5.3, or a container that doesn't allow the call.
        Err(Errno::NOSYS | Errno::PERM) => kill(process),
        Err(_) => {}
    }
}

/// Returns when a process started, in clock ticks since boot. Two processes with the same id differ
/// in it.
pub fn start_time(process: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name of the program, in parentheses, may contain anything.
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(19)?.parse().ok()
}

/// Returns a variable of a process's initial environment; `None` if it is unset or unreadable.
pub fn variable_of(process: u32, name: &str) -> Option<String> {
    let all = fs::read(PathBuf::from(format!("/proc/{process}/environ"))).ok()?;
    let mut values = all
        .split(|byte| *byte == 0)
        .filter_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="));
    String::from_utf8(values.next()?.to_vec()).ok()
}

/// Returns the ids of all visible processes.
pub fn list_processes() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn pid(process: u32) -> Option<Pid> {
    i32::try_from(process).ok().and_then(Pid::from_raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_times_identify_processes() {
        let own = start_time(std::process::id()).unwrap();
        assert_eq!(start_time(std::process::id()), Some(own));
        assert!(start_time(1).unwrap() <= own);
        assert_eq!(start_time(u32::MAX), None);
    }

    #[test]
    fn process_that_is_not_meant_is_spared() {
        let mut asked = None;
        kill_if(std::process::id(), |process| {
            asked = Some(process);
            false
        });
        assert_eq!(asked, Some(std::process::id()));
    }
}
