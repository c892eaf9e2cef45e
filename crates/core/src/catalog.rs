//! The catalog: what servers said they have, immutable, each definition as the bytes it came in.

mod altered;
mod changed;
mod definition;
mod glance;
mod lock;
pub mod rank;
pub mod remarks;
pub mod schema;
mod template;

use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::catalog::schema::ArgumentCheck;
use crate::name::seen;
use crate::raw::Raw;

pub use crate::catalog::altered::Alteration;
pub use crate::catalog::changed::{ChangedDefinition, KnownDefinitions};
pub use crate::catalog::definition::{BadEntry, Definition, Prompt, Resource, Template};
pub use crate::catalog::lock::{Comparison, Difference, Drifted, Recordings, accepting};
pub use crate::catalog::template::{fits, is_made_of};

#[cfg(test)]
mod tests;

/// A server's last listing; everything in its order, each name once.
#[derive(Debug, Default)]
pub struct Listing {
    /// Its tools.
    pub tools: Vec<Arc<ToolDefinition>>,
    /// Its resources.
    pub resources: Vec<Arc<Resource>>,
    /// Its resource templates.
    pub templates: Vec<Arc<Template>>,
    /// Its prompts.
    pub prompts: Vec<Arc<Prompt>>,
    /// The server's capabilities.
    pub abilities: Abilities,
    /// How it wants to be used, in its own words (MCP, basic/lifecycle, `instructions`).
    pub instructions: Option<String>,
}

/// A server's capabilities (MCP, `ServerCapabilities`), each in its own words, if it has it.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(default)]
pub struct Abilities {
    /// It has tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Raw>,
    /// It has resources, and perhaps templates of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<Raw>,
    /// It has prompts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompts: Option<Raw>,
    /// It completes arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completions: Option<Raw>,
    /// It logs to its client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logging: Option<Raw>,
    /// It runs calls as tasks (2025-11-25).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks: Option<Raw>,
    /// Its extensions of the protocol, by name (2026-07-28).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extensions: Option<Raw>,
}

/// One tool as its server defines it.
#[derive(Debug)]
pub struct ToolDefinition {
    /// The server's name for it.
    pub name: String,
    /// Its description, or its title where it has none.
    pub description: Option<String>,
    /// The whole definition, byte for byte.
    pub raw: Raw,
    schema: Raw,
    check: OnceLock<ArgumentCheck>,
    is_repeatable: OnceLock<bool>,
    signature: OnceLock<String>,
}

impl Definition for ToolDefinition {
    const METHOD: &'static str = "tools/list";
    const MEMBER: &'static str = "tools";
    const WORD: &'static str = "tool";
    const KEY: &'static str = "name";

    fn key(&self) -> &str {
        &self.name
    }

    /// Reads one entry of a `tools/list` result (MCP, server/tools).
    fn parse(raw: Raw) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Head {
            name: String,
            #[serde(default)]
            title: Option<String>,
            #[serde(default)]
            description: Option<String>,
            #[serde(rename = "inputSchema")]
            input_schema: Box<RawValue>,
        }

        let head: Head = raw.parse().map_err(|error| error.to_string())?;
        if head.name.is_empty() {
            return Err("the name is empty".to_owned());
        }
        if !head.input_schema.get().starts_with('{') {
            return Err("`inputSchema` is not an object".to_owned());
        }
        Ok(Self {
            name: head.name,
            description: head.description.or(head.title).filter(|text| !text.trim().is_empty()),
            schema: Raw::encode(&head.input_schema),
            raw,
            check: OnceLock::new(),
            is_repeatable: OnceLock::new(),
            signature: OnceLock::new(),
        })
    }
}

impl ToolDefinition {
    /// Returns `true` if its server says that it is destructive (MCP, server/tools,
    /// `destructiveHint`).
    pub fn is_destructive(&self) -> bool {
        let annotations = self.raw.member("annotations");
        let hint = annotations.and_then(|annotations| annotations.member("destructiveHint"));
        hint.is_some_and(|hint| hint.as_str() == "true")
    }

