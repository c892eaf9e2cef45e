//! A YAML text as the same located tree that a JSON text becomes.
//!
//! What the tree has no room for is refused: tags of one's own, keys that are no text, several
//! documents, numbers that are none in JSON. Aliases are copies of what they mean, within limits.

use std::borrow::Cow;
use std::collections::HashMap;

use jsonc_parser::ast::{
    Array, BooleanLit, NullKeyword, NumberLit, Object, ObjectProp, ObjectPropName, StringLit, Value,
};
use jsonc_parser::common::{Range, Ranged};
use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, Tag};

use crate::config::syntax::document::{positions, shortened};
use crate::config::syntax::finding::{Finding, Severity};

/// How deep values may lie within each other.
const MAX_DEPTH: usize = 100;
/// The most values of one text, those that aliases stand for included.
const MAX_VALUES: usize = 200_000;
/// The most bytes of a key, which is in the name of everything below it.
const MAX_KEY: usize = 1_000;
/// A text that an alias stands for counts as one more value for so many bytes of it.
const LONG: usize = 64;

/// Reads the text as one value. After the first mistake in its syntax nobody knows what is meant,
/// so it is the only one that is reported.
pub fn parse(text: &str) -> Result<Value<'_>, Finding> {
    let reading = Reading {
        text,
        offsets: (!text.is_ascii()).then(|| text.char_indices().map(|(at, _)| at).collect()),
        anchors: HashMap::new(),
        open: Vec::new(),
        values: 0,
    };
    reading.document().map_err(|fault| {
        let message = fault.message;
        let position = positions(text, &[fault.at]).first().copied();
        let (severity, path) = (Severity::Error, String::new());
        Finding { severity, file: None, path, position, message, hint: fault.hint }
    })
}

/// Why a text cannot be read.
struct Fault {
    /// The offset at which that shows.
    at: usize,
    message: String,
    hint: Option<String>,
}

/// A collection that is not closed yet.
enum Open<'a> {
    Sequence(usize, Array<'a>),
    Mapping(usize, Object<'a>, Option<StringLit<'a>>),
}

struct Reading<'a> {
    text: &'a str,
    /// The offset of each character; none if each is one byte.
    offsets: Option<Vec<usize>>,
    /// The values that have been given a name, each with how many values that is.
    anchors: HashMap<usize, (Value<'a>, usize)>,
    open: Vec<Open<'a>>,
    values: usize,
}

