//! A remark, and its location in a definition.

use std::fmt;

use crate::lint::rule::RemarkRule;
use mcp_workbench_names::untrusted_text;

/// Something in a definition that a person should look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    pub rule: &'static RemarkRule,
    pub location: RemarkLocation,
    /// The finding with some context, at most 120 characters on one line, invisible ones as
    /// `\u{…}`.
    pub excerpt: String,
    /// The hidden text, or the other tool, if the excerpt doesn't show it.
    pub explanation: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemarkLocation {
    pub kind: DefinitionKind,
    /// The name or URI, as the server wrote it; empty for instructions.
    pub name: String,
    /// JSON pointer to the text (RFC 6901); empty for instructions.
    pub pointer: String,
    /// The start of the finding in the text, in characters.
    pub offset: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefinitionKind {
    Instructions,
    Tool,
    Prompt,
    Template,
    Resource,
}

impl DefinitionKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Instructions => "instructions",
            Self::Tool => "tool",
            Self::Prompt => "prompt",
            Self::Template => "resource template",
            Self::Resource => "resource",
        }
    }
}

/// Formats the location as ``tool `add`, /description at 12``.
impl fmt::Display for RemarkLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, name, pointer, offset } = self;
        f.write_str(kind.as_str())?;
        if *kind != DefinitionKind::Instructions {
            write!(f, " `{}`", untrusted_text::display_name(name, MAX_NAME))?;
        }
        if !pointer.is_empty() {
            write!(f, ", {}", untrusted_text::display_name(pointer, MAX_NAME))?;
        }
        write!(f, " at {offset}")
    }
}

/// The longest name or pointer in a message, in characters.
const MAX_NAME: usize = 120;
