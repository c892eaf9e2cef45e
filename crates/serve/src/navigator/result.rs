//! The result of `execute_task`: `{success, tool_used, result}` or `{success, tool_used, error}`.
//!
//! `result` is the server's `structuredContent` or text, unchanged. Other content blocks follow it,
//! and `_meta` is preserved.

use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::navigator::error::{Candidate, TaskError};
use crate::navigator::execution::{blocks, text, texts};
use crate::navigator::task::{TaskOutcome, ToolOutcome};
use mcp_workbench_core::catalog::schema::Parameter;
use mcp_workbench_wire::json::{self, RawJson};

/// Returns the `tools/call` result for a task (MCP, server/tools).
pub fn tool_result(done: &TaskOutcome) -> RawJson {
    let (shape, more) = shaped(done);
    let first = json::object([
        ("type", &RawJson::encode(&"text")),
        ("text", &RawJson::from_text(&shape.as_str())),
    ]);
    let content = json::array(std::iter::once(&first).chain(&more));
    let base = match &done.outcome {
        ToolOutcome::Result(result) => result.clone(),
        ToolOutcome::Failed(TaskError { result: Some(result), .. }) => (**result).clone(),
        ToolOutcome::Failed(_) => RawJson::encode(&json!({"isError": true})),
        ToolOutcome::DryRun(_) => json::object([]),
    };
    let answer = base.with_member("structuredContent", &shape);
    let answer = answer.and_then(|answer| answer.with_member("content", &content));
    // Not an object, so it has no members to preserve.
    answer.unwrap_or_else(|_| json::object([("content", &content), ("structuredContent", &shape)]))
}

pub fn outcome_json(done: &TaskOutcome) -> RawJson {
    shaped(done).0
}

/// The outcome as JSON, and the content blocks that are not part of it.
fn shaped(done: &TaskOutcome) -> (RawJson, Vec<RawJson>) {
    let tool = done.tool.as_ref().map(|used| RawJson::encode(&used.word));
    let of = |is_done: bool, key, value: &RawJson| {
        let success = RawJson::encode(&is_done);
        let tool = tool.iter().map(|tool| ("tool_used", tool));
        json::object(std::iter::once(("success", &success)).chain(tool).chain([(key, value)]))
    };
    match &done.outcome {
        ToolOutcome::Result(result) => {
            let (value, more) = value(result);
            (of(true, "result", &value), more)
        }
        ToolOutcome::Failed(failure) => (of(false, "error", &error(failure)), beside(failure)),
        ToolOutcome::DryRun(arguments) => {
            let arguments = arguments.clone().unwrap_or_else(|| json::object([]));
            (of(true, "arguments", &arguments), Vec::new())
        }
    }
}

fn error(failure: &TaskError) -> RawJson {
    let mut error = json!({
        "type": failure.kind.as_str(),
        "message": failure.message,
        "suggestion": failure.with_others(&failure.suggestion),
    });
    if !failure.parameters.is_empty() {
        error["parameters"] = failure.parameters.iter().map(parameter).collect();
    }
    if !failure.candidates.is_empty() {
        error["candidates"] = failure.candidates.iter().map(candidate).collect();
    }
    if let Some(context) = &failure.context {
        error["context"] = context.as_str().into();
    }
    RawJson::encode(&error)
}

/// Content of a failed tool's result that the error message doesn't contain.
fn beside(failure: &TaskError) -> Vec<RawJson> {
    let Some(result) = &failure.result else { return Vec::new() };
    let is_all_said = texts(result).join("\n").trim() == failure.message;
    let blocks = blocks(result).into_iter();
    let mut beside: Vec<_> = blocks.filter(|block| !is_all_said || text(block).is_none()).collect();
    if let Some(structured) = result.member("structuredContent") {
        let text = RawJson::from_text(&structured.as_str());
        beside.push(json::object([("type", &RawJson::encode(&"text")), ("text", &text)]));
    }
    beside
}

fn candidate(Candidate { tool, signature, description }: &Candidate) -> Value {
    json!({"tool": tool, "signature": signature, "description": description})
}

fn parameter(Parameter { name, kind, description, .. }: &Parameter) -> Value {
    json!({"name": name, "type": kind, "description": description.as_deref().unwrap_or_default()})
}

/// The value of a tool result, and the content blocks that it doesn't cover.
fn value(result: &RawJson) -> (RawJson, Vec<RawJson>) {
    let blocks = blocks(result);
    let structured = result.member("structuredContent").filter(|value| value.as_bytes() != b"null");
    if let Some(structured) = structured {
        // Servers repeat it as text for clients that ignore `structuredContent`.
        let same: Option<Value> = structured.parse().ok();
        let repeats = |block: &RawJson| {
            let said = text(block).and_then(|text| serde_json::from_str::<Value>(&text).ok());
            said.is_some() && said == same
        };
        let more = blocks.into_iter().filter(|block| !repeats(block)).collect();
        return (structured, more);
    }
    let (mut texts, mut more) = (Vec::new(), Vec::new());
    for block in blocks {
        match text(&block) {
            Some(text) => texts.push(text),
            None => more.push(block),
        }
    }
    let value = match texts.as_slice() {
        [] => RawJson::encode(&Value::Null),
        [only] => as_value(only),
        several => json::array(&several.iter().map(|text| as_value(text)).collect::<Vec<_>>()),
    };
    (value, more)
}

/// Parses a text that is a JSON object or array, byte for byte; any other text becomes a string.
fn as_value(text: &str) -> RawJson {
    let json = text.trim();
    if !json.starts_with(['{', '[']) || serde_json::from_str::<&RawValue>(json).is_err() {
        return RawJson::from_text(text);
    }
    // Messages are one line. Valid JSON has raw line breaks only between tokens.
    let line: String = json.chars().filter(|c| !matches!(c, '\n' | '\r')).collect();
    serde_json::from_str::<Box<RawValue>>(&line)
        .map_or_else(|_| RawJson::from_text(text), |raw| RawJson::encode(&raw))
}
