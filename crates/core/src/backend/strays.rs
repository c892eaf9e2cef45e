//! Strays: what a server starts and what leaves its process group, so that the end of the group does not
//! reach it.
//!
//! Every server is launched with a mark in its environment, which what it starts inherits. When the
//! parent of such a process ends, it becomes our child ([`Orphans`]); and when its server has ended, so
//! does it. One that has taken the mark off is ended when all servers have ended that ran when it was
//! first seen, for it can be no other's.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::backend::guard::{Guard, MARK};
use crate::backend::launch::container::Farewell;
use crate::os::{self, Orphans};

/// Names a run of the workbench, as the marks of its launches begin: as no other one does.
pub(crate) fn name_of_run() -> String {
    let mut random = [0; 8];
    // Without random numbers the process is told from all others that run.
    let _ = getrandom::fill(&mut random);
    format!("{}-{:x}.", std::process::id(), u64::from_le_bytes(random))
}

/// Knows which launches run, and ends what those leave behind that have ended.
#[derive(Debug)]
pub(crate) struct Strays {
    /// How the marks of all launches of ours begin.
    run: String,
    known: Mutex<Known>,
    /// Wakes the task that looks for them.
    wanted: Notify,
}

#[derive(Debug)]
struct Known {
    guard: Guard,
    launched: u64,
    /// The launches whose server has not ended.
    running: BTreeSet<u64>,
    /// Orphans, each with the launches that it can be of.
    orphans: BTreeMap<u32, BTreeSet<u64>>,
}

/// One launch of a server. Dropping it says that the server has ended.
#[derive(Debug)]
pub(crate) struct Launched {
    strays: Arc<Strays>,
    number: u64,
    group: Option<u32>,
}

impl Strays {
    /// Makes one for launches whose marks begin with `run`, which no other workbench has.
    pub(crate) fn new(run: String, guard: Guard) -> Self {
        let known =
            Known { guard, launched: 0, running: BTreeSet::new(), orphans: BTreeMap::new() };
        Self { run, known: Mutex::new(known), wanted: Notify::new() }
    }

    /// Begins a launch.
    pub(crate) fn launch(self: &Arc<Self>) -> Launched {
        let mut known = self.known();
        known.launched += 1;
        let number = known.launched;
        known.running.insert(number);
        Launched { strays: Arc::clone(self), number, group: None }
    }

    /// Takes in strays from now on, and ends them as they are found, until `shutdown` and nothing is
    /// left to end. Keeps the guard alive besides.
    pub(crate) fn tend(self: Arc<Self>, shutdown: CancellationToken) -> impl Future<Output = ()> {
        let orphans = Orphans::adopt();
        async move {
            match orphans {
                Ok(orphans) => self.sweep_until(orphans, shutdown).await,
                Err(error) => {
                    tracing::warn!(%error, "what leaves the process group of its server stays");
                }
            }
        }
    }

    async fn sweep_until(&self, mut orphans: Orphans, shutdown: CancellationToken) {
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

    /// Kills the orphans whose server has ended. Returns how many orphans there are.
    fn sweep(&self, orphans: &Orphans) -> usize {
        let found = orphans.list();
        let mut known = self.known();
        known.guard.renew();
        let Known { running, orphans, .. } = &mut *known;
        orphans.retain(|orphan, _| found.contains(orphan));
        for orphan in &found {
            let launches = orphans.entry(*orphan).or_insert_with(|| {
                self.launch_of(*orphan).map_or_else(|| running.clone(), |it| BTreeSet::from([it]))
            });
            if launches.is_disjoint(running) {
                tracing::debug!(process = orphan, "ending what a server left behind");
                os::kill(*orphan);
            }
        }
        found.len()
    }

    /// The launch that the mark of a process is of, if it has one of ours.
    fn launch_of(&self, process: u32) -> Option<u64> {
        let mark = os::variable_of(process, MARK)?;
        mark.strip_prefix(&self.run)?.parse().ok()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Launched {
    /// The mark that the server gets, and what it starts inherits.
    pub(crate) fn mark(&self) -> String {
        format!("{}{}", self.strays.run, self.number)
    }

    /// From now on the group is ended when we are killed, and then the farewell is said.
    pub(crate) fn runs_as(&mut self, group: u32, farewell: Option<&Farewell>) {
        self.group = Some(group);
        self.strays.known().guard.watch(group, farewell);
    }
}

impl Drop for Launched {
    fn drop(&mut self) {
        let mut known = self.strays.known();
        known.running.remove(&self.number);
        if let Some(group) = self.group {
            known.guard.release(group);
        }
        self.strays.wanted.notify_one();
    }
}
