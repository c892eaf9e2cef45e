//! Printing: data to standard output, everything else to standard error.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use clap::builder::styling::{AnsiColor, Style};
use serde::Serialize;

use crate::cli::error::Error;
use crate::config::env::{EnvSource, ProcessEnv};

/// Says why the command failed.
pub(crate) fn error(error: &impl Display) {
    note(error);
}

/// Says something beside the data.
pub(crate) fn note(text: &impl Display) {
    // There is nowhere left to say that standard error is closed.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Prints data, and a line break after it.
pub(crate) fn data(text: &impl Display) -> Result<(), Error> {
    bytes(text.to_string().as_bytes())
}

/// Prints a value as JSON.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Error> {
    let text = serde_json::to_string_pretty(value).map_err(Error::internal)?;
    data(&text)
}

/// Prints data as it is, and a line break after it.
pub(crate) fn bytes(bytes: &[u8]) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    let written = out.write_all(bytes).and_then(|()| out.write_all(b"\n"));
    match written.and_then(|()| out.flush()) {
        // Whoever reads has seen enough, such as `head`.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Error::internal(error)),
        Ok(()) => Ok(()),
    }
}

/// What others have written, on one line and without what a terminal would obey.
pub(crate) fn printable(text: &str) -> String {
    text.replace(char::is_control, "�")
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
        Self { is_on: io::stdout().is_terminal() && !is_set("NO_COLOR") && !is_dumb }
    }

    /// A heading.
    pub(crate) fn heading(self, text: &str) -> String {
        self.with(Style::new().bold(), text)
    }

    /// What stands back.
    pub(crate) fn faint(self, text: &str) -> String {
        self.with(Style::new().dimmed(), text)
    }

    /// What goes out.
    pub(crate) fn sent(self, text: &str) -> String {
        self.with(AnsiColor::Cyan.on_default(), text)
    }

    /// What comes back.
    pub(crate) fn received(self, text: &str) -> String {
        self.with(AnsiColor::Green.on_default(), text)
    }

    fn with(self, style: Style, text: &str) -> String {
        if self.is_on { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_have_written_does_nothing_to_a_terminal() {
        assert_eq!(printable("a\u{1b}[2J\nb"), "a�[2J�b");
    }
}
