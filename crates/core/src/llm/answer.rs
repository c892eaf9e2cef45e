//! Parses the responses of endpoints leniently.
//!
//! Endpoints differ in form: text as a string or in parts, JSON in a fence or surrounded by prose,
//! reasoning before the answer. A response yields a text, or an [`LlmError`] with the reason, at
//! any size and nesting depth. A truncated or malformed object never yields an object nested in it.

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::llm::LlmError;
use mcp_workbench_wire::json::RawJson;

/// Maximum number of characters quoted from an endpoint's response in an error.
const MAX_QUOTED: usize = 200;
/// Larger token counts are implausible and ignored.
const MAX_TOKENS: u64 = 100_000_000;
/// Finish reasons for an answer that hit the token limit or the end of the context window.
const CUT: [&str; 2] = ["length", "model_length"];
/// Tags around the reasoning that some models write before their answer.
const THOUGHTS: [&str; 2] = ["<think>", "</think>"];

/// A parsed response.
pub(crate) struct ChatResponse {
    pub(crate) text: Result<String, LlmError>,
    /// `true` if the answer was truncated by a token limit.
    pub(crate) is_cut: bool,
    /// Input tokens, if reported.
    pub(crate) read: Option<u64>,
    /// Output tokens, if reported.
    pub(crate) written: Option<u64>,
}

pub(crate) fn read(answer: &RawJson) -> ChatResponse {
    let Ok(answer) = answer.parse::<Value>() else {
        let text = unusable("nested too deeply or not JSON");
        return ChatResponse { text, is_cut: false, read: None, written: None };
    };
    let tokens = |key: &str| {
        answer.pointer(key).and_then(Value::as_u64).filter(|tokens| *tokens <= MAX_TOKENS)
    };
    ChatResponse {
        text: answer_text(&answer),
        is_cut: is_cut(answer.pointer("/choices/0").unwrap_or(&Value::Null)),
        read: tokens("/usage/prompt_tokens"),
        written: tokens("/usage/completion_tokens"),
    }
}

fn answer_text(answer: &Value) -> Result<String, LlmError> {
    let Some(choice) = answer.pointer("/choices/0") else {
        return unusable(&match answer.get("error") {
            Some(Value::Null) | None => "no `choices`".to_owned(),
            Some(error) => {
                let message = error.get("message").unwrap_or(error);
                format!("the endpoint reported an error: {}", quoted(message))
            }
        });
    };
    let message = choice.get("message").unwrap_or(&Value::Null);
    let text = words(message.get("content").unwrap_or(&Value::Null));
    let text = strip_reasoning(&text);
    if !text.is_empty() {
        return Ok(text.to_owned());
    }
    if let Some(refusal @ Value::String(_)) = message.get("refusal") {
        return unusable(&format!("the model refused: {}", quoted(refusal)));
    }
    unusable(match choice.get("finish_reason").and_then(Value::as_str) {
        Some("content_filter") => "a content filter removed the output",
        _ if is_cut(choice) => "the model reached its token limit before any output",
        _ => "the model returned no text",
    })
}

/// Returns `true` if a token limit truncated the answer.
fn is_cut(choice: &Value) -> bool {
    let why = choice.get("finish_reason").and_then(Value::as_str);
    why.is_some_and(|why| CUT.contains(&why))
}

/// Returns the text of a message, which is a string or a list of parts.
fn words(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let text = |part: &Value| match part {
                Value::String(text) => Some(text.clone()),
                part => part.get("text").and_then(Value::as_str).map(str::to_owned),
            };
            parts.iter().filter_map(text).collect()
        }
        // Some endpoints parse requested JSON themselves and return an object instead of a string.
        Value::Object(_) => content.to_string(),
        Value::Null | Value::Bool(_) | Value::Number(_) => String::new(),
    }
}

/// Removes the reasoning before a model's answer. Some models write only the closing tag, because
/// their chat template contains the opening one.
pub fn strip_reasoning(text: &str) -> &str {
    let [begin, end] = THOUGHTS;
    let text = text.trim();
    if text.starts_with('{') {
        // The answer itself: a closing tag in it is part of a string.
        return text;
    }
    match text.rsplit_once(end) {
        Some((_, rest)) => rest.trim(),
        None if text.starts_with(begin) => "",
        None => text,
    }
}

/// Returns the top-level JSON objects in a text, in order, with or without prose around them.
/// Objects nested in another one, or in braces that aren't valid JSON, are skipped, and so are
/// unterminated ones.
pub fn json_objects(text: &str) -> impl Iterator<Item = (RawJson, Map<String, Value>)> + '_ {
    let mut rest = text;
    let braces = std::iter::from_fn(move || {
        let begins = &rest[rest.find('{')?..];
        let (braces, after) = begins.split_at(end_of_braces(begins)?);
        rest = after;
        Some(braces)
    });
    braces.filter_map(|braces| {
        let found: Box<RawValue> = serde_json::from_str(braces).ok()?;
        let found = RawJson::encode(&found);
        let members = found.parse().ok()?;
        Some((found, members))
    })
}

/// Returns the end of the braces at the start of a text, ignoring braces in strings.
fn end_of_braces(text: &str) -> Option<usize> {
    let (mut depth, mut is_string, mut is_escaped) = (0_usize, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_string => is_escaped = true,
            b'"' => is_string = !is_string,
            b'{' if !is_string => depth += 1,
            b'}' if !is_string => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

fn quoted(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ").replace(char::is_control, "�");
    match text.char_indices().nth(MAX_QUOTED) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn unusable<T>(why: &str) -> Result<T, LlmError> {
    Err(LlmError::Unusable(why.to_owned()))
}

#[cfg(test)]
mod tests;
