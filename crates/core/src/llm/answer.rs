//! The answers of endpoints, read as leniently as it can be done without guessing.
//!
//! Endpoints differ in how they say the same: words as a text or in parts, JSON in a fence or with
//! words around it, thoughts before it. Whatever comes is read, or is a [`Failure`] that says why
//! not; how deep and how large it is does not matter. What was cut, or is broken, is never taken for
//! a part of it that happens to be whole.

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::llm::Failure;
use crate::raw::Raw;

/// The most characters of an endpoint's words in an error.
const MAX_QUOTED: usize = 200;
/// More tokens than this are none that a model took for one question.
const MAX_TOKENS: u64 = 100_000_000;
/// Why a model ends that has no tokens left: its own, or those of its memory.
const CUT: [&str; 2] = ["length", "model_length"];
/// The marks around the thoughts that some models write before their answer.
const THOUGHTS: [&str; 2] = ["<think>", "</think>"];

/// The content of an answer.
pub(crate) struct Heard {
    /// The words of the model.
    pub(crate) text: Result<String, Failure>,
    /// `true` if the model had more to say.
    pub(crate) is_cut: bool,
    /// The tokens that it read, if that is said.
    pub(crate) read: Option<u64>,
    /// The tokens that it wrote, if that is said.
    pub(crate) written: Option<u64>,
}

/// Reads what an endpoint answered.
pub(crate) fn read(answer: &Raw) -> Heard {
    let Ok(answer) = answer.parse::<Value>() else {
        let text = unusable("it is nested too deeply, or no JSON");
        return Heard { text, is_cut: false, read: None, written: None };
    };
    let tokens = |key: &str| {
        answer.pointer(key).and_then(Value::as_u64).filter(|tokens| *tokens <= MAX_TOKENS)
    };
    Heard {
        text: said(&answer),
        is_cut: is_cut(answer.pointer("/choices/0").unwrap_or(&Value::Null)),
        read: tokens("/usage/prompt_tokens"),
        written: tokens("/usage/completion_tokens"),
    }
}

fn said(answer: &Value) -> Result<String, Failure> {
    let Some(choice) = answer.pointer("/choices/0") else {
        return unusable(&match answer.get("error") {
            Some(Value::Null) | None => "it has no `choices`".to_owned(),
            Some(error) => {
                let message = error.get("message").unwrap_or(error);
                format!("it says that something went wrong: {}", quoted(message))
            }
        });
    };
    let message = choice.get("message").unwrap_or(&Value::Null);
    let text = words(message.get("content").unwrap_or(&Value::Null));
    let text = without_thoughts(&text);
    if !text.is_empty() {
        return Ok(text.to_owned());
    }
    if let Some(refusal @ Value::String(_)) = message.get("refusal") {
        return unusable(&format!("the model refuses: {}", quoted(refusal)));
    }
    unusable(match choice.get("finish_reason").and_then(Value::as_str) {
        Some("content_filter") => "a filter held back what the model said",
        _ if is_cut(choice) => "the model used up all its tokens before it said anything",
        _ => "the model said nothing",
    })
}

/// Returns `true` if the model had too few tokens left for its whole answer.
fn is_cut(choice: &Value) -> bool {
    let why = choice.get("finish_reason").and_then(Value::as_str);
    why.is_some_and(|why| CUT.contains(&why))
}

/// The words of a message, which come as one text or in parts.
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
        // There are endpoints that read what they were asked to write as JSON.
        Value::Object(_) => content.to_string(),
        Value::Null | Value::Bool(_) | Value::Number(_) => String::new(),
    }
}

/// A model's answer without the thoughts before it. Some models only end their thoughts, because
/// their template begins them.
pub fn without_thoughts(text: &str) -> &str {
    let [begin, end] = THOUGHTS;
    let text = text.trim();
    if text.starts_with('{') {
        // It thinks no more; what looks like an end stands in what it answers.
        return text;
    }
    match text.rsplit_once(end) {
        Some((_, rest)) => rest.trim(),
        None if text.starts_with(begin) => "",
        None => text,
    }
}

/// The JSON objects in a text, be it nothing else or have words around it, the first first. None of
/// them lies in another, or in braces that are no object; what does not end is none.
pub fn objects(text: &str) -> impl Iterator<Item = (Raw, Map<String, Value>)> + '_ {
    let mut rest = text;
    let braces = std::iter::from_fn(move || {
        let begins = &rest[rest.find('{')?..];
        let (braces, after) = begins.split_at(end_of_braces(begins)?);
        rest = after;
        Some(braces)
    });
    braces.filter_map(|braces| {
        let found: Box<RawValue> = serde_json::from_str(braces).ok()?;
        let found = Raw::encode(&found);
        let members = found.parse().ok()?;
        Some((found, members))
    })
}

/// Where the braces end that a text begins with; those in strings are none.
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

fn unusable<T>(why: &str) -> Result<T, Failure> {
    Err(Failure::Unusable(why.to_owned()))
}

#[cfg(test)]
mod tests;
