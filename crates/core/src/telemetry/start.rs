//! The parameters of a tool call, as telemetry sees them.

use mcp_workbench_names::{AgentName, ServerName, ToolboxName};
use mcp_workbench_wire::json::{Member, RawJson};

/// A tool call and its caller.
#[derive(Clone, Copy, Debug)]
pub struct CallRequest<'a> {
    /// `None` for an anonymous agent.
    pub agent: Option<&'a AgentName>,
    /// The name that the client program reports in the request itself; empty if it reports none.
    pub client: &'a str,
    /// Number of the agent's session in this process.
    pub session: u64,
    /// `None` if unknown.
    pub toolbox: Option<&'a ToolboxName>,
    /// `None` if unknown.
    pub server: Option<&'a ServerName>,
    pub tool: &'a str,
    /// Arguments as the agent sent them.
    pub arguments: Option<&'a RawJson>,
    /// Members of the request's `_meta` that are forwarded to the server.
    pub meta: &'a [Member],
}
