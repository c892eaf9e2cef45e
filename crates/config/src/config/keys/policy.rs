//! The rules on who may use what (`agentPolicies`, `exposedTools`, `defaultPolicy`,
//! `dangerousTools`, `requireConfirmation`).

pub(crate) mod check;
mod conditions;
mod inheritance;
mod patterns;
pub(crate) mod raw;
