//! Prints the demo: steps, sent and received messages, wrapped to the width of a terminal.

use std::cell::Cell;
use std::sync::Arc;

use crate::cli::output::print::Paint;
use crate::cli::output::{Table, number, print};
use mcp_workbench_core::catalog::ToolDefinition;

/// Width of running text, in characters.
const WIDTH: usize = 80;
/// JSON also breaks at commas.
const JSON: &[char] = &[' ', ','];

pub(super) struct Transcript {
    paint: Paint,
    steps: Cell<usize>,
}

type Printed = Result<(), String>;

impl Transcript {
    pub(super) fn new() -> Self {
        Self { paint: Paint::new(), steps: Cell::new(0) }
    }

    pub(super) fn title(&self, title: &str, text: &str) -> Printed {
        say(&self.paint.heading(title))?;
        say("")?;
        say(&wrapped(text, ("", ""), &[' ']))
    }

    pub(super) fn step(&self, heading: &str) -> Printed {
        self.steps.set(self.steps.get() + 1);
        say("")?;
        say(&self.paint.heading(&format!("{}. {heading}", self.steps.get())))?;
        say("")
    }

    pub(super) fn sent(&self, text: &str) -> Printed {
        say(&self.paint.sent(&wrapped(text, ("  → ", "    "), JSON)))
    }

    pub(super) fn received(&self, text: &str) -> Printed {
        say(&self.paint.received(&wrapped(text, ("  ← ", "    "), JSON)))
    }

    pub(super) fn quote(&self, text: &str) -> Printed {
        let lines: Vec<_> = text
            .trim_end()
            .lines()
            .map(|line| wrapped(line, ("    │ ", "    │   "), JSON))
            .collect();
        say(&self.paint.faint(&lines.join("\n")))
    }

    pub(super) fn names(&self, tools: &[Arc<ToolDefinition>]) -> Printed {
        let longest = tools.iter().map(|tool| tool.name.len()).max().unwrap_or(0);
        let lines: Vec<_> = tools
            .iter()
            .map(|tool| {
                let bytes = number(tool.raw.len());
                format!("    │ {:longest$}  {bytes:>6} bytes", tool.name)
            })
            .collect();
        say(&self.paint.faint(&lines.join("\n")))
    }
}

pub(super) fn text(text: &str) -> Printed {
    say(&wrapped(text, ("", ""), &[' ']))?;
    say("")
}

pub(super) fn table(table: &Table) -> Printed {
    say(&table.to_string())?;
    say("")
}

fn say(text: &str) -> Printed {
    print::data(&text).map_err(|error| error.to_string())
}

/// Wraps after `breaks`, with the given margins before the first line and before the rest.
fn wrapped(text: &str, (first, rest): (&str, &str), breaks: &[char]) -> String {
    let mut lines = vec![first.to_owned()];
    let mut width = first.chars().count();
    let mut is_bare = true;
    for piece in text.split_inclusive(breaks) {
        if !is_bare && width + piece.trim_end().chars().count() > WIDTH {
            lines.push(rest.to_owned());
            width = rest.chars().count();
        }
        if let Some(line) = lines.last_mut() {
            line.push_str(piece);
        }
        width += piece.chars().count();
        is_bare = false;
    }
    let lines: Vec<_> = lines.iter().map(|line| line.trim_end()).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn wraps_at_spaces_and_commas() {
        let word = "x".repeat(50);
        assert_eq!(
            wrapped(&format!("{word} {word},{word}"), ("> ", "  "), JSON),
            format!("> {word}\n  {word},\n  {word}")
        );
        let long = "x".repeat(200);
        assert_eq!(wrapped(&long, ("> ", "  "), JSON), format!("> {long}"));
        assert_eq!(wrapped("", ("> ", "  "), JSON), ">");
    }
}
