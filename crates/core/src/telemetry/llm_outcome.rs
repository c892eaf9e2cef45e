//! The outcome of a request to a language model.

/// The outcome of a request to a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LlmOutcome {
    /// The model answered.
    Ok,
    /// The endpoint couldn't be reached, or the connection broke.
    Unreachable,
    /// The model didn't answer in time.
    TimedOut,
    /// The endpoint rejected the API key.
    Unauthorized,
    /// The endpoint doesn't have the configured model.
    UnknownModel,
    /// The endpoint requires payment.
    PaymentRequired,
    /// The endpoint rejected the request because of its rate limit.
    RateLimited,
    /// The endpoint or the agent's client answered with another error.
    Error,
    /// The response is malformed, empty or incomplete.
    InvalidResponse,
    /// The response exceeds the size limit.
    ResponseTooLarge,
    /// The agent's client, or its user, declined the request.
    Declined,
    /// The agent's client doesn't support sampling.
    SamplingUnsupported,
    /// The agent cancelled its request or disconnected.
    Cancelled,
    /// The workbench shut down during the request.
    ShuttingDown,
    /// The request panicked, which is a bug in the workbench.
    InternalError,
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
            Self::PaymentRequired => "payment_required",
            Self::RateLimited => "rate_limited",
            Self::Error => "error",
            Self::InvalidResponse => "invalid_response",
            Self::ResponseTooLarge => "response_too_large",
            Self::Declined => "declined",
            Self::SamplingUnsupported => "sampling_unsupported",
            Self::Cancelled => "cancelled",
            Self::ShuttingDown => "shutting_down",
            Self::InternalError => "internal_error",
        }
    }
}
