//! The catalog: what servers said they have, immutable, each definition as the bytes it came in.

pub mod schema;

use std::sync::{Arc, OnceLock};

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::catalog::schema::ArgumentCheck;
use crate::raw::Raw;

#[cfg(test)]
mod tests;

/// What one server last said it has.
#[derive(Debug, Default)]
pub struct Listing {
    /// Its tools in its order, each name once.
    pub tools: Vec<Arc<ToolDefinition>>,
    /// How it wants to be used, in its own words (MCP, basic/lifecycle, `instructions`).
    pub instructions: Option<String>,
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
}

/// What was wrong with an entry of a server's tool list. Only that entry is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadTool {
    /// Its name where it has one, else its place in the list.
    pub what: String,
    /// What is wrong with it.
    pub why: String,
}

impl ToolDefinition {
    /// Reads one entry of a `tools/list` result (MCP, server/tools).
    pub fn parse(raw: Raw) -> Result<Self, String> {
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
        })
    }

    /// Checks arguments against the tool's schema; `None` stands for no arguments at all.
    pub fn check_arguments(&self, arguments: Option<&Raw>) -> Result<(), Vec<schema::Mismatch>> {
        self.check.get_or_init(|| ArgumentCheck::new(&self.schema)).check(&self.schema, arguments)
    }

    /// The tool as `name(required: type, optional?: type)`.
    pub fn signature(&self) -> String {
        schema::signature(&self.name, &self.schema)
    }

    /// The first sentence of the description, on one line.
    pub fn summary(&self) -> Option<String> {
        self.description.as_deref().map(first_sentence)
    }
}

impl Listing {
    /// Reads the entries of all pages of a tool list. Entries that are malformed, or repeat a
    /// name, are left out and reported.
    pub fn from_tools(entries: impl IntoIterator<Item = Raw>) -> (Self, Vec<BadTool>) {
        let mut listing = Self::default();
        let mut bad = Vec::new();
        let mut names = std::collections::HashSet::new();
        for (index, entry) in entries.into_iter().enumerate() {
            let problem = match ToolDefinition::parse(entry.clone()) {
                Ok(tool) if names.contains(&tool.name) => "it is listed twice".to_owned(),
                Ok(tool) => {
                    names.insert(tool.name.clone());
                    listing.tools.push(Arc::new(tool));
                    continue;
                }
                Err(problem) => problem,
            };
            let name = entry.members().and_then(|members| {
                members.iter().find(|(key, _)| key == "name")?.1.parse::<String>().ok()
            });
            bad.push(BadTool {
                what: name
                    .map_or_else(|| format!("entry {}", index + 1), |name| format!("`{name}`")),
                why: problem,
            });
        }
        (listing, bad)
    }

    /// The tool called `name`.
    pub fn tool(&self, name: &str) -> Option<&Arc<ToolDefinition>> {
        self.tools.iter().find(|tool| tool.name == name)
    }
}

/// The first sentence of a text, or its first paragraph where that ends sooner, with its white
/// space folded, in at most 200 characters.
pub fn first_sentence(text: &str) -> String {
    let mut lines = text.lines().map(str::trim).skip_while(|line| line.is_empty());
    let paragraph: Vec<_> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
    let folded = paragraph.join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
    let end = folded
        .match_indices(['.', '!', '?'])
        .map(|(at, mark)| at + mark.len())
        .find(|end| is_sentence_end(&folded, *end))
        .unwrap_or(folded.len());
    shorten(&folded[..end], 200)
}

/// Whether a sentence ends before byte `end`: white space and no lower-case letter follow, and
/// what stands before is not an abbreviation such as `e.g.`.
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

/// A text of at most `max` characters, cut between words, with `…` where something was cut.
pub fn shorten(text: &str, max: usize) -> String {
    if text.chars().count() <= max {
        return text.to_owned();
    }
    let mut short = String::new();
    for word in text.split_inclusive(' ') {
        if short.chars().count() + word.trim_end().chars().count() + 1 > max {
            break;
        }
        short.push_str(word);
    }
    let kept = short.trim_end().trim_end_matches([',', ';', ':', '.']);
    if kept.is_empty() { String::new() } else { format!("{kept}…") }
}
