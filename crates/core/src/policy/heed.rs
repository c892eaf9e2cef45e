//! The fate of a server's definitions that are not as the lock has them.

use crate::name::ServerRef;
use crate::policy::Policy;
use crate::settings::Definitions;

/// The fate of definitions that are not as the lock has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heed {
    /// They are served.
    Serve,
    /// They are as if they did not exist.
    LeaveOut,
    /// Their server is not opened.
    Close,
}

impl Heed {
    /// The word for it in the file.
    pub fn word(self) -> &'static str {
        match self {
            Self::Serve => Definitions::Warn.as_str(),
            Self::LeaveOut => Definitions::Quarantine.as_str(),
            Self::Close => Definitions::Deny.as_str(),
        }
    }
}

impl Policy {
    /// Decides on what a server lists that is not as the lock has it. Of a server that is not there for
    /// the agent nothing is served.
    pub fn heed(&self, at: &ServerRef) -> Heed {
        match self.rules_at(&at.toolbox, &at.server).map(|rules| rules.definitions) {
            Ok(Definitions::Off | Definitions::Warn) => Heed::Serve,
            Ok(Definitions::Quarantine) => Heed::LeaveOut,
            Ok(Definitions::Deny) | Err(_) => Heed::Close,
        }
    }
}
