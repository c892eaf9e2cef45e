//! Servers that an operator has paused, which no agent can start.

use std::collections::HashSet;

use parking_lot::Mutex;

use crate::backend::{ServerTransport, StartError};

/// Paused servers by transport: entries that would share a process are paused together.
#[derive(Debug, Default)]
pub(crate) struct PausedServers(Mutex<HashSet<ServerTransport>>);

impl PausedServers {
    fn all<T>(&self, f: impl FnOnce(&mut HashSet<ServerTransport>) -> T) -> T {
        f(&mut self.0.lock())
    }

    pub(crate) fn set(&self, reach: &ServerTransport, is_paused: bool) {
        self.all(|all| {
            if is_paused {
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
    pub(crate) fn paused() -> Self {
        Self::new(
            "paused by an operator",
            "continue without it, or ask the user to resume it in `mcp-workbench top` (key `m`) \
             or on the dashboard",
        )
    }

    pub(crate) fn halted() -> Self {
        Self::new("stopped by an operator during startup", "ask the user before starting it again")
    }
}
