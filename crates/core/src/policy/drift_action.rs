//! The action for definitions that differ from `workbench.lock`: serve them, leave them out, or
//! keep the server closed.

use crate::name::ServerRef;
use crate::policy::Policy;
use crate::settings::DriftPolicy;

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

impl Policy {
    /// Returns the action for drifted definitions of a server. It is `Deny` if the agent can't see
    /// the server.
    pub fn drift_action(&self, at: &ServerRef) -> DriftAction {
        match self.server_rules(&at.toolbox, &at.server).map(|rules| rules.definitions) {
            Ok(DriftPolicy::Off | DriftPolicy::Warn) => DriftAction::Serve,
            Ok(DriftPolicy::Quarantine) => DriftAction::Quarantine,
            Ok(DriftPolicy::Deny) | Err(_) => DriftAction::Deny,
        }
    }
}
