//! An agent that is there, and how much of definitions its model is spared.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::name::AgentName;
use crate::observe::record::{ClientProgram, Given};
use crate::observe::running::Shown;
use crate::observe::{Audit, Observer};

/// About how many tokens of a model's context so many bytes of definitions take: JSON of tool
/// definitions has about 4.5 bytes a token.
pub fn tokens(bytes: usize) -> usize {
    (bytes * 2 + 4) / 9
}

/// An agent that is there. When it leaves, what it was given is recorded.
pub struct Guest {
    observer: Arc<Observer>,
    audit: Option<Audit>,
    agent: Option<AgentName>,
    session: u64,
    program: OnceLock<ClientProgram>,
    shown: Shown,
    bytes: Mutex<Bytes>,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Bytes {
    /// Of the list that its client would have shown without us.
    without_us: usize,
    /// Of the longest list that was given.
    listed: usize,
    /// Of answers that told definitions.
    told: usize,
}

impl Bytes {
    fn given(&self) -> usize {
        self.listed + self.told
    }

    fn saved(&self) -> i64 {
        let saved = tokens(self.without_us.saturating_sub(self.given()));
        i64::try_from(saved).unwrap_or(i64::MAX)
    }
}

impl Observer {
    /// An agent comes; `session` is a number for it.
    pub fn welcome(self: &Arc<Self>, agent: Option<&AgentName>, session: u64) -> Guest {
        self.metrics.sessions.inc();
        Guest {
            observer: Arc::clone(self),
            audit: self.current_audit(),
            agent: agent.cloned(),
            session,
            program: OnceLock::new(),
            shown: self
                .board
                .as_ref()
                .map_or(Shown::NOWHERE, |board| board.agent(agent.map(AgentName::as_str))),
            bytes: Mutex::default(),
        }
    }
}

impl Guest {
    fn change(&self, change: impl FnOnce(&mut Bytes)) {
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let before = bytes.saved();
        change(&mut bytes);
        self.observer.metrics.tokens_saved.inc_by(bytes.saved() - before);
    }

    /// Takes note of the agent's program, which says once what it is.
    pub fn runs(&self, program: ClientProgram) {
        self.program.get_or_init(|| program);
    }

    /// Tells others what its program calls itself.
    pub fn is_called(&self, client: &str) {
        self.shown.is_called(client);
    }

    /// Takes note of a list of tools of which the client shows so many bytes, and of how many it
    /// would show if the servers were registered in it.
    pub fn listed(&self, shown: usize, without_us: usize) {
        self.change(|bytes| {
            bytes.listed = bytes.listed.max(shown);
            bytes.without_us = bytes.without_us.max(without_us);
        });
    }

    /// Takes note of definitions that were told in an answer.
    pub fn told(&self, given: usize) {
        self.change(|bytes| bytes.told += given);
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.observer.metrics.sessions.dec();
        let bytes = self.bytes.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(audit) = &self.audit
            && bytes.without_us > 0
        {
            audit.give(Given {
                agent: self.agent.take(),
                session: self.session,
                program: self.program.take().unwrap_or_default(),
                without_us: bytes.without_us,
                received: bytes.given(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_rounded() {
        assert_eq!([0, 2, 3, 9, 4500].map(tokens), [0, 0, 1, 2, 1000]);
    }

    #[test]
    fn what_is_given_later_is_not_saved() {
        let observer = Arc::new(Observer::default());
        let saved = |observer: &Observer| {
            let text = observer.render();
            let line = text.lines().find(|line| line.starts_with("mcp_workbench_tokens_saved "));
            line.and_then(|line| line.split(' ').next_back()?.parse::<i64>().ok()).unwrap()
        };
        let guest = observer.welcome(None, 1);
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
