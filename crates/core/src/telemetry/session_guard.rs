//! The guard of a session, which reports its beginning and end and the tokens that it saves.

use std::collections::BTreeSet;

use parking_lot::{Mutex, MutexGuard};

use crate::telemetry::event::{ClientSummary, Event, SessionContext};
use crate::telemetry::event_bus::EventBus;
use mcp_workbench_names::{AgentName, ToolboxName};

/// Estimates the tokens that tool definitions of this size take in a model's context. Their JSON
/// has about 4.5 bytes per token.
pub fn estimate_tokens(bytes: usize) -> usize {
    (bytes * 2 + 4) / 9
}

/// A session of an agent. Its end is reported when the guard is dropped.
pub struct SessionGuard {
    listeners: EventBus,
    state: Mutex<SessionTotals>,
}

#[derive(Default)]
struct SessionTotals {
    context: SessionContext,
    /// Size of the longest tool list served, in bytes.
    listed: usize,
    /// Size of the results that contained definitions, in bytes.
    told: usize,
    /// The name and the version of the client program that were reported last.
    client: (String, String),
    /// The toolboxes whose opening has been reported.
    opened: BTreeSet<ToolboxName>,
    is_known: bool,
}

impl SessionTotals {
    fn saved(&self) -> i64 {
        let saved =
            estimate_tokens(self.context.baseline_bytes.saturating_sub(self.context.served_bytes));
        i64::try_from(saved).unwrap_or(i64::MAX)
    }
}

impl SessionGuard {
    /// Reports a new session; `session` is its number in this process.
    pub fn begin(listeners: EventBus, agent: Option<&AgentName>, session: u64) -> Self {
        let context =
            SessionContext { agent: agent.cloned(), session, ..SessionContext::default() };
        listeners.emit(Event::SessionOpened(&context));
        let state = Mutex::new(SessionTotals { context, ..SessionTotals::default() });
        Self { listeners, state }
    }

    fn state(&self) -> MutexGuard<'_, SessionTotals> {
        self.state.lock()
    }

    fn change(&self, change: impl FnOnce(&mut SessionTotals)) {
        let mut state = self.state();
        let before = state.saved();
        change(&mut state);
        state.context.served_bytes = state.listed + state.told;
        let saved = state.saved() - before;
        if saved != 0 {
            self.listeners.emit(Event::TokensSaved(&state.context, saved));
        }
    }

    /// Records the client program. Only the first call has an effect.
    pub fn set_client(&self, program: ClientSummary) {
        let mut state = self.state();
        if !std::mem::replace(&mut state.is_known, true) {
            state.context.program = program;
        }
    }

    /// Reports the name and the version of the client program; either can be empty.
    pub fn report_client(&self, name: &str, version: &str) {
        let mut state = self.state();
        let SessionTotals { client, context, .. } = &mut *state;
        // A modern client repeats them in each request.
        if (&*client.0, &*client.1) != (name, version) {
            *client = (name.to_owned(), version.to_owned());
            self.listeners.emit(Event::ClientIdentified(context, name, version));
        }
    }

    /// Reports that another replica began the session and this one adopted it. `times` counts all
    /// adoptions of the session so far.
    pub fn report_adoption(&self, times: u64) {
        self.listeners.emit(Event::SessionAdopted(&self.state().context, times));
    }

    /// Records a tool list that the client shows: its size in bytes, and the size if the servers
    /// were registered in the client instead.
    pub fn record_tool_list(&self, shown: usize, without_us: usize) {
        self.change(|state| {
            state.listed = state.listed.max(shown);
            state.context.baseline_bytes = state.context.baseline_bytes.max(without_us);
        });
    }

    /// Records that the agent has opened a toolbox.
    pub fn record_toolbox_opened(&self, toolbox: &ToolboxName) {
        let mut state = self.state();
        if state.opened.insert(toolbox.clone()) {
            self.listeners.emit(Event::ToolboxOpened(&state.context, toolbox));
        }
    }

    /// Records a result that contains definitions, by its size in bytes, and the size of the known
    /// definitions if their servers were registered in the client instead: the client may have
    /// listed its tools before any server was known.
    pub fn record_definitions_sent(&self, given: usize, without_us: usize) {
        self.change(|state| {
            state.told += given;
            state.context.baseline_bytes = state.context.baseline_bytes.max(without_us);
        });
    }
}

impl Drop for SessionGuard {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        self.listeners.emit(Event::SessionClosed(&state.context));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::Telemetry;

    #[test]
    fn tokens_are_rounded() {
        assert_eq!([0, 2, 3, 9, 4500].map(estimate_tokens), [0, 0, 1, 2, 1000]);
    }

    #[test]
    fn subtracts_definitions_sent_later_from_the_tokens_saved() {
        let observer = Telemetry::default();
        let saved = |observer: &Telemetry| {
            let text = observer.render();
            let line = text.lines().find(|line| line.starts_with("mcp_workbench_tokens_saved "));
            line.and_then(|line| line.split(' ').next_back()?.parse::<i64>().ok()).unwrap()
        };
        let guest = SessionGuard::begin(observer.bus(), None, 1);
        guest.record_tool_list(900, 9000);
        assert_eq!(saved(&observer), 1800);
        guest.record_tool_list(900, 9000);
        guest.record_definitions_sent(900, 9000);
        guest.record_tool_list(1800, 9000);
        assert_eq!(saved(&observer), 1400);
        guest.record_definitions_sent(100_000, 9000);
        assert_eq!(saved(&observer), 0);
        assert!(observer.render().contains("mcp_workbench_sessions 1"));
        drop(guest);
        let guest = SessionGuard::begin(observer.bus(), None, 2);
        guest.record_tool_list(450, 0);
        guest.record_definitions_sent(900, 9000);
        assert_eq!(saved(&observer), 1700, "listed its tools before any server was known");
        drop(guest);
        assert!(observer.render().contains("mcp_workbench_sessions 0"));
    }
}
