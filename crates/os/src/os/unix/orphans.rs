//! Orphans: processes below us whose own parent has ended.

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod linux;

use std::collections::BTreeSet;
use std::io;
use std::sync::{Mutex, PoisonError};

use tokio::signal::unix::{self, SignalKind};

#[cfg(not(target_os = "linux"))]
use crate::os::unix::orphans::elsewhere as native;
#[cfg(target_os = "linux")]
use crate::os::unix::orphans::linux as native;

pub use crate::os::unix::orphans::native::{kill, processes, variable_of};

/// The children that we started and that have not been waited for.
static STARTED: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// A child that we started, which is no orphan until this is dropped. What waits for the child drops it
/// afterwards.
#[derive(Debug)]
pub struct Started(u32);

impl Drop for Started {
    fn drop(&mut self) {
        STARTED.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.0);
    }
}

/// Starts a child by `spawn`, so that it is not taken for an orphan; `id` is its id.
///
/// # Errors
///
/// The errors of `spawn`.
pub fn start<C>(
    spawn: impl FnOnce() -> io::Result<C>,
    id: impl FnOnce(&C) -> Option<u32>,
) -> io::Result<(C, Option<Started>)> {
    // Nobody may look between the start and the entry.
    let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    let child = spawn()?;
    let id = id(&child);
    started.extend(id);
    Ok((child, id.map(Started)))
}

/// Hears of children that end; as long as the program runs, orphans below us become our children.
#[derive(Debug)]
pub struct Orphans {
    ended: unix::Signal,
}

impl Orphans {
    /// Takes in orphans from now on, where the system has a way to. Must be called inside a Tokio
    /// runtime.
    ///
    /// # Errors
    ///
    /// When the operating system lets us hear no signals, or lets orphans go elsewhere.
    pub fn adopt() -> io::Result<Self> {
        let ended = unix::signal(SignalKind::child())?;
        native::adopt()?;
        Ok(Self { ended })
    }

    /// Waits until a child of ours has ended, an orphan or not.
    pub async fn child_ended(&mut self) {
        self.ended.recv().await;
    }

    /// Lists the orphans that are our children now. One that has ended is waited for, and not listed.
    pub fn list(&self) -> Vec<u32> {
        let started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
        let mut orphans = native::children();
        orphans.retain(|child| !started.contains(child) && !native::has_ended(*child));
        orphans
    }
}
