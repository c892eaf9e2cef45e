//! Answers of ours: tool results with `isError` that say what was wrong and what to do next.

use serde_json::json;

use crate::backend::{self, Outcome};
use crate::catalog::schema::list_mismatches;
use crate::exposure::budget::names_that_fit;
use crate::gateway::CallError;
use crate::raw::{self, Raw};

/// The most bytes of names that an error offers.
const MAX_NAMES: usize = 600;

/// The member of a tool's result that has its value (MCP, server/tools).
pub(crate) const STRUCTURED: &str = "structuredContent";

/// A result that a model can read the problem in.
pub(crate) fn error(text: &str) -> Outcome {
    Outcome::Result(Raw::encode(&json!({
        "content": [{"type": "text", "text": text}],
        "isError": true,
    })))
}

/// Puts a `structuredContent` that is no object into one, as its `result`, for agents of the older
/// revisions: these want an object there, and a client may refuse the whole answer for anything else.
pub(crate) fn structured_as_object(outcome: Outcome) -> Outcome {
    let Outcome::Result(result) = outcome else { return outcome };
    let other = result.member(STRUCTURED).filter(|value| !value.as_bytes().starts_with(b"{"));
    let wrapped =
        other.and_then(|value| result.with_member(STRUCTURED, &raw::object([("result", &value)])));
    Outcome::Result(wrapped.unwrap_or(result))
}

/// Says what kept a call from its tool, and what to do next.
pub(crate) fn call_error(error: &CallError, where_tools_are: &str) -> Outcome {
    let text = explain(error);
    match error {
        CallError::UnknownTool { .. } => self::error(&format!("{text} {where_tools_are}")),
        _ => self::error(&text),
    }
}

/// Words an error as text, without advice on where to look for tools.
pub fn explain(error: &CallError) -> String {
    match error {
        CallError::UnknownToolbox { known, .. } => {
            format!("{error}. The toolboxes are: {}.", offer(known))
        }
        CallError::UnknownServer { known, .. } => {
            format!("{error}. Its servers are: {}.", offer(known))
        }
        CallError::UnknownTool { nearest, .. } if nearest.is_empty() => format!("{error}."),
        CallError::UnknownTool { nearest, .. } => {
            format!("{error}. Did you mean: {}?", offer(nearest))
        }
        CallError::Refused { hint, .. } => format!("{error}.\nWhat to do: {hint}."),
        CallError::UnknownPrimitive { .. } => format!("{error}."),
        CallError::NotAnObject { .. } => format!(
            "{error}, so it was not called.\nWhat to do: write them as a JSON object, {{\"<name>\": \
             <value>}}."
        ),
        CallError::BadArguments { mismatches, .. } => {
            format!(
                "{error}, so it was not called:\n{}\nCorrect the arguments and call it again.",
                list_mismatches(mismatches)
            )
        }
        CallError::Server { server, error } => match error {
            backend::Error::StartFailed(failure) if failure.wants_sign_in => {
                format!("server `{server}`: {failure}.\nWhat to do: {}.", failure.hint)
            }
            backend::Error::StartFailed(failure) => {
                format!(
                    "server `{server}` could not be started: {failure}\nWhat to do: {}.",
                    failure.hint
                )
            }
            backend::Error::Died(_) => format!(
                "server `{server}`: {error}\nThe call may or may not have had effects. The next \
                 call brings the server back."
            ),
            backend::Error::TimedOut(_) => format!(
                "server `{server}`: {error}; the call was cancelled. It may have had effects. \
                 `callTimeoutMs` sets this time."
            ),
            backend::Error::TookTooLong(_) => format!(
                "server `{server}`: {error}; the call was cancelled. It may have had effects. \
                 `totalCallTimeoutMs` sets this time."
            ),
            backend::Error::Unanswered(unanswered) => {
                let effects = if unanswered.may_have_come {
                    "\nThe call may or may not have had effects."
                } else {
                    ""
                };
                format!("server `{server}`: {error}{effects}\nWhat to do: {}.", unanswered.hint)
            }
            backend::Error::Oversized(_) => {
                format!("server `{server}`: {error}. Ask for less at once.")
            }
            backend::Error::ShuttingDown => {
                format!("server `{server}`: {error}.")
            }
        },
    }
}

/// As many names as an error may offer.
pub(crate) fn offer(names: &[String]) -> String {
    match names_that_fit(MAX_NAMES, names.iter().map(String::as_str)) {
        (names, 0) => names,
        (names, more) => format!("{names}, and {more} more"),
    }
}
