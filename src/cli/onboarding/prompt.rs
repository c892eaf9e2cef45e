//! Interactive confirmation of proposed toolboxes.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::Path;

use crate::cli::onboarding::proposal_report::proposal_table;
use crate::cli::onboarding::toolbox_proposal::ToolboxProposal;
use crate::cli::output::CommandError;

pub(crate) fn is_interactive() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

pub(crate) fn confirm_toolboxes(
    proposed: &mut [ToolboxProposal],
    file: &Path,
) -> Result<bool, CommandError> {
    let input = io::stdin().lock();
    let output = io::stderr().lock();
    answer(proposed, file, input, output).map_err(CommandError::internal)
}

/// Asks whether to write the lock file, which starts all servers again.
pub(crate) fn confirm_lock() -> Result<bool, CommandError> {
    let question = "Record their tool definitions in `workbench.lock` for review?";
    confirm(question, io::stdin().lock(), io::stderr().lock()).map_err(CommandError::internal)
}

/// Asks a question whose default answer is no.
pub(crate) fn confirm(
    question: &str,
    mut input: impl BufRead,
    mut output: impl Write,
) -> io::Result<bool> {
    loop {
        write!(output, "\n{question} [y/N] ")?;
        output.flush()?;
        let Some(line) = line(&mut input)? else { return Ok(false) };
        match line.to_lowercase().as_str() {
            "y" | "yes" => return Ok(true),
            "" | "n" | "no" | "q" => return Ok(false),
            _ => writeln!(output, "Please answer y or n")?,
        }
    }
}

fn answer(
    proposed: &mut [ToolboxProposal],
    file: &Path,
    mut input: impl BufRead,
    mut output: impl Write,
) -> io::Result<bool> {
    loop {
        write!(output, "\nWrite these toolboxes to `{}`? [Y/n/e to edit names] ", file.display())?;
        output.flush()?;
        let Some(line) = line(&mut input)? else { return Ok(false) };
        match line.to_lowercase().as_str() {
            "" | "y" | "yes" => return Ok(true),
            "n" | "no" | "q" => return Ok(false),
            "e" => {
                rename(proposed, &mut input, &mut output)?;
                writeln!(output, "\n{}", proposal_table(proposed))?;
            }
            _ => writeln!(output, "Please answer y, n or e")?,
        }
    }
}

/// Asks for a new name for each toolbox. An empty line keeps the current one.
fn rename(
    proposed: &mut [ToolboxProposal],
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> io::Result<()> {
    for index in 0..proposed.len() {
        loop {
            write!(output, "New name for `{}` [keep]: ", proposed[index].name)?;
            output.flush()?;
            let Some(name) = line(input)?.filter(|name| !name.is_empty()) else { break };
            let is_taken = proposed
                .iter()
                .enumerate()
                .any(|(place, other)| place != index && other.name == name);
            if is_taken {
                writeln!(output, "`{name}` is already taken")?;
            } else if name.chars().any(|c| c.is_control() || c.is_whitespace()) {
                writeln!(output, "names cannot contain spaces")?;
            } else {
                proposed[index].name = name;
                break;
            }
        }
    }
    Ok(())
}

/// Reads a trimmed line; `None` at the end of input.
pub(crate) fn line(input: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = String::new();
    let read = input.read_line(&mut line)?;
    Ok((read > 0).then(|| line.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn two() -> Vec<ToolboxProposal> {
        let proposed = |name: &str| ToolboxProposal {
            name: name.to_owned(),
            description: "d".to_owned(),
            servers: vec![(0, "s".to_owned())],
            tools: 1,
            bytes: 10,
        };
        vec![proposed("web"), proposed("data")]
    }

    fn answered(proposed: &mut [ToolboxProposal], typed: &str) -> (bool, String) {
        let mut output = Vec::new();
        let file = Path::new("my.json");
        let yes = answer(proposed, file, typed.as_bytes(), &mut output).unwrap();
        (yes, String::from_utf8(output).unwrap())
    }

    #[test]
    fn confirm_defaults_to_yes_and_treats_eof_as_no() {
        for (typed, expected) in
            [("\n", true), ("Y\n", true), ("no\n", false), ("", false), ("what\ny\n", true)]
        {
            assert_eq!(answered(&mut two(), typed).0, expected, "{typed:?}");
        }
    }

    #[test]
    fn lock_prompt_defaults_to_no() {
        for (typed, expected) in
            [("\n", false), ("y\n", true), ("what\nYES\n", true), ("n\n", false), ("", false)]
        {
            assert_eq!(
                confirm("Record them?", typed.as_bytes(), Vec::new()).unwrap(),
                expected,
                "{typed:?}"
            );
        }
    }

    #[test]
    fn toolboxes_can_be_renamed() {
        let mut proposed = two();
        let (yes, output) = answered(&mut proposed, "e\n\nweb\na b\nsql\ny\n");
        assert!(yes);
        assert_eq!([&*proposed[0].name, &*proposed[1].name], ["web", "sql"]);
        assert!(output.contains("`web` is already taken"), "{output}");
        assert!(output.contains("names cannot contain spaces"), "{output}");
    }
}
