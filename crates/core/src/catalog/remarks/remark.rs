//! One remark, and the place that it is about.

use std::fmt;

use crate::catalog::remarks::rule::Rule;
use crate::name::seen;

/// One thing in a definition that is worth a look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// The rule that found it.
    pub rule: &'static Rule,
    /// The place of it.
    pub place: Place,
    /// The text that was found with some around it, at most 120 characters on one line, invisible
    /// ones as `\u{…}`.
    pub found: String,
    /// The meaning of it, if the text does not say that itself: the hidden text, or the other tool.
    pub means: Option<String>,
}

/// The place of a remark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The kind of definition.
    pub kind: Kind,
    /// Its name or address, as its server wrote it; empty for instructions.
    pub name: String,
    /// The text in it: a JSON pointer (RFC 6901), empty for instructions.
    pub pointer: String,
    /// The character of that text at which the finding begins, from 0.
    pub offset: usize,
}

/// Kinds of definitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A server's instructions.
    Instructions,
    /// A tool.
    Tool,
    /// A prompt.
    Prompt,
    /// A resource template.
    Template,
    /// A resource.
    Resource,
}

impl Kind {
    /// Returns the word for one of this kind.
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

/// Shows the place as ``tool `add`, /description at 12``.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, name, pointer, offset } = self;
        f.write_str(kind.as_str())?;
        if *kind != Kind::Instructions {
            write!(f, " `{}`", seen::named(name, MAX_NAME))?;
        }
        if !pointer.is_empty() {
            write!(f, ", {}", seen::named(pointer, MAX_NAME))?;
        }
        write!(f, " at {offset}")
    }
}

/// The most characters of a name or a pointer in a text of ours.
const MAX_NAME: usize = 120;
