//! The answer to an agent: `{success, tool_used, result}`, or `{success, tool_used, error}`.
//!
//! What the tool's server wrote stays as it is written: its `structuredContent`, or its text, is the
//! `result`; blocks that are no text come after it, and `_meta` stands where it stood.

use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::catalog::schema::Parameter;
use crate::navigator::executing::{blocks, text, texts};
use crate::navigator::failure::Candidate;
use crate::navigator::{Came, Done, Failure};
use crate::raw::{self, Raw};

/// The result of a call of `execute_task` (MCP, server/tools).
pub fn answer(done: &Done) -> Raw {
    let (shape, more) = shaped(done);
    let first =
        raw::object([("type", &Raw::encode(&"text")), ("text", &Raw::of_text(&shape.as_str()))]);
    let content = raw::array(std::iter::once(&first).chain(&more));
    let base = match &done.came {
        Came::Result(result) => result.clone(),
        Came::Failed(Failure { result: Some(result), .. }) => (**result).clone(),
        Came::Failed(_) => Raw::encode(&json!({"isError": true})),
        Came::Rehearsed(_) => raw::object([]),
    };
    let answer = base.with_member("structuredContent", &shape);
    let answer = answer.and_then(|answer| answer.with_member("content", &content));
    // A result that is no object has no members to keep.
    answer.unwrap_or_else(|| raw::object([("content", &content), ("structuredContent", &shape)]))
}

/// The outcome of a task, as JSON.
pub fn shape(done: &Done) -> Raw {
    shaped(done).0
}

/// The outcome of a task as JSON, and the blocks that are not part of it.
fn shaped(done: &Done) -> (Raw, Vec<Raw>) {
    let tool = done.tool.as_ref().map(|used| Raw::encode(&used.word));
    let of = |is_done: bool, key, value: &Raw| {
        let success = Raw::encode(&is_done);
        let tool = tool.iter().map(|tool| ("tool_used", tool));
        raw::object(std::iter::once(("success", &success)).chain(tool).chain([(key, value)]))
    };
    match &done.came {
        Came::Result(result) => {
            let (value, more) = value(result);
            (of(true, "result", &value), more)
        }
        Came::Failed(failure) => (of(false, "error", &error(failure)), beside(failure)),
        Came::Rehearsed(arguments) => {
            let arguments = arguments.clone().unwrap_or_else(|| raw::object([]));
            (of(true, "arguments", &arguments), Vec::new())
        }
    }
}

fn error(failure: &Failure) -> Raw {
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
    Raw::encode(&error)
}

/// The blocks of a failed tool's answer besides the message.
fn beside(failure: &Failure) -> Vec<Raw> {
    let Some(result) = &failure.result else { return Vec::new() };
    let is_all_said = texts(result).join("\n").trim() == failure.message;
    let blocks = blocks(result).into_iter();
    let mut beside: Vec<_> = blocks.filter(|block| !is_all_said || text(block).is_none()).collect();
    if let Some(structured) = result.member("structuredContent") {
        let text = Raw::of_text(&structured.as_str());
        beside.push(raw::object([("type", &Raw::encode(&"text")), ("text", &text)]));
    }
    beside
}

fn candidate(Candidate { tool, signature, description }: &Candidate) -> Value {
    json!({"tool": tool, "signature": signature, "description": description})
}

fn parameter(Parameter { name, kind, description, .. }: &Parameter) -> Value {
    json!({"name": name, "type": kind, "description": description.as_deref().unwrap_or_default()})
}

/// The value of a tool's result, and the blocks that it does not stand for.
fn value(result: &Raw) -> (Raw, Vec<Raw>) {
    let blocks = blocks(result);
    let structured = result.member("structuredContent").filter(|value| value.as_bytes() != b"null");
    if let Some(structured) = structured {
        // Servers repeat it as a text, for clients that do not know it.
        let same: Option<Value> = structured.parse().ok();
        let repeats = |block: &Raw| {
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
        [] => Raw::encode(&Value::Null),
        [only] => as_value(only),
        several => raw::array(&several.iter().map(|text| as_value(text)).collect::<Vec<_>>()),
    };
    (value, more)
}

/// A text as a value: what it says if it is a JSON object or array, as it is written; else itself.
fn as_value(text: &str) -> Raw {
    let json = text.trim();
    if !json.starts_with(['{', '[']) || serde_json::from_str::<&RawValue>(json).is_err() {
        return Raw::of_text(text);
    }
    // A message is one line. In JSON there are no line breaks but between what it says.
    let line: String = json.chars().filter(|c| !matches!(c, '\n' | '\r')).collect();
    serde_json::from_str::<Box<RawValue>>(&line)
        .map_or_else(|_| Raw::of_text(text), |raw| Raw::encode(&raw))
}
