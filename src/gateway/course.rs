//! How a call went between the agent and its server, for whoever keeps a record of it.

use std::time::Duration;

use crate::name::ToolId;

/// How a call went, besides what came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Course {
    /// Whether the user was asked, and agreed.
    pub is_confirmed: bool,
    /// How long it waited for other calls to end.
    pub waited: Duration,
    /// Whether it was answered with what its server had answered before.
    pub is_cached: bool,
    /// What stopped it, if it was not let through though its tool is there.
    pub stop: Option<Stop>,
}

/// What may stop a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// There were too many calls in the last minute.
    Rate,
    /// Too many calls were running, for too long.
    Concurrency,
    /// The user did not agree, or could not be asked.
    Confirmation,
}

impl Course {
    /// Logs what went otherwise than usual.
    pub(crate) fn log(&self, tool: &ToolId) {
        let Self { is_confirmed, waited, is_cached, stop } = self;
        if *self != Self::default() {
            tracing::debug!(%tool, is_confirmed, ?waited, is_cached, ?stop, "a call");
        }
    }
}
