//! The catalog: the latest listing of each server, immutable, with every definition as the bytes
//! that its server sent.

mod change_tracker;
mod definition;
mod lock;
mod overrides;
pub mod rank;
mod repair;
pub mod schema;
mod tool_ui;
mod uri_template;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::catalog::repair::{RepairNotes, Shape, is_absent, without_broken_output_schema};
use crate::catalog::schema::ArgumentValidator;
use mcp_workbench_names::untrusted_text;
use mcp_workbench_settings::{ToolAnnotation, ToolAnnotations};
use mcp_workbench_wire::json::{self, RawJson};

const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";

pub use crate::catalog::change_tracker::{DefinitionChange, DefinitionTracker};
pub use crate::catalog::definition::{
    Definition, InvalidEntry, PrimitiveKind, Prompt, Resource, ResourceTemplate,
};
pub use crate::catalog::lock::{
    DefinitionDrift, DriftDetector, DriftKind, ListingSamples, accept_command,
};
pub use crate::catalog::overrides::DefinitionOverride;
pub use crate::catalog::tool_ui::ToolUi;
pub use crate::catalog::uri_template::{expands_to, literal_length, may_expand_to};

#[cfg(test)]
mod tests;

/// A server's latest listing. Each list is in the server's order and free of duplicates.
#[derive(Debug, Default)]
pub struct Listing {
    pub tools: Vec<Arc<ToolDefinition>>,
    pub resources: Vec<Arc<Resource>>,
    pub templates: Vec<Arc<ResourceTemplate>>,
    pub prompts: Vec<Arc<Prompt>>,
    pub capabilities: ServerCapabilities,
    /// How to use the server, in its own words (MCP, basic/lifecycle, `instructions`).
    pub instructions: Option<String>,
    /// Violations of the specification that were repaired or left out, one line each, by the method
    /// that lists them. Cached listings have none.
    pub violations: BTreeMap<&'static str, Vec<String>>,
}

impl Listing {
    /// Returns `true` if both listings have the same definitions in the same order.
    pub fn has_same_definitions(&self, other: &Self) -> bool {
        fn are_same<T>(one: &[Arc<T>], other: &[Arc<T>], raw: fn(&T) -> &RawJson) -> bool {
            one.len() == other.len() && one.iter().zip(other).all(|(a, b)| raw(a) == raw(b))
        }
        are_same(&self.tools, &other.tools, |one| &one.raw)
            && are_same(&self.resources, &other.resources, |one| &one.raw)
            && are_same(&self.templates, &other.templates, |one| &one.raw)
            && are_same(&self.prompts, &other.prompts, |one| &one.raw)
    }
}

/// A server's capabilities (MCP, `ServerCapabilities`), as the server sent them; `None` if absent.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(default)]
pub struct ServerCapabilities {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<RawJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<RawJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompts: Option<RawJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completions: Option<RawJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logging: Option<RawJson>,
    /// Support for calls that run as tasks (MCP 2025-11-25).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks: Option<RawJson>,
    /// Protocol extensions, by name (MCP 2026-07-28).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extensions: Option<RawJson>,
}

impl ServerCapabilities {
    /// Reads the capabilities of a handshake. Anything but an object declares nothing, and so do
    /// members that are `null` or `false`.
    pub(crate) fn read(declared: Option<&RawJson>) -> Self {
        let member = |key| {
            let value = declared?.member(key)?;
            let is_declared = !matches!(value.as_bytes(), b"null" | b"false");
            is_declared.then(|| value.to_detached())
        };
        Self {
            tools: member("tools"),
            resources: member("resources"),
            prompts: member("prompts"),
            completions: member("completions"),
            logging: member("logging"),
            tasks: member("tasks"),
            extensions: member("extensions"),
        }
    }

    /// Returns `true` if the server declares tasks, as either era does.
    pub fn has_tasks(&self) -> bool {
        self.tasks.is_some() || self.has_tasks_extension()
    }

    /// Returns `true` if the server declares the tasks extension (MCP 2026-07-28).
    pub(crate) fn has_tasks_extension(&self) -> bool {
        self.extensions.as_ref().is_some_and(|all| all.member(TASKS_EXTENSION).is_some())
    }
}

/// A tool as its server defines it.
#[derive(Debug)]
pub struct ToolDefinition {
    pub name: String,
    /// The description, or else the title; never blank.
    pub description: Option<String>,
    /// The whole definition, byte for byte.
    pub raw: RawJson,
    schema: RawJson,
    check: OnceLock<ArgumentValidator>,
    is_repeatable: OnceLock<bool>,
    signature: OnceLock<String>,
    ui: OnceLock<Option<Box<ToolUi>>>,
}

impl Definition for ToolDefinition {
    const METHOD: &'static str = "tools/list";
    const MEMBER: &'static str = "tools";
    const KIND: PrimitiveKind = PrimitiveKind::Tool;
    const KEY: &'static str = "name";
    const SHAPE: Shape = repair::TOOL;

    fn complete(raw: RawJson, notes: &mut RepairNotes) -> Result<RawJson, String> {
        if !is_absent(raw.member("inputSchema").as_ref()) || !raw.as_bytes().starts_with(b"{") {
            return Ok(raw);
        }
        notes.push("added `inputSchema`, which was missing".to_owned());
        let any = json::object([("type", &RawJson::from_text("object"))]);
        raw.with_member("inputSchema", &any).map_err(|error| error.to_string())
    }

