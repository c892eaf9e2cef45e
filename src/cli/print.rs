//! Printing: data to standard output, everything else to standard error.
//!
//! All of it passes [`visible`], so that nothing of what servers and files say reaches a terminal as
//! a command to it, and is without the secrets of the configuration, unless it is one itself. Prose is wrapped to the width of a terminal; in a file or a pipe it stays as it
//! is.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::sync::LazyLock;

use clap::builder::styling::{AnsiColor, Style};
use serde::Serialize;
use terminal_size::{Width, terminal_size};
use textwrap::core::display_width;
use textwrap::{Options, WordSeparator, WordSplitter};

use crate::cli::error::Error;
use crate::cli::hidden::without_secrets;
use crate::cli::visible::{visible, visible_json};
use crate::config::env::{EnvSource, ProcessEnv};

pub(crate) use crate::cli::visible::printable;

/// How wide a terminal is that does not say so.
const WIDTH: usize = 80;
/// The narrowest terminal that text is wrapped for.
const MIN_WIDTH: usize = 40;
/// A label stands in so many columns at most.
const MAX_LABEL: usize = 20;

/// Stands for the escape of a style of ours until the text is printed. It has a random number in it,
/// so that nobody else can write it.
static STYLE: LazyLock<String> = LazyLock::new(|| {
    let mut random = [0; 8];
    // Without random numbers nothing is painted (see `Paint::new`).
    let _ = getrandom::fill(&mut random);
    format!("<style {:016x}>", u64::from_ne_bytes(random))
});

/// Says why the command failed.
pub(crate) fn error(error: &impl Display) {
    note(error);
}

/// Says something beside the data.
pub(crate) fn note(text: &impl Display) {
    let text = wrapped(&shown(&text.to_string()), width_of(&io::stderr()));
    // There is nowhere left to say that standard error is closed.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Prints data, and a line break after it.
pub(crate) fn data(text: &impl Display) -> Result<(), Error> {
    bytes(shown(&text.to_string()).as_bytes())
}

/// Prints a text for people, and a line break after it.
pub(crate) fn prose(text: &impl Display) -> Result<(), Error> {
    bytes(wrapped(&shown(&text.to_string()), width_of(&io::stdout())).as_bytes())
}

/// Prints a value as JSON.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Error> {
    let text = serde_json::to_string_pretty(value).map_err(Error::internal)?;
    bytes(visible_json(&without_secrets(&text)).as_bytes())
}

/// Prints a value that has a configuration in it as JSON, with what is secret in that.
pub(crate) fn json_of_config(value: &impl Serialize) -> Result<(), Error> {
    let text = serde_json::to_string_pretty(value).map_err(Error::internal)?;
    bytes(visible_json(&text).as_bytes())
}

/// Prints the text of a configuration, with what is secret in it, and a line break after it.
pub(crate) fn config(text: &impl Display) -> Result<(), Error> {
    bytes(styled(&visible(&text.to_string())).as_bytes())
}

/// Prints a JSON text as it is spelled, and a line break after it.
pub(crate) fn json_text(json: &[u8]) -> Result<(), Error> {
    match str::from_utf8(json) {
        Ok(json) => bytes(visible_json(&without_secrets(json)).as_bytes()),
        Err(_) => data(&String::from_utf8_lossy(json)),
    }
}

/// Prints bytes as they are, and a line break after them: what is ours, or what somebody wants so
/// after [`without_secrets`].
pub(crate) fn bytes(bytes: &[u8]) -> Result<(), Error> {
    // Whoever reads has seen enough, such as `head`.
    write(bytes).map(|_is_read| ())
}

/// Prints bytes as they are, and nothing else.
pub(crate) fn raw(bytes: &[u8]) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(Error::internal)
}

/// Prints one of many lines; says whether anybody still reads.
pub(crate) fn line(text: &str) -> Result<bool, Error> {
    write(shown(text).as_bytes())
}

fn write(bytes: &[u8]) -> Result<bool, Error> {
    let mut out = io::stdout().lock();
    let written = out.write_all(bytes).and_then(|()| out.write_all(b"\n"));
    match written.and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Error::internal(error)),
        Ok(()) => Ok(true),
    }
}

/// The text with styles of ours, and no others.
fn shown(text: &str) -> String {
    styled(&visible(&without_secrets(text)))
}

fn styled(text: &str) -> String {
    text.replace(STYLE.as_str(), "\u{1b}")
}

/// How wide lines may be; `None`: as wide as they are.
fn width_of(stream: &impl IsTerminal) -> Option<usize> {
    let said = || terminal_size().map(|(Width(width), _)| usize::from(width));
    stream.is_terminal().then(|| said().filter(|width| *width > 0).unwrap_or(WIDTH))
}

/// The text with every line that is too long broken between words. What follows stands under the
/// text of the line: behind its label, where it has one.
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

/// How many columns come before the text that a line has behind a label, such as `hint: ` or a word
/// and the spaces that set it apart.
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

/// Colors, where they are welcome.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paint {
    is_on: bool,
}

impl Paint {
    /// Paints on a terminal that nobody has asked to be plain (`NO_COLOR`).
    pub(crate) fn new() -> Self {
        let is_set = |name| ProcessEnv.get(name).is_some_and(|value| !value.is_empty());
        let is_dumb = ProcessEnv.get("TERM").is_none_or(|term| term == "dumb");
        let has_random = !STYLE.contains("0000000000000000");
        let is_plain = is_set("NO_COLOR") || is_dumb || !has_random;
        Self { is_on: io::stdout().is_terminal() && !is_plain }
    }

    /// A heading.
    pub(crate) fn heading(self, text: &str) -> String {
        self.with(Style::new().bold(), text)
    }

    /// Paints text that stands back.
    pub(crate) fn faint(self, text: &str) -> String {
        self.with(Style::new().dimmed(), text)
    }

    /// Paints text that goes out.
    pub(crate) fn sent(self, text: &str) -> String {
        self.with(AnsiColor::Cyan.on_default(), text)
    }

    /// Paints text that comes back.
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
    fn keeps_styles_of_ours_and_shows_those_of_others() {
        let ours = Paint { is_on: true }.heading("a\u{1b}[1mb");
        assert_eq!(shown(&ours), "\u{1b}[1ma\\x1b[1mb\u{1b}[0m");
        assert_eq!(shown(&Paint { is_on: false }.heading("a")), "a");
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
    fn no_line_is_wider_than_the_terminal_where_words_are_short() {
        let text =
            "   some   words and ever more words, 你好 你好 in a line that has a lot of them";
        for width in [40, 41, 60, 79] {
            let lines = wrapped(text, Some(width));
            assert!(lines.lines().all(|line| display_width(line) <= width), "{lines}");
        }
    }
}
