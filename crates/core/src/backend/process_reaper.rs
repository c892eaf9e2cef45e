//! Kills processes that a server started and that outlive it outside its process group.
//!
//! Every launch puts a unique mark into the server's environment, and all its descendants inherit
//! it. When the parent of a descendant exits, this process adopts it ([`OrphanReaper`]), reads the mark
//! and kills it once the marked launch has ended. An orphan without a mark is killed when every
//! server that ran when it was first seen has ended.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::backend::launch::container::ContainerCleanup;
use crate::backend::watchdog::{LAUNCH_ID_VAR, Watchdog};
use mcp_workbench_os::OrphanReaper;

/// Returns a prefix for launch marks that no other workbench process uses.
pub(crate) fn name_of_run() -> String {
    let mut random = [0; 8];
    // Without random numbers, the process ID still distinguishes running workbenches.
    let _ = getrandom::fill(&mut random);
    format!("{}-{:x}.", std::process::id(), u64::from_le_bytes(random))
}

#[derive(Debug)]
pub(crate) struct ProcessReaper {
    run: String,
    known: Mutex<ReaperState>,
    wanted: Notify,
}

#[derive(Debug)]
struct ReaperState {
    guard: Watchdog,
    launched: u64,
    running: BTreeSet<u64>,
    /// Adopted processes, each with the launches it may belong to.
    orphans: BTreeMap<u32, BTreeSet<u64>>,
}

/// One launch of a server. Dropping it reports that the server has ended.
#[derive(Debug)]
pub(crate) struct LaunchGuard {
    reaper: Arc<ProcessReaper>,
    number: u64,
    group: Option<u32>,
}

impl ProcessReaper {
    pub(crate) fn new(run: String, guard: Watchdog) -> Self {
        let known =
            ReaperState { guard, launched: 0, running: BTreeSet::new(), orphans: BTreeMap::new() };
        Self { run, known: Mutex::new(known), wanted: Notify::new() }
    }

    pub(crate) fn launch(self: &Arc<Self>) -> LaunchGuard {
        let mut known = self.known();
        known.launched += 1;
        let number = known.launched;
        known.running.insert(number);
        LaunchGuard { reaper: Arc::clone(self), number, group: None }
    }

    /// Adopts orphans and kills them when their launch has ended. The future ends after `shutdown`,
    /// once no server and no orphan is left. Each sweep also restarts a watchdog that has died.
    pub(crate) fn run(self: Arc<Self>, shutdown: CancellationToken) -> impl Future<Output = ()> {
        let orphans = OrphanReaper::install();
        async move {
            match orphans {
                Ok(orphans) => self.sweep_until(orphans, shutdown).await,
                Err(error) => {
                    tracing::warn!(%error, "cannot kill processes that leave the process group of \
                                            their server");
                }
            }
        }
    }

    async fn sweep_until(&self, mut orphans: OrphanReaper, shutdown: CancellationToken) {
        let mut is_ending = false;
        loop {
            let left = self.sweep(&orphans);
            if is_ending && left == 0 && self.known().running.is_empty() {
                return;
            }
            tokio::select! {
                () = orphans.child_ended() => {}
                () = self.wanted.notified() => {}
                () = shutdown.cancelled(), if !is_ending => is_ending = true,
            }
        }
    }

    /// Kills the orphans whose launch has ended. Returns the number of all orphans.
    fn sweep(&self, orphans: &OrphanReaper) -> usize {
        let found = orphans.reap();
        let mut known = self.known();
        known.guard.ensure_running();
        let ReaperState { running, orphans, .. } = &mut *known;
        orphans.retain(|orphan, _| found.contains(orphan));
        for orphan in &found {
            let launches = orphans.entry(*orphan).or_insert_with(|| {
                self.launch_of(*orphan).map_or_else(|| running.clone(), |it| BTreeSet::from([it]))
            });
            if launches.is_disjoint(running) {
                tracing::debug!(process = orphan, "killing an orphaned process");
                mcp_workbench_os::kill(*orphan);
            }
        }
        found.len()
    }

    /// Returns `None` if the mark is missing or another workbench's.
    fn launch_of(&self, process: u32) -> Option<u64> {
        let mark = mcp_workbench_os::variable_of(process, LAUNCH_ID_VAR)?;
        mark.strip_prefix(&self.run)?.parse().ok()
    }

    fn known(&self) -> MutexGuard<'_, ReaperState> {
        self.known.lock()
    }
}

impl LaunchGuard {
    pub(crate) fn mark(&self) -> String {
        format!("{}{}", self.reaper.run, self.number)
    }

    /// Has the watchdog clean up this process group if the workbench is killed.
    pub(crate) fn set_process_group(&mut self, group: u32, cleanup: Option<&ContainerCleanup>) {
        self.group = Some(group);
        self.reaper.known().guard.watch(group, cleanup);
    }
}

impl Drop for LaunchGuard {
    fn drop(&mut self) {
        let mut known = self.reaper.known();
        known.running.remove(&self.number);
        if let Some(group) = self.group {
            known.guard.release(group);
        }
        self.reaper.wanted.notify_one();
    }
}