impl<'a> Reading<'a> {
    fn document(mut self) -> Result<Value<'a>, Fault> {
        let mut parser = Parser::new_from_str(self.text);
        let mut root = None;
        while let Some(event) = parser.next_event() {
            let (event, span) = event.map_err(|error| self.syntax_error(&error))?;
            if matches!(event, Event::DocumentStart(_)) && root.is_some() {
                let message = "expected one document, found another";
                let hint = "remove what stands from this `---` on, or make a file of it";
                return Err(self.fault(span, message, hint));
            }
            if let Some(value) = self.take(event, span)? {
                root = Some(value);
            }
        }
        // A file without anything in it is one without any key.
        let range = Range::new(0, 0);
        Ok(root.unwrap_or(Value::NullKeyword(NullKeyword { range })))
    }

    /// Takes what comes next; the value of the whole document when it is complete.
    fn take(&mut self, event: Event<'a>, span: Span) -> Result<Option<Value<'a>>, Fault> {
        let start = self.offset(span.start.index());
        let range = Range::new(start, self.offset(span.end.index()).max(start));
        let (value, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let after_key = matches!(self.open.last(), Some(Open::Mapping(_, _, None)));
                if after_key && style == ScalarStyle::Plain && text == "<<" {
                    let hint = "write the keys themselves, or an alias for a whole value";
                    return Err(self.fault(span, "keys are not merged here", hint));
                }
                (self.scalar(text, style, tag.as_deref(), range, span)?, anchor)
            }
            Event::SequenceStart(anchor, tag) => {
                self.begin(tag.as_deref(), "seq", span)?;
                let array = Array { range, elements: Vec::new() };
                self.open.push(Open::Sequence(anchor, array));
                return Ok(None);
            }
            Event::MappingStart(anchor, tag) => {
                self.begin(tag.as_deref(), "map", span)?;
                let object = Object { range, properties: Vec::new() };
                self.open.push(Open::Mapping(anchor, object, None));
                return Ok(None);
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(Open::Sequence(anchor, mut array)) => {
                    array.range.end = range.end.max(array.range.start);
                    (Value::Array(array), anchor)
                }
                Some(Open::Mapping(anchor, mut object, _)) => {
                    object.range.end = range.end.max(object.range.start);
                    (Value::Object(object), anchor)
                }
                None => return Ok(None),
            },
            Event::Alias(anchor) => (self.alias(anchor, span)?, 0),
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => return Ok(None),
        };
        self.values += 1;
        if self.values > MAX_VALUES {
            return Err(self.too_much(span));
        }
        if anchor > 0 {
            let size = size(&value);
            // Each is kept twice then.
            self.values += size;
            self.anchors.insert(anchor, (value.clone(), size));
        }
        self.put(value)
    }

    /// Puts a value into what is open, as a key if it is the turn of one.
    fn put(&mut self, value: Value<'a>) -> Result<Option<Value<'a>>, Fault> {
        match self.open.last_mut() {
            None => return Ok(Some(value)),
            Some(Open::Sequence(_, array)) => array.elements.push(value),
            Some(Open::Mapping(_, object, key)) => {
                if let Some(name) = key.take() {
                    let range = Range::new(name.range.start, value.end().max(name.range.end));
                    let name = ObjectPropName::String(name);
                    object.properties.push(ObjectProp { range, name, value });
                } else {
                    let at = value.start();
                    let message = "expected a key that is text".to_owned();
                    let hint = Some("put the key in double quotes".to_owned());
                    let name = name(self.text, value).ok_or(Fault { at, message, hint })?;
                    if name.value.len() > MAX_KEY {
                        let message = format!("a key of more than {MAX_KEY} bytes");
                        return Err(Fault { at, message, hint: None });
                    }
                    *key = Some(name);
                }
            }
        }
        Ok(None)
    }

    fn begin(&mut self, tag: Option<&Tag>, meant: &str, span: Span) -> Result<(), Fault> {
        if self.open.len() >= MAX_DEPTH {
            return Err(self.fault(span, "nested too deeply", ""));
        }
        match tag {
            Some(tag) if !tag.is_yaml_core_schema() || tag.suffix != meant => {
                Err(self.unknown_tag(tag, span))
            }
            _ => Ok(()),
        }
    }

    fn alias(&mut self, anchor: usize, span: Span) -> Result<Value<'a>, Fault> {
        let Some((value, size)) = self.anchors.get(&anchor) else {
            let message = "this alias stands in what it means itself";
            return Err(self.fault(span, message, "write out what is meant"));
        };
        if self.values + size > MAX_VALUES {
            return Err(self.too_much(span));
        }
        if self.open.len() + depth(value) > MAX_DEPTH {
            return Err(self.fault(span, "nested too deeply", ""));
        }
        self.values += size;
        Ok(value.clone())
    }

    fn scalar(
        &self,
        text: Cow<'a, str>,
        style: ScalarStyle,
        tag: Option<&Tag>,
        range: Range,
        span: Span,
    ) -> Result<Value<'a>, Fault> {
        let string = |value| Value::StringLit(StringLit { range, value });
        match tag {
            Some(tag) if tag.handle.is_empty() && tag.suffix == "!" => return Ok(string(text)),
            Some(tag) if tag.is_yaml_core_schema() && tag.suffix == "str" => {
                return Ok(string(text));
            }
            Some(tag) => return Err(self.unknown_tag(tag, span)),
            None => {}
        }
        if style != ScalarStyle::Plain {
            return Ok(string(text));
        }
        Ok(match &*text {
            "" | "~" | "null" | "Null" | "NULL" => Value::NullKeyword(NullKeyword { range }),
            "true" | "True" | "TRUE" => Value::BooleanLit(BooleanLit { range, value: true }),
            "false" | "False" | "FALSE" => Value::BooleanLit(BooleanLit { range, value: false }),
            written if is_number(written) => {
                // A name or a tag may stand before it.
                let whole = self.text.get(range.start..range.end).unwrap_or_default();
                let value = whole.rfind(written).and_then(|at| whole.get(at..at + written.len()));
                match value {
                    Some(value) if serde_json::from_str::<serde_json::Number>(value).is_ok() => {
                        Value::NumberLit(NumberLit { range, value })
                    }
                    _ => {
                        let found = shortened(written);
                        let message = format!("`{found}` is no number as JSON has them");
                        let hint =
                            "write it with decimal digits, or in double quotes if it is text";
                        return Err(self.fault(span, &message, hint));
                    }
                }
            }
            _ => string(text),
        })
    }

    fn unknown_tag(&self, tag: &Tag, span: Span) -> Fault {
        let name = if tag.is_yaml_core_schema() {
            format!("!!{}", tag.suffix)
        } else {
            format!("{}{}", tag.handle, tag.suffix)
        };
        let hint = "remove the tag: what a value is shows in how it is written";
        let name = shortened(&name);
        self.fault(span, &format!("the tag `{name}` means nothing here"), hint)
    }

    fn too_much(&self, span: Span) -> Fault {
        let message = format!("more than {MAX_VALUES} values, what aliases stand for included");
        self.fault(span, &message, "")
    }

    fn fault(&self, span: Span, message: &str, hint: &str) -> Fault {
        let hint = (!hint.is_empty()).then(|| hint.to_owned());
        Fault { at: self.offset(span.start.index()), message: message.to_owned(), hint }
    }

    fn syntax_error(&self, error: &ScanError) -> Fault {
        let at = self.offset(error.marker().index());
        let info = error.info();
        let (message, hint) = match () {
            () if info.contains("unprintable") => ("a character that cannot be printed", ""),
            () if info.contains("Unicode character escape") => (
                "this escape is no character",
                "write the character itself, or `\\U` and eight digits: a pair of `\\u…` is none in YAML",
            ),
            () if info.contains("tab") => {
                ("a tab stands where lines are indented", "indent with spaces")
            }
            () if info.contains("mapping values are not allowed") => (
                "a `:` stands where no key can be",
                "put text that has `: ` in it in double quotes",
            ),
            () if info.contains("recursion limit") => ("nested too deeply", ""),
            () if info.contains("simple key expect") => {
                ("expected `:` after a key", "write `key: value`, with a space after the colon")
            }
            () if info.contains("unknown anchor") => {
                ("this alias means nothing: no value before it has that name", "")
            }
            () if info.contains("end of stream") => ("a quotation mark is not closed", ""),
            () => (info, ""),
        };
        let hint = (!hint.is_empty()).then(|| hint.to_owned());
        Fault { at, message: message.replace('`', "'"), hint }
    }

    fn offset(&self, index: usize) -> usize {
        let offset = match &self.offsets {
            Some(offsets) => offsets.get(index).copied().unwrap_or(self.text.len()),
            None => index,
        };
        offset.min(self.text.len())
    }
}

