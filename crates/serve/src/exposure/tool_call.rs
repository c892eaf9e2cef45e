//! A `tools/call` as a mode handles it, and the reply.

use std::sync::Arc;

use mcp_workbench_core::backend::RpcOutcome;
use mcp_workbench_core::gateway::RequestContext;
use mcp_workbench_core::state::{Activation, SessionChoices};
use mcp_workbench_names::ToolboxName;
use mcp_workbench_wire::json::select::Selection;
use mcp_workbench_wire::json::{Member, RawJson};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListMutability {
    /// Lists may change as toolboxes are opened. Sessions that began with `initialize`.
    Mutable,
    /// Lists must not change as a side effect of requests (MCP 2026-07-28, server/tools).
    Fixed,
}

/// The lists of an agent whose mode shows more than the views of its toolboxes.
#[derive(Debug, PartialEq, Eq)]
pub struct ExposedLists {
    pub tools: Vec<RawJson>,
    /// Resources, then resource templates.
    pub resources: Vec<RawJson>,
    pub prompts: Vec<RawJson>,
}

#[derive(Clone, Copy)]
pub struct ToolCallRequest<'a> {
    pub name: &'a str,
    /// As the agent sent them.
    pub arguments: Option<&'a RawJson>,
    /// The other members of `params`, without `_meta`.
    pub other_params: &'a [Member],
    pub context: &'a RequestContext<'a>,
    pub lists: ListMutability,
    pub chosen: &'a SessionChoices,
}

/// The result of a tool call and its effects on the session.
pub struct ToolCallReply {
    pub outcome: RpcOutcome,
    pub opened: Option<ToolboxName>,
    pub switched: Vec<Activation>,
    /// `true` if the answer should wait until the agent has listed its tools again.
    pub awaits_relisting: bool,
    /// The answer to send instead if the agent doesn't list its tools again.
    pub if_not_relisted: Option<Box<RpcOutcome>>,
}

impl ToolCallReply {
    pub(crate) fn from_outcome(outcome: RpcOutcome) -> Self {
        Self {
            outcome,
            opened: None,
            switched: Vec::new(),
            awaits_relisting: false,
            if_not_relisted: None,
        }
    }
}

/// Why a resource isn't read: its URI is unknown or not active.
pub(crate) struct ResourceError {
    pub(crate) message: String,
    pub(crate) data: RawJson,
}

#[derive(Clone, Copy)]
pub(crate) enum CallRoute<'a> {
    /// By a name of its own: the server's result is passed on unchanged.
    ItsName,
    /// Through one of the gateway's tools, which may explain errors and select fields.
    OurTool { select: Option<&'a Arc<Selection>> },
}
