//! A line of the log: the text that people read, and the JSON that `mcp-workbench logs` reads.

use std::fmt::{self, Write as _};

use chrono::{SecondsFormat, Utc};
use serde::{Deserialize, Serialize};
use tracing::Level;
use tracing::field::{Field, Visit};

use crate::cli::output::escape::escape_controls;
use crate::cli::output::redaction::redact;

/// Longer texts in the JSON log are truncated. In bytes.
const MAX_TEXT: usize = 4096;
const MESSAGE_FIELD: &str = "message";
const SERVER_FIELD: &str = "server";

#[derive(Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct LogLine {
    /// Milliseconds since the Unix epoch.
    pub(crate) ms: u64,
    pub(crate) level: String,
    /// As `toolbox/server`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) server: Option<String>,
    /// `true` if the server wrote it to stderr.
    #[serde(default)]
    pub(crate) is_stderr: bool,
    pub(crate) text: String,
}

/// The message and the fields of an event, or the fields of a span.
#[derive(Debug, Default)]
pub(super) struct LogFields {
    message: String,
    fields: Vec<(&'static str, FieldValue)>,
}

#[derive(Clone, Debug)]
enum FieldValue {
    /// Shown in quotes.
    Text(String),
    Other(String),
}

impl LogFields {
    pub(super) fn of_message(message: String) -> Self {
        Self { message, fields: Vec::new() }
    }

    /// Returns the number of fields.
    pub(super) fn len(&self) -> usize {
        self.fields.len()
    }

    /// Adds the fields of a span. They replace fields with the same name, except the first `own`.
    pub(super) fn add_span(&mut self, span: &Self, own: usize) {
        for (name, value) in &span.fields {
            if !self.fields.iter().take(own).any(|(known, _)| known == name) {
                self.set(name, value.clone());
            }
        }
    }

    fn set(&mut self, name: &'static str, value: FieldValue) {
        match self.fields.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = value,
            None => self.fields.push((name, value)),
        }
    }

    /// Returns a line for people.
    pub(super) fn to_text(&self, level: Level, target: &str, has_colors: bool) -> String {
        let time = Utc::now().to_rfc3339_opts(SecondsFormat::Micros, true);
        let mut line = if has_colors {
            let color = match level {
                Level::TRACE => 35,
                Level::DEBUG => 34,
                Level::INFO => 32,
                Level::WARN => 33,
                Level::ERROR => 31,
            };
            format!(
                "\u{1b}[2m{time}\u{1b}[0m \u{1b}[{color}m{level:>5}\u{1b}[0m \
                 \u{1b}[2m{target}\u{1b}[0m\u{1b}[2m:\u{1b}[0m"
            )
        } else {
            format!("{time} {level:>5} {target}:")
        };
        // Writing to a `String` never fails.
        if !self.message.is_empty() {
            _ = write!(line, " {}", safe(&self.message));
        }
        for (name, value) in &self.fields {
            let value = safe(&value.to_string());
            _ = if has_colors {
                write!(line, " \u{1b}[3m{name}\u{1b}[0m\u{1b}[2m=\u{1b}[0m{value}")
            } else {
                write!(line, " {name}={value}")
            };
        }
        line.push('\n');
        line
    }

    /// Returns a line for `mcp-workbench logs`, with the server as a member of its own.
    pub(super) fn to_json(&self, level: Level, target: &str) -> LogLine {
        let (mut text, mut server) = (self.message.clone(), None);
        for (name, value) in &self.fields {
            if *name == SERVER_FIELD {
                server = Some(match value {
                    FieldValue::Text(value) => value.clone(),
                    FieldValue::Other(value) => value.trim_matches('"').to_owned(),
                });
            } else {
                _ = write!(text, " {name}={value}");
            }
        }
        let mut text = redact(&text).into_owned();
        if text.len() > MAX_TEXT {
            text.truncate(text.floor_char_boundary(MAX_TEXT));
            text.push('…');
        }
        LogLine {
            ms: Utc::now().timestamp_millis().try_into().unwrap_or_default(),
            level: level.to_string(),
            is_stderr: target == SERVER_FIELD,
            server,
            text,
        }
    }
}

/// Redacts secrets, escapes control characters, and indents continuation lines: a line without
/// indent starts with a timestamp.
fn safe(text: &str) -> String {
    escape_controls(&redact(text)).replace('\n', "\n    ")
}

impl fmt::Display for FieldValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Other(text) => f.write_str(text),
        }
    }
}

impl Visit for LogFields {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            MESSAGE_FIELD => self.message.push_str(value),
            name => self.set(name, FieldValue::Text(value.to_owned())),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            MESSAGE_FIELD => _ = write!(self.message, "{value:?}"),
            name => self.set(name, FieldValue::Other(format!("{value:?}"))),
        }
    }
}
