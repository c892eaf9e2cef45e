//! The watchdog: a second process of this program that cleans up after a killed workbench.
//!
//! A workbench that shuts down normally stops its servers itself. In case it is killed, the
//! watchdog reads from a pipe and, at end of file, kills the remaining processes. The parent-death
//! signal set by `launch` reaches only direct children. The watchdog also kills their process
//! groups, and processes that left the group but have the launch ID in their environment.

use std::collections::BTreeMap;
use std::io::{self, BufRead, PipeReader, PipeWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use crate::backend::launch::container::ContainerCleanup;
use mcp_workbench_os::{ChildGuard, kill_group};

pub const LAUNCH_ID_VAR: &str = "WORKBENCH_LAUNCH";

/// Maximum sweeps for marked processes, which can spawn more while they are killed.
const MAX_SWEEPS: usize = 50;

/// A watchdog that exits sooner is expected to do so again.
const SHORT_LIFE: Duration = Duration::from_secs(1);
/// Short-lived watchdogs in a row before giving up. The next server start resets the count.
pub(crate) const MAX_SHORT_LIVES: usize = 5;

/// Minimum capacity of a pipe, in bytes.
const PIPE_ROOM: usize = 4096;

type SpawnFn = fn(&Path, PipeReader) -> io::Result<(Child, Option<ChildGuard>)>;

/// Registers the process groups of running servers with the watchdog process, which it starts with
/// the first group and restarts if it exits.
#[derive(Debug)]
pub(crate) struct Watchdog {
    /// The executable that runs as the watchdog; `None` disables it.
    program: Option<PathBuf>,
    start: SpawnFn,
    /// Prefix of the launch IDs of this workbench.
    run: String,
    running: Option<WatchdogProcess>,
    short_lives: usize,
    /// Process groups to kill, each with its container cleanup.
    groups: BTreeMap<u32, Option<ContainerCleanup>>,
}

#[derive(Debug)]
struct WatchdogProcess {
    child: Child,
    input: PipeWriter,
    since: Instant,
    _started: Option<ChildGuard>,
}

impl Watchdog {
    pub(crate) fn new(program: Option<PathBuf>, start: SpawnFn, run: String) -> Self {
        Self { program, start, run, running: None, short_lives: 0, groups: BTreeMap::new() }
    }

    /// Registers a process group to kill if the workbench dies, with its container cleanup.
    pub(crate) fn watch(&mut self, group: u32, cleanup: Option<&ContainerCleanup>) {
        self.groups.insert(group, cleanup.cloned());
        if self.running.is_some() {
            self.tell(&added(group, cleanup));
        }
        self.short_lives = 0;
        self.ensure_running();
    }

    pub(crate) fn release(&mut self, group: u32) {
        if self.groups.remove(&group).is_some() {
            self.tell(&format!("-{group}"));
        }
    }

    /// Starts a watchdog process if groups are registered and none is running.
    pub(crate) fn ensure_running(&mut self) {
        let has_gone =
            |it: &mut WatchdogProcess| it.child.try_wait().is_ok_and(|status| status.is_some());
        if let Some(gone) = self.running.take_if(has_gone) {
            tracing::warn!("the watchdog process exited");
            let is_short = gone.since.elapsed() < SHORT_LIFE;
            self.short_lives = if is_short { self.short_lives + 1 } else { 0 };
        }
        let has_given_up = self.short_lives >= MAX_SHORT_LIVES;
        let Some(program) = &self.program else { return };
        if self.running.is_some() || self.groups.is_empty() || has_given_up {
            return;
        }
        let groups = self.groups.iter();
        let groups = groups.map(|(group, cleanup)| added(*group, cleanup.as_ref()) + "\n");
        let list = format!("={}\n{}", self.run, groups.collect::<String>());
        self.running = start_with(self.start, program, list.as_bytes())
            .inspect_err(|error| tracing::warn!(%error, "failed to start the watchdog process"))
            .ok();
    }

    fn tell(&mut self, line: &str) {
        let input = self.running.as_mut().map(|running| &mut running.input);
        // In one write, so that the watchdog wakes once.
        let line = format!("{line}\n");
        if let Some(Err(error)) = input.map(|input| input.write_all(line.as_bytes())) {
            tracing::debug!(%error, "the watchdog process has exited");
        }
    }
}

/// The protocol line for a new group: `+`, its ID, and the container cleanup as JSON.
fn added(group: u32, cleanup: Option<&ContainerCleanup>) -> String {
    let farewell = cleanup.and_then(|cleanup| serde_json::to_string(cleanup).ok());
    format!("+{group} {}", farewell.unwrap_or_default())
}

/// Fills the pipe before the spawn, because the workbench may be killed right after it.
fn start_with(start: SpawnFn, program: &Path, list: &[u8]) -> io::Result<WatchdogProcess> {
    let (early, late) = list.split_at_checked(PIPE_ROOM).unwrap_or((list, &[]));
    let (reader, mut input) = io::pipe()?;
    input.write_all(early)?;
    let (child, started) = start(program, reader)?;
    let mut running = WatchdogProcess { child, input, since: Instant::now(), _started: started };
    if let Err(error) = running.input.write_all(late) {
        tracing::debug!(%error, "the watchdog process has exited");
    }
    Ok(running)
}

/// Runs the watchdog process: tracks the list until `input` ends, then kills the listed groups and
/// all processes with a launch ID of the same run.
pub fn run(input: impl BufRead) {
    // The process now idles until the workbench ends.
    mcp_workbench_os::drop_clean_program_pages();
    let mut groups: BTreeMap<u32, WatchedGroup> = BTreeMap::new();
    let mut run = None;
    for line in input.lines().map_while(Result::ok) {
        match line.split_at_checked(1) {
            Some(("=", name)) => run = Some(name.to_owned()),
            Some(("+", added)) => {
                let (group, farewell) = added.split_once(' ').unwrap_or((added, ""));
                let cleanup = serde_json::from_str::<ContainerCleanup>(farewell).ok();
                groups.extend(group.parse::<u32>().ok().map(|group| {
                    (
                        group,
                        WatchedGroup { leader_start: mcp_workbench_os::start_time(group), cleanup },
                    )
                }));
            }
            Some(("-", group)) => {
                let _released = group.parse::<u32>().ok().and_then(|group| groups.remove(&group));
            }
            _ => {}
        }
    }
    for (group, watched) in &groups {
        if !watched.is_reused(mcp_workbench_os::start_time(*group)) {
            kill_group(*group);
        }
    }
    if let Some(run) = run {
        kill_marked(&run);
    }
    groups.into_values().filter_map(|group| group.cleanup).for_each(|cleanup| cleanup.run());
}

struct WatchedGroup {
    leader_start: Option<u64>,
    cleanup: Option<ContainerCleanup>,
}

impl WatchedGroup {
    /// Returns `true` if another process has the ID of the group by now. While any process of a
    /// group runs, no new process gets its ID.
    fn is_reused(&self, start_now: Option<u64>) -> bool {
        start_now.is_some() && start_now != self.leader_start
    }
}

fn kill_marked(run: &str) {
    let is_marked = |process: u32| {
        mcp_workbench_os::variable_of(process, LAUNCH_ID_VAR)
            .is_some_and(|mark| mark.starts_with(run))
    };
    for _ in 0..MAX_SWEEPS {
        let mut marked = mcp_workbench_os::list_processes();
        marked.retain(|process| is_marked(*process));
        if marked.is_empty() {
            return;
        }
        for process in marked {
            mcp_workbench_os::kill_if(process, is_marked);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reused_group_id_is_spared() {
        let watched = |leader_start| WatchedGroup { leader_start, cleanup: None };
        assert!(watched(Some(7)).is_reused(Some(8)), "another process");
        assert!(watched(None).is_reused(Some(8)), "the leader had exited before");
        assert!(!watched(Some(7)).is_reused(Some(7)), "the leader");
        assert!(!watched(Some(7)).is_reused(None), "only other members are left");
    }
}
