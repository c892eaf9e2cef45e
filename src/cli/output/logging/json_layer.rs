//! The JSON log that `mcp-workbench logs` reads: one line for each event.

use std::fmt::{self, Write as _};
use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_appender::non_blocking::NonBlocking;
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use crate::cli::output::redaction::redact;

/// Longer texts are truncated. In bytes.
const MAX_TEXT: usize = 4096;
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

pub(crate) struct JsonLayer(Mutex<NonBlocking>);

impl JsonLayer {
    pub(crate) fn new(log: NonBlocking) -> Self {
        Self(Mutex::new(log))
    }
}

impl<S: Subscriber> Layer<S> for JsonLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        let mut fields = Fields::default();
        event.record(&mut fields);
        let Fields { message, rest, server } = fields;
        let mut text = redact(&(message + &rest)).into_owned();
        if text.len() > MAX_TEXT {
            text.truncate(text.floor_char_boundary(MAX_TEXT));
            text.push('…');
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let line = LogLine {
            ms: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
            level: metadata.level().to_string(),
            is_stderr: metadata.target() == SERVER_FIELD,
            server,
            text,
        };
        let Ok(mut json) = serde_json::to_vec(&line) else { return };
        json.push(b'\n');
        // `NonBlocking` takes whole lines and never fails.
        let _ = self.0.lock().write(&json);
    }
}

#[derive(Default)]
struct Fields {
    message: String,
    rest: String,
    server: Option<String>,
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            SERVER_FIELD => self.server = Some(value.to_owned()),
            "message" => self.message.push_str(value),
            _ => self.record_debug(field, &value),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a `String` never fails.
        _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            SERVER_FIELD => {
                self.server = Some(format!("{value:?}").trim_matches('"').to_owned());
                Ok(())
            }
            name => write!(self.rest, " {name}={value:?}"),
        };
    }
}
