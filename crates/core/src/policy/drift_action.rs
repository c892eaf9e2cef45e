//! The action for definitions that differ from `workbench.lock`: serve them, leave them out, or
//! keep the server closed.

use mcp_workbench_settings::DriftPolicy;

/// The action for definitions that differ from `workbench.lock`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriftAction {
    /// Serve them.
    Serve,
    /// Leave them out, as if they did not exist.
    Quarantine,
    /// Don't open the server.
    Deny,
}

impl DriftAction {
    /// Returns the action's name in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Serve => DriftPolicy::Warn.as_str(),
            Self::Quarantine => DriftPolicy::Quarantine.as_str(),
            Self::Deny => DriftPolicy::Deny.as_str(),
        }
    }
}
