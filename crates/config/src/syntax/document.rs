//! Parses JSONC into a tree of values with source locations. TOML and YAML produce the same tree.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;

use jsonc_parser::ast::{ObjectProp, Value};
use jsonc_parser::common::Ranged;
use jsonc_parser::errors::{ParseError, ParseErrorKind};
use jsonc_parser::{CollectOptions, ParseOptions, ParseStringErrorKind};

use crate::syntax::finding::{Finding, Severity};

pub mod toml;
pub mod yaml;

/// The location of a value: its path and the offset of its first byte.
///
/// The path is stored as a linked list and rendered only on demand, because most values never
/// appear in a finding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceLocation {
    /// The path from the root, last segment first.
    tail: Option<Arc<LocationLink>>,
    pub offset: usize,
}

#[derive(Debug, PartialEq, Eq)]
struct LocationLink {
    before: Option<Arc<LocationLink>>,
    to: LocationSegment,
}

#[derive(Debug, PartialEq, Eq)]
enum LocationSegment {
    Key(Box<str>),
    Index(usize),
}

impl SourceLocation {
    pub(crate) fn child_key(&self, key: &str, offset: usize) -> Self {
        self.step(LocationSegment::Key(key.into()), offset)
    }

    pub(crate) fn child_index(&self, index: usize, offset: usize) -> Self {
        self.step(LocationSegment::Index(index), offset)
    }

    pub(crate) fn with_offset(&self, offset: usize) -> Self {
        Self { tail: self.tail.clone(), offset }
    }

    fn step(&self, to: LocationSegment, offset: usize) -> Self {
        Self { tail: Some(Arc::new(LocationLink { before: self.tail.clone(), to })), offset }
    }

    /// Returns `true` if this location equals `other` or lies below it.
    pub(crate) fn is_in(&self, other: &Self) -> bool {
        let steps = |location: &Self| {
            std::iter::successors(location.tail.clone(), |step| step.before.clone())
        };
        let surplus = steps(self).count().checked_sub(steps(other).count());
        surplus.is_some_and(|surplus| steps(self).nth(surplus) == other.tail)
    }

    /// Returns the server entry at or above this location, or `None` outside of server entries.
    pub(crate) fn server_entry(&self) -> Option<Self> {
        let steps = std::iter::successors(self.tail.clone(), |step| step.before.clone());
        let mut steps: Vec<Arc<LocationLink>> = steps.collect();
        steps.reverse();
        let keys = steps.iter().map(|step| match &step.to {
            LocationSegment::Key(key) => &**key,
            LocationSegment::Index(_) => "",
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
        Some(Self { tail: steps.get(depth - 1).cloned(), offset: 0 })
    }

    /// Returns the path, such as `toolboxes.dev.mcpServers.files.args[1]`.
    pub fn path(&self) -> String {
        let steps = std::iter::successors(self.tail.as_ref(), |step| step.before.as_ref());
        let mut steps: Vec<&LocationSegment> = steps.map(|step| &step.to).collect();
        steps.reverse();
        let mut path = String::new();
        for to in steps {
            match to {
                LocationSegment::Key(key) if is_plain(key) => {
                    path.push_str(if path.is_empty() { "" } else { "." });
                    path.push_str(key);
                }
                // Writing to a `String` can't fail.
                LocationSegment::Key(key) => _ = write!(path, "[{key:?}]"),
                LocationSegment::Index(index) => _ = write!(path, "[{index}]"),
            }
        }
        path
    }
}

fn is_plain(key: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '$');
    !key.is_empty() && key.chars().all(is_part)
}

/// A value with its location.
#[derive(Clone, Debug)]
pub struct Node<'a> {
    pub location: SourceLocation,
    pub value: &'a Value<'a>,
}

impl<'a> Node<'a> {
    pub fn root(value: &'a Value<'a>) -> Self {
        Self { location: SourceLocation::default().with_offset(value.start()), value }
    }

