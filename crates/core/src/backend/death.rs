//! The traces that a server leaves behind: its exit status and the last lines it wrote to standard
//! error.

use std::collections::VecDeque;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::AsyncRead;

use crate::name::seen;
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
    /// An empty tail that redacts these secrets.
    pub fn new(secrets: Arc<Secrets>) -> Self {
        Self { lines: Arc::default(), secrets }
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

/// How a server ended.
#[derive(Clone, Debug)]
pub(crate) struct Cause {
    how: String,
    /// The last lines of its standard error; `None`: it has none that we see.
    words: Option<String>,
}

impl Cause {
    /// How a process ended.
    pub(crate) fn new(status: Option<ExitStatus>, stderr: &StderrTail) -> Self {
        let how = match status {
            Some(status) => status.to_string(),
            None => "it closed its output".to_owned(),
        };
        Self { how, words: Some(stderr.text()) }
    }

    /// How a server ended of whose standard error nothing is known.
    pub(crate) fn without_words(how: &str) -> Self {
        Self { how: how.to_owned(), words: None }
    }

    /// It in words, with its last lines where they may be told.
    pub(crate) fn told(&self, with_words: bool) -> String {
        match self.words.as_deref() {
            None => self.how.clone(),
            Some("") => format!("{}, nothing on its standard error", self.how),
            Some(words) => quoted(&self.how, words, with_words),
        }
    }
}

/// The words between what is said of a server and its last lines.
const LAST_LINES: &str = "; the last lines of its standard error:";

/// Returns of what is said of a server everything before its last lines.
pub fn without_words(text: &str) -> &str {
    text.split_once(LAST_LINES).map_or(text, |(text, _)| text)
}

/// Says something of a server with its last lines, or with the place where they are to be found.
pub(crate) fn quoted(text: &str, words: &str, with_words: bool) -> String {
    if words.is_empty() {
        text.to_owned()
    } else if with_words {
        format!("{text}{LAST_LINES}\n{}", seen::fenced(words))
    } else {
        format!("{text}; the log of the workbench has the last lines of its standard error")
    }
}

#[cfg(test)]
mod tests;
