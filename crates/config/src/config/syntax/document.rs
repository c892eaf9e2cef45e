//! A file's text as a tree of located values: syntax, and keys that are written twice.
//!
//! What the values mean is the reader's business, one level up.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;

use jsonc_parser::ast::{ObjectProp, Value};
use jsonc_parser::common::Ranged;
use jsonc_parser::errors::{ParseError, ParseErrorKind};
use jsonc_parser::{CollectOptions, ParseOptions, ParseStringErrorKind};

use crate::config::syntax::finding::{Finding, Severity};

pub mod toml;
pub mod yaml;

/// Where a value stands: how to name it, and its first byte.
///
/// Its name is made when it is asked for: most values are never spoken of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spot {
    /// The way to it from the whole, backwards.
    way: Option<Arc<Step>>,
    /// The offset of its first byte in the text.
    pub offset: usize,
}

/// The last step of a way.
#[derive(Debug, PartialEq, Eq)]
struct Step {
    before: Option<Arc<Step>>,
    to: To,
}

/// Where a step leads.
#[derive(Debug, PartialEq, Eq)]
enum To {
    Key(Box<str>),
    Index(usize),
}

impl Spot {
    /// The spot of what stands under `key`, at `offset`.
    pub(crate) fn key(&self, key: &str, offset: usize) -> Self {
        self.step(To::Key(key.into()), offset)
    }

    /// The spot of element `index`, at `offset`.
    pub(crate) fn index(&self, index: usize, offset: usize) -> Self {
        self.step(To::Index(index), offset)
    }

    /// This spot with another first byte.
    pub(crate) fn at(&self, offset: usize) -> Self {
        Self { way: self.way.clone(), offset }
    }

    fn step(&self, to: To, offset: usize) -> Self {
        Self { way: Some(Arc::new(Step { before: self.way.clone(), to })), offset }
    }

    /// Returns whether this is, or is in, what stands at `other`.
    pub(crate) fn is_in(&self, other: &Self) -> bool {
        let steps =
            |spot: &Self| std::iter::successors(spot.way.clone(), |step| step.before.clone());
        let surplus = steps(self).count().checked_sub(steps(other).count());
        surplus.is_some_and(|surplus| steps(self).nth(surplus) == other.way)
    }

    /// The entry of a server that this is, or is in; none if it is elsewhere in the file.
    pub(crate) fn entry(&self) -> Option<Self> {
        let steps = std::iter::successors(self.way.clone(), |step| step.before.clone());
        let mut steps: Vec<Arc<Step>> = steps.collect();
        steps.reverse();
        let keys = steps.iter().map(|step| match &step.to {
            To::Key(key) => &**key,
            To::Index(_) => "",
        });
        let depth = match keys.collect::<Vec<_>>().as_slice() {
            ["toolboxes", _, "mcpServers", _, ..] => 4,
            ["mcp", "servers", _, ..] => 3,
            [
                "mcpServers" | "mcp_servers" | "amp.mcpServers" | "context_servers" | "servers"
                | "mcp.servers" | "mcp",
                _,
                ..,
            ] => 2,
            _ => return None,
        };
        Some(Self { way: steps.get(depth - 1).cloned(), offset: 0 })
    }

    /// How to name it, such as `toolboxes.dev.mcpServers.files.args[1]`.
    pub fn path(&self) -> String {
        let steps = std::iter::successors(self.way.as_ref(), |step| step.before.as_ref());
        let mut steps: Vec<&To> = steps.map(|step| &step.to).collect();
        steps.reverse();
        let mut path = String::new();
        for to in steps {
            match to {
                To::Key(key) if is_plain(key) => {
                    path.push_str(if path.is_empty() { "" } else { "." });
                    path.push_str(key);
                }
                // Nothing fails that is written into a text.
                To::Key(key) => _ = write!(path, "[{key:?}]"),
                To::Index(index) => _ = write!(path, "[{index}]"),
            }
        }
        path
    }
}

fn is_plain(key: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '$');
    !key.is_empty() && key.chars().all(is_part)
}

/// A value with where it stands.
#[derive(Clone, Debug)]
pub struct Node<'a> {
    pub spot: Spot,
    pub value: &'a Value<'a>,
}

impl<'a> Node<'a> {
    /// The whole document as a node.
    pub fn root(value: &'a Value<'a>) -> Self {
        Self { spot: Spot::default().at(value.start()), value }
    }

    /// The node under `key`, if this is an object that has one; of a key that is written twice,
    /// the last one, as every reader of JSON takes it.
    pub fn get(&self, key: &str) -> Option<Self> {
        let mut properties = self.value.as_object()?.properties.iter().rev();
        let property = properties.find(|property| property.name.as_str() == key)?;
        Some(self.child(property))
    }

    /// The node of one property of this object.
    pub fn child(&self, property: &'a ObjectProp<'a>) -> Self {
        Self {
            spot: self.spot.key(property.name.as_str(), property.value.start()),
            value: &property.value,
        }
    }

    /// The nodes of what is in it, if this is an array.
    pub fn elements(&self) -> Vec<Self> {
        let elements = self.value.as_array().into_iter().flat_map(|array| &array.elements);
        let elements = elements.enumerate();
        elements
            .map(|(index, value)| Self { spot: self.spot.index(index, value.start()), value })
            .collect()
    }

    /// Returns `true` if the value is `null`, which is as good as absent.
    pub fn is_null(&self) -> bool {
        matches!(self.value, Value::NullKeyword(_))
    }
}

