//! A second agent that acts at the same time, and its legitimate influence on the first.
//!
//! It may do anything, and no response to the first agent may change. Agents share three things,
//! which the comparison equalizes or ignores:
//!
//! - *A running server* makes its listing available sooner. If both agents may use a server, all
//!   servers run from the start.
//! - *A process used by both* sends notifications that can't be attributed, which neither agent
//!   receives.
//! - *Sessions of the same agent, and anonymous ones,* are one caller and receive each other's
//!   notifications.

use std::collections::BTreeSet;

use proptest::prelude::*;

use crate::one_policy::agent::AgentProfile;
use crate::one_policy::oracle::without_the_forbidden;
use crate::one_policy::probes::{Probe, probe};
use crate::one_policy::world::World;

#[derive(Clone, Debug)]
pub(crate) struct SecondAgent {
    pub(crate) asker: AgentProfile,
    pub(crate) probes: Vec<Probe>,
    /// `true` if it finishes before the first agent starts; otherwise they alternate.
    pub(crate) is_first: bool,
}

pub(crate) fn company(
    asker: impl Strategy<Value = AgentProfile>,
) -> impl Strategy<Value = Option<SecondAgent>> {
    let one = (asker, proptest::collection::vec(probe(), 0..24), any::<bool>());
    let one = one.prop_map(|(asker, probes, is_first)| SecondAgent { asker, probes, is_first });
    proptest::option::weighted(0.5, one)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// No server, or there is only one agent.
    Nothing,
    Servers,
    Callers,
}

impl Sharing {
    pub(crate) fn of(world: &World, one: &AgentProfile, other: Option<&AgentProfile>) -> Self {
        let Some(other) = other else { return Self::Nothing };
        let [mine, others] = [one, other].map(|asker| paths(world, asker));
        match () {
            () if mine.is_disjoint(&others) => Self::Nothing,
            () if one.name == other.name => Self::Callers,
            () => Self::Servers,
        }
    }
}

pub(crate) fn paths(world: &World, asker: &AgentProfile) -> BTreeSet<String> {
    let left = without_the_forbidden(world, asker.name.as_deref());
    let servers = left.toolboxes.into_iter().flat_map(|toolbox| toolbox.servers);
    servers.map(|server| server.path).collect()
}
