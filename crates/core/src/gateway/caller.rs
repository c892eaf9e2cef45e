//! Caller identity, as asserted by the command line or a token, never by the client itself.

use mcp_workbench_names::{AgentName, ToolboxName};

/// The authenticated agent and the scope of its request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Caller {
    /// `None` if anonymous.
    pub agent: Option<AgentName>,
    /// Serves only this toolbox, opened from the start; `None` serves all.
    pub toolbox: Option<ToolboxName>,
}

impl Caller {
    /// An anonymous caller with all toolboxes.
    pub const ANONYMOUS: Self = Self { agent: None, toolbox: None };
}
