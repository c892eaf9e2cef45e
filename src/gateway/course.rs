//! How a call went between the agent and its server, for whoever keeps a record of it.

use std::time::Duration;

use crate::observe::Notes;
use crate::policy::Concern;

/// How a call went, besides what came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Course {
    /// Why the tool is dangerous, if it is.
    pub danger: Option<Concern>,
    /// Whether the user was asked, and agreed.
    pub is_confirmed: bool,
    /// How long it waited for other calls to end.
    pub waited: Duration,
    /// Whether it was answered with what its server had answered before.
    pub is_cached: bool,
    /// Whether its server asked something of its agent before it answered.
    pub has_asked: bool,
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
    /// What observers are told of it.
    pub(crate) fn notes(&self) -> Notes {
        Notes {
            is_dangerous: self.danger.is_some(),
            is_confirmed: self.is_confirmed,
            is_cached: self.is_cached,
            waited: self.waited,
            stopped_by: self.stop.map(Stop::as_str),
        }
    }
}

impl Stop {
    /// A word for it.
    fn as_str(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Concurrency => "concurrency",
            Self::Confirmation => "confirmation",
        }
    }
}
