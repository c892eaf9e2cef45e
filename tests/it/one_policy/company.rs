//! Another agent at the same time, and what it may change for the first.
//!
//! It may do anything: not a byte of what the first is answered is another. There are three things
//! that agents share, and each is made the same, or looked away from, where it matters, and nowhere else:
//!
//! - *A server that is running already* shows what it has sooner. Where both agents may use a server,
//!   all servers run from the start.
//! - *A process that several have used* is heard by none of them while it is not certain whose it is
//!   ("How servers live"): where both may use a server, some notifications do not come.
//! - *Sessions of one name, and those without one, are one caller*: they hear of each other.

use std::collections::BTreeSet;

use proptest::prelude::*;

use crate::one_policy::agent::Asker;
use crate::one_policy::oracle::without_the_forbidden;
use crate::one_policy::probes::{Probe, probe};
use crate::one_policy::world::World;

/// Another agent that is there at the same time.
#[derive(Clone, Debug)]
pub(crate) struct Company {
    pub(crate) asker: Asker,
    pub(crate) probes: Vec<Probe>,
    /// `true` if it has done everything when the first one comes; else they take turns.
    pub(crate) is_first: bool,
}

pub(crate) fn company(
    asker: impl Strategy<Value = Asker>,
) -> impl Strategy<Value = Option<Company>> {
    let one = (asker, proptest::collection::vec(probe(), 0..24), any::<bool>());
    let one = one.prop_map(|(asker, probes, is_first)| Company { asker, probes, is_first });
    proptest::option::weighted(0.5, one)
}

/// The things that two agents share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// No server, or there is only one agent.
    Nothing,
    /// A server that both may use.
    Servers,
    /// Servers too, and they are one caller.
    Callers,
}

impl Sharing {
    pub(crate) fn of(world: &World, one: &Asker, other: Option<&Asker>) -> Self {
        let Some(other) = other else { return Self::Nothing };
        let [mine, others] = [one, other].map(|asker| paths(world, asker));
        match () {
            () if mine.is_disjoint(&others) => Self::Nothing,
            () if one.name == other.name => Self::Callers,
            () => Self::Servers,
        }
    }
}

/// Where the servers are that an agent may use.
pub(crate) fn paths(world: &World, asker: &Asker) -> BTreeSet<String> {
    let left = without_the_forbidden(world, asker.name.as_deref());
    let servers = left.toolboxes.into_iter().flat_map(|toolbox| toolbox.servers);
    servers.map(|server| server.path).collect()
}