/// A value as the name of a member, if it can be one.
fn name<'a>(text: &'a str, value: Value<'a>) -> Option<StringLit<'a>> {
    match value {
        Value::StringLit(literal) => Some(literal),
        Value::NumberLit(NumberLit { range, value }) => {
            Some(StringLit { range, value: value.into() })
        }
        Value::BooleanLit(BooleanLit { range, .. }) => {
            let written = text.get(range.start..range.end)?;
            Some(StringLit { range, value: written.trim().into() })
        }
        Value::Object(_) | Value::Array(_) | Value::NullKeyword(_) => None,
    }
}

/// Returns `true` if YAML takes this for a number.
fn is_number(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    match unsigned {
        ".inf" | ".Inf" | ".INF" => true,
        ".nan" | ".NaN" | ".NAN" => unsigned == text,
        _ => match unsigned.get(..2) {
            Some("0x") => is_all(&unsigned[2..], |c| c.is_ascii_hexdigit()),
            Some("0o") => is_all(&unsigned[2..], |c| matches!(c, '0'..='7')),
            _ => is_decimal(unsigned),
        },
    }
}

fn is_all(text: &str, wanted: impl Fn(char) -> bool) -> bool {
    !text.is_empty() && text.chars().all(wanted)
}

fn is_decimal(text: &str) -> bool {
    let (number, exponent) = match text.split_once(['e', 'E']) {
        Some((number, exponent)) => (number, Some(exponent)),
        None => (text, None),
    };
    let digits = |text: &str| text.chars().all(|c| c.is_ascii_digit());
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let exponent = exponent.map(|text| text.strip_prefix(['-', '+']).unwrap_or(text));
    digits(whole)
        && digits(part)
        && !(whole.is_empty() && part.is_empty())
        && exponent.is_none_or(|exponent| !exponent.is_empty() && digits(exponent))
}

/// As how many values a value counts.
fn size(value: &Value<'_>) -> usize {
    let inside: usize = match value {
        Value::Object(object) => {
            let of = |one: &ObjectProp<'_>| length(one.name.as_str()) + size(&one.value);
            object.properties.iter().map(of).sum()
        }
        Value::Array(array) => array.elements.iter().map(size).sum(),
        Value::StringLit(literal) => length(&literal.value),
        _ => 0,
    };
    inside + 1
}

/// As how many values a text counts beside itself: many aliases of a long one are much.
fn length(text: &str) -> usize {
    text.len() / LONG
}

/// How deep the values in a value lie.
fn depth(value: &Value<'_>) -> usize {
    match value {
        Value::Object(object) => {
            1 + object.properties.iter().map(|one| depth(&one.value)).max().unwrap_or(0)
        }
        Value::Array(array) => 1 + array.elements.iter().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
