//! An agent that is there, and how much of definitions its model is spared.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::name::{AgentName, ToolboxName};
use crate::observe::event::{ClientProgram, Event, SessionContext};
use crate::observe::listeners::Listeners;

/// About how many tokens of a model's context so many bytes of definitions take: JSON of tool
/// definitions has about 4.5 bytes a token.
pub fn tokens(bytes: usize) -> usize {
    (bytes * 2 + 4) / 9
}

/// An agent that is there. When it leaves, that is told with what it was given.
pub struct Guest {
    listeners: Listeners,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    context: SessionContext,
    /// The bytes of the longest list that was given.
    listed: usize,
    /// The bytes of answers that told definitions.
    told: usize,
    /// The toolboxes that it has had open, which is told once of each.
    opened: BTreeSet<ToolboxName>,
    is_known: bool,
}

impl State {
    fn saved(&self) -> i64 {
        let saved = tokens(self.context.without_us.saturating_sub(self.context.given));
        i64::try_from(saved).unwrap_or(i64::MAX)
    }
}

impl Listeners {
    /// An agent comes; `session` is a number for it.
    pub fn welcome(&self, agent: Option<&AgentName>, session: u64) -> Guest {
        let context =
            SessionContext { agent: agent.cloned(), session, ..SessionContext::default() };
        self.tell(Event::SessionOpened(&context));
        let state = Mutex::new(State { context, ..State::default() });
        Guest { listeners: self.clone(), state }
    }
}

impl Guest {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state();
        let before = state.saved();
        change(&mut state);
        state.context.given = state.listed + state.told;
        let saved = state.saved() - before;
        if saved != 0 {
            self.listeners.tell(Event::TokensSaved(&state.context, saved));
        }
    }

    /// Takes note of the agent's program, which says once what it is.
    pub fn runs(&self, program: ClientProgram) {
        let mut state = self.state();
        if !std::mem::replace(&mut state.is_known, true) {
            state.context.program = program;
        }
    }

    /// Tells what its program calls itself.
    pub fn is_called(&self, client: &str) {
        self.listeners.tell(Event::SessionIntroduced(&self.state().context, client));
    }

    /// Tells that its session was begun by another replica and goes on here, where it was taken over so
    /// often in all.
    pub fn is_adopted(&self, times: u64) {
        self.listeners.tell(Event::SessionAdopted(&self.state().context, times));
    }

    /// Takes note of a list of tools of which the client shows so many bytes, and of how many it
    /// would show if the servers were registered in it.
    pub fn listed(&self, shown: usize, without_us: usize) {
        self.change(|state| {
            state.listed = state.listed.max(shown);
            state.context.without_us = state.context.without_us.max(without_us);
        });
    }

    /// Takes note that the agent has a toolbox open.
    pub fn opened(&self, toolbox: &ToolboxName) {
        let mut state = self.state();
        if state.opened.insert(toolbox.clone()) {
            self.listeners.tell(Event::ToolboxOpened(&state.context, toolbox));
        }
    }

    /// Takes note of definitions that were told in an answer.
    pub fn told(&self, given: usize) {
        self.change(|state| state.told += given);
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.listeners.tell(Event::SessionClosed(&state.context));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::Observer;

    #[test]
    fn tokens_are_rounded() {
        assert_eq!([0, 2, 3, 9, 4500].map(tokens), [0, 0, 1, 2, 1000]);
    }

    #[test]
    fn what_is_given_later_is_not_saved() {
        let observer = Observer::default();
        let saved = |observer: &Observer| {
            let text = observer.render();
            let line = text.lines().find(|line| line.starts_with("mcp_workbench_tokens_saved "));
            line.and_then(|line| line.split(' ').next_back()?.parse::<i64>().ok()).unwrap()
        };
        let guest = observer.listeners().welcome(None, 1);
        guest.listed(900, 9000);
        assert_eq!(saved(&observer), 1800);
        guest.listed(900, 9000);
        guest.told(900);
        guest.listed(1800, 9000);
        assert_eq!(saved(&observer), 1400);
        guest.told(100_000);
        assert_eq!(saved(&observer), 0);
        assert!(observer.render().contains("mcp_workbench_sessions 1"));
        drop(guest);
        assert!(observer.render().contains("mcp_workbench_sessions 0"));
    }
}
