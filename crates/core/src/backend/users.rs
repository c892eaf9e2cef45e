//! Whoever has used a server's process: what it says unasked may be about any of them.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::name::AgentName;

/// Tells agents apart; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AgentId(u64);

impl AgentId {
    /// An agent that was not there before.
    pub fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// The number that tells it from other agents of this process.
    pub fn number(self) -> u64 {
        self.0
    }
}

/// An agent as far as it can be told from others: by its name wherever it has one, for its sessions
/// are as good as each other; else by its session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Principal {
    /// All sessions and requests of an agent with this name.
    Named(AgentName),
    /// A session without a name.
    Nameless(AgentId),
    /// All requests that have neither, which nothing tells apart.
    Nobody,
}

/// The principals that have used a process since it was started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Users {
    /// Nobody has.
    #[default]
    Nobody,
    /// This one alone.
    One(Principal),
    /// Several, of whom none has a name.
    Nameless,
    /// Several.
    Several,
}

impl Users {
    /// Adds one that uses it now.
    pub(crate) fn add(&mut self, principal: &Principal) {
        let is_nameless = |principal: &Principal| !matches!(principal, Principal::Named(_));
        match self {
            Self::Nobody => *self = Self::One(principal.clone()),
            Self::One(one) if one == principal => {}
            Self::One(one) if is_nameless(one) && is_nameless(principal) => *self = Self::Nameless,
            Self::Nameless if is_nameless(principal) => {}
            Self::One(_) | Self::Nameless | Self::Several => *self = Self::Several,
        }
    }

    /// Returns `true` if nobody but this one has used it.
    pub(crate) fn are_only(&self, principal: &Principal) -> bool {
        match self {
            Self::Nobody => true,
            Self::One(one) => one == principal,
            Self::Nameless | Self::Several => false,
        }
    }

    /// Returns `true` if more than one has used it.
    pub(crate) fn are_several(&self) -> bool {
        matches!(self, Self::Nameless | Self::Several)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_has_used_it_once_is_never_forgotten() {
        let named = |name: &str| Principal::Named(AgentName::new(name));
        let [ann, bob] = [named("ann"), named("bob")];
        let [one, other] = [AgentId::next(), AgentId::next()].map(Principal::Nameless);
        let mut users = Users::default();
        assert!(users.are_only(&ann) && users.are_only(&one) && !users.are_several());
        users.add(&ann);
        users.add(&named("ann"));
        assert!(users.are_only(&ann) && !users.are_only(&bob) && !users.are_several());
        users.add(&bob);
        users.add(&ann);
        assert_eq!(users, Users::Several);
        assert!(!users.are_only(&ann));
        let mut users = Users::One(one.clone());
        users.add(&other);
        users.add(&one);
        assert_eq!(users, Users::Nameless);
        users.add(&ann);
        assert_eq!(users, Users::Several);
    }
}
