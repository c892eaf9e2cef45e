//! The kinds of quotas, their owners (callers and servers), and gauges of the resources that all
//! callers hold together.

use std::fmt;
use std::net::IpAddr;

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use mcp_workbench_names::{AgentName, ServerRef};

/// A kind of thing that a caller can hold, or that a server can make the workbench do or keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QuotaKind {
    /// Open HTTP connections.
    Connections,
    /// Sessions over HTTP (clients before MCP 2026-07-28).
    Sessions,
    /// Requests in flight.
    Calls,
    /// Calls that wait for input from the user (MCP 2026-07-28).
    InputRequests,
    /// Bytes of messages in memory: requests in flight and undelivered messages.
    Bytes,
    /// Server processes, and connections to HTTP servers, that serve only this caller.
    Processes,
    /// Subscriptions to resources and tasks.
    Subscriptions,
    /// Bytes that are kept for later: remainders of truncated results, records in the shared store.
    StoredBytes,
    /// Viewers of the dashboard.
    Viewers,
    /// Entries in a server's lists.
    ListingEntries,
    /// Bytes of a server's lists.
    ListingBytes,
    /// Bytes of a server's messages in memory.
    ServerBytes,
    /// A server's reconnects of event streams, and its changed lists.
    Reconnects,
    /// Requests to find a server's authorization server.
    DiscoveryRequests,
    /// Scopes that a server asks for.
    Scopes,
    /// A server's requests that are not answered yet.
    ServerRequests,
}

impl QuotaKind {
    /// All kinds, in the order of their discriminants.
    pub const ALL: [Self; 16] = [
        Self::Connections,
        Self::Sessions,
        Self::Calls,
        Self::InputRequests,
        Self::Bytes,
        Self::Processes,
        Self::Subscriptions,
        Self::StoredBytes,
        Self::Viewers,
        Self::ListingEntries,
        Self::ListingBytes,
        Self::ServerBytes,
        Self::Reconnects,
        Self::DiscoveryRequests,
        Self::Scopes,
        Self::ServerRequests,
    ];

    /// Returns whether callers hold this, as opposed to servers.
    fn is_held_by_callers(self) -> bool {
        self as usize <= Self::Viewers as usize
    }

    /// Returns the kind's name in metrics and records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::Sessions => "sessions",
            Self::Calls => "calls",
            Self::InputRequests => "input_requests",
            Self::Bytes => "bytes",
            Self::Processes => "processes",
            Self::Subscriptions => "subscriptions",
            Self::StoredBytes => "stored_bytes",
            Self::Viewers => "viewers",
            Self::ListingEntries => "listing_entries",
            Self::ListingBytes => "listing_bytes",
            Self::ServerBytes => "server_bytes",
            Self::Reconnects => "reconnects",
            Self::DiscoveryRequests => "discovery_requests",
            Self::Scopes => "scopes",
            Self::ServerRequests => "server_requests",
        }
    }
}

/// How much of each kind all callers hold together. Clones share the gauges.
#[derive(Clone, Debug)]
pub struct QuotaUsage([Gauge; QuotaKind::ALL.len()]);

impl QuotaUsage {
    /// Creates the gauges as members of `family`.
    pub(crate) fn new(family: &Family<[(&'static str, &'static str); 1], Gauge>) -> Self {
        let gauge = |holding: QuotaKind| {
            if holding.is_held_by_callers() {
                family.get_or_create_owned(&[("quota", holding.as_str())])
            } else {
                Gauge::default()
            }
        };
        Self(QuotaKind::ALL.map(gauge))
    }

    pub fn of(&self, holding: QuotaKind) -> &Gauge {
        &self.0[holding as usize]
    }
}

/// The caller or server that a quota is charged to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum QuotaOwner {
    /// A named agent, from any address.
    Agent(AgentName),
    /// All anonymous callers at this IPv4 address, or in this IPv6 /64 network.
    Address(IpAddr),
    /// The anonymous agent on standard input and output.
    Local,
    /// A server, for all its agents. Without a toolbox for limits of its sign-in.
    Server(ServerRef),
}

impl QuotaOwner {
    /// Returns the owner to charge for an agent at this address.
    pub fn new(agent: Option<&AgentName>, address: Option<IpAddr>) -> Self {
        match (agent, address) {
            (Some(agent), _) => Self::Agent(agent.clone()),
            (None, Some(address)) => Self::Address(network(address)),
            (None, None) => Self::Local,
        }
    }

    /// Returns the key of the caller's counters in the state store.
    pub fn counter_key(&self) -> String {
        match self {
            Self::Agent(agent) => format!("agent {agent}"),
            Self::Address(address) => format!("address {address}"),
            Self::Local => "local".to_owned(),
            Self::Server(server) => format!("server {}/{}", server.toolbox, server.server),
        }
    }
}

impl fmt::Display for QuotaOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Agent(agent) => write!(f, "agent `{agent}`"),
            Self::Address(address) => write!(f, "the caller at {address}"),
            Self::Local => f.write_str("the agent"),
            Self::Server(server) if server.toolbox.as_str().is_empty() => {
                write!(f, "server `{}`", server.server)
            }
            Self::Server(server) => write!(f, "server `{}/{}`", server.toolbox, server.server),
        }
    }
}

/// Returns the /64 network of an IPv6 address, because one machine can use all of its addresses.
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
    fn addresses_of_one_machine_share_a_quota() {
        let owner = |address: &str| QuotaOwner::new(None, Some(address.parse().unwrap()));
        assert_eq!(owner("2001:db8:1:2::1"), owner("2001:db8:1:2:ffff::7"));
        assert_ne!(owner("2001:db8:1:2::1"), owner("2001:db8:1:3::1"));
        assert_eq!(owner("::ffff:10.0.0.1"), owner("10.0.0.1"));
        let ann = AgentName::new("ann");
        assert_eq!(
            QuotaOwner::new(Some(&ann), None),
            QuotaOwner::new(Some(&ann), "::1".parse().ok())
        );
    }

    #[test]
    fn all_kinds_are_in_the_order_of_their_discriminants() {
        for (at, holding) in QuotaKind::ALL.into_iter().enumerate() {
            assert_eq!(holding as usize, at);
        }
    }
}
