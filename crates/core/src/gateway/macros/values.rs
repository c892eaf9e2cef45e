//! Values for step arguments and results: the macro's inputs and the results of its steps.
//!
//! Values remain JSON text, so that numbers keep their spelling.

use std::fmt::Write;

use serde_json::json;
use serde_json::value::RawValue;

use crate::backend::RpcOutcome;
use mcp_workbench_settings::{Pointer, Template};
use mcp_workbench_wire::json::{self, RawJson};

#[derive(Debug)]
pub(crate) struct Values<'a> {
    inputs: RawJson,
    steps: Vec<(&'a str, RawJson)>,
}

/// A pointer leads to no value and has no default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MissingValueError(pub(crate) Pointer);

impl<'a> Values<'a> {
    pub(crate) fn new(inputs: Option<RawJson>) -> Self {
        Self { inputs: inputs.unwrap_or_else(|| json::object([])), steps: Vec::new() }
    }

    pub(crate) fn add(&mut self, step: &'a str, value: RawJson) {
        self.steps.push((step, value));
    }

    pub(crate) fn of_step(&self, step: &str) -> Option<&RawJson> {
        self.steps.iter().find(|(name, _)| *name == step).map(|(_, value)| value)
    }

    fn find(&self, pointer: &Pointer) -> Option<RawJson> {
        let mut value = match &pointer.step {
            None => self.inputs.clone(),
            Some(step) => self.of_step(step)?.clone(),
        };
        for key in &pointer.path {
            value = match value.items() {
                Some(items) => items.into_iter().nth(index(key)?)?,
                None => value.member(key)?,
            };
        }
        Some(value)
    }

    pub(crate) fn fill(&self, template: &Template) -> Result<RawJson, MissingValueError> {
        Ok(match template {
            // Valid: the configuration parser serialized it.
            Template::Value(text) => serde_json::from_str(text).unwrap_or_else(|_| null()),
            Template::From(pointer, default) => match (self.find(pointer), default) {
                (Some(found), _) => found,
                (None, Some(default)) => self.fill(default)?,
                (None, None) => return Err(MissingValueError(pointer.clone())),
            },
            Template::Join(parts) => {
                let mut joined = String::new();
                for part in parts {
                    let part = self.fill(part)?;
                    // Writing to a `String` can't fail.
                    let _ = write!(
                        joined,
                        "{}",
                        part.decode_string_lossy().unwrap_or_else(|| part.as_str())
                    );
                }
                RawJson::from_text(&joined)
            }
            Template::Object(members) => {
                let filled =
                    members.iter().map(|(key, value)| Ok((key.as_str(), self.fill(value)?)));
                let filled: Vec<_> = filled.collect::<Result<_, _>>()?;
                json::object(filled.iter().map(|(key, value)| (*key, value)))
            }
            Template::Array(items) => {
                let filled: Vec<_> =
                    items.iter().map(|item| self.fill(item)).collect::<Result<_, _>>()?;
                json::array(&filled)
            }
        })
    }
}

fn null() -> RawJson {
    RawJson::encode(&())
}

/// Parses an array index (RFC 6901: no leading zeros).
fn index(key: &str) -> Option<usize> {
    let is_plain = key == "0" || !key.starts_with(['0', '+']);
    is_plain.then(|| key.parse().ok())?
}

/// Returns the value of a tool result: its structured content, else its text. Text is parsed as
/// JSON only if it is an object or array; `1234` stays a string.
pub(crate) fn value_of(result: &RawJson) -> RawJson {
    let structured = result.member("structuredContent");
    structured.filter(|value| value.as_bytes() != b"null").unwrap_or_else(|| {
        let text = text_of(result);
        let json = Some(text.trim()).filter(|text| text.starts_with(['{', '[']));
        let json = json.and_then(|text| serde_json::from_str(text).ok());
        json.unwrap_or_else(|| RawJson::from_text(&text))
    })
}

pub(crate) fn text_of(result: &RawJson) -> String {
    let blocks = result.member("content").and_then(|content| content.items()).unwrap_or_default();
    let texts = blocks.iter().filter_map(|block| {
        let is_text = block.member("type").is_some_and(|kind| kind.as_bytes() == b"\"text\"");
        Some(block.member("text").filter(|_| is_text)?.decode_string_lossy()?.into_owned())
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// Returns a tool result with this value.
pub(crate) fn result(value: &RawJson) -> RpcOutcome {
    let string = value.decode_string();
    let text = string.clone().unwrap_or_else(|| value.as_str());
    let content = RawJson::encode(&json!([{"type": "text", "text": text}]));
    let members = [("content", &content), ("structuredContent", value)];
    // Without structured content, a string that looks like JSON would be read as JSON.
    let is_told = string.is_none_or(|text| serde_json::from_str::<&RawValue>(&text).is_ok());
    RpcOutcome::Result(json::object(members.into_iter().take(if is_told { 2 } else { 1 })))
}

#[cfg(test)]
mod tests;
