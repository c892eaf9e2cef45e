//! The things that callers hold while they use us, of which each caller may have so many: how many
//! there are of each, over all callers.

use std::fmt;
use std::net::IpAddr;

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use crate::name::AgentName;

/// A kind of thing that a caller can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Holding {
    /// Connections over HTTP.
    Connections,
    /// Sessions of agents that begin with `initialize`.
    Sessions,
    /// Requests that are under way.
    Calls,
    /// Calls that wait for an answer of the user.
    Questions,
    /// Bytes of messages that are being read, or were and have not been handed on.
    Bytes,
    /// Servers' processes, and connections to servers elsewhere, that are for nobody else.
    Processes,
}

impl Holding {
    /// Every kind.
    pub const ALL: [Self; 6] = [
        Self::Connections,
        Self::Sessions,
        Self::Calls,
        Self::Questions,
        Self::Bytes,
        Self::Processes,
    ];

    /// The word for it, in figures and records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::Sessions => "sessions",
            Self::Calls => "calls",
            Self::Questions => "questions",
            Self::Bytes => "bytes",
            Self::Processes => "processes",
        }
    }
}

/// How many of each kind are held by all callers together; clones are the same figures.
#[derive(Clone, Debug)]
pub struct Holdings([Gauge; Holding::ALL.len()]);

impl Holdings {
    /// Nothing is held yet; the figures are members of `family`.
    pub(crate) fn new(family: &Family<[(&'static str, &'static str); 1], Gauge>) -> Self {
        let gauge = |holding: Holding| family.get_or_create_owned(&[("what", holding.as_str())]);
        Self(Holding::ALL.map(gauge))
    }

    /// The figure of one kind.
    pub fn of(&self, holding: Holding) -> &Gauge {
        &self.0[holding as usize]
    }
}

/// Who pays for what is held: an agent by its name, and whoever has none by its address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Payer {
    /// An agent with a name, wherever it comes from.
    Agent(AgentName),
    /// Everybody without a name who comes from this address; of IPv6, from this network of 64 bits.
    Address(IpAddr),
    /// The one agent at the other end of our standard streams, if it has no name.
    Local,
}

impl Payer {
    /// The one who pays for an agent that comes from an address.
    pub fn new(agent: Option<&AgentName>, address: Option<IpAddr>) -> Self {
        match (agent, address) {
            (Some(agent), _) => Self::Agent(agent.clone()),
            (None, Some(address)) => Self::Address(network(address)),
            (None, None) => Self::Local,
        }
    }

    /// Returns the key under which the state store counts what this caller does.
    pub fn counter_key(&self) -> String {
        match self {
            Self::Agent(agent) => format!("agent {agent}"),
            Self::Address(address) => format!("address {address}"),
            Self::Local => "local".to_owned(),
        }
    }
}

impl fmt::Display for Payer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Agent(agent) => write!(f, "agent `{agent}`"),
            Self::Address(address) => write!(f, "agents without a name at {address}"),
            Self::Local => f.write_str("the agent"),
        }
    }
}

/// Returns the address that stands for all that one machine can have.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_pays_as_one_whichever_of_its_addresses_it_uses() {
        let payer = |address: &str| Payer::new(None, Some(address.parse().unwrap()));
        assert_eq!(payer("2001:db8:1:2::1"), payer("2001:db8:1:2:ffff::7"));
        assert_ne!(payer("2001:db8:1:2::1"), payer("2001:db8:1:3::1"));
        assert_eq!(payer("::ffff:10.0.0.1"), payer("10.0.0.1"));
        let ann = AgentName::new("ann");
        assert_eq!(Payer::new(Some(&ann), None), Payer::new(Some(&ann), "::1".parse().ok()));
    }

    #[test]
    fn each_kind_stands_where_its_number_says() {
        for (at, holding) in Holding::ALL.into_iter().enumerate() {
            assert_eq!(holding as usize, at);
        }
    }
}