/// As much of a text of the file as belongs into a message.
pub fn shortened(text: &str) -> String {
    const LONGEST: usize = 24;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The kind of a value, for "expected …, found …".
pub(crate) fn kind(value: &Value<'_>) -> &'static str {
    match value {
        Value::StringLit(_) => "a string",
        Value::NumberLit(_) => "a number",
        Value::BooleanLit(_) => "a boolean",
        Value::Object(_) => "an object",
        Value::Array(_) => "an array",
        Value::NullKeyword(_) => "null",
    }
}

/// The syntax that may be written: JSON, comments, trailing commas.
pub fn syntax() -> ParseOptions {
    ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

/// The text without the mark that some editors put before it.
pub fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// Reads the text as one value.
pub fn parse(text: &str) -> Result<Value<'_>, Finding> {
    let parsed = jsonc_parser::parse_to_ast(text, &CollectOptions::default(), &syntax());
    match parsed {
        Ok(parsed) => parsed.value.ok_or_else(|| Finding {
            severity: Severity::Error,
            file: None,
            path: String::new(),
            position: Some((1, 1)),
            message: "expected an object, found an empty file".to_owned(),
            hint: None,
        }),
        Err(error) => Err(syntax_error(&error)),
    }
}

fn syntax_error(error: &ParseError) -> Finding {
    use ParseErrorKind as Kind;
    let (message, hint) = match error.kind() {
        Kind::ExpectedComma => (
            "expected `,` or the end of the object or array".to_owned(),
            Some("put a comma after the value before this"),
        ),
        Kind::ExpectedColonAfterObjectKey => ("expected `:` after the key".to_owned(), None),
        Kind::ExpectedObjectValue => ("expected a value after `:`".to_owned(), None),
        Kind::ExpectedStringObjectProperty => (
            "expected a key in double quotes".to_owned(),
            Some("write keys in double quotes: `\"command\": …`"),
        ),
        Kind::SingleQuotedStringsNotAllowed => (
            "expected double quotes, found a single quote".to_owned(),
            Some("write strings and keys in double quotes"),
        ),
        Kind::UnexpectedTokenInObject => ("expected a key or `}`".to_owned(), None),
        Kind::UnexpectedWord | Kind::UnexpectedToken => {
            ("expected a value".to_owned(), Some("write strings in double quotes"))
        }
        Kind::String(ParseStringErrorKind::InvalidEscape) => (
            "expected an escape such as `\\n` after a backslash".to_owned(),
            Some("write `\\\\` for a backslash itself, or `/` in paths"),
        ),
        Kind::String(ParseStringErrorKind::UnterminatedStringLiteral) => {
            ("expected `\"` at the end of the string".to_owned(), None)
        }
        Kind::UnexpectedCloseBrace => ("expected a value, found `}`".to_owned(), None),
        Kind::UnexpectedCloseBracket => ("expected a value, found `]`".to_owned(), None),
        Kind::UnexpectedComma => ("expected a value, found `,`".to_owned(), None),
        Kind::UnexpectedColon => ("expected a value, found `:`".to_owned(), None),
        Kind::UnterminatedObject => (
            "expected `}` before the end of the file".to_owned(),
            Some("this is where the object begins that is not closed"),
        ),
        Kind::UnterminatedArray => (
            "expected `]` before the end of the file".to_owned(),
            Some("this is where the array begins that is not closed"),
        ),
        Kind::MultipleRootJsonValues => (
            "expected the end of the file after the value".to_owned(),
            Some("a configuration is one object, `{ … }`"),
        ),
        Kind::NestingDepthExceeded => ("nested too deeply".to_owned(), None),
        other => (lower_first(&other.to_string()), None),
    };
    Finding {
        severity: Severity::Error,
        file: None,
        path: String::new(),
        position: Some((error.line_display(), error.column_display())),
        message,
        hint: hint.map(str::to_owned),
    }
}

fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_lowercase().chain(chars).collect(),
        None => String::new(),
    }
}

/// Every key that is written more than once in its object, each with the offset of the first.
pub fn duplicates(root: &Node<'_>) -> Vec<(Spot, usize)> {
    let mut found = Vec::new();
    let mut open = vec![root.clone()];
    while let Some(node) = open.pop() {
        match node.value {
            Value::Object(object) => {
                let mut first: HashMap<&str, usize> = HashMap::new();
                for property in &object.properties {
                    let (key, offset) = (property.name.as_str(), property.start());
                    match first.get(key) {
                        Some(first) => found.push((node.spot.key(key, offset), *first)),
                        None => _ = first.insert(key, offset),
                    }
                    if is_container(&property.value) {
                        open.push(node.child(property));
                    }
                }
            }
            Value::Array(array) => {
                let containers = array.elements.iter().enumerate();
                open.extend(containers.filter(|(_, value)| is_container(value)).map(
                    |(index, value)| Node { spot: node.spot.index(index, value.start()), value },
                ));
            }
            Value::StringLit(_)
            | Value::NumberLit(_)
            | Value::BooleanLit(_)
            | Value::NullKeyword(_) => {}
        }
    }
    found
}

fn is_container(value: &Value<'_>) -> bool {
    matches!(value, Value::Object(_) | Value::Array(_))
}

/// Line and column of every offset, which must be in ascending order; one walk over the text.
pub fn positions(text: &str, offsets: &[usize]) -> Vec<(usize, usize)> {
    let mut wanted = offsets.iter().peekable();
    let mut positions = Vec::with_capacity(offsets.len());
    let (mut line, mut column) = (1, 1);
    for (at, c) in text.char_indices() {
        while wanted.next_if(|offset| **offset <= at).is_some() {
            positions.push((line, column));
        }
        if wanted.peek().is_none() {
            break;
        }
        (line, column) = if c == '\n' { (line + 1, 1) } else { (line, column + 1) };
    }
    positions.resize(offsets.len(), (line, column));
    positions
}
