//! What an agent is told of a macro that failed: what was done before, what went wrong, and what was
//! not begun.

use std::fmt::Write;

use serde_json::{Map, json};

use crate::backend::{self, Outcome};
use crate::catalog::shorten;
use crate::config::{MacroConfig, StepConfig};
use crate::gateway::CallError;
use crate::gateway::macros::values::{Values, text_of};
use crate::raw::Raw;

/// The most characters of what went wrong with a step.
const MAX_ERROR: usize = 2000;
/// The most bytes of a result that is repeated.
const MAX_RESULT: usize = 1000;

/// How far a step is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It has not been sent, and will not be.
    NotBegun,
    /// Its tool gave a result.
    Done,
    /// It did not, for this reason.
    Failed(String),
}

/// The account of a run, with what went wrong after all steps if it was none of them.
pub(crate) fn of(
    config: &MacroConfig,
    stages: &[Stage],
    values: &Values<'_>,
    besides: Option<&str>,
) -> Outcome {
    let steps = || config.steps.iter().zip(stages);
    let failed = steps().find_map(|(step, stage)| match stage {
        Stage::Failed(why) => Some((step, why)),
        _ => None,
    });
    let mut error = Map::new();
    let mut text = format!("`{}` was not finished: ", config.name);
    let why = if let Some((step, why)) = failed {
        error.insert("step".to_owned(), step.name.clone().into());
        // Writing to a string does not fail.
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
        let mut entry = json!({"step": name, "tool": tool.to_string()});
        let (status, more) = match stage {
            Stage::NotBegun => ("not_begun", "not begun".to_owned()),
            Stage::Failed(why) => {
                let why = shorten(why, MAX_ERROR);
                entry["error"] = why.clone().into();
                ("failed", format!("failed: {why}"))
            }
            Stage::Done => {
                let value = values.of_step(name);
                let value = value.filter(|value| value.len() <= MAX_RESULT);
                let said = value.map(|value| format!(": {}", value.as_str()));
                ("done", format!("done{}", said.unwrap_or_default()))
            }
        };
        entry["status"] = status.into();
        // Writing to a string does not fail.
        let _ = write!(text, "\n- `{name}` ({tool}) {more}");
        told.push(entry);
    }
    text.push_str(
        "\nWhat was done stays done, and nothing was tried twice. What to do: mend what failed, and \
         call the tools of the remaining steps, or the whole again if that does no harm.",
    );
    Outcome::Result(Raw::encode(&json!({
        "content": [{"type": "text", "text": text}],
        "structuredContent": {"error": error, "steps": told},
        "isError": true,
    })))
}

/// What a tool says went wrong.
pub(crate) fn error_of(result: &Raw) -> String {
    let text = text_of(result);
    if text.trim().is_empty() { "the tool failed, and did not say why".to_owned() } else { text }
}

/// What kept a call from its tool.
pub(crate) fn told(error: &CallError) -> String {
    let text = error.to_string();
    match error {
        CallError::BadArguments { mismatches, .. } => {
            let mismatches: Vec<_> = mismatches.iter().map(ToString::to_string).collect();
            format!("{text}: {}", mismatches.join("; "))
        }
        CallError::Refused { hint, .. } => format!("{text} ({hint})"),
        CallError::Server { error: backend::Error::StartFailed(failure), .. } => {
            format!("{text} ({})", failure.hint)
        }
        CallError::Server {
            error: backend::Error::Died(_) | backend::Error::TimedOut(_), ..
        } => format!("{text}; it may have had effects"),
        _ => text,
    }
}
