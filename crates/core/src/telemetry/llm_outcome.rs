//! The outcome of a request to a language model.

/// The outcome of a request to a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LlmOutcome {
    /// It answered.
    Ok,
    /// Its endpoint cannot be reached.
    Unreachable,
    /// No answer in time.
    TimedOut,
    /// Its endpoint does not take the key.
    Unauthorized,
    /// Its endpoint does not know it.
    UnknownModel,
    /// Its endpoint wants to be paid.
    Unpaid,
    /// Its endpoint was asked too often.
    RateLimited,
    /// Its endpoint, or the agent's client, answered with an error.
    Failed,
    /// The answer cannot be used.
    Unusable,
    /// The answer was too long.
    Oversized,
    /// The agent's client, or its user, said no.
    Declined,
    /// The agent's client does not lend its model.
    Unable,
    /// The agent gave up what it was asked for, or left.
    Cancelled,
    /// The workbench ended.
    ShuttingDown,
    /// An error of ours.
    Panicked,
}

impl LlmOutcome {
    /// Returns the outcome's name in records and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Unreachable => "unreachable",
            Self::TimedOut => "timed_out",
            Self::Unauthorized => "unauthorized",
            Self::UnknownModel => "unknown_model",
            Self::Unpaid => "unpaid",
            Self::RateLimited => "rate_limited",
            Self::Failed => "failed",
            Self::Unusable => "unusable",
            Self::Oversized => "oversized",
            Self::Declined => "declined",
            Self::Unable => "unable",
            Self::Cancelled => "cancelled",
            Self::ShuttingDown => "shutting_down",
            Self::Panicked => "panicked",
        }
    }
}
