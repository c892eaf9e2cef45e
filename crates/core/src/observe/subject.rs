//! A call that is to be observed.

use crate::name::{AgentName, ServerName, ToolboxName};
use crate::raw::{Member, Raw};

/// The thing that is called, and the caller.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The agent, where it has a name.
    pub agent: Option<&'a AgentName>,
    /// A number for the agent's session.
    pub session: u64,
    /// The toolbox; `None`: nobody knows it.
    pub toolbox: Option<&'a ToolboxName>,
    /// The server; `None`: nobody knows it.
    pub server: Option<&'a ServerName>,
    /// The tool.
    pub tool: &'a str,
    /// Its arguments, as the agent gave them.
    pub arguments: Option<&'a Raw>,
    /// The members of the request's `_meta` that go on to the server.
    pub meta: &'a [Member],
}
