//! Access policy: `agentPolicies`, `exposedTools`, `exposedResources`, `exposedPrompts`,
//! `defaultPolicy`, `dangerousTools` and `requireConfirmation`.

mod conditions;
mod inheritance;
pub(crate) mod patterns;
pub(crate) mod raw;
pub(crate) mod validation;
