//! The traces that a server leaves behind: its exit status and the last lines it wrote to standard
//! error.

use std::collections::VecDeque;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::AsyncRead;

use crate::observe::Secrets;
use crate::wire::line::{Line, LineReader};

/// How many lines are kept.
const KEPT_LINES: usize = 8;
/// How many bytes of one line are kept.
const KEPT_BYTES: usize = 300;
/// A longer line is logged in part only.
const MAX_LINE: usize = 16 * 1024;

/// The last lines of a server's standard error, without secrets. Clones share the lines.
#[derive(Clone, Debug)]
pub struct StderrTail {
    lines: Arc<Mutex<VecDeque<String>>>,
    secrets: Arc<Secrets>,
}

impl StderrTail {
    /// An empty tail that redacts the values of secret variables of this environment.
    pub fn new<'a>(environment: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        Self { lines: Arc::default(), secrets: Arc::new(Secrets::of_environment(environment)) }
    }

    /// Logs and keeps every line of `stream` until it ends.
    pub async fn drain(self, stream: impl AsyncRead + Unpin, label: String) {
        let mut lines = LineReader::new(stream, MAX_LINE);
        while let Some(line) = lines.next().await {
            let text = match line {
                Line::Message(line) => self.without_secrets(&String::from_utf8_lossy(&line)),
                Line::Oversized { head, length, .. } => {
                    let head = self.without_secrets(&String::from_utf8_lossy(&head));
                    format!("{head}… ({length} bytes)")
                }
            };
            tracing::info!(target: "server", server = label, "{text}");
            self.push(&text);
        }
    }

    fn without_secrets(&self, text: &str) -> String {
        self.secrets.redact(text).into_owned()
    }

    fn push(&self, text: &str) {
        let end = (0..=KEPT_BYTES.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == KEPT_LINES {
            lines.pop_front();
        }
        lines.push_back(text[..end.unwrap_or_default()].to_owned());
    }

    /// The lines that were kept, oldest first, each on a line of its own.
    pub fn text(&self) -> String {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }
}

/// Says how a process ended, with the last lines of its standard error.
pub(crate) fn describe(status: Option<ExitStatus>, stderr: &StderrTail) -> String {
    let how = match status {
        Some(status) => status.to_string(),
        None => "it closed its output".to_owned(),
    };
    let tail = stderr.text();
    if tail.is_empty() {
        format!("{how}, nothing on its standard error")
    } else {
        format!("{how}; the last lines of its standard error:\n{tail}")
    }
}

#[cfg(test)]
mod tests;
