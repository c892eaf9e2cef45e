//! Parses TOML into the same tree as JSONC.

use std::ops::Range as Bytes;

use jsonc_parser::ast::{
    Array, BooleanLit, NumberLit, Object, ObjectProp, ObjectPropName, StringLit, Value,
};
use jsonc_parser::common::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Error};

use crate::syntax::document::line_columns;
use crate::syntax::finding::{Finding, Severity};

/// Parses TOML text. Returns only the first syntax error, because later ones would be consequences.
pub fn parse(text: &str) -> Result<Value<'_>, Finding> {
    if let Some(at) = find_too_deep_key(text) {
        return Err(finding(text, at, "nested too deeply".to_owned()));
    }
    let table = DeTable::parse(text).map_err(|error| syntax_error(text, &error))?;
    let span = table.span();
    Ok(object(text, span, table.into_inner()))
}

/// Maximum number of segments in a dotted key. Each one nests a table, and the `toml` crate sets no
/// limit.
const MAX_PARTS: usize = 64;

/// Returns the offset of the first line whose key has too many segments.
fn find_too_deep_key(text: &str) -> Option<usize> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let key = line.split(['=', '"', '\'', '#']).next().unwrap_or_default();
        if key.matches('.').count() > MAX_PARTS {
            return Some(at);
        }
        at += line.len();
    }
    None
}

fn syntax_error(text: &str, error: &Error) -> Finding {
    // The first line is the reason; further lines list the expected grammar.
    let message = error.message().lines().next().unwrap_or("invalid TOML");
    let at = error.span().map_or(text.len(), |span| span.start);
    finding(text, at, message.replace('`', "'"))
}

fn finding(text: &str, at: usize, message: String) -> Finding {
    Finding {
        severity: Severity::Error,
        file: None,
        path: String::new(),
        position: line_columns(text, &[at]).first().copied(),
        message,
        hint: None,
    }
}

fn range(span: &Bytes<usize>) -> Range {
    Range::new(span.start, span.end)
}

fn object<'a>(text: &'a str, span: Bytes<usize>, table: DeTable<'a>) -> Value<'a> {
    let properties = table.into_iter().map(|(key, value)| {
        let at = key.span();
        let range = Range::new(at.start, value.span().end.max(at.end));
        let name = StringLit { range: self::range(&at), value: key.into_inner() };
        ObjectProp { range, name: ObjectPropName::String(name), value: self::value(text, value) }
    });
    Value::Object(Object { range: range(&span), properties: properties.collect() })
}

fn value<'a>(text: &'a str, value: Spanned<DeValue<'a>>) -> Value<'a> {
    let span = value.span();
    let range = range(&span);
    match value.into_inner() {
        DeValue::String(value) => Value::StringLit(StringLit { range, value }),
        DeValue::Boolean(value) => Value::BooleanLit(BooleanLit { range, value }),
        // Dates become number literals: no setting is a date, and the tree has no type for them.
        DeValue::Integer(_) | DeValue::Float(_) | DeValue::Datetime(_) => {
            let value = text.get(span).unwrap_or_default();
            Value::NumberLit(NumberLit { range, value })
        }
        DeValue::Array(elements) => {
            let elements = elements.into_iter().map(|element| self::value(text, element));
            Value::Array(Array { range, elements: elements.collect() })
        }
        DeValue::Table(table) => object(text, span, table),
    }
}
