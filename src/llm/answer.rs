//! What an endpoint answers, read as leniently as it can be without guessing.
//!
//! Endpoints differ in how they say the same: words as a text or in parts, JSON in a fence or with
//! words around it, thoughts before it. Whatever comes is read, or is a [`Failure`] that says why
//! not; how deep and how large it is does not matter.

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::llm::Failure;
use crate::raw::Raw;

/// The most characters of an endpoint's words in an error.
const MAX_QUOTED: usize = 200;
/// How many places are tried where an object could begin.
const MAX_TRIED: usize = 32;
/// More tokens than this are none that a model took for one question.
const MAX_TOKENS: u64 = 100_000_000;
/// What begins and ends the thoughts that some models write before their answer.
const THOUGHTS: [&str; 2] = ["<think>", "</think>"];

/// What was found in an answer.
pub(crate) struct Heard {
    /// What the model said.
    pub(crate) text: Result<String, Failure>,
    /// The tokens that it read, if that is said.
    pub(crate) read: Option<u64>,
    /// The tokens that it wrote, if that is said.
    pub(crate) written: Option<u64>,
}

/// Reads what an endpoint answered.
pub(crate) fn read(answer: &Raw) -> Heard {
    let Ok(answer) = answer.parse::<Value>() else {
        let text = unusable("it is nested too deeply, or no JSON");
        return Heard { text, read: None, written: None };
    };
    let tokens = |key: &str| {
        answer.pointer(key).and_then(Value::as_u64).filter(|tokens| *tokens <= MAX_TOKENS)
    };
    Heard {
        text: said(&answer),
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
    let text = without_thoughts(&text).trim();
    if !text.is_empty() {
        return Ok(text.to_owned());
    }
    if let Some(refusal @ Value::String(_)) = message.get("refusal") {
        return unusable(&format!("the model refuses: {}", quoted(refusal)));
    }
    unusable(match choice.get("finish_reason").and_then(Value::as_str) {
        Some("length") => "the model used up all its tokens before it said anything",
        Some("content_filter") => "a filter held back what the model said",
        _ => "the model said nothing",
    })
}

/// What a message says, as a text or in parts.
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

fn without_thoughts(text: &str) -> &str {
    let [begin, end] = THOUGHTS;
    let Some(thoughts) = text.trim_start().strip_prefix(begin) else { return text };
    thoughts.split_once(end).map_or("", |(_, rest)| rest)
}

/// The JSON objects in a text, be it nothing else or have words around it, the first first; one
/// that lies in another comes after it.
pub fn objects(text: &str) -> impl Iterator<Item = (Raw, Map<String, Value>)> + '_ {
    let places = text.match_indices('{').take(MAX_TRIED);
    places.filter_map(|(at, _)| {
        let mut values = serde_json::Deserializer::from_str(&text[at..]).into_iter();
        let found: Box<RawValue> = values.next()?.ok()?;
        let found = Raw::encode(&found);
        let members = found.parse().ok()?;
        Some((found, members))
    })
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
