//! Servers that the user has muted, which no agent can start.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use crate::backend::{ServerTransport, StartError};

/// Muted servers by transport: entries that would share a process are muted together.
#[derive(Debug, Default)]
pub(crate) struct MuteList(Mutex<HashSet<ServerTransport>>);

impl MuteList {
    fn all<T>(&self, f: impl FnOnce(&mut HashSet<ServerTransport>) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn set(&self, reach: &ServerTransport, is_muted: bool) {
        self.all(|all| {
            if is_muted {
                all.insert(reach.clone());
            } else {
                all.remove(reach);
            }
        });
    }

    pub(crate) fn has(&self, reach: &ServerTransport) -> bool {
        self.all(|all| all.contains(reach))
    }
}

impl StartError {
    pub(crate) fn muted() -> Self {
        Self::new(
            "its user has switched it off for now",
            "do without it, or ask the user to switch it on again: `m` in `mcp-workbench top` \
             unmutes it",
        )
    }

    pub(crate) fn halted() -> Self {
        Self::new(
            "its user stopped it while it was starting",
            "ask the user whether it may be started again",
        )
    }
}
