//! Access policy: which agents may see and use which tools, resources and prompts. Every surface
//! asks it, and only it can create a [`Permit`].
//!
//! *Theory of operation.* [`Policies`] holds the rules of a configuration for all agents. For one
//! agent it returns the visible part of the configuration ([`Policies::visible_config`]) and a
//! [`Policy`], which decides on single tools. The rules are compiled when a policy is created
//! (`access` selects the lists that apply, `tool_patterns` compiles them), so a decision takes a
//! few lookups. A call passes the same check as the display of its tool, and also a check of its
//! arguments ([`Grant::permit`]). Rules that don't compile deny.

mod access;
mod agent_conditions;
mod agent_policy;
mod condition;
mod drift_action;
mod explanation;
mod filter;
mod interner;
mod permit;
mod policies;
mod primitives;
mod resource_uri;
mod rule;
mod server_rules;
mod time_window;
mod tool_patterns;
mod unmatched_patterns;
mod uri_patterns;

pub use crate::policy::agent_policy::Policy;
pub use crate::policy::condition::Refusal;
pub use crate::policy::drift_action::DriftAction;
pub use crate::policy::explanation::{ConditionStatus, Explanation, ResourceOrPrompt, Verdict};
pub use crate::policy::filter::ToolFilter;
pub use crate::policy::permit::{Denial, Grant, Permit, ToolTraits};
pub use crate::policy::policies::Policies;
pub(crate) use crate::policy::primitives::PermittedPrimitives;
pub use crate::policy::primitives::{Admission, ResourceScope};
pub use crate::policy::resource_uri::may_be_same_resource;
pub use crate::policy::rule::{RiskReason, RulePath};
pub use crate::policy::time_window::UnixTime;
pub use crate::policy::unmatched_patterns::{
    UnmatchedPattern, find_unmatched_primitive_patterns, find_unmatched_tool_patterns,
};

#[cfg(test)]
mod tests;
