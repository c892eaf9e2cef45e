//! Asking whether proposed toolboxes are to be written.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::Path;

use crate::cli::error::Error;
use crate::cli::import::proposal::Proposed;
use crate::cli::import::report;

/// Returns `true` if somebody is there who can be asked.
pub(in crate::cli) fn is_possible() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks whether the toolboxes are to be written to `file`; they may get other names before.
pub(super) fn whether(proposed: &mut [Proposed], file: &Path) -> Result<bool, Error> {
    let input = io::stdin().lock();
    let output = io::stderr().lock();
    answer(proposed, file, input, output).map_err(Error::internal)
}

/// Asks whether what the servers say is to be kept in a file to review; it starts them all again.
pub(in crate::cli) fn whether_to_lock() -> Result<bool, Error> {
    locks(io::stdin().lock(), io::stderr().lock()).map_err(Error::internal)
}

fn locks(mut input: impl BufRead, mut output: impl Write) -> io::Result<bool> {
    loop {
        write!(output, "\nKeep what these servers say in `workbench.lock`, to review it? [y/N] ")?;
        output.flush()?;
        let Some(line) = line(&mut input)? else { return Ok(false) };
        match line.to_lowercase().as_str() {
            "y" | "yes" => return Ok(true),
            "" | "n" | "no" | "q" => return Ok(false),
            _ => writeln!(output, "answer `y` or `n`")?,
        }
    }
}

fn answer(
    proposed: &mut [Proposed],
    file: &Path,
    mut input: impl BufRead,
    mut output: impl Write,
) -> io::Result<bool> {
    loop {
        write!(output, "\nWrite them to `{}`? [Y/n, e for other names] ", file.display())?;
        output.flush()?;
        let Some(line) = line(&mut input)? else { return Ok(false) };
        match line.to_lowercase().as_str() {
            "" | "y" | "yes" => return Ok(true),
            "n" | "no" | "q" => return Ok(false),
            "e" => {
                rename(proposed, &mut input, &mut output)?;
                writeln!(output, "\n{}", report::proposal(proposed))?;
            }
            _ => writeln!(output, "answer `y`, `n` or `e`")?,
        }
    }
}

/// Asks for another name for each toolbox; an empty line keeps the one that it has.
fn rename(
    proposed: &mut [Proposed],
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> io::Result<()> {
    for index in 0..proposed.len() {
        loop {
            write!(output, "name for `{}` [keep]: ", proposed[index].name)?;
            output.flush()?;
            let Some(name) = line(input)?.filter(|name| !name.is_empty()) else { break };
            let is_taken = proposed
                .iter()
                .enumerate()
                .any(|(place, other)| place != index && other.name == name);
            if is_taken {
                writeln!(output, "`{name}` is the name of another toolbox")?;
            } else if name.chars().any(|c| c.is_control() || c.is_whitespace()) {
                writeln!(output, "a name has no spaces in it")?;
            } else {
                proposed[index].name = name;
                break;
            }
        }
    }
    Ok(())
}

/// The next line without the space around it; `None` at the end.
pub(in crate::cli) fn line(input: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = String::new();
    let read = input.read_line(&mut line)?;
    Ok((read > 0).then(|| line.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn two() -> Vec<Proposed> {
        let proposed = |name: &str| Proposed {
            name: name.to_owned(),
            description: "d".to_owned(),
            servers: vec![(0, "s".to_owned())],
            tools: 1,
            bytes: 10,
        };
        vec![proposed("web"), proposed("data")]
    }

    fn answered(proposed: &mut [Proposed], typed: &str) -> (bool, String) {
        let mut output = Vec::new();
        let file = Path::new("my.json");
        let yes = answer(proposed, file, typed.as_bytes(), &mut output).unwrap();
        (yes, String::from_utf8(output).unwrap())
    }

    #[test]
    fn an_empty_line_means_yes_and_the_end_of_input_means_no() {
        for (typed, expected) in
            [("\n", true), ("Y\n", true), ("no\n", false), ("", false), ("what\ny\n", true)]
        {
            assert_eq!(answered(&mut two(), typed).0, expected, "{typed:?}");
        }
    }

    #[test]
    fn a_lock_is_written_for_nobody_who_does_not_say_so() {
        for (typed, expected) in
            [("\n", false), ("y\n", true), ("what\nYES\n", true), ("n\n", false), ("", false)]
        {
            assert_eq!(locks(typed.as_bytes(), Vec::new()).unwrap(), expected, "{typed:?}");
        }
    }

    #[test]
    fn toolboxes_get_the_names_that_are_typed() {
        let mut proposed = two();
        let (yes, output) = answered(&mut proposed, "e\n\nweb\na b\nsql\ny\n");
        assert!(yes);
        assert_eq!([&*proposed[0].name, &*proposed[1].name], ["web", "sql"]);
        assert!(output.contains("`web` is the name of another toolbox"), "{output}");
        assert!(output.contains("a name has no spaces in it"), "{output}");
    }
}
