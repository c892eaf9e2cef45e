//! Asking whether a plan is to be carried out, and for which clients.

use std::io::{self, BufRead, Write};

use crate::cli::error::Error;
use crate::cli::import::ask::line;
use crate::cli::setup::plan::Plan;

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Yes,
    No,
    /// For these clients alone.
    Only(Vec<String>),
}

/// Asks.
pub(super) fn whether(plan: &Plan) -> Result<Answer, Error> {
    let mut clients: Vec<(&str, &str)> = Vec::new();
    for client in &plan.clients {
        let program = client.file.program;
        if client.new_text().is_some() && !clients.iter().any(|(id, _)| *id == program.id) {
            clients.push((program.id, program.title));
        }
    }
    answer(&clients, io::stdin().lock(), io::stderr().lock()).map_err(Error::internal)
}

fn answer(
    clients: &[(&str, &str)],
    mut input: impl BufRead,
    mut output: impl Write,
) -> io::Result<Answer> {
    loop {
        write!(output, "\nDo this? [Y/n, c to choose the clients] ")?;
        output.flush()?;
        let Some(line) = line(&mut input)? else { return Ok(Answer::No) };
        match line.to_lowercase().as_str() {
            "" | "y" | "yes" => return Ok(Answer::Yes),
            "n" | "no" | "q" => return Ok(Answer::No),
            "c" => break,
            _ => writeln!(output, "answer `y`, `n` or `c`")?,
        }
    }
    let mut chosen = Vec::new();
    for (id, title) in clients {
        write!(output, "{title}? [Y/n] ")?;
        output.flush()?;
        let Some(line) = line(&mut input)? else { return Ok(Answer::No) };
        if !matches!(line.to_lowercase().as_str(), "n" | "no") {
            chosen.push((*id).to_owned());
        }
    }
    Ok(if chosen.is_empty() { Answer::No } else { Answer::Only(chosen) })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn an_answer_is_yes_or_no_or_some_clients() {
        let clients = [("cursor", "Cursor"), ("codex", "Codex")];
        let only = |ids: &[&str]| Answer::Only(ids.iter().map(|id| (*id).to_owned()).collect());
        for (typed, expected) in [
            ("\n", Answer::Yes),
            ("what\nY\n", Answer::Yes),
            ("n\n", Answer::No),
            ("", Answer::No),
            ("c\n\nn\n", only(&["cursor"])),
            ("c\ny\n\n", only(&["cursor", "codex"])),
            ("c\nn\nno\n", Answer::No),
            ("c\n", Answer::No),
        ] {
            let found = answer(&clients, typed.as_bytes(), Vec::new()).unwrap();
            assert_eq!(found, expected, "{typed:?}");
        }
    }
}