    fn check(raw: RawJson, notes: &mut RepairNotes) -> RawJson {
        without_broken_output_schema(raw, notes)
    }

    fn key(&self) -> &str {
        &self.name
    }

    /// Parses one entry of a `tools/list` result (MCP, server/tools).
    fn parse(raw: RawJson) -> Result<Self, String> {
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
            schema: RawJson::encode(&head.input_schema),
            raw,
            check: OnceLock::new(),
            is_repeatable: OnceLock::new(),
            signature: OnceLock::new(),
            ui: OnceLock::new(),
        })
    }
}

impl ToolDefinition {
    /// Marks the definition as one of the user, so that its validation has no bounds.
    pub(crate) fn of_user(self) -> Self {
        Self { check: ArgumentValidator::unbounded(&self.schema).into(), ..self }
    }

    /// Returns the annotations that the server sets (MCP, server/tools).
    pub fn annotations(&self) -> ToolAnnotations {
        let Some(annotations) = self.raw.member("annotations") else {
            return ToolAnnotations::default();
        };
        let is_set =
            |hint: &str| annotations.member(hint).is_some_and(|hint| hint.as_str() == "true");
        let is_destructive = is_set("destructiveHint");
        let claims = [
            (ToolAnnotation::ReadOnly, is_set("readOnlyHint") && !is_destructive),
            (ToolAnnotation::Destructive, is_destructive),
            (ToolAnnotation::Idempotent, is_set("idempotentHint")),
            (ToolAnnotation::OpenWorld, is_set("openWorldHint")),
        ];
        let claimed = claims.into_iter().filter(|(_, is_claimed)| *is_claimed);
        claimed.fold(ToolAnnotations::default(), |all, (claim, _)| all.with(claim))
    }

    /// Returns `true` if the server sets `readOnlyHint` (MCP, server/tools).
    pub fn is_read_only(&self) -> bool {
        let annotations = self.raw.member("annotations");
        let hint = annotations.and_then(|annotations| annotations.member("readOnlyHint"));
        hint.is_some_and(|hint| hint.as_str() == "true")
    }

    /// Validates `arguments` against the tool's schema; `None` means no arguments.
    ///
    /// The result serves to explain errors and to ask for missing arguments. The server decides
    /// whether a call is valid.
    pub fn validate_arguments(
        &self,
        arguments: Option<&RawJson>,
    ) -> Result<(), Vec<schema::SchemaViolation>> {
        self.check
            .get_or_init(|| ArgumentValidator::new(&self.schema))
            .validate(&self.schema, arguments)
    }

    /// Returns the JSON Schema of the arguments.
    pub fn schema(&self) -> &RawJson {
        &self.schema
    }

    /// Returns `true` if the schema names this argument.
    pub fn has_argument(&self, name: &str) -> bool {
        self.schema.member("properties").is_some_and(|all| all.member(name).is_some())
    }

    /// Returns the arguments, each with its type and description.
    pub fn parameters(&self) -> Vec<schema::Parameter> {
        schema::parameters(&self.schema)
    }

    /// Returns `true` if the server sets both `readOnlyHint` and `idempotentHint` (MCP,
    /// server/tools), so that repeating a call is safe.
    pub fn is_repeatable(&self) -> bool {
        *self.is_repeatable.get_or_init(|| {
            let Some(annotations) = self.raw.member("annotations") else { return false };
            let is_said = |hint| annotations.member(hint).is_some_and(|h| h.as_bytes() == b"true");
            is_said("readOnlyHint") && is_said("idempotentHint")
        })
    }

    /// Returns the tool's user interface, if it has one.
    pub fn ui(&self) -> Option<&ToolUi> {
        self.ui.get_or_init(|| ToolUi::of(&self.raw).map(Box::new)).as_deref()
    }

    /// Returns the arguments that HTTP clients mirror in headers, as header name and JSON pointer.
    pub fn header_params(&self) -> Vec<(String, String)> {
        schema::header_params(&self.schema)
    }

    /// Returns the tool as `name(required: type, optional?: type)`, on one line.
    pub fn signature(&self) -> String {
        let written = || untrusted_text::single_line(&schema::signature(&self.name, &self.schema));
        self.signature.get_or_init(written).clone()
    }

    /// Returns the first sentence of the description, on one line.
    pub fn summary(&self) -> Option<String> {
        self.description.as_deref().map(first_sentence)
    }
}

/// Returns the first sentence of `text`, on one line and in at most 200 characters.
///
/// A first paragraph without a sentence end counts as one sentence.
pub fn first_sentence(text: &str) -> String {
    let mut lines = text.lines().map(str::trim).skip_while(|line| line.is_empty());
    let paragraph: Vec<_> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
    let folded = untrusted_text::single_line(&paragraph.join(" "));
    let end = folded
        .match_indices(['.', '!', '?'])
        .map(|(at, mark)| at + mark.len())
        .find(|end| is_sentence_end(&folded, *end))
        .unwrap_or(folded.len());
    shorten(&folded[..end], 200)
}

/// Returns `true` if a sentence ends before byte `end`. Abbreviations such as `e.g.` and initials
/// end one only at the end of the text.
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

/// Shortens `text` to at most `max` characters, with `…` at the cut.
///
/// Cuts between words, unless that leaves less than half of `max`, as in languages without spaces.
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
