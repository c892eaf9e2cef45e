//! The outcome of a tool call.

use std::time::Duration;

/// The ways in which a call can end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallOutcome {
    /// The server's result.
    Ok,
    /// The server's result, which says that the tool failed.
    ToolError,
    /// The server answered with an error of the protocol.
    ProtocolError,
    /// The server wants to know something first; the call is made again with the answer.
    InputRequired,
    /// There is no such tool, or the agent may not know of it.
    Unknown,
    /// The arguments are no JSON object, or do not fit a macro.
    BadArguments,
    /// It was not let through.
    Refused,
    /// The agent gave it up, or left.
    Cancelled,
    /// No answer in time.
    TimedOut,
    /// The server died of it, or while it ran.
    ServerDied,
    /// The server could not be started.
    StartFailed,
    /// The answer was too long.
    Oversized,
    /// The workbench ended.
    ShuttingDown,
    /// An error of ours.
    Panicked,
}

/// The outcome, duration and size of a call that has ended.
#[derive(Clone, Copy, Debug)]
pub struct CallEnd {
    pub outcome: CallOutcome,
    pub took: Duration,
    /// Size of the result or error in bytes, if there was one.
    pub result_bytes: Option<usize>,
}

impl CallOutcome {
    /// All outcomes, in the order of their discriminants.
    pub const ALL: [Self; 14] = [
        Self::Ok,
        Self::ToolError,
        Self::ProtocolError,
        Self::InputRequired,
        Self::Unknown,
        Self::BadArguments,
        Self::Refused,
        Self::Cancelled,
        Self::TimedOut,
        Self::ServerDied,
        Self::StartFailed,
        Self::Oversized,
        Self::ShuttingDown,
        Self::Panicked,
    ];

    /// Returns the outcome's name in records and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::ToolError => "tool_error",
            Self::ProtocolError => "protocol_error",
            Self::InputRequired => "input_required",
            Self::Unknown => "unknown",
            Self::BadArguments => "bad_arguments",
            Self::Refused => "refused",
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timed_out",
            Self::ServerDied => "server_died",
            Self::StartFailed => "start_failed",
            Self::Oversized => "oversized",
            Self::ShuttingDown => "shutting_down",
            Self::Panicked => "panicked",
        }
    }
}
