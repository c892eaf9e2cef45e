//! Orphans on Linux, through the child-subreaper attribute and `/proc`.

use std::path::PathBuf;
use std::{fs, io};

use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, waitpid,
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

pub fn kill(process: u32) {
    if let Some(process) = pid(process) {
        // Fails if the process is gone or belongs to another user.
        let _ = kill_process(process, Signal::KILL);
    }
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
