//! The results of decisions on tools.

use std::sync::Arc;

use crate::policy::condition::{self, Condition, Refusal};
use crate::policy::rule::{RiskReason, RulePath};
use crate::policy::time_window::UnixTime;
use mcp_workbench_names::ToolId;
use mcp_workbench_settings::ToolAnnotations;

/// Proof that policy allowed one call of one tool. Backends call nothing without it.
#[derive(Debug)]
pub struct Permit {
    pub(super) tool: ToolId,
    pub(super) rule: RulePath,
    pub(super) danger: Option<RiskReason>,
    pub(super) confirmation: Option<RiskReason>,
    /// The conditions that allowed the call only at this time.
    pub(super) windows: Vec<Arc<Condition>>,
}

impl Permit {
    /// Returns the tool, under its server's own name.
    pub fn tool(&self) -> &ToolId {
        &self.tool
    }

    /// Returns the rule that allowed the call.
    pub fn rule(&self) -> &RulePath {
        &self.rule
    }

    /// Returns why the tool is dangerous, if it is, whether or not a confirmation is required.
    pub fn danger(&self) -> Option<RiskReason> {
        self.danger
    }

    /// Returns why the user has to confirm the call, if so.
    pub fn confirmation(&self) -> Option<RiskReason> {
        self.confirmation
    }

    /// Returns `true` if the time windows that allowed the call are still open.
    pub fn is_in_time(&self, now: impl Fn() -> UnixTime) -> bool {
        self.windows.iter().all(|condition| condition.holds(&now))
    }
}

/// Permission to see a tool, and to call it with suitable arguments.
#[derive(Debug)]
pub struct Grant {
    pub(super) permit: Permit,
    pub(super) conditions: Vec<Arc<Condition>>,
}

impl Grant {
    /// Returns the rule that allows the tool.
    pub fn rule(&self) -> &RulePath {
        &self.permit.rule
    }

    pub fn is_dangerous(&self) -> bool {
        self.permit.danger.is_some()
    }

    /// Returns the permit for a call with these arguments, the JSON that the server receives.
    ///
    /// # Errors
    ///
    /// Returns the first condition that doesn't hold.
    pub fn permit(self, arguments: Option<&[u8]>) -> Result<Permit, Refusal> {
        condition::check(self.conditions.iter().map(|condition| &**condition), arguments)?;
        Ok(self.permit)
    }
}

/// A denial. An agent must get the same answer as for a tool that doesn't exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    pub(super) rule: Option<RulePath>,
}

impl Denial {
    /// Returns the rule that denied, to be shown to users and not to agents. `None` if the agent
    /// can't see the server.
    pub fn rule(&self) -> Option<&RulePath> {
        self.rule.as_ref()
    }
}

/// Facts about a tool that a decision needs in addition to its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ToolTraits {
    /// `true` if the agent has another tool of the same server called `mcp__<server>__<name>`.
    pub has_prefixed_twin: bool,
    pub annotations: ToolAnnotations,
}
