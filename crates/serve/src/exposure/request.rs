//! Requests to a mode, and its replies.

use crate::backend::Outcome;
use crate::gateway::RequestContext;
use crate::name::ToolboxName;
use crate::raw::{Member, Raw};
use crate::state::{Chosen, Switch};

/// The kind of tool list that a session allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surface {
    /// It may change as toolboxes are opened: sessions that began with `initialize`.
    Changing,
    /// It must not change as a side effect of requests: 2026-07-28, server/tools.
    Constant,
}

/// The lists of an agent, where they are more than the views of toolboxes.
#[derive(Debug, PartialEq, Eq)]
pub struct Lists {
    /// Its tools.
    pub tools: Vec<Raw>,
    /// Its resources, then its templates.
    pub resources: Vec<Raw>,
    /// Its prompts.
    pub prompts: Vec<Raw>,
}

/// A `tools/call` as an agent wrote it.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The name that is called.
    pub name: &'a str,
    /// Its arguments, untouched.
    pub arguments: Option<&'a Raw>,
    /// The other members of its parameters, without `_meta`.
    pub rest: &'a [Member],
    /// The context of the call as a request.
    pub context: &'a RequestContext<'a>,
    /// The kind of tool list that the agent's session allows.
    pub surface: Surface,
    /// The choices of the agent in what it wants to see.
    pub chosen: &'a Chosen,
}

/// The answer to an agent, and what else is to be done for it.
pub struct Reply {
    /// The answer.
    pub outcome: Outcome,
    /// The toolbox that the call has opened for this agent, if it did.
    pub opened: Option<ToolboxName>,
    /// The primitives that the call has switched on and off for this agent.
    pub switched: Vec<Switch>,
    /// `true` if the answer is worth holding back until the agent has listed its tools again.
    pub awaits_relisting: bool,
    /// The answer in place of the other, if the agent turns out not to list them again.
    pub unread: Option<Box<Outcome>>,
}

impl Reply {
    pub(crate) fn plain(outcome: Outcome) -> Self {
        Self { outcome, opened: None, switched: Vec::new(), awaits_relisting: false, unread: None }
    }
}

/// The reason why an address is not read: nobody has it, or it is not active.
pub(crate) struct Refusal {
    /// The error in words.
    pub(crate) message: String,
    /// Data in the form that all our errors have.
    pub(crate) data: Raw,
}

/// How a server's tool is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CalledBy {
    /// By a name of its own: its server's answer goes back as it is.
    ItsName,
    /// Through a tool of ours, which may explain an error.
    OurTool,
}