    /// Tells whether its server says that it changes nothing (MCP, server/tools, `readOnlyHint`).
    pub fn is_read_only(&self) -> bool {
        let annotations = self.raw.member("annotations");
        let hint = annotations.and_then(|annotations| annotations.member("readOnlyHint"));
        hint.is_some_and(|hint| hint.as_str() == "true")
    }

    /// Checks arguments against the tool's schema, to explain what is wrong or missing; whether a
    /// call is right is for its server to say. `None` stands for no arguments at all.
    pub fn check_arguments(&self, arguments: Option<&Raw>) -> Result<(), Vec<schema::Mismatch>> {
        self.check.get_or_init(|| ArgumentCheck::new(&self.schema)).check(&self.schema, arguments)
    }

    /// The JSON Schema of its arguments.
    pub fn schema(&self) -> &Raw {
        &self.schema
    }

    /// Its arguments one by one.
    pub fn parameters(&self) -> Vec<schema::Parameter> {
        schema::parameters(&self.schema)
    }

    /// Returns `true` if its server says that it changes nothing, and that a second call does no
    /// more than the first (MCP, server/tools, `readOnlyHint` and `idempotentHint`).
    pub fn is_repeatable(&self) -> bool {
        *self.is_repeatable.get_or_init(|| {
            let Some(annotations) = self.raw.member("annotations") else { return false };
            let is_said = |hint| annotations.member(hint).is_some_and(|h| h.as_bytes() == b"true");
            is_said("readOnlyHint") && is_said("idempotentHint")
        })
    }

    /// The arguments that clients over HTTP repeat in headers: the header, and a JSON pointer.
    pub fn mirrored(&self) -> Vec<(String, String)> {
        schema::mirrored(&self.schema)
    }

    /// The tool as `name(required: type, optional?: type)`.
    pub fn signature(&self) -> String {
        let written = || seen::line(&schema::signature(&self.name, &self.schema));
        self.signature.get_or_init(written).clone()
    }

    /// The first sentence of the description, on one line.
    pub fn summary(&self) -> Option<String> {
        self.description.as_deref().map(first_sentence)
    }
}

/// The first sentence of a text, or its first paragraph where that ends sooner, with its white
/// space folded, in at most 200 characters.
pub fn first_sentence(text: &str) -> String {
    let mut lines = text.lines().map(str::trim).skip_while(|line| line.is_empty());
    let paragraph: Vec<_> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
    let folded = seen::line(&paragraph.join(" "));
    let end = folded
        .match_indices(['.', '!', '?'])
        .map(|(at, mark)| at + mark.len())
        .find(|end| is_sentence_end(&folded, *end))
        .unwrap_or(folded.len());
    shorten(&folded[..end], 200)
}

/// Returns `true` if a sentence ends before byte `end`: white space follows, then no lower-case
/// letter, and the word before it is no abbreviation such as `e.g.`.
fn is_sentence_end(text: &str, end: usize) -> bool {
    let before = text[..end - 1].rsplit(' ').next().unwrap_or_default();
    let is_letter = before.len() == 1 && before.chars().all(char::is_alphabetic);
    if before.contains('.') || before.is_empty() || is_letter {
        return text.len() == end;
    }
    let mut after = text[end..].chars();
    match after.next() {
        None => true,
        Some(' ') => after.next().is_none_or(|c| !c.is_lowercase()),
        Some(_) => false,
    }
}

/// A text of at most `max` characters, with `…` where something was cut: between words, unless that
/// would leave little, as it does in languages without spaces.
pub fn shorten(text: &str, max: usize) -> String {
    if text.chars().nth(max).is_none() {
        return text.to_owned();
    }
    let room: String = text.chars().take(max.saturating_sub(1)).collect();
    let ends_a_word = text[room.len()..].starts_with(' ');
    let end = if ends_a_word { room.len() } else { room.rfind(' ').unwrap_or_default() };
    let words = room[..end].trim_end().trim_end_matches([',', ';', ':', '.']);
    let kept = if 2 * words.chars().count() < max { &room } else { words };
    if kept.is_empty() { String::new() } else { format!("{kept}…") }
}
