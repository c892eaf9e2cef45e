//! Error results for tool calls: the problem, and how to fix it.

use serde_json::json;

use crate::exposure::truncation::names_that_fit;
use mcp_workbench_core::backend::{self, RpcOutcome};
use mcp_workbench_core::catalog::schema::format_violations;
use mcp_workbench_core::gateway::CallError;
use mcp_workbench_wire::json::{self, RawJson};

/// Maximum size of the names in an error, in bytes.
const MAX_NAMES: usize = 600;

/// The member of a tool result with its JSON value (MCP, server/tools).
pub(crate) const STRUCTURED: &str = "structuredContent";

pub(crate) fn error_result(text: &str) -> RpcOutcome {
    RpcOutcome::Result(RawJson::encode(&json!({
        "content": [{"type": "text", "text": text}],
        "isError": true,
    })))
}

/// Wraps a `structuredContent` that isn't an object as `{"result": …}`. Older revisions require an
/// object, and clients can reject the whole result otherwise.
pub(crate) fn structured_as_object(outcome: RpcOutcome) -> RpcOutcome {
    let RpcOutcome::Result(result) = &outcome else { return outcome };
    let other = result.member(STRUCTURED).filter(|value| !value.as_bytes().starts_with(b"{"));
    let Some(value) = other else { return outcome };
    RpcOutcome::from_edit(result.with_member(STRUCTURED, &json::object([("result", &value)])))
}

/// Returns the result for a failed call; an unknown tool adds the hint on where to find tools.
pub(crate) fn call_error(error: &CallError, where_tools_are: &str) -> RpcOutcome {
    let text = error_text(error);
    match error {
        CallError::UnknownTool { .. } => error_result(&format!("{text} {where_tools_are}")),
        _ => error_result(&text),
    }
}

/// Formats an error without advice on where to find tools.
pub fn error_text(error: &CallError) -> String {
    match error {
        CallError::UnknownToolbox { known, .. } => {
            format!("{error}. Toolboxes: {}.", offer(known))
        }
        CallError::UnknownServer { known, .. } => {
            format!("{error}. Servers: {}.", offer(known))
        }
        CallError::UnknownTool { nearest, .. } if nearest.is_empty() => format!("{error}."),
        CallError::UnknownTool { nearest, .. } => {
            format!("{error}. Did you mean: {}?", offer(nearest))
        }
        CallError::Refused { hint, .. } => format!("{error}.\nWhat to do: {hint}."),
        CallError::UnknownPrimitive { .. } | CallError::TooManySubscriptions(_) => {
            format!("{error}.")
        }
        CallError::NotAnObject { .. } => format!(
            "{error}, so it was not called.\nWhat to do: pass a JSON object, {{\"<name>\": \
             <value>}}."
        ),
        CallError::InvalidArguments { mismatches, .. } => {
            format!(
                "{error}, so it was not called:\n{}\nCorrect the arguments and call it again.",
                format_violations(mismatches)
            )
        }
        CallError::Server { server, error } => match error {
            backend::BackendError::StartFailed(failure) if failure.wants_sign_in => {
                format!("server `{server}`: {failure}.\nWhat to do: {}.", failure.hint)
            }
            backend::BackendError::StartFailed(failure) => {
                format!(
                    "server `{server}` could not be started: {failure}\nWhat to do: {}.",
                    failure.hint
                )
            }
            backend::BackendError::Crashed(_) => format!(
                "server `{server}`: {error}\nThe call may or may not have had effects. The next \
                 call restarts the server."
            ),
            backend::BackendError::IdleTimeout(_) => format!(
                "server `{server}`: {error}; the call was cancelled. It may have had effects. \
                 `callTimeoutMs` sets the limit."
            ),
            backend::BackendError::TotalTimeout(_) => format!(
                "server `{server}`: {error}; the call was cancelled. It may have had effects. \
                 `totalCallTimeoutMs` sets the limit."
            ),
            backend::BackendError::Remote(unanswered) => {
                let effects = if unanswered.may_have_been_received {
                    "\nThe call may or may not have had effects."
                } else {
                    ""
                };
                format!("server `{server}`: {error}{effects}\nWhat to do: {}.", unanswered.hint)
            }
            backend::BackendError::Oversized(_) => {
                format!("server `{server}`: {error}. Request less data.")
            }
            backend::BackendError::InvalidResponse(_) => {
                format!("server `{server}`: {error}. The call may have had effects.")
            }
            backend::BackendError::ShuttingDown => {
                format!("server `{server}`: {error}.")
            }
        },
    }
}

/// Joins the names, up to the maximum size.
pub(crate) fn offer(names: &[String]) -> String {
    match names_that_fit(MAX_NAMES, names.iter().map(String::as_str)) {
        (names, 0) => names,
        (names, more) => format!("{names}, and {more} more"),
    }
}
