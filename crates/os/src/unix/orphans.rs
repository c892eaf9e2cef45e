//! Orphans: descendants of this process that outlive their own parent.

#[cfg(not(target_os = "linux"))]
mod fallback;
#[cfg(target_os = "linux")]
mod linux;

use std::collections::BTreeSet;
use std::io;

use parking_lot::Mutex;
use tokio::signal::unix::{self, SignalKind};

#[cfg(not(target_os = "linux"))]
use crate::unix::orphans::fallback as native;
#[cfg(target_os = "linux")]
use crate::unix::orphans::linux as native;

pub use crate::unix::orphans::native::{kill, kill_if, list_processes, start_time, variable_of};

/// The children that this program spawned and has not waited for yet.
static STARTED: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// Marks a spawned child, so that it isn't treated as an orphan. Drop it after waiting for the
/// child.
#[derive(Debug)]
pub struct ChildGuard(u32);

impl Drop for ChildGuard {
    fn drop(&mut self) {
        STARTED.lock().remove(&self.0);
    }
}

/// Spawns a child with `spawn` and registers its `id`, so that it isn't treated as an orphan.
///
/// # Errors
///
/// Returns the error of `spawn`.
pub fn spawn_tracked<C>(
    spawn: impl FnOnce() -> io::Result<C>,
    id: impl FnOnce(&C) -> Option<u32>,
) -> io::Result<(C, Option<ChildGuard>)> {
    // Held during the spawn: `OrphanReaper::reap` must not see an unregistered child.
    let mut started = STARTED.lock();
    let child = spawn()?;
    let id = id(&child);
    started.extend(id);
    Ok((child, id.map(ChildGuard)))
}

/// Makes orphaned descendants children of this process, and reports exits of children.
#[derive(Debug)]
pub struct OrphanReaper {
    ended: unix::Signal,
}

impl OrphanReaper {
    /// Adopts orphans from now on, if the system supports it. Must be called inside a Tokio
    /// runtime.
    ///
    /// # Errors
    ///
    /// Returns an error if SIGCHLD can't be handled, or the kernel refuses to make this process a
    /// subreaper.
    pub fn install() -> io::Result<Self> {
        let ended = unix::signal(SignalKind::child())?;
        native::adopt()?;
        Ok(Self { ended })
    }

    /// Waits until any child exits, orphan or not.
    pub async fn child_ended(&mut self) {
        self.ended.recv().await;
    }

    /// Returns the orphans that are running, and reaps those that have exited.
    pub fn reap(&self) -> Vec<u32> {
        let started = STARTED.lock();
        let mut orphans = native::children();
        orphans.retain(|child| !started.contains(child) && !native::has_ended(*child));
        orphans
    }
}
