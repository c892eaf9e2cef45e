//! An agent that is there, and how much of definitions it is spared.

use std::sync::{Arc, Mutex, PoisonError};

use crate::name::AgentName;
use crate::observe::record::Given;
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
    bytes: Mutex<Bytes>,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Bytes {
    /// What `direct` mode would have given.
    direct: usize,
    /// The longest list that was given.
    listed: usize,
    /// What was told in answers besides.
    told: usize,
}

impl Bytes {
    fn given(&self) -> usize {
        self.listed + self.told
    }

    fn saved(&self) -> i64 {
        let saved = tokens(self.direct.saturating_sub(self.given()));
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

    /// It has been given its list of tools, where `direct` mode would have given so many bytes.
    pub fn listed(&self, given: usize, direct: usize) {
        self.change(|bytes| {
            bytes.listed = bytes.listed.max(given);
            bytes.direct = bytes.direct.max(direct);
        });
    }

    /// It has been told definitions in an answer.
    pub fn told(&self, given: usize) {
        self.change(|bytes| bytes.told += given);
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.observer.metrics.sessions.dec();
        let bytes = self.bytes.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(audit) = &self.audit
            && bytes.direct > 0
        {
            audit.give(Given {
                agent: self.agent.take(),
                session: self.session,
                direct: bytes.direct,
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
