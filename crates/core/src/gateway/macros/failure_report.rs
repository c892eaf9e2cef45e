//! Report of a failed macro run: the completed steps, the failure, and the steps that didn't start.

use std::fmt::Write;

use serde_json::{Map, json};

use crate::backend::{self, RpcOutcome};
use crate::catalog::shorten;
use crate::gateway::error::CallError;
use crate::gateway::macros::values::{Values, text_of};
use mcp_workbench_names::untrusted_text;
use mcp_workbench_settings::{MacroConfig, StepConfig};
use mcp_workbench_wire::json::{self, RawJson};

/// Maximum characters of an error.
const MAX_ERROR: usize = 2000;
/// Maximum characters of a step's result.
const MAX_RESULT: usize = 1000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StepStatus {
    /// Not sent to its server.
    NotBegun,
    Done,
    Failed(String),
}

/// Builds the tool error of a run. The last argument is the reason if no step failed.
pub(crate) fn failure_report(
    config: &MacroConfig,
    stages: &[StepStatus],
    values: &Values<'_>,
    besides: Option<&str>,
) -> RpcOutcome {
    let steps = || config.steps.iter().zip(stages);
    let failed = steps().find_map(|(step, stage)| match stage {
        StepStatus::Failed(why) => Some((step, why)),
        _ => None,
    });
    let mut error = Map::new();
    let mut text = format!("`{}` was not finished: ", config.name);
    let why = if let Some((step, why)) = failed {
        error.insert("step".to_owned(), step.name.clone().into());
        // Writing to a `String` can't fail.
        let _ = write!(text, "step `{}` failed.", step.name);
        why.as_str()
    } else {
        let why = besides.unwrap_or_default();
        let _ = write!(text, "{why}.");
        why
    };
    error.insert("message".to_owned(), shorten(why, MAX_ERROR).into());
    let mut told = Vec::new();
    for (step, stage) in steps() {
        let StepConfig { name, tool, .. } = step;
        let (status, more, said) = match stage {
            StepStatus::NotBegun => ("not_begun", None, "not begun".to_owned()),
            StepStatus::Failed(why) => {
                let why = shorten(why, MAX_ERROR);
                let said = format!("failed: {}", untrusted_text::single_line(&why));
                ("failed", Some(("error", RawJson::from_text(&why))), said)
            }
            StepStatus::Done => {
                let value = values.of_step(name).map(shortened);
                let said = value
                    .as_ref()
                    .map(|(_, text)| format!(": {}", untrusted_text::single_line(text)));
                let more = value.map(|(value, _)| ("result", value));
                ("done", more, format!("done{}", said.unwrap_or_default()))
            }
        };
        let _ = write!(text, "\n- `{name}` ({tool}) {said}");
        let (tool, status) = (RawJson::from_text(&tool.to_string()), RawJson::from_text(status));
        let members = [("step", RawJson::from_text(name)), ("tool", tool), ("status", status)];
        let members: Vec<_> = members.into_iter().chain(more).collect();
        told.push(json::object(members.iter().map(|(key, value)| (*key, value))));
    }
    text.push_str(
        "\nCompleted steps are not undone or repeated. What to do: fix the cause, then call the tools \
         of the remaining steps, or the whole macro again if that is safe.",
    );
    let members = [("error", &RawJson::encode(&error)), ("steps", &json::array(&told))];
    RpcOutcome::Result(json::object([
        ("content", &RawJson::encode(&json!([{"type": "text", "text": text}]))),
        ("structuredContent", &json::object(members)),
        ("isError", &RawJson::encode(&true)),
    ]))
}

/// Returns a step's result as a value and as text. A long one becomes a truncated string.
fn shortened(value: &RawJson) -> (RawJson, String) {
    let whole = value.as_str();
    let text = shorten(&whole, MAX_RESULT);
    if text == whole { (value.clone(), text) } else { (RawJson::from_text(&text), text) }
}

pub(crate) fn error_of(result: &RawJson) -> String {
    let text = Some(text_of(result)).filter(|text| !text.trim().is_empty());
    let structured =
        || result.member("structuredContent").filter(|said| said.as_bytes() != b"null");
    let text = text.or_else(|| structured().map(|said| said.as_str().into_owned()));
    text.unwrap_or_else(|| "the tool failed without a message".to_owned())
}

pub(crate) fn describe_call_error(error: &CallError) -> String {
    let text = error.to_string();
    match error {
        CallError::InvalidArguments { mismatches, .. } => {
            let mismatches: Vec<_> = mismatches.iter().map(ToString::to_string).collect();
            format!("{text}: {}", mismatches.join("; "))
        }
        CallError::Refused { hint, .. } => format!("{text} ({hint})"),
        CallError::Server { error: backend::BackendError::StartFailed(failure), .. } => {
            format!("{text} ({})", failure.hint)
        }
        CallError::Server { error: backend::BackendError::Remote(unanswered), .. } => {
            let effects =
                if unanswered.may_have_been_received { "; it may have had effects" } else { "" };
            format!("{text} ({}){effects}", unanswered.hint)
        }
        CallError::Server {
            error:
                backend::BackendError::Crashed(_)
                | backend::BackendError::IdleTimeout(_)
                | backend::BackendError::TotalTimeout(_),
            ..
        } => format!("{text}; it may have had effects"),
        _ => text,
    }
}
