//! Parses YAML into the same tree as JSONC.
//!
//! Rejects features without a JSON equivalent: custom tags, non-scalar keys, multiple documents,
//! merge keys, and numbers that aren't JSON numbers. Aliases are expanded to copies, up to a limit.

use std::borrow::Cow;
use std::collections::HashMap;

use jsonc_parser::ast::{
    Array, BooleanLit, NullKeyword, NumberLit, Object, ObjectProp, ObjectPropName, StringLit, Value,
};
use jsonc_parser::common::{Range, Ranged};
use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, Tag};

use crate::syntax::document::{line_columns, truncate_for_message};
use crate::syntax::finding::{Finding, Severity};

const MAX_DEPTH: usize = 100;
/// Maximum number of values, after expansion of aliases.
const MAX_VALUES: usize = 200_000;
/// Maximum length of a key. The path of every value below it repeats the key.
const MAX_KEY_BYTES: usize = 1_000;
/// Text in an anchored value counts as one more value per this many bytes.
const BYTES_PER_VALUE: usize = 64;

/// Parses YAML text. Returns only the first syntax error, because later ones would be consequences.
pub fn parse(text: &str) -> Result<Value<'_>, Finding> {
    let reading = TreeBuilder {
        text,
        offsets: (!text.is_ascii()).then(|| text.char_indices().map(|(at, _)| at).collect()),
        anchors: HashMap::new(),
        open: Vec::new(),
        values: 0,
    };
    reading.document().map_err(|fault| {
        let message = fault.message;
        let position = line_columns(text, &[fault.at]).first().copied();
        let (severity, path) = (Severity::Error, String::new());
        Finding { severity, file: None, path, position, message, hint: fault.hint }
    })
}

struct YamlError {
    at: usize,
    message: String,
    hint: Option<String>,
}

/// An unclosed collection, with its anchor. A mapping also holds the key that awaits a value.
enum OpenCollection<'a> {
    Sequence(usize, Array<'a>),
    Mapping(usize, Object<'a>, Option<StringLit<'a>>),
}

struct TreeBuilder<'a> {
    text: &'a str,
    /// The byte offset of each character, or `None` for ASCII text.
    offsets: Option<Vec<usize>>,
    /// The anchored values, each with its cost.
    anchors: HashMap<usize, (Value<'a>, usize)>,
    open: Vec<OpenCollection<'a>>,
    values: usize,
}

