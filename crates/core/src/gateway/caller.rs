//! Caller identity, as asserted by the command line or a token, never by the client itself.

use std::sync::Arc;

use mcp_workbench_names::{AgentName, ToolboxName};

/// The authenticated agent and the scope of its request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Caller {
    /// `None` if anonymous.
    pub agent: Option<AgentName>,
    /// Serves only this toolbox, opened from the start; `None` serves all.
    pub toolbox: Option<ToolboxName>,
    /// Digest of the claims that identify the holder of a JWT. Set only if servers get exchanged
    /// tokens, so that no two holders share a gateway, a session or a connection.
    pub subject: Option<Arc<str>>,
}

impl Caller {
    /// An anonymous caller with all toolboxes.
    pub const ANONYMOUS: Self = Self { agent: None, toolbox: None, subject: None };
}
