//! Context of a request: the caller, the client's features and its channels.

use std::sync::atomic::AtomicBool;

use tokio::time::Instant;

use crate::backend::{AgentHandle, LogLevel, events};
use crate::gateway::caller::Caller;
use crate::state::SessionKey;
use mcp_workbench_names::AgentName;
use mcp_workbench_wire::json::Member;

/// How a call of a request may wait for an approval.
#[derive(Clone, Copy)]
pub struct ApprovalTerms<'a> {
    /// The name that the client program reports; empty if it reports none.
    pub client: &'a str,
    /// When the client stops waiting for the response, if it does.
    pub deadline: Option<Instant>,
}

#[derive(Clone, Copy)]
pub struct RequestContext<'a> {
    pub agent: &'a AgentHandle,
    /// The caller's identity for policy.
    pub caller: &'a Caller,
    /// The name that the client program reports in the request itself; empty if it reports none.
    pub client: &'a str,
    /// `None` if there is no lasting session.
    pub session: Option<&'a SessionKey>,
    /// `true` for MCP 2026-07-28, whose servers ask for input in the result.
    pub is_modern: bool,
    /// `true` if the client supports resource links in results (MCP 2025-06-18 or later).
    pub supports_resource_links: bool,
    /// Members of `_meta` to forward to the server.
    pub meta: &'a [Member],
    /// Minimum level of the server log messages to forward during the request.
    pub log: LogLevel,
    /// Channel for notifications and server requests; `None` if the agent is unreachable.
    pub events: Option<&'a events::Sender>,
    pub wants_progress: bool,
    /// Set when the request is sent to the server.
    pub sent_flag: Option<&'a AtomicBool>,
    /// The operator who answers the workbench's questions, instead of the user of a client.
    pub operator: Option<&'a AgentName>,
    /// `None` if calls can't wait for an approval.
    pub approval: Option<ApprovalTerms<'a>>,
}

impl<'a> RequestContext<'a> {
    /// A request without caller and channels, such as one of the gateway itself.
    pub fn detached(agent: &'a AgentHandle) -> Self {
        Self {
            agent,
            caller: &Caller::ANONYMOUS,
            client: "",
            session: None,
            is_modern: false,
            supports_resource_links: true,
            meta: &[],
            log: LogLevel::OFF,
            events: None,
            wants_progress: false,
            sent_flag: None,
            operator: None,
            approval: None,
        }
    }

    /// `None` if the agent doesn't want progress.
    pub fn progress(&self) -> Option<&'a events::Sender> {
        self.events.filter(|_| self.wants_progress)
    }
}
