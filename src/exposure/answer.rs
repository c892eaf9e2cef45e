//! Answers of ours: tool results with `isError` that say what was wrong and what to do next.

use serde_json::json;

use crate::backend::{self, Outcome};
use crate::catalog::schema::Mismatch;
use crate::config::ToolMode;
use crate::exposure::budget::names_that_fit;
use crate::gateway::CallError;
use crate::raw::Raw;

/// The most bytes of names that an error offers.
const MAX_NAMES: usize = 600;
/// The most bytes of schemas that an error quotes.
const MAX_SCHEMA: usize = 1024;

/// A result that a model can read the problem in.
pub(crate) fn error(text: &str) -> Outcome {
    Outcome::Result(Raw::encode(&json!({
        "content": [{"type": "text", "text": text}],
        "isError": true,
    })))
}

/// Says what kept a call from its tool, and what to do next.
pub(crate) fn call_error(error: &CallError, mode: ToolMode) -> Outcome {
    let text = explain(error);
    match error {
        CallError::UnknownTool { .. } => self::error(&format!("{text} {}", where_tools_are(mode))),
        _ => self::error(&text),
    }
}

/// The same as a text, without where to look for tools.
pub(crate) fn explain(error: &CallError) -> String {
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
        CallError::UnknownThing { .. } => format!("{error}."),
        CallError::BadArguments { mismatches, .. } => {
            format!(
                "{error}, so it was not called:\n{}\nCorrect the arguments and call it again.",
                listed(mismatches)
            )
        }
        CallError::Server { server, error } => match error {
            backend::Error::StartFailed(failure) => {
                format!(
                    "server `{server}` could not be started: {failure}\nWhat to do: {}.",
                    failure.hint
                )
            }
            backend::Error::Died(_) => format!(
                "server `{server}`: {error}\nThe call may or may not have had effects. The next \
                 call starts the server again."
            ),
            backend::Error::TimedOut(_) => format!(
                "server `{server}`: {error}; the call was cancelled. It may have had effects. \
                 `callTimeoutMs` sets this time."
            ),
            backend::Error::Oversized(_) => {
                format!("server `{server}`: {error}. Ask for less at once.")
            }
            backend::Error::ShuttingDown => {
                format!("server `{server}`: {error}.")
            }
        },
    }
}

/// One mismatch a line, each with the piece of the schema that it breaks, as far as there is room.
fn listed(mismatches: &[Mismatch]) -> String {
    let mut room = MAX_SCHEMA;
    let lines = mismatches.iter().enumerate().map(|(index, mismatch)| {
        // What one leaves is there for the next ones.
        let share = room / (mismatches.len() - index);
        let end = mismatch.expected.floor_char_boundary(share);
        let cut = if end < mismatch.expected.len() { "…" } else { "" };
        room -= end;
        let expected = format!("{}{cut}", &mismatch.expected[..end]);
        format!("- {}", Mismatch { expected, ..mismatch.clone() })
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// How an agent sees which tools there are.
fn where_tools_are(mode: ToolMode) -> &'static str {
    match mode {
        ToolMode::Direct => "The list of tools shows all there are.",
        ToolMode::Activate => "The description of toolman_activate shows all tools.",
        ToolMode::Search => "search_tools finds tools by what is wanted of them.",
        ToolMode::Navigate => "execute_task finds the tool for a task.",
        ToolMode::Modular => "get-modular-tools shows all tools of a group.",
        ToolMode::Dynamic | ToolMode::Proxy | ToolMode::Auto => {
            "open_toolbox shows all tools of a toolbox."
        }
    }
}

/// As many names as an error may offer.
pub(crate) fn offer(names: &[String]) -> String {
    match names_that_fit(MAX_NAMES, names.iter().map(String::as_str)) {
        (names, 0) => names,
        (names, more) => format!("{names}, and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_schemas_share_their_room() {
        let mismatch = |length: usize| Mismatch {
            property: "a".to_owned(),
            problem: "is null".to_owned(),
            expected: "ä".repeat(length / 2),
        };
        let text = listed(&[mismatch(2), mismatch(900), mismatch(900), mismatch(900)]);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "- `a` is null; schema: ä");
        assert!(lines[1..].iter().all(|line| line.ends_with("ä…")), "{text}");
        assert!(text.len() <= MAX_SCHEMA + 4 * 30, "{}", text.len());
        assert_eq!(listed(&[]), "");
        assert!(!listed(&[mismatch(1000)]).contains('…'), "one alone has all of it");
    }
}