impl<'a> TreeBuilder<'a> {
    fn document(mut self) -> Result<Value<'a>, YamlError> {
        let mut parser = Parser::new_from_str(self.text);
        let mut root = None;
        while let Some(event) = parser.next_event() {
            let (event, span) = event.map_err(|error| self.syntax_error(&error))?;
            if matches!(event, Event::DocumentStart(_)) && root.is_some() {
                let message = "expected one document, found another";
                let hint = "remove everything from this `---` on, or move it to another file";
                return Err(self.fault(span, message, hint));
            }
            if let Some(value) = self.take(event, span)? {
                root = Some(value);
            }
        }
        // An empty document counts as `null`.
        let range = Range::new(0, 0);
        Ok(root.unwrap_or(Value::NullKeyword(NullKeyword { range })))
    }

    /// Processes one event. Returns the root value once it is complete.
    fn take(&mut self, event: Event<'a>, span: Span) -> Result<Option<Value<'a>>, YamlError> {
        let start = self.offset(span.start.index());
        let range = Range::new(start, self.offset(span.end.index()).max(start));
        let (value, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let after_key =
                    matches!(self.open.last(), Some(OpenCollection::Mapping(_, _, None)));
                if after_key && style == ScalarStyle::Plain && text == "<<" {
                    let hint = "write the keys themselves, or use an alias for a whole value";
                    return Err(self.fault(span, "merge keys (`<<`) are not supported", hint));
                }
                (self.scalar(text, style, tag.as_deref(), range, span)?, anchor)
            }
            Event::SequenceStart(anchor, tag) => {
                self.begin(tag.as_deref(), "seq", span)?;
                let array = Array { range, elements: Vec::new() };
                self.open.push(OpenCollection::Sequence(anchor, array));
                return Ok(None);
            }
            Event::MappingStart(anchor, tag) => {
                self.begin(tag.as_deref(), "map", span)?;
                let object = Object { range, properties: Vec::new() };
                self.open.push(OpenCollection::Mapping(anchor, object, None));
                return Ok(None);
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(OpenCollection::Sequence(anchor, mut array)) => {
                    array.range.end = range.end.max(array.range.start);
                    (Value::Array(array), anchor)
                }
                Some(OpenCollection::Mapping(anchor, mut object, _)) => {
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
            let size = value_cost(&value);
            // An anchored value is stored twice.
            self.values += size;
            self.anchors.insert(anchor, (value.clone(), size));
        }
        self.put(value)
    }

    /// Adds a value to the innermost open collection, as key or value. Returns the root when
    /// complete.
    fn put(&mut self, value: Value<'a>) -> Result<Option<Value<'a>>, YamlError> {
        match self.open.last_mut() {
            None => return Ok(Some(value)),
            Some(OpenCollection::Sequence(_, array)) => array.elements.push(value),
            Some(OpenCollection::Mapping(_, object, key)) => {
                if let Some(name) = key.take() {
                    let range = Range::new(name.range.start, value.end().max(name.range.end));
                    let name = ObjectPropName::String(name);
                    object.properties.push(ObjectProp { range, name, value });
                } else {
                    let at = value.start();
                    let message = "expected a string as key".to_owned();
                    let hint = Some("put the key in double quotes".to_owned());
                    let name = name(self.text, value).ok_or(YamlError { at, message, hint })?;
                    if name.value.len() > MAX_KEY_BYTES {
                        let message = format!("key longer than {MAX_KEY_BYTES} bytes");
                        return Err(YamlError { at, message, hint: None });
                    }
                    *key = Some(name);
                }
            }
        }
        Ok(None)
    }

    fn begin(&mut self, tag: Option<&Tag>, meant: &str, span: Span) -> Result<(), YamlError> {
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

    fn alias(&mut self, anchor: usize, span: Span) -> Result<Value<'a>, YamlError> {
        let Some((value, size)) = self.anchors.get(&anchor) else {
            let message = "this alias refers to a value that contains it";
            return Err(self.fault(span, message, "write the value itself"));
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
    ) -> Result<Value<'a>, YamlError> {
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
                // The range can include an anchor or tag before the number.
                let whole = self.text.get(range.start..range.end).unwrap_or_default();
                let value = whole.rfind(written).and_then(|at| whole.get(at..at + written.len()));
                match value {
                    Some(value) if serde_json::from_str::<serde_json::Number>(value).is_ok() => {
                        Value::NumberLit(NumberLit { range, value })
                    }
                    _ => {
                        let found = truncate_for_message(written);
                        let message = format!("`{found}` is not a valid JSON number");
                        let hint = "use decimal digits, or put a string in double quotes";
                        return Err(self.fault(span, &message, hint));
                    }
                }
            }
            _ => string(text),
        })
    }

    fn unknown_tag(&self, tag: &Tag, span: Span) -> YamlError {
        let name = if tag.is_yaml_core_schema() {
            format!("!!{}", tag.suffix)
        } else {
            format!("{}{}", tag.handle, tag.suffix)
        };
        let hint = "remove the tag: the syntax of a value determines its type";
        let name = truncate_for_message(&name);
        self.fault(span, &format!("unsupported tag `{name}`"), hint)
    }

    fn too_much(&self, span: Span) -> YamlError {
        let message = format!("more than {MAX_VALUES} values, including those of aliases");
        self.fault(span, &message, "")
    }

    fn fault(&self, span: Span, message: &str, hint: &str) -> YamlError {
        let hint = (!hint.is_empty()).then(|| hint.to_owned());
        YamlError { at: self.offset(span.start.index()), message: message.to_owned(), hint }
    }

    fn syntax_error(&self, error: &ScanError) -> YamlError {
        let at = self.offset(error.marker().index());
        let info = error.info();
        let (message, hint) = match () {
            () if info.contains("unprintable") => ("unprintable character", ""),
            () if info.contains("Unicode character escape") => (
                "invalid escape",
                "write the character itself, or `\\U` and eight digits; YAML has no `\\u…` pairs",
            ),
            () if info.contains("tab") => ("tab in the indentation", "indent with spaces"),
            () if info.contains("mapping values are not allowed") => {
                ("unexpected `:`", "put strings that contain `: ` in double quotes")
            }
            () if info.contains("recursion limit") => ("nested too deeply", ""),
            () if info.contains("simple key expect") => {
                ("expected `:` after a key", "write `key: value`, with a space after the colon")
            }
            () if info.contains("unknown anchor") => {
                ("unknown alias: no value before it has this anchor", "")
            }
            () if info.contains("end of stream") => ("unclosed quote", ""),
            () => (info, ""),
        };
        let hint = (!hint.is_empty()).then(|| hint.to_owned());
        YamlError { at, message: message.replace('`', "'"), hint }
    }

    fn offset(&self, index: usize) -> usize {
        let offset = match &self.offsets {
            Some(offsets) => offsets.get(index).copied().unwrap_or(self.text.len()),
            None => index,
        };
        offset.min(self.text.len())
    }
}

/// Converts a scalar to a key.
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

/// Returns `true` for a number in YAML's core schema.
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

/// The cost of a value, counted against `MAX_VALUES`.
fn value_cost(value: &Value<'_>) -> usize {
    let inside: usize = match value {
        Value::Object(object) => {
            let of = |one: &ObjectProp<'_>| text_cost(one.name.as_str()) + value_cost(&one.value);
            object.properties.iter().map(of).sum()
        }
        Value::Array(array) => array.elements.iter().map(value_cost).sum(),
        Value::StringLit(literal) => text_cost(&literal.value),
        _ => 0,
    };
    inside + 1
}

/// The additional cost of a text, so that aliases of a long text can't multiply memory use.
fn text_cost(text: &str) -> usize {
    text.len() / BYTES_PER_VALUE
}

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
