//! Servers in YAML: a block of lines for each, under a key or in a list.

use std::ops::Range;

use jsonc_parser::ast::Value as Tree;
use jsonc_parser::common::Ranged;
use serde_json::Value;

use crate::config::syntax::document;

/// Servers that are written in another way than as blocks of lines.
#[derive(Debug)]
struct Odd;

/// The servers' block in a text.
struct Block {
    line_end: &'static str,
    /// The servers with their names, each by its lines.
    servers: Vec<(String, Range<usize>)>,
    /// The blanks that each begins with.
    indent: String,
    /// Where another server goes.
    end: usize,
}

pub(super) fn insert(
    text: &str,
    (key, is_list): (&str, bool),
    name: &str,
    entry: &Value,
) -> Option<String> {
    let members = entry.as_object()?;
    with(text, (key, is_list), |indent, line_end| {
        let mut lines = if is_list {
            vec![format!("{indent}- name: {}", scalar(&Value::from(name)))]
        } else {
            vec![format!("{indent}{}:", scalar(&Value::from(name)))]
        };
        for (key, value) in members {
            match value {
                Value::Array(values) if !values.is_empty() => {
                    lines.push(format!("{indent}  {key}:"));
                    lines.extend(values.iter().map(|one| format!("{indent}    - {}", scalar(one))));
                }
                value => lines.push(format!("{indent}  {key}: {}", scalar(value))),
            }
        }
        lines.iter().flat_map(|line| [line.as_str(), line_end]).collect()
    })
}

pub(super) fn put_back(text: &str, place: (&str, bool), lines: &str) -> Option<String> {
    with(text, place, |indent, line_end| {
        let lines = lines.trim_end_matches(['\r', '\n']);
        let own = lines.len() - lines.trim_start_matches(' ').len();
        let own = " ".repeat(own);
        // A block may stand further in, or out, than it did.
        let moved = lines.lines().map(|line| match line.strip_prefix(&own) {
            Some(rest) => format!("{indent}{rest}{line_end}"),
            None => format!("{line}{line_end}"),
        });
        moved.collect()
    })
}

/// Cuts out the lines of a server. Comments and blank lines behind it stay.
pub(super) fn take(text: &str, key: &str, name: &str) -> Option<(String, String)> {
    let block = Block::find(text, key).ok()??;
    let mut own = block.servers.iter().filter(|(other, _)| other == name);
    let (_, range) = own.next()?;
    let taken = text.get(range.clone())?.to_owned();
    Some((format!("{}{}", &text[..range.start], &text[range.end..]), taken))
}

/// The text with another server in it; `lines` is told how they begin and end.
fn with(
    text: &str,
    (key, is_list): (&str, bool),
    lines: impl Fn(&str, &str) -> String,
) -> Option<String> {
    if let Some(block) = Block::find(text, key).ok()? {
        let (before, after) = text.split_at(block.end);
        let line_end = block.line_end;
        let gap = if before.is_empty() || before.ends_with('\n') { "" } else { line_end };
        return Some(format!("{before}{gap}{}{after}", lines(&block.indent, line_end)));
    }
    // Without the key, it comes at the end.
    let line_end = line_end(text);
    let gap = if text.is_empty() || text.ends_with('\n') { "" } else { line_end };
    let indent = if is_list { "" } else { "  " };
    let indent = if is_list { format!("{indent}  ") } else { indent.to_owned() };
    Some(format!("{text}{gap}{key}:{line_end}{}", lines(&indent, line_end)))
}

fn line_end(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

impl Block {
    /// Finds the block under a key, if there is such a key.
    fn find(text: &str, key: &str) -> Result<Option<Self>, Odd> {
        if text.trim().is_empty() {
            return Ok(None);
        }
        let tree = document::yaml::parse(text).map_err(|_| Odd)?;
        let Tree::Object(root) = &tree else {
            return if matches!(tree, Tree::NullKeyword(_)) { Ok(None) } else { Err(Odd) };
        };
        let own = root.properties.iter().position(|property| property.name.as_str() == key);
        let Some(own) = own else { return Ok(None) };
        let property = &root.properties[own];
        let next = root.properties.get(own + 1);
        let limit = next.map_or(text.len(), |next| line_start(text, next.start()));
        let starts: Vec<(String, usize)> = match &property.value {
            Tree::Object(servers) => {
                let servers = servers.properties.iter();
                servers.map(|own| (own.name.as_str().to_owned(), own.start())).collect()
            }
            Tree::Array(servers) => {
                let servers = servers.elements.iter();
                servers.map(|own| (name(own).unwrap_or_default(), own.start())).collect()
            }
            Tree::NullKeyword(_) => Vec::new(),
            Tree::StringLit(_) | Tree::NumberLit(_) | Tree::BooleanLit(_) => return Err(Odd),
        };
        let lines: Vec<usize> = starts.iter().map(|(_, at)| line_start(text, *at)).collect();
        // Each has to begin a line of its own.
        let begins = |(line, (_, at)): (&usize, &(String, usize))| {
            let before = text.get(*line..*at).unwrap_or("x").trim();
            before.is_empty() || before == "-"
        };
        let key_line = line_start(text, property.start());
        let are_apart = lines.windows(2).all(|two| two[0] < two[1]);
        let is_below = lines.first().is_none_or(|first| *first > key_line);
        if !lines.iter().zip(&starts).all(begins) || !are_apart || !is_below {
            return Err(Odd);
        }
        let ends = lines.iter().skip(1).copied().chain([limit]);
        let servers = starts.into_iter().zip(lines.iter().zip(ends));
        let servers: Vec<_> =
            servers.map(|((name, _), (line, end))| (name, content(text, *line..end))).collect();
        let (indent, end) = if let Some((_, range)) = servers.last() {
            let first = &text[lines[0]..];
            (first[..first.len() - first.trim_start_matches(' ').len()].to_owned(), range.end)
        } else {
            let line = text[key_line..].find('\n').map_or(text.len(), |end| key_line + end + 1);
            // `{}` and `[]` are no block.
            let said = text[key_line..line].split('#').next().unwrap_or_default();
            if !said.trim_end().ends_with(':') {
                return Err(Odd);
            }
            ("  ".to_owned(), line)
        };
        Ok(Some(Self { line_end: line_end(text), servers, indent, end }))
    }
}

fn name(entry: &Tree<'_>) -> Option<String> {
    let entry = entry.as_object()?;
    let named = entry.properties.iter().find(|property| property.name.as_str() == "name")?;
    Some(named.value.as_string_lit()?.value.clone().into_owned())
}

fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |end| end + 1)
}

/// Lines without the comments and blank lines at their end.
fn content(text: &str, lines: Range<usize>) -> Range<usize> {
    let (mut at, mut end) = (lines.start, lines.start);
    for line in text[lines.clone()].split_inclusive('\n') {
        at += line.len();
        let said = line.trim();
        if !said.is_empty() && !said.starts_with('#') {
            end = at;
        }
    }
    lines.start..end
}

/// A value on one line: a text is in quotes unless it can be nothing but a text.
fn scalar(value: &Value) -> String {
    const WORDS: [&str; 8] = ["true", "false", "null", "yes", "no", "on", "off", "y"];
    match value {
        Value::String(text) => {
            let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
                && text.chars().all(|c| c.is_ascii_alphanumeric() || "/_-.".contains(c))
                && text.len() > 1
                && !WORDS.contains(&text.to_lowercase().as_str());
            if is_plain { text.clone() } else { value.to_string() }
        }
        _ => value.to_string(),
    }
}
