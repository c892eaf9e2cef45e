//! Printing: data goes to stdout, everything else to stderr.
//!
//! All text passes [`escape_controls`], so that text from servers and files can't control the
//! terminal, and is redacted, unless a function says otherwise. Prose is wrapped to the width of a
//! terminal, but not in files and pipes.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::sync::LazyLock;

use clap::builder::styling::{AnsiColor, Style};
use serde::Serialize;
use serde_json::value::RawValue;
use terminal_size::{Width, terminal_size};
use textwrap::core::display_width;
use textwrap::{Options, WordSeparator, WordSplitter};

use crate::cli::output::error::CommandError;
use crate::cli::output::escape::{escape_controls, escape_json_controls};
use crate::cli::output::redaction::redact;
use mcp_workbench_config::env::{EnvSource, ProcessEnv};
use mcp_workbench_wire::json::RawJson;

pub(crate) use crate::cli::output::escape::escape_to_line;

/// Used if the terminal doesn't report its width. In columns.
const WIDTH: usize = 80;
const MIN_WIDTH: usize = 40;
/// A label is at most this wide, in columns.
const MAX_LABEL: usize = 20;

/// Stands for the escape character of this program's own styles until printing. The random number
/// keeps other text from forging it.
static STYLE: LazyLock<String> = LazyLock::new(|| {
    let mut random = [0; 8];
    // Without random numbers styling stays off (see `Paint::new`).
    let _ = getrandom::fill(&mut random);
    format!("<style {:016x}>", u64::from_ne_bytes(random))
});

