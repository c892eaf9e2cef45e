//! The values that steps and results are made of: the inputs and what the steps so far came to.
//!
//! Values stay the text that they came in, so that no number is spelled another way.

use std::fmt::Write;

use crate::raw::{self, Raw};
use crate::settings::{Pointer, Template};

/// The values that can be pointed at.
#[derive(Debug)]
pub(crate) struct Values<'a> {
    inputs: Raw,
    steps: Vec<(&'a str, Raw)>,
}

/// There is nothing where a pointer leads, and nothing to stand for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Missing(pub(crate) Pointer);

impl<'a> Values<'a> {
    pub(crate) fn new(inputs: Option<Raw>) -> Self {
        Self { inputs: inputs.unwrap_or_else(|| raw::object([])), steps: Vec::new() }
    }

    /// Takes note of what a step came to.
    pub(crate) fn add(&mut self, step: &'a str, value: Raw) {
        self.steps.push((step, value));
    }

    /// Returns the value that a step came to.
    pub(crate) fn of_step(&self, step: &str) -> Option<&Raw> {
        self.steps.iter().find(|(name, _)| *name == step).map(|(_, value)| value)
    }

    fn find(&self, pointer: &Pointer) -> Option<Raw> {
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

    /// Puts a value together.
    pub(crate) fn fill(&self, template: &Template) -> Result<Raw, Missing> {
        Ok(match template {
            // The configuration has written it.
            Template::Value(text) => serde_json::from_str(text).unwrap_or_else(|_| null()),
            Template::From(pointer, default) => match (self.find(pointer), default) {
                (Some(found), _) => found,
                (None, Some(default)) => self.fill(default)?,
                (None, None) => return Err(Missing(pointer.clone())),
            },
            Template::Join(parts) => {
                let mut joined = String::new();
                for part in parts {
                    let part = self.fill(part)?;
                    // Writing to a string does not fail.
                    let _ = write!(joined, "{}", part.text().unwrap_or_else(|| part.as_str()));
                }
                Raw::of_text(&joined)
            }
            Template::Object(members) => {
                let filled =
                    members.iter().map(|(key, value)| Ok((key.as_str(), self.fill(value)?)));
                let filled: Vec<_> = filled.collect::<Result<_, _>>()?;
                raw::object(filled.iter().map(|(key, value)| (*key, value)))
            }
            Template::Array(items) => {
                let filled: Vec<_> =
                    items.iter().map(|item| self.fill(item)).collect::<Result<_, _>>()?;
                raw::array(&filled)
            }
        })
    }
}

fn null() -> Raw {
    Raw::encode(&())
}

/// The index that a key of a pointer is (RFC 6901: no zero in front).
fn index(key: &str) -> Option<usize> {
    let is_plain = key == "0" || !key.starts_with(['0', '+']);
    is_plain.then(|| key.parse().ok())?
}

/// Returns the value of a tool's result: what it has in structure, else its text, which is JSON where
/// that is an object or an array. Another text is one, be it `1234`: nobody has said that it is a
/// number.
pub(crate) fn value_of(result: &Raw) -> Raw {
    let structured = result.member("structuredContent");
    structured.filter(|value| value.as_bytes() != b"null").unwrap_or_else(|| {
        let text = text_of(result);
        let json = Some(text.trim()).filter(|text| text.starts_with(['{', '[']));
        let json = json.and_then(|text| serde_json::from_str(text).ok());
        json.unwrap_or_else(|| Raw::of_text(&text))
    })
}

/// The text of a tool's result.
pub(crate) fn text_of(result: &Raw) -> String {
    let blocks = result.member("content").and_then(|content| content.items()).unwrap_or_default();
    let texts = blocks.iter().filter_map(|block| {
        let is_text = block.member("type").is_some_and(|kind| kind.as_bytes() == b"\"text\"");
        Some(block.member("text").filter(|_| is_text)?.text()?.into_owned())
    });
    texts.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests;
