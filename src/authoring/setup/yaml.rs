//! Edits servers in YAML files: a block of lines for each server, under a key or in a list.

use std::ops::Range;

use jsonc_parser::ast::Value as Tree;
use jsonc_parser::common::Ranged;
use serde_json::Value;

use mcp_workbench_config::syntax::document;

/// The servers are in flow style or another layout that cannot be edited by lines.
#[derive(Debug)]
struct UnsupportedLayout;

struct ServersBlock {
    line_end: &'static str,
    servers: Vec<(String, Range<usize>)>,
    indent: String,
    /// The offset for another server.
    end: usize,
}

pub(super) fn insert(
    text: &str,
    (key, is_list): (&str, bool),
    name: &str,
    entry: &Value,
) -> Option<String> {
    let members = entry.as_object()?;
    insert_lines(text, (key, is_list), |indent, line_end| {
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

pub(super) fn restore_entry(text: &str, place: (&str, bool), lines: &str) -> Option<String> {
    insert_lines(text, place, |indent, line_end| {
        let lines = lines.trim_end_matches(['\r', '\n']);
        let own = lines.len() - lines.trim_start_matches(' ').len();
        let own = " ".repeat(own);
        // Re-indent the block, because the other servers may have a different indent now.
        let moved = lines.lines().map(|line| match line.strip_prefix(&own) {
            Some(rest) => format!("{indent}{rest}{line_end}"),
            None => format!("{line}{line_end}"),
        });
        moved.collect()
    })
}

/// Removes the lines of a server. Comments and blank lines after it stay.
pub(super) fn remove_entry(text: &str, key: &str, name: &str) -> Option<(String, String)> {
    let block = ServersBlock::find(text, key).ok()??;
    let mut own = block.servers.iter().filter(|(other, _)| other == name);
    let (_, range) = own.next()?;
    let taken = text.get(range.clone())?.to_owned();
    Some((format!("{}{}", &text[..range.start], &text[range.end..]), taken))
}

/// Inserts another server. `lines` receives the indent and the line ending.
fn insert_lines(
    text: &str,
    (key, is_list): (&str, bool),
    lines: impl Fn(&str, &str) -> String,
) -> Option<String> {
    if let Some(block) = ServersBlock::find(text, key).ok()? {
        let (before, after) = text.split_at(block.end);
        let line_end = block.line_end;
        let gap = if before.is_empty() || before.ends_with('\n') { "" } else { line_end };
        return Some(format!("{before}{gap}{}{after}", lines(&block.indent, line_end)));
    }
    // A missing key is added at the end of the file.
    let line_end = line_end(text);
    let gap = if text.is_empty() || text.ends_with('\n') { "" } else { line_end };
    let indent = if is_list { "" } else { "  " };
    let indent = if is_list { format!("{indent}  ") } else { indent.to_owned() };
    Some(format!("{text}{gap}{key}:{line_end}{}", lines(&indent, line_end)))
}

fn line_end(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

impl ServersBlock {
    /// Finds the block under `key`. Returns `None` if the key is missing.
    fn find(text: &str, key: &str) -> Result<Option<Self>, UnsupportedLayout> {
        if text.trim().is_empty() {
            return Ok(None);
        }
        let tree = document::yaml::parse(text).map_err(|_| UnsupportedLayout)?;
        let Tree::Object(root) = &tree else {
            return if matches!(tree, Tree::NullKeyword(_)) {
                Ok(None)
            } else {
                Err(UnsupportedLayout)
            };
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
            Tree::StringLit(_) | Tree::NumberLit(_) | Tree::BooleanLit(_) => {
                return Err(UnsupportedLayout);
            }
        };
        let lines: Vec<usize> = starts.iter().map(|(_, at)| line_start(text, *at)).collect();
        // Each server must start on its own line.
        let begins = |(line, (_, at)): (&usize, &(String, usize))| {
            let before = text.get(*line..*at).unwrap_or("x").trim();
            before.is_empty() || before == "-"
        };
        let key_line = line_start(text, property.start());
        let are_apart = lines.windows(2).all(|two| two[0] < two[1]);
        let is_below = lines.first().is_none_or(|first| *first > key_line);
        if !lines.iter().zip(&starts).all(begins) || !are_apart || !is_below {
            return Err(UnsupportedLayout);
        }
        let ends = lines.iter().skip(1).copied().chain([limit]);
        let servers = starts.into_iter().zip(lines.iter().zip(ends));
        let servers: Vec<_> = servers
            .map(|((name, _), (line, end))| (name, trim_trailing_comments(text, *line..end)))
            .collect();
        let (indent, end) = if let Some((_, range)) = servers.last() {
            let first = &text[lines[0]..];
            (first[..first.len() - first.trim_start_matches(' ').len()].to_owned(), range.end)
        } else {
            let line = text[key_line..].find('\n').map_or(text.len(), |end| key_line + end + 1);
            // `{}` and `[]` are flow style.
            let said = text[key_line..line].split('#').next().unwrap_or_default();
            if !said.trim_end().ends_with(':') {
                return Err(UnsupportedLayout);
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

/// Returns the range of `lines` without trailing comments and blank lines.
fn trim_trailing_comments(text: &str, lines: Range<usize>) -> Range<usize> {
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

/// Renders a scalar. Strings are quoted unless they can only be read as a string.
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
