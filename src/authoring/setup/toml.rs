//! Edits servers in TOML files, where Codex has a table for each server, and subtables.

use std::ops::Range;

use jsonc_parser::ast::Value as Tree;
use serde_json::Value;

use mcp_workbench_config::syntax::document;

pub(super) fn insert(text: &str, key: &str, name: &str, entry: &Value) -> Option<String> {
    let mut table = format!("[{key}.{}]\n", quoted(name));
    for (key, value) in entry.as_object()? {
        table.extend([&quoted(key), " = ", &written(value)?, "\n"]);
    }
    Some(append(text, &table))
}

pub(super) fn append(text: &str, tables: &str) -> String {
    let line_end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let tables = tables.replace("\r\n", "\n").replace('\n', line_end);
    let between = match () {
        () if text.trim().is_empty() => "",
        () if text.ends_with('\n') => line_end,
        () => &format!("{line_end}{line_end}"),
    };
    format!("{text}{between}{tables}")
}

/// Removes the tables of a server. Comments and blank lines at the end of a table stay, because
/// they may describe the next one.
pub(super) fn remove_entry(text: &str, key: &str, name: &str) -> Option<(String, String)> {
    let tables = tables(text);
    let own = tables.iter().filter(|(way, _)| way.starts_with(&[key.to_owned(), name.to_owned()]));
    let own: Vec<Range<usize>> =
        own.map(|(_, range)| trim_trailing_comments(text, range)).collect();
    if own.is_empty() {
        return None;
    }
    let (mut kept, mut taken, mut at) = (String::new(), String::new(), 0);
    for range in own {
        kept.push_str(&text[at..range.start]);
        taken.push_str(&text[range.clone()]);
        at = range.end;
        // Collapse the blank lines around the gap into one.
        let is_blank_before = kept.is_empty() || kept.ends_with("\n\n") || kept.ends_with("\n\r\n");
        if is_blank_before {
            let rest = &text[at..];
            let blank = ["\r\n", "\n"].iter().find(|blank| rest.starts_with(*blank));
            at += blank.map_or(0, |blank| blank.len());
        }
    }
    kept.push_str(&text[at..]);
    Some((kept, taken))
}

/// Returns every table with a header: its key path and its range.
fn tables(text: &str) -> Vec<(Vec<String>, Range<usize>)> {
    let mut found: Vec<(Vec<String>, Range<usize>)> = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        // Inside a multi-line string a line can look like a table header; the round-trip check
        // rejects such an edit.
        if line.trim_start().starts_with('[')
            && let Some(way) = parse_heading(line)
        {
            if let Some((_, range)) = found.last_mut() {
                range.end = at;
            }
            found.push((way, at..text.len()));
        }
        at += line.len();
    }
    found
}

fn parse_heading(line: &str) -> Option<Vec<String>> {
    let tree = document::toml::parse(line).ok()?;
    let mut way = Vec::new();
    let mut at = &tree;
    loop {
        at = match at {
            Tree::Object(object) => match object.properties.first() {
                Some(property) => {
                    way.push(property.name.as_str().to_owned());
                    &property.value
                }
                None => break,
            },
            Tree::Array(array) => match array.elements.first() {
                Some(first) => first,
                None => break,
            },
            Tree::StringLit(_)
            | Tree::NumberLit(_)
            | Tree::BooleanLit(_)
            | Tree::NullKeyword(_) => return None,
        };
    }
    (!way.is_empty()).then_some(way)
}

/// Returns the range of a table without trailing comments and blank lines.
fn trim_trailing_comments(text: &str, table: &Range<usize>) -> Range<usize> {
    let (mut at, mut end) = (table.start, table.start);
    for line in text[table.clone()].split_inclusive('\n') {
        at += line.len();
        let said = line.trim();
        if !said.is_empty() && !said.starts_with('#') {
            end = at;
        }
    }
    table.start..end
}

fn quoted(key: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !key.is_empty() && key.chars().all(is_bare) {
        key.to_owned()
    } else {
        Value::from(key).to_string()
    }
}

/// Renders a value in TOML, where strings and numbers have the same syntax as in JSON.
fn written(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::Object(members) => {
            let members: Option<Vec<_>> = members
                .iter()
                .map(|(key, value)| Some(format!("{} = {}", quoted(key), written(value)?)))
                .collect();
            Some(format!("{{ {} }}", members?.join(", ")))
        }
        Value::Array(values) => {
            let values: Option<Vec<_>> = values.iter().map(written).collect();
            Some(format!("[{}]", values?.join(", ")))
        }
        Value::String(_) | Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
    }
}