/// Prints a text for people to stderr.
pub(crate) fn note(text: &impl Display) {
    let text = wrapped(&sanitize(&text.to_string()), width_of(&io::stderr()));
    // There is nowhere left to report that stderr is closed.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Prints a text about work that goes on, for someone who waits at a terminal.
pub(crate) fn progress(text: &impl Display) {
    if io::stderr().is_terminal() {
        note(text);
    }
}

/// Prints data and a newline, unwrapped.
pub(crate) fn data(text: &impl Display) -> Result<(), CommandError> {
    bytes(sanitize(&text.to_string()).as_bytes())
}

/// Prints a text for people and a newline, wrapped on a terminal.
pub(crate) fn prose(text: &impl Display) -> Result<(), CommandError> {
    bytes(wrapped(&sanitize(&text.to_string()), width_of(&io::stdout())).as_bytes())
}

pub(crate) fn json(value: &impl Serialize) -> Result<(), CommandError> {
    json_text(pretty_json(value)?.as_bytes())
}

/// Prints JSON that contains a configuration, including its secrets.
pub(crate) fn json_unredacted(value: &impl Serialize) -> Result<(), CommandError> {
    bytes(escape_json_controls(&pretty_json(value)?).as_bytes())
}

pub(crate) fn pretty_json(value: &impl Serialize) -> Result<String, CommandError> {
    serde_json::to_string_pretty(value).map_err(CommandError::internal)
}

/// Prints the text of a configuration, including its secrets, and a newline.
pub(crate) fn text_unredacted(text: &impl Display) -> Result<(), CommandError> {
    bytes(styled(&escape_controls(&text.to_string())).as_bytes())
}

/// Returns JSON of a server as it is, for a report.
pub(crate) fn to_raw_value(raw: &RawJson) -> Box<RawValue> {
    raw.parse().unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// Prints JSON text without reformatting it, and a newline.
pub(crate) fn json_text(json: &[u8]) -> Result<(), CommandError> {
    match str::from_utf8(json) {
        Ok(json) => bytes(escape_json_controls(&redact(json)).as_bytes()),
        Err(_) => data(&String::from_utf8_lossy(json)),
    }
}

/// Prints bytes and a newline, unescaped. Text that isn't the program's own needs [`redact`] first.
pub(crate) fn bytes(bytes: &[u8]) -> Result<(), CommandError> {
    // A reader such as `head` may have closed the pipe early.
    write(bytes).map(|_is_read| ())
}

/// Prints bytes unescaped, without a newline.
pub(crate) fn raw(bytes: &[u8]) -> Result<(), CommandError> {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(CommandError::internal)
}

/// Prints one of many lines. Returns `false` if stdout is closed.
pub(crate) fn try_line(text: &str) -> Result<bool, CommandError> {
    write(sanitize(text).as_bytes())
}

fn write(bytes: &[u8]) -> Result<bool, CommandError> {
    let mut out = io::stdout().lock();
    let written = out.write_all(bytes).and_then(|()| out.write_all(b"\n"));
    match written.and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(CommandError::internal(error)),
        Ok(()) => Ok(true),
    }
}

/// Redacts and escapes a text, and keeps only this program's own styles.
fn sanitize(text: &str) -> String {
    styled(&escape_controls(&redact(text)))
}

fn styled(text: &str) -> String {
    text.replace(STYLE.as_str(), "\u{1b}")
}

fn width_of(stream: &impl IsTerminal) -> Option<usize> {
    let said = || terminal_size().map(|(Width(width), _)| usize::from(width));
    stream.is_terminal().then(|| said().filter(|width| *width > 0).unwrap_or(WIDTH))
}

/// Wraps long lines between words. Continuation lines are indented to the text of the line, after
/// its label.
fn wrapped(text: &str, width: Option<usize>) -> String {
    let Some(width) = width.map(|width| width.max(MIN_WIDTH)) else { return text.to_owned() };
    let mut lines = Vec::new();
    for line in text.split('\n') {
        if display_width(line) <= width {
            lines.push(line.to_owned());
            continue;
        }
        let rest = line.trim_start_matches(' ');
        let indent = line.len() - rest.len();
        let hang = (indent + label(rest)).min(width / 2);
        let (first, other) = (" ".repeat(indent.min(width / 2)), " ".repeat(hang));
        let options = Options::new(width)
            .initial_indent(&first)
            .subsequent_indent(&other)
            .break_words(false)
            .word_separator(WordSeparator::AsciiSpace)
            .word_splitter(WordSplitter::NoHyphenation);
        lines.extend(textwrap::wrap(rest, options).into_iter().map(String::from));
    }
    lines.join("\n")
}

/// Returns the columns before the text of a line with a label: `hint: `, a bullet, or a word
/// followed by at least two spaces.
fn label(line: &str) -> usize {
    const WORDS: [&str; 4] = ["hint: ", "warning: ", "error: ", "- "];
    if let Some(word) = WORDS.iter().find(|word| line.starts_with(**word)) {
        return if *word == "hint: " || *word == "- " { word.len() } else { 2 };
    }
    let Some(gap) = line.find("  ").filter(|gap| *gap <= MAX_LABEL) else { return 0 };
    let text = line[gap..].trim_start_matches(' ');
    let column = line.len() - text.len();
    if line.is_char_boundary(column) { display_width(&line[..column]) } else { 0 }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Paint {
    is_on: bool,
}

impl Paint {
    /// Styles are off without a terminal, and with `NO_COLOR` or `TERM=dumb`.
    pub(crate) fn new() -> Self {
        let is_set = |name| ProcessEnv.get(name).is_some_and(|value| !value.is_empty());
        let is_dumb = ProcessEnv.get("TERM").is_none_or(|term| term == "dumb");
        let has_random = !STYLE.contains("0000000000000000");
        let is_plain = is_set("NO_COLOR") || is_dumb || !has_random;
        Self { is_on: io::stdout().is_terminal() && !is_plain }
    }

    pub(crate) fn heading(self, text: &str) -> String {
        self.with(Style::new().bold(), text)
    }

    pub(crate) fn faint(self, text: &str) -> String {
        self.with(Style::new().dimmed(), text)
    }

    pub(crate) fn sent(self, text: &str) -> String {
        self.with(AnsiColor::Cyan.on_default(), text)
    }

    pub(crate) fn received(self, text: &str) -> String {
        self.with(AnsiColor::Green.on_default(), text)
    }

    fn with(self, style: Style, text: &str) -> String {
        if !self.is_on {
            return text.to_owned();
        }
        let [begin, end] = [format!("{style}"), format!("{style:#}")]
            .map(|escape| escape.replace('\u{1b}', &STYLE));
        format!("{begin}{text}{end}")
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn keeps_own_styles_and_escapes_others() {
        let ours = Paint { is_on: true }.heading("a\u{1b}[1mb");
        assert_eq!(sanitize(&ours), "\u{1b}[1ma\\x1b[1mb\u{1b}[0m");
        assert_eq!(sanitize(&Paint { is_on: false }.heading("a")), "a");
    }

    #[test]
    fn wraps_between_words_and_under_the_text() {
        let text = "error: a long line of words that goes on and on\n  rule      the list of tools \
                    does not have it at all\n\nhint: write this and then that, and something else\n\
                    short";
        assert_eq!(
            wrapped(text, Some(40)),
            "error: a long line of words that goes on\n  and on\n  rule      the list of tools does \
             not\n            have it at all\n\nhint: write this and then that, and\n      something \
             else\nshort"
        );
        assert_eq!(wrapped(text, None), text);
    }

    #[test]
    fn breaks_no_word() {
        let path = "/".to_owned() + &"very-long-path/".repeat(10);
        assert_eq!(wrapped(&format!("see {path} there"), Some(40)), format!("see\n{path}\nthere"));
    }

    #[test]
    fn wrapped_lines_fit_the_terminal() {
        let text =
            "   some   words and ever more words, 你好 你好 in a line that has a lot of them";
        for width in [40, 41, 60, 79] {
            let lines = wrapped(text, Some(width));
            assert!(lines.lines().all(|line| display_width(line) <= width), "{lines}");
        }
    }
}