    /// Returns the member `key` of an object. The last of several duplicates wins, as in most JSON
    /// parsers.
    pub fn get(&self, key: &str) -> Option<Self> {
        let mut properties = self.value.as_object()?.properties.iter().rev();
        let property = properties.find(|property| property.name.as_str() == key)?;
        Some(self.child(property))
    }

    /// Returns a member of this object.
    pub fn child(&self, property: &'a ObjectProp<'a>) -> Self {
        Self {
            location: self.location.child_key(property.name.as_str(), property.value.start()),
            value: &property.value,
        }
    }

    /// Returns the elements of an array; empty for other values.
    pub fn elements(&self) -> Vec<Self> {
        let elements = self.value.as_array().into_iter().flat_map(|array| &array.elements);
        let elements = elements.enumerate();
        elements
            .map(|(index, value)| Self {
                location: self.location.child_index(index, value.start()),
                value,
            })
            .collect()
    }

    /// Returns `true` for `null`, which counts as absent.
    pub fn is_null(&self) -> bool {
        matches!(self.value, Value::NullKeyword(_))
    }
}

/// Truncates a text to 24 characters for a message.
pub fn truncate_for_message(text: &str) -> String {
    const LONGEST: usize = 24;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The type of a value, for "expected …, found …".
pub(crate) fn type_name(value: &Value<'_>) -> &'static str {
    match value {
        Value::StringLit(_) => "a string",
        Value::NumberLit(_) => "a number",
        Value::BooleanLit(_) => "a boolean",
        Value::Object(_) => "an object",
        Value::Array(_) => "an array",
        Value::NullKeyword(_) => "null",
    }
}

/// Parser options: JSON with comments and trailing commas.
pub fn jsonc_options() -> ParseOptions {
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

/// Strips a leading byte order mark.
pub fn strip_bom(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// Parses JSONC text. Returns the first syntax error.
pub fn parse_jsonc(text: &str) -> Result<Value<'_>, Finding> {
    let parsed = jsonc_parser::parse_to_ast(text, &CollectOptions::default(), &jsonc_options());
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
            Some("add a comma after the previous value"),
        ),
        Kind::ExpectedColonAfterObjectKey => ("expected `:` after the key".to_owned(), None),
        Kind::ExpectedObjectValue => ("expected a value after `:`".to_owned(), None),
        Kind::ExpectedStringObjectProperty => (
            "expected a key in double quotes".to_owned(),
            Some("put keys in double quotes: `\"command\": …`"),
        ),
        Kind::SingleQuotedStringsNotAllowed => (
            "expected double quotes, found a single quote".to_owned(),
            Some("put strings and keys in double quotes"),
        ),
        Kind::UnexpectedTokenInObject => ("expected a key or `}`".to_owned(), None),
        Kind::UnexpectedWord | Kind::UnexpectedToken => {
            ("expected a value".to_owned(), Some("put strings in double quotes"))
        }
        Kind::String(ParseStringErrorKind::InvalidEscape) => (
            "expected an escape such as `\\n` after a backslash".to_owned(),
            Some("write `\\\\` for a literal backslash, or use `/` in paths"),
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
            Some("the unclosed object starts here"),
        ),
        Kind::UnterminatedArray => (
            "expected `]` before the end of the file".to_owned(),
            Some("the unclosed array starts here"),
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

/// Returns every duplicate key, each with the offset of its first occurrence.
pub fn find_duplicate_keys(root: &Node<'_>) -> Vec<(SourceLocation, usize)> {
    let mut found = Vec::new();
    let mut open = vec![root.clone()];
    while let Some(node) = open.pop() {
        match node.value {
            Value::Object(object) => {
                let mut first: HashMap<&str, usize> = HashMap::new();
                for property in &object.properties {
                    let (key, offset) = (property.name.as_str(), property.start());
                    match first.get(key) {
                        Some(first) => found.push((node.location.child_key(key, offset), *first)),
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
                    |(index, value)| Node {
                        location: node.location.child_index(index, value.start()),
                        value,
                    },
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

/// Returns the line and column of each offset in one pass. The offsets must be sorted.
pub fn line_columns(text: &str, offsets: &[usize]) -> Vec<(usize, usize)> {
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
