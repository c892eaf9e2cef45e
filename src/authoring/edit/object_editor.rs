//! Adds or removes a member in the text of one JSON object.

use std::ops::Range;

use jsonc_parser::ast::Object;
use jsonc_parser::common::Ranged;
use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{PrettyFormatter, Serializer};

/// The text of a file, and the position of one object in it.
pub(in crate::authoring) struct ObjectEditor<'a> {
    text: &'a str,
    /// The byte range of the object, brackets included.
    brackets: Range<usize>,
    members: Vec<Range<usize>>,
}

impl<'a> ObjectEditor<'a> {
    pub(in crate::authoring) fn of(text: &'a str, object: &Object<'_>) -> Self {
        let members = object.properties.iter().map(|member| member.start()..member.end());
        let brackets = object.start()..object.end();
        Self { text, brackets, members: members.collect() }
    }

    /// Adds a member at the end, formatted like the others.
    pub(in crate::authoring) fn append(&self, key: &str, value: &Value) -> String {
        let written = |line: Option<(&str, &str)>| match line {
            Some((line_end, indent)) => {
                pretty_print(value, &self.unit()).replace('\n', &format!("{line_end}{indent}"))
            }
            None => value.to_string(),
        };
        self.put(key, written)
    }

    /// Like [`Self::append`], with a value that is already formatted.
    pub(in crate::authoring) fn append_text(&self, key: &str, value: &str) -> String {
        self.put(key, |_| value.to_owned())
    }

    /// Adds a member at the end. `value` receives the line ending and the indent if the object
    /// spans several lines.
    fn put(&self, key: &str, value: impl Fn(Option<(&str, &str)>) -> String) -> String {
        let close = self.brackets.end - 1;
        let content = self.members.last().map_or(self.brackets.start + 1, |last| last.end);
        let tail = &self.text[content..close];
        let end = content + tail.trim_end().len();
        let comma = comma(&self.text[content..end]).map(|at| content + at);
        let is_spread = self.members.is_empty()
            || tail.contains('\n')
            || end > comma.map_or(content, |at| at + 1)
            || self.members.first().is_some_and(|first| self.begins_line(first.start));
        let mut changes = Vec::new();
        if !self.members.is_empty() && comma.is_none() {
            changes.push((content..content, ",".to_owned()));
        }
        // Keep the style of a trailing comma.
        let last_comma = if comma.is_some() { "," } else { "" };
        if is_spread {
            let line_end = if self.text.contains("\r\n") { "\r\n" } else { "\n" };
            let outer = self.indent_at(self.brackets.start);
            let first = self.members.first().map(|first| first.start);
            let first = first.filter(|start| self.begins_line(*start));
            let inner = match first {
                Some(start) => self.indent_at(start).to_owned(),
                None => format!("{outer}{}", self.unit()),
            };
            let value = value(Some((line_end, &inner)));
            let entry = format!("{line_end}{inner}{}: {value}{last_comma}", quoted(key));
            if self.text[end..close].contains('\n') {
                changes.push((end..end, entry));
            } else {
                changes.push((end..close, format!("{entry}{line_end}{outer}")));
            }
        } else {
            let value = value(None);
            changes.push((end..end, format!(" {}: {value}{last_comma}", quoted(key))));
        }
        apply_edits(self.text, &changes)
    }

    /// Removes a member and its comma, and its line if nothing else is on it.
    pub(in crate::authoring) fn remove(&self, index: usize) -> String {
        let Some(member) = self.members.get(index) else { return self.text.to_owned() };
        let next = self.members.get(index + 1).map_or(self.brackets.end - 1, |next| next.start);
        let after = comma(&self.text[member.end..next]).map(|at| member.end + at);
        let mut cut = member.clone();
        let mut changes = Vec::new();
        if let Some(at) = after {
            if self.text[member.end..at].trim().is_empty() {
                cut.end = at + 1;
            } else {
                changes.push((at..at + 1, String::new()));
            }
        } else if let Some(before) = index.checked_sub(1).and_then(|index| self.members.get(index))
        {
            let between = &self.text[before.end..member.start];
            if let Some(at) = comma(between).map(|at| before.end + at) {
                if self.text[at + 1..member.start].trim().is_empty()
                    && !self.text[at..member.start].contains('\n')
                {
                    cut.start = at;
                } else {
                    changes.push((at..at + 1, String::new()));
                }
            }
        }
        let rest = &self.text[cut.end..];
        let blanks = rest.len() - rest.trim_start_matches([' ', '\t']).len();
        let ends_line = rest[blanks..].starts_with(['\n', '\r']) || rest[blanks..].is_empty();
        if self.begins_line(cut.start) && ends_line {
            // Remove the line together with the line break before it.
            let line = self.text[..cut.start].trim_end_matches([' ', '\t']);
            let line = line.strip_suffix('\n').unwrap_or(line);
            let line = line.strip_suffix('\r').unwrap_or(line);
            cut = line.len()..cut.end + blanks;
        } else if after.is_some() && blanks > 0 && !ends_line && !self.begins_line(cut.start) {
            cut.end += blanks;
        }
        changes.push((cut, String::new()));
        changes.sort_by_key(|(range, _)| range.start);
        apply_edits(self.text, &changes)
    }

    /// Returns `true` if only blanks precede `at` on its line.
    fn begins_line(&self, at: usize) -> bool {
        let before = self.text[..at].trim_end_matches([' ', '\t']);
        before.ends_with('\n')
    }

    fn indent_at(&self, at: usize) -> &'a str {
        let line = self.text[..at].rfind('\n').map_or(0, |at| at + 1);
        let line = &self.text[line..];
        &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
    }

    /// Returns the indent of the first indented line, as the unit of indentation.
    fn unit(&self) -> String {
        let indents = self.text.lines().map(|line| {
            let rest = line.trim_start_matches([' ', '\t']);
            (&line[..line.len() - rest.len()], rest)
        });
        // Skip lines of block comments, which are indented by one.
        let mut indents = indents.filter(|(indent, rest)| {
            !indent.is_empty() && !rest.is_empty() && !rest.starts_with('*')
        });
        indents.next().map_or_else(|| "  ".to_owned(), |(indent, _)| indent.to_owned())
    }
}

/// Returns the offset of the first comma outside comments.
fn comma(text: &str) -> Option<usize> {
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        at += if c == ',' {
            return Some(at);
        } else if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else {
            c.len_utf8()
        };
    }
    None
}

fn quoted(key: &str) -> String {
    Value::from(key).to_string()
}

fn pretty_print(value: &Value, unit: &str) -> String {
    let mut text = Vec::new();
    let formatter = PrettyFormatter::with_indent(unit.as_bytes());
    let written = value.serialize(&mut Serializer::with_formatter(&mut text, formatter));
    match (written, String::from_utf8(text)) {
        (Ok(()), Ok(text)) => text,
        // Unreachable: a JSON value has only string keys, so it can always be serialized.
        _ => value.to_string(),
    }
}

/// Applies `changes`, which are in ascending order and don't overlap.
fn apply_edits(text: &str, changes: &[(Range<usize>, String)]) -> String {
    let mut changed = String::with_capacity(text.len() + 256);
    let mut at = 0;
    for (range, with) in changes {
        changed.push_str(&text[at..range.start]);
        changed.push_str(with);
        at = range.end;
    }
    changed.push_str(&text[at..]);
    changed
}
