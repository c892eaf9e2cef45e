//! The outcome of a tool call.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use crate::catalog::Listing;

/// The ways in which a call can end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallOutcome {
    /// The tool succeeded.
    Ok,
    /// The tool returned an error as its result (`isError`).
    ToolError,
    /// The server answered with a JSON-RPC error.
    ProtocolError,
    /// The server needs input from the user; the client repeats the call with the answer.
    InputRequired,
    /// The tool doesn't exist or is hidden from the agent.
    UnknownTool,
    /// The arguments aren't a JSON object, or violate the schema of a macro.
    InvalidArguments,
    /// A limit, a missing confirmation or an access rule stopped the call.
    Denied,
    /// The agent cancelled the call or disconnected.
    #[default]
    Cancelled,
    /// The server didn't answer in time.
    TimedOut,
    /// The server exited or became unreachable during the call.
    ServerExited,
    /// The server couldn't be started or reached.
    ServerUnavailable,
    /// The result exceeds `limits.maxMessageBytes`.
    ResultTooLarge,
    /// The workbench shut down during the call.
    ShuttingDown,
    /// The call panicked, which is a bug in the workbench.
    InternalError,
}

/// How a call or a read ended, and what became known before.
#[derive(Clone, Debug, Default)]
pub struct CallEnd {
    pub outcome: CallOutcome,
    pub took: Duration,
    /// Size of the result or error in bytes, if there was one.
    pub result_bytes: Option<usize>,
    /// How long the call waited for other calls to end.
    pub queued: Duration,
    /// `true` if the tool is dangerous according to the configuration or its server.
    pub is_dangerous: bool,
    /// `true` if the user confirmed the call.
    pub is_confirmed: bool,
    /// `true` if the result came from the cache.
    pub is_cached: bool,
    /// The limit or the missing confirmation that stopped the call, if any.
    pub stop_reason: Option<CallStopReason>,
    pub(crate) decision: CallDecision,
    /// Why the call failed, for the live view: without secrets and control characters.
    pub(crate) failure: Option<String>,
}

/// Why a call was let through or not. Empty unless a listener wants `EventKinds::CALL_TEXTS`.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallDecision {
    /// The rule that allowed or denied the call.
    pub(crate) rule: Option<Cow<'static, str>>,
    /// Why the call was denied.
    pub(crate) reason: Option<String>,
    /// If the agent can't see the tool, the listing of its server.
    pub(crate) listing: Option<Arc<Listing>>,
}

/// Why a call of a visible tool was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallStopReason {
    /// The rate limit `callsPerMinute` was reached.
    Rate,
    /// The concurrency limit `maxConcurrentCalls` was reached for longer than `limits.maxWaitMs`.
    Concurrency,
    /// The user declined the call, didn't answer in time, or couldn't be asked.
    Confirmation,
}

impl CallStopReason {
    /// Returns the reason's name in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Concurrency => "concurrency",
            Self::Confirmation => "confirmation",
        }
    }
}

impl CallOutcome {
    /// All outcomes, in the order of their discriminants.
    pub const ALL: [Self; 14] = [
        Self::Ok,
        Self::ToolError,
        Self::ProtocolError,
        Self::InputRequired,
        Self::UnknownTool,
        Self::InvalidArguments,
        Self::Denied,
        Self::Cancelled,
        Self::TimedOut,
        Self::ServerExited,
        Self::ServerUnavailable,
        Self::ResultTooLarge,
        Self::ShuttingDown,
        Self::InternalError,
    ];

    /// Returns `true` if the call did not fail. Cancellation and shutdown are not failures.
    pub(crate) fn is_ok(self) -> bool {
        matches!(self, Self::Ok | Self::InputRequired | Self::Cancelled | Self::ShuttingDown)
    }

    /// Returns the outcome's name in records and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::ToolError => "tool_error",
            Self::ProtocolError => "protocol_error",
            Self::InputRequired => "input_required",
            Self::UnknownTool => "unknown_tool",
            Self::InvalidArguments => "invalid_arguments",
            Self::Denied => "denied",
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timed_out",
            Self::ServerExited => "server_exited",
            Self::ServerUnavailable => "server_unavailable",
            Self::ResultTooLarge => "result_too_large",
            Self::ShuttingDown => "shutting_down",
            Self::InternalError => "internal_error",
        }
    }

    /// Returns a sentence about a call that returned no result, for people.
    pub(crate) fn describe(self) -> Option<&'static str> {
        Some(match self {
            Self::Ok | Self::InputRequired => return None,
            Self::ToolError => "the tool returned an error without a text",
            Self::ProtocolError => "the server returned an error without a message",
            Self::UnknownTool => "there is no such tool, or the agent can't use it",
            Self::InvalidArguments => "the arguments are invalid",
            Self::Denied => "a rule, a limit or a missing confirmation stopped the call",
            Self::Cancelled => "the agent cancelled the call or disconnected",
            Self::TimedOut => "the server did not respond in time",
            Self::ServerExited => "the server exited or became unreachable during the call",
            Self::ServerUnavailable => "the server could not be started or reached",
            Self::ResultTooLarge => "the result exceeds `limits.maxMessageBytes`",
            Self::ShuttingDown => "the workbench shut down during the call",
            Self::InternalError => "internal error (see the workbench log)",
        })
    }
}
