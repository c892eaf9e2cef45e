//! How a server exited, and the last lines of its stderr.

use std::collections::VecDeque;
use std::process::ExitStatus;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::AsyncRead;

use crate::telemetry::Redactor;
use mcp_workbench_names::untrusted_text;
use mcp_workbench_wire::line::{InputLine, LineReader};

const KEPT_LINES: usize = 8;
/// Bytes retained of each line.
const KEPT_BYTES: usize = 300;
/// Longer lines are truncated in the log.
const MAX_LINE: usize = 16 * 1024;

/// The last lines of a server's stderr, redacted. Clones share the lines.
#[derive(Clone, Debug)]
pub struct StderrTail {
    lines: Arc<Mutex<LastLines>>,
    secrets: Arc<Redactor>,
}

#[derive(Debug, Default)]
struct LastLines {
    lines: VecDeque<String>,
    /// The last line that names an error. JavaScript and Java print it before the stack trace.
    cause: Option<String>,
    /// `true` if stack frames followed the cause.
    has_frames: bool,
}

impl StderrTail {
    pub fn new(secrets: Arc<Redactor>) -> Self {
        Self { lines: Arc::default(), secrets }
    }

    /// Logs every line of `stream` until it ends, and retains the last ones.
    pub async fn drain(self, stream: impl AsyncRead + Unpin, label: String) {
        let mut lines = LineReader::new(stream, MAX_LINE);
        while let Some(line) = lines.next().await {
            let text = match line {
                InputLine::Message(line) => self.without_secrets(&String::from_utf8_lossy(&line)),
                InputLine::Oversized { head, length, .. } => {
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
        let text = text[..end.unwrap_or_default()].to_owned();
        let mut last = self.lines.lock();
        if is_stack_frame(&text) {
            last.has_frames = last.cause.is_some();
            return;
        }
        if names_error(&text) {
            (last.cause, last.has_frames) = (Some(text.clone()), false);
        }
        if last.lines.len() == KEPT_LINES {
            last.lines.pop_front();
        }
        last.lines.push_back(text);
    }

    /// Returns the retained lines, oldest first, separated by newlines. Stack frames are left out,
    /// and the error that they belong to comes first.
    pub fn text(&self) -> String {
        let last = self.lines.lock();
        let cause = last.cause.as_ref().filter(|_| last.has_frames);
        let at = cause.and_then(|cause| last.lines.iter().rposition(|line| line == cause));
        let lost = cause.filter(|_| at.is_none());
        let lines = lost.into_iter().chain(last.lines.iter().skip(at.unwrap_or_default()));
        lines.map(String::as_str).collect::<Vec<_>>().join("\n")
    }
}

/// Returns `true` for a frame of a stack trace of JavaScript, Java or .NET.
fn is_stack_frame(line: &str) -> bool {
    line.starts_with([' ', '\t']) && line.trim_start().starts_with("at ")
}

/// Returns `true` for lines such as `TypeError: x is not a function`.
fn names_error(line: &str) -> bool {
    let line = line.strip_prefix("Uncaught ").unwrap_or(line);
    let Some((name, _)) = line.split_once([':', ' ']) else { return false };
    ["Error", "Exception", "error"].iter().any(|end| name.ends_with(end))
}

#[derive(Clone, Debug)]
pub(crate) struct ExitCause {
    how: String,
    /// `None` if the server has no stderr, as over HTTP.
    words: Option<String>,
}

impl ExitCause {
    pub(crate) fn new(status: Option<ExitStatus>, stderr: &StderrTail) -> Self {
        let how = match status {
            Some(status) => describe_status(status),
            None => "unknown exit status".to_owned(),
        };
        Self { how, words: Some(stderr.text()) }
    }

    /// A lost connection to a server over HTTP.
    pub(crate) fn without_words(how: &str) -> Self {
        Self { how: how.to_owned(), words: None }
    }

    /// Describes the cause, with the last stderr lines if `with_words`.
    pub(crate) fn describe(&self, with_words: bool) -> String {
        self.and_stderr(self.how.clone(), with_words)
    }

    /// Like [`Self::describe`], but as a phrase: "exited `when` with exit code 1".
    pub(crate) fn describe_exit(&self, when: &str, with_words: bool) -> String {
        let how = &self.how;
        let text = match self.words {
            None => format!("{how} {when}"),
            Some(_) => format!("exited {when} with {how}"),
        };
        self.and_stderr(text, with_words)
    }

    fn and_stderr(&self, text: String, with_words: bool) -> String {
        match self.words.as_deref() {
            None => text,
            Some("") => format!("{text}; stderr is empty"),
            Some(words) => with_stderr_tail(&text, words, with_words),
        }
    }
}

/// Formats a status as in "exit code 1" or "signal 9 (SIGKILL)".
pub(crate) fn describe_status(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("exit code {code}"),
        None => status.to_string().replacen(": ", " ", 1),
    }
}

const LAST_LINES: &str = "; last lines of stderr:";
const STDOUT_LINES: &str = "stdout has lines that are not responses to the workbench:";

/// Returns the text without the lines that it quotes of stderr and stdout.
pub fn strip_stderr_tail(text: &str) -> &str {
    let text = text.split_once(LAST_LINES).map_or(text, |(text, _)| text);
    text.split_once(STDOUT_LINES).map_or(text, |(text, _)| text.trim_end_matches("; "))
}

/// Appends unusable lines of stdout if `with_words`.
pub(crate) fn with_stdout(text: String, lines: &[String], with_words: bool) -> String {
    if lines.is_empty() || !with_words {
        return text;
    }
    let separator = if text.contains('\n') { "\n" } else { "; " };
    let lines = untrusted_text::quote_lines(&lines.join("\n"));
    format!("{text}{separator}{STDOUT_LINES}\n{lines}")
}

/// Appends the last stderr lines if `with_words`, and otherwise a reference to the log.
pub(crate) fn with_stderr_tail(text: &str, words: &str, with_words: bool) -> String {
    if words.is_empty() {
        text.to_owned()
    } else if with_words {
        format!("{text}{LAST_LINES}\n{}", untrusted_text::quote_lines(words))
    } else {
        format!("{text}; its stderr is in the workbench log")
    }
}

#[cfg(test)]
mod tests;
