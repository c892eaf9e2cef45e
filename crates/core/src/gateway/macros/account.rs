//! The account of a macro that failed, for its agent: what was done before, what went wrong, and
//! what was not begun.

use std::fmt::Write;

use serde_json::{Map, json};

use crate::backend::{self, Outcome};
use crate::catalog::shorten;
use crate::gateway::CallError;
use crate::gateway::macros::values::{Values, text_of};
use crate::name::seen;
use crate::raw::{self, Raw};
use crate::settings::{MacroConfig, StepConfig};

/// The most characters of what went wrong with a step.
const MAX_ERROR: usize = 2000;
/// The most characters of what a step came to.
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
        let (status, more, said) = match stage {
            Stage::NotBegun => ("not_begun", None, "not begun".to_owned()),
            Stage::Failed(why) => {
                let why = shorten(why, MAX_ERROR);
                let said = format!("failed: {}", seen::line(&why));
                ("failed", Some(("error", Raw::of_text(&why))), said)
            }
            Stage::Done => {
                let value = values.of_step(name).map(shortened);
                let said = value.as_ref().map(|(_, text)| format!(": {}", seen::line(text)));
                let more = value.map(|(value, _)| ("result", value));
                ("done", more, format!("done{}", said.unwrap_or_default()))
            }
        };
        // Writing to a string does not fail.
        let _ = write!(text, "\n- `{name}` ({tool}) {said}");
        let (tool, status) = (Raw::of_text(&tool.to_string()), Raw::of_text(status));
        let members = [("step", Raw::of_text(name)), ("tool", tool), ("status", status)];
        let members: Vec<_> = members.into_iter().chain(more).collect();
        told.push(raw::object(members.iter().map(|(key, value)| (*key, value))));
    }
    text.push_str(
        "\nWhat was done stays done, and nothing was tried twice. What to do: mend what failed, and \
         call the tools of the remaining steps, or the whole again if that does no harm.",
    );
    let members = [("error", &Raw::encode(&error)), ("steps", &raw::array(&told))];
    Outcome::Result(raw::object([
        ("content", &Raw::encode(&json!([{"type": "text", "text": text}]))),
        ("structuredContent", &raw::object(members)),
        ("isError", &Raw::encode(&true)),
    ]))
}

/// Returns the result of a step, in structure and as a text; of a long one its beginning, as a text.
fn shortened(value: &Raw) -> (Raw, String) {
    let whole = value.as_str();
    let text = shorten(&whole, MAX_RESULT);
    if text == whole { (value.clone(), text) } else { (Raw::of_text(&text), text) }
}

/// Returns a tool's own words for what went wrong.
pub(crate) fn error_of(result: &Raw) -> String {
    let text = Some(text_of(result)).filter(|text| !text.trim().is_empty());
    let structured =
        || result.member("structuredContent").filter(|said| said.as_bytes() != b"null");
    let text = text.or_else(|| structured().map(|said| said.as_str().into_owned()));
    text.unwrap_or_else(|| "the tool failed, and did not say why".to_owned())
}

/// Returns the words for what kept a call from its tool.
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
        CallError::Server { error: backend::Error::Unanswered(unanswered), .. } => {
            let effects = if unanswered.may_have_come { "; it may have had effects" } else { "" };
            format!("{text} ({}){effects}", unanswered.hint)
        }
        CallError::Server {
            error:
                backend::Error::Died(_) | backend::Error::TimedOut(_) | backend::Error::TookTooLong(_),
            ..
        } => format!("{text}; it may have had effects"),
        _ => text,
    }
}
