//! Groups of processes, and how they are ended.

#[derive(Clone, Copy)]
pub(crate) enum Ending {
    Terminate,
    Kill,
}

/// Kills every process of a group.
pub(crate) fn kill_group(group: u32) {
    signal_group(group, Ending::Kill);
}

#[cfg(unix)]
pub(crate) fn signal_group(group: u32, ending: Ending) {
    use rustix::process::{Pid, Signal, kill_process_group};

    let signal = match ending {
        Ending::Terminate => Signal::TERM,
        Ending::Kill => Signal::KILL,
    };
    if let Some(group) = i32::try_from(group).ok().and_then(Pid::from_raw) {
        // An error means that nothing of the group is left.
        let _ = kill_process_group(group, signal);
    }
}

#[cfg(not(unix))]
pub(crate) fn signal_group(_: u32, _: Ending) {}
