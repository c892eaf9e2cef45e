//! Principals that have used a server process. Its notifications may concern any of them.

use std::sync::atomic::{AtomicU64, Ordering};

use mcp_workbench_names::AgentName;

/// Unique ID of an agent session in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AgentId(u64);

impl AgentId {
    pub fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    pub fn number(self) -> u64 {
        self.0
    }
}

/// Identity of an agent: its name, or its session if it is anonymous. Sessions of one named agent
/// are interchangeable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Principal {
    Named(AgentName),
    /// An anonymous session.
    Session(AgentId),
    /// Anonymous requests without a session, which are indistinguishable.
    Anonymous,
}

/// Principals that have used a process since it was started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum ProcessUsers {
    #[default]
    Nobody,
    One(Principal),
    SeveralAnonymous,
    /// Several, at least one of them named.
    Several,
}

impl ProcessUsers {
    pub(crate) fn add(&mut self, principal: &Principal) {
        let is_nameless = |principal: &Principal| !matches!(principal, Principal::Named(_));
        match self {
            Self::Nobody => *self = Self::One(principal.clone()),
            Self::One(one) if one == principal => {}
            Self::One(one) if is_nameless(one) && is_nameless(principal) => {
                *self = Self::SeveralAnonymous;
            }
            Self::SeveralAnonymous if is_nameless(principal) => {}
            Self::One(_) | Self::SeveralAnonymous | Self::Several => *self = Self::Several,
        }
    }

    pub(crate) fn are_only(&self, principal: &Principal) -> bool {
        match self {
            Self::Nobody => true,
            Self::One(one) => one == principal,
            Self::SeveralAnonymous | Self::Several => false,
        }
    }

    pub(crate) fn are_several(&self) -> bool {
        matches!(self, Self::SeveralAnonymous | Self::Several)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_users_only_grow() {
        let named = |name: &str| Principal::Named(AgentName::new(name));
        let [ann, bob] = [named("ann"), named("bob")];
        let [one, other] = [AgentId::next(), AgentId::next()].map(Principal::Session);
        let mut users = ProcessUsers::default();
        assert!(users.are_only(&ann) && users.are_only(&one) && !users.are_several());
        users.add(&ann);
        users.add(&named("ann"));
        assert!(users.are_only(&ann) && !users.are_only(&bob) && !users.are_several());
        users.add(&bob);
        users.add(&ann);
        assert_eq!(users, ProcessUsers::Several);
        assert!(!users.are_only(&ann));
        let mut users = ProcessUsers::One(one.clone());
        users.add(&other);
        users.add(&one);
        assert_eq!(users, ProcessUsers::SeveralAnonymous);
        users.add(&ann);
        assert_eq!(users, ProcessUsers::Several);
    }
}
