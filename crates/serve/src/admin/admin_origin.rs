//! The origin of a request of the admin API.

use mcp_workbench_names::AgentName;

/// The origin of a request. It decides how the request can approve calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminOrigin {
    /// The socket, which any program of this user can open. Approvals need a signature.
    Socket,
    /// An operator with a token, over HTTP.
    Operator(AgentName),
    /// Someone with read access only, over HTTP.
    Viewer,
}

impl AdminOrigin {
    /// Returns the operator, who can also confirm its own calls on the dashboard.
    pub(super) fn operator(&self) -> Option<&AgentName> {
        match self {
            Self::Operator(name) => Some(name),
            Self::Socket | Self::Viewer => None,
        }
    }
}
