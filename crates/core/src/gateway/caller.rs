//! Who asks, as far as it is known for certain: not what a client says of itself, but what the command
//! line or a token says of it.

use crate::name::{AgentName, ToolboxName};

/// Who asks, and what of all there is the question is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Caller {
    /// The agent; `None`: one that has no name.
    pub agent: Option<AgentName>,
    /// The one toolbox that is served, with everything in it from the start; `None`: all.
    pub toolbox: Option<ToolboxName>,
}

impl Caller {
    /// Somebody without a name, who is served everything that such agents may have.
    pub const NOBODY: Self = Self { agent: None, toolbox: None };
}
