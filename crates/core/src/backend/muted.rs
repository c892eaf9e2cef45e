//! Servers that their user has switched off for now: they are not started, whoever asks.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use crate::backend::{Reach, StartFailure};

/// The servers that are switched off, by how they are reached: entries that would share a process are
/// one.
#[derive(Debug, Default)]
pub(crate) struct Muted(Mutex<HashSet<Reach>>);

impl Muted {
    fn all<T>(&self, f: impl FnOnce(&mut HashSet<Reach>) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Switches a server off, or on again.
    pub(crate) fn set(&self, reach: &Reach, is_muted: bool) {
        self.all(|all| {
            if is_muted {
                all.insert(reach.clone());
            } else {
                all.remove(reach);
            }
        });
    }

    /// Returns `true` if a server is switched off.
    pub(crate) fn has(&self, reach: &Reach) -> bool {
        self.all(|all| all.contains(reach))
    }
}

impl StartFailure {
    /// The user has switched it off.
    pub(crate) fn muted() -> Self {
        Self::new(
            "its user has switched it off for now",
            "do without it, or ask the user to switch it on again: `m` in `mcp-workbench top` \
             unmutes it",
        )
    }

    /// The user has stopped it while it was starting.
    pub(crate) fn halted() -> Self {
        Self::new(
            "its user stopped it while it was starting",
            "ask the user whether it may be started again",
        )
    }
}
