//! Asks for confirmation of a plan, and for the clients to set up.

use std::io::{self, BufRead, Write};

use crate::cli::onboarding::prompt::{confirm, line};
use crate::cli::onboarding::setup::plan::SetupPlan;
use crate::cli::onboarding::setup::state_dir;
use crate::cli::output::CommandError;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PlanDecision {
    Yes,
    No,
    /// Only for these client IDs.
    Only(Vec<String>),
}

pub(super) fn confirm_plan(plan: &SetupPlan) -> Result<PlanDecision, CommandError> {
    let mut clients: Vec<(&str, &str)> = Vec::new();
    for client in &plan.clients {
        let program = client.file.program;
        if client.new_text().is_some() && !clients.iter().any(|(id, _)| *id == program.id) {
            clients.push((program.id, program.title));
        }
    }
    answer(&clients, io::stdin().lock(), io::stderr().lock()).map_err(CommandError::internal)
}

/// Asks whether to turn on the audit log.
pub(super) fn confirm_audit() -> Result<bool, CommandError> {
    let file = state_dir::shown_audit_log()?;
    let question = format!("Record calls in `{file}`, for `mcp-workbench stats`?");
    confirm(&question, io::stdin().lock(), io::stderr().lock()).map_err(CommandError::internal)
}

fn answer(
    clients: &[(&str, &str)],
    mut input: impl BufRead,
    mut output: impl Write,
) -> io::Result<PlanDecision> {
    loop {
        write!(output, "\nApply these changes? [Y/n/c to choose clients] ")?;
        output.flush()?;
        let Some(line) = line(&mut input)? else { return Ok(PlanDecision::No) };
        match line.to_lowercase().as_str() {
            "" | "y" | "yes" => return Ok(PlanDecision::Yes),
            "n" | "no" | "q" => return Ok(PlanDecision::No),
            "c" => break,
            _ => writeln!(output, "Please answer y, n or c")?,
        }
    }
    let mut chosen = Vec::new();
    for (id, title) in clients {
        let is_chosen = loop {
            write!(output, "Set up {title}? [Y/n/q to quit] ")?;
            output.flush()?;
            let Some(line) = line(&mut input)? else { return Ok(PlanDecision::No) };
            match line.to_lowercase().as_str() {
                "" | "y" | "yes" => break true,
                "n" | "no" => break false,
                "q" => return Ok(PlanDecision::No),
                _ => writeln!(output, "Please answer y, n or q")?,
            }
        };
        if is_chosen {
            chosen.push((*id).to_owned());
        }
    }
    Ok(if chosen.is_empty() { PlanDecision::No } else { PlanDecision::Only(chosen) })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn parses_yes_no_and_a_choice_of_clients() {
        let clients = [("cursor", "Cursor"), ("codex", "Codex")];
        let only =
            |ids: &[&str]| PlanDecision::Only(ids.iter().map(|id| (*id).to_owned()).collect());
        for (typed, expected) in [
            ("\n", PlanDecision::Yes),
            ("what\nY\n", PlanDecision::Yes),
            ("n\n", PlanDecision::No),
            ("", PlanDecision::No),
            ("c\n\nn\n", only(&["cursor"])),
            ("c\ny\n\n", only(&["cursor", "codex"])),
            ("c\nn\nno\n", PlanDecision::No),
            ("c\n", PlanDecision::No),
            ("c\nmaybe\nn\ny\n", only(&["codex"])),
            ("c\nc\ny\nwhat\nN\n", only(&["cursor"])),
            ("c\ny\nq\n", PlanDecision::No),
            ("c\nmaybe\n", PlanDecision::No),
        ] {
            let found = answer(&clients, typed.as_bytes(), Vec::new()).unwrap();
            assert_eq!(found, expected, "{typed:?}");
        }
    }
}
