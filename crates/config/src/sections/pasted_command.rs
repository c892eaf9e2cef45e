//! Commands as people paste them: a whole command line in one string, and wrappers of Windows.

use crate::syntax::reader::{ConfigReader, Located};
use mcp_workbench_os::Platform;

/// Splits a command line that is written as one string, and on other systems than Windows removes
/// `cmd /c` and `.cmd`. Reports a warning for each change.
pub fn normalize(
    command: Option<&mut Located<Vec<String>>>,
    args: &mut Option<Vec<Located<String>>>,
    reader: &mut ConfigReader<'_>,
) {
    let Some(command) = command else { return };
    if let [line] = command.value.as_slice()
        && let Some(words) = split_line(line)
    {
        let message = "a command line in one piece; split at its spaces";
        let hint = format!("write `{}` and move the rest to `args`", words[0]);
        reader.report_warning(&command.location, message, Some(hint));
        command.value = words;
    }
    if Platform::THIS == Platform::Windows {
        return;
    }
    let later = args.iter().flatten().map(|arg| &arg.value);
    let words: Vec<&str> = command.value.iter().chain(later).map(String::as_str).collect();
    if let Some(wrapped) = without_shell(&words) {
        let message = "`cmd /c` exists only on Windows; running the program without `cmd`";
        reader.report_warning(&command.location, message, None);
        command.value = wrapped;
        *args = None;
    }
    if let Some(program) = command.value.first_mut()
        && let Some(plain) = without_script_suffix(program)
    {
        let message = format!("`{program}` exists only on Windows; running `{plain}`");
        reader.report_warning(&command.location, message, None);
        *program = plain;
    }
}

/// Programs whose arguments often end up in the same string.
const RUNNERS: &[&str] = &[
    "bun", "bunx", "cmd", "deno", "docker", "node", "npm", "npx", "pipx", "pnpm", "podman",
    "python", "python3", "uv", "uvx", "yarn",
];

/// Returns the words of a command line, or `None` if the text can be the path of a program with
/// spaces in its name.
fn split_line(line: &str) -> Option<Vec<String>> {
    let line = line.trim();
    let (first, _) = line.split_once(char::is_whitespace)?;
    let mut later = line.split_whitespace().skip(1);
    let is_argument = |word: &str| word.starts_with(['-', '/', '@', '"', '\'']);
    let name = first.rsplit(['/', '\\']).next().unwrap_or(first);
    let is_runner = RUNNERS.contains(&name.trim_end_matches(".cmd").trim_end_matches(".exe"));
    if !is_runner && !later.any(is_argument) {
        return None;
    }
    // A backslash separates folders on Windows, where shlex would drop it.
    let words = if line.contains('\\') { None } else { shlex::split(line) };
    let words = words.unwrap_or_else(|| line.split_whitespace().map(str::to_owned).collect());
    (words.len() > 1).then_some(words)
}

/// Returns the words after `cmd /c`. `cmd.exe` stays, because WSL can run it.
fn without_shell(words: &[&str]) -> Option<Vec<String>> {
    let (program, rest) = words.split_first()?;
    if !program.eq_ignore_ascii_case("cmd") {
        return None;
    }
    let options = rest.iter().take_while(|word| word.starts_with('/')).count();
    let (options, rest) = rest.split_at(options);
    let runs = options.last().is_some_and(|last| last.eq_ignore_ascii_case("/c"));
    let words: Vec<String> = match rest {
        [line] => split_line(line).unwrap_or_else(|| vec![(*line).to_owned()]),
        rest => rest.iter().map(|word| (*word).to_owned()).collect(),
    };
    (runs && !words.is_empty()).then_some(words)
}

/// Returns the name without `.cmd` or `.bat`, unless it is a path.
fn without_script_suffix(program: &str) -> Option<String> {
    let (plain, ending) = program.split_at_checked(program.len().checked_sub(4)?)?;
    let is_script = [".cmd", ".bat"].iter().any(|script| ending.eq_ignore_ascii_case(script));
    let is_name = !plain.is_empty() && !program.contains(['/', '\\']);
    (is_script && is_name).then(|| plain.to_owned())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn command_lines_are_split_and_paths_with_spaces_are_not() {
        for (line, words) in [
            ("npx -y x", Some(&["npx", "-y", "x"][..])),
            ("npx @acme/notes", Some(&["npx", "@acme/notes"])),
            (
                "uvx mcp-server-git --repository '/my repo'",
                Some(&["uvx", "mcp-server-git", "--repository", "/my repo"]),
            ),
            ("/usr/bin/python3 /srv/s.py", Some(&["/usr/bin/python3", "/srv/s.py"])),
            (" my-server --stdio ", Some(&["my-server", "--stdio"])),
            ("docker run -i x", Some(&["docker", "run", "-i", "x"])),
            ("node C:\\tools\\s.js", Some(&["node", "C:\\tools\\s.js"])),
            ("npx -y \"x", Some(&["npx", "-y", "\"x"])),
            ("npx", None),
            ("my server", None),
            ("/opt/my app/server", None),
            ("C:\\Program Files\\nodejs\\node.exe", None),
            ("./my tools/run.sh", None),
            ("", None),
        ] {
            let found = split_line(line);
            let words = words.map(|words| words.iter().map(|word| (*word).to_owned()).collect());
            assert_eq!(found, words, "{line}");
        }
    }

    #[test]
    fn wrappers_of_windows_are_removed() {
        for (words, wanted) in [
            (&["cmd", "/c", "npx", "-y", "x"][..], Some(&["npx", "-y", "x"][..])),
            (&["CMD", "/d", "/s", "/C", "npx -y x"], Some(&["npx", "-y", "x"])),
            (&["cmd", "/k", "npx"], None),
            (&["cmd", "/c"], None),
            (&["cmd.exe", "/c", "npx"], None),
            (&["npx", "/c", "x"], None),
        ] {
            let wanted = wanted.map(|words| words.iter().map(|word| (*word).to_owned()).collect());
            assert_eq!(without_shell(words), wanted, "{words:?}");
        }
        for (program, wanted) in [
            ("npx.cmd", Some("npx")),
            ("uvx.BAT", Some("uvx")),
            ("node.exe", None),
            ("./run.cmd", None),
            (".cmd", None),
            ("é.c", None),
        ] {
            assert_eq!(without_script_suffix(program).as_deref(), wanted, "{program}");
        }
    }
}
