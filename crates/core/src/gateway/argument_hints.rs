//! Adds to a server's error which arguments violate the tool's schema.
//!
//! This applies only to calls through a tool of the workbench. The server's own error is unchanged,
//! byte for byte.

use serde_json::json;

use crate::backend::RpcOutcome;
use crate::catalog::schema::{SchemaViolation, format_violations};
use crate::gateway::instrumentation;
use mcp_workbench_names::ToolId;
use mcp_workbench_wire::incoming::edit_error;
use mcp_workbench_wire::json::{EditError, RawJson};

const HINT: &str = "hint";

/// Words of errors that the arguments have nothing to do with.
const OTHER_CAUSES: [&str; 16] = [
    "unauthorized",
    "unauthenticated",
    "forbidden",
    "permission denied",
    "access denied",
    "not authenticated",
    "api key",
    "rate limit",
    "too many requests",
    "timed out",
    "timeout",
    "econnrefused",
    "enotfound",
    "connection refused",
    "service unavailable",
    "bad gateway",
];

/// Returns `false` if the error names another cause than the arguments. A vague error can be about
/// them.
fn is_about_arguments(outcome: &RpcOutcome) -> bool {
    let text = match outcome {
        RpcOutcome::Result(error) | RpcOutcome::Error(error) => error.as_str().to_lowercase(),
    };
    !OTHER_CAUSES.iter().any(|cause| text.contains(cause))
}

/// Appends the violations to an error that can be about them.
pub(crate) fn with_hints(
    tool: &ToolId,
    mismatches: &[SchemaViolation],
    outcome: RpcOutcome,
) -> RpcOutcome {
    if mismatches.is_empty() || !is_about_arguments(&outcome) {
        return outcome;
    }
    let hint = format!(
        "possible cause: the arguments violate the schema of `{tool}`:\n{}",
        format_violations(mismatches)
    );
    with_hint(outcome, &hint)
}

pub(crate) fn is_error(outcome: &RpcOutcome) -> bool {
    match outcome {
        RpcOutcome::Result(result) => instrumentation::is_error(result),
        RpcOutcome::Error(_) => true,
    }
}

fn with_hint(outcome: RpcOutcome, hint: &str) -> RpcOutcome {
    match outcome {
        RpcOutcome::Result(result) => RpcOutcome::from_edit(with_block(result, hint)),
        RpcOutcome::Error(error) => {
            RpcOutcome::Error(with_data(error, hint).unwrap_or_else(edit_error))
        }
    }
}

fn with_block(result: RawJson, hint: &str) -> Result<RawJson, EditError> {
    let block = RawJson::encode(&json!({"type": "text", "text": hint}));
    let content = match result.member("content") {
        Some(content) if content.as_bytes().starts_with(b"[") => content.with_item(&block)?,
        Some(_) => return Ok(result),
        None => RawJson::encode(&json!([block])),
    };
    result.with_member("content", &content)
}

fn with_data(error: RawJson, hint: &str) -> Result<RawJson, EditError> {
    let data = match error.member("data") {
        Some(data) if data.member(HINT).is_some() => return Ok(error),
        Some(data) if data.as_bytes().starts_with(b"{") => {
            data.with_member(HINT, &RawJson::from_text(hint))?
        }
        Some(_) => return Ok(error),
        None => RawJson::encode(&json!({HINT: hint})),
    };
    error.with_member("data", &data)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::value::RawValue;

    use super::*;

    fn raw(text: &str) -> RawJson {
        RawJson::encode(&RawValue::from_string(text.to_owned()).expect("JSON"))
    }

    #[test]
    fn only_errors_without_another_cause_are_about_arguments() {
        for (text, expected) in [
            (r#"{"isError":true,"content":[{"type":"text","text":"path is required"}]}"#, true),
            (r#"{"isError":true,"content":[]}"#, true),
            (r#"{"isError":true,"content":[{"type":"text","text":"Error: Forbidden"}]}"#, false),
            (r#"{"isError":true,"structuredContent":{"error":"RATE LIMIT reached"}}"#, false),
            (
                r#"{"isError":true,"content":[{"type":"text","text":"connect ECONNREFUSED"}]}"#,
                false,
            ),
        ] {
            assert_eq!(is_about_arguments(&RpcOutcome::Result(raw(text))), expected, "{text}");
        }
        for (text, expected) in [
            (r#"{"code":-32602,"message":"Invalid params"}"#, true),
            (r#"{"code":-32001,"message":"Request timed out"}"#, false),
            (r#"{"code":-32000,"message":"x","data":{"cause":"401 Unauthorized"}}"#, false),
        ] {
            assert_eq!(is_about_arguments(&RpcOutcome::Error(raw(text))), expected, "{text}");
        }
    }

    #[test]
    fn hint_is_appended_to_a_result_as_a_text_block() {
        let hinted = |text: &str| match with_hint(RpcOutcome::Result(raw(text)), "why") {
            RpcOutcome::Result(result) => result.as_str().into_owned(),
            RpcOutcome::Error(error) => panic!("{error:?}"),
        };
        let block = r#"{"type":"text","text":"why"}"#;
        assert_eq!(
            hinted(
                r#"{ "content" : [ {"text":"\u0041" , "type":"text"} ] ,"isError":true,"n":1.0}"#
            ),
            format!(
                r#"{{ "content" : [ {{"text":"\u0041" , "type":"text"}} ,{block}] ,"isError":true,"n":1.0}}"#
            )
        );
        assert_eq!(
            hinted(r#"{"content":[],"isError":true}"#),
            format!(r#"{{"content":[{block}],"isError":true}}"#)
        );
        assert_eq!(
            hinted(r#"{"isError":true}"#),
            format!(r#"{{"content":[{block}],"isError":true}}"#)
        );
        for odd in [r#"{"content":"text","isError":true}"#, r#"{"content":null,"isError":true}"#] {
            assert_eq!(hinted(odd), odd, "no place for the hint");
        }
    }

    #[test]
    fn hint_is_added_to_the_data_of_a_protocol_error() {
        let hinted = |text: &str| match with_hint(RpcOutcome::Error(raw(text)), "why") {
            RpcOutcome::Error(error) => error.as_str().into_owned(),
            RpcOutcome::Result(result) => panic!("{result:?}"),
        };
        assert_eq!(
            hinted(r#"{"code":-32602, "message":"\u0041"}"#),
            r#"{"data":{"hint":"why"},"code":-32602, "message":"\u0041"}"#
        );
        assert_eq!(
            hinted(r#"{"code":-32602,"message":"a","data":{"n":1.0}}"#),
            r#"{"code":-32602,"message":"a","data":{"hint":"why","n":1.0}}"#
        );
        for own in [
            r#"{"code":1,"message":"a","data":{"hint":"its own"}}"#,
            r#"{"code":1,"message":"a","data":[1.0]}"#,
            r#"{"code":1,"message":"a","data":null}"#,
        ] {
            assert_eq!(hinted(own), own);
        }
    }
}
