//! Checks that the program accepts every command line in the documentation.

use pretty_assertions::assert_eq;

use crate::support::TestEnvironment;
use crate::tidy::documents::{fences, pages};

/// Returns the arguments of each invocation of the program in a block: by name, through `npx`, or
/// after another command's `--`. Stops at pipes, redirections and the program's own `--`.
fn invocations(block: &str) -> Vec<Vec<String>> {
    let block = block.replace("\\\n", " ");
    // A line with an unclosed quote isn't an invocation of the program.
    let lines = block.lines().filter_map(|line| shlex::split(line.trim_start_matches("$ ")));
    let arguments = lines.filter_map(|words| {
        let place = words.iter().position(|word| word == "mcp-workbench")?;
        let is_invoked = match words[..place].last() {
            Some(before) => matches!(before.as_str(), "npx" | "--"),
            None => true,
        };
        let is_argument = |word: &&String| !matches!(word.as_str(), "|" | ">" | ">>" | "&&" | "--");
        let rest = words[place + 1..].iter().take_while(is_argument).cloned();
        is_invoked.then(|| rest.collect())
    });
    arguments.collect()
}

/// Returns the program's error about its arguments, if any. `--help` prevents the command from
/// running.
fn argument_error(bench: &TestEnvironment, arguments: &[String]) -> Option<String> {
    let arguments_with_help = arguments.iter().map(String::as_str).chain(["--help"]);
    let output = bench.run_bare(arguments_with_help);
    (output.code != Some(0)).then(|| format!("{arguments:?}: {output}"))
}

#[test]
fn invocations_are_parsed_and_checked() {
    let block = "$ mcp-workbench list --json | jq . # all\nnpm i -g mcp-workbench\nnpx mcp-workbench demo\n\
                 claude mcp add x -- mcp-workbench \\\n  --config a\nmcp-workbench add m -- npx -y m\n";
    let expected = [vec!["list", "--json"], vec!["demo"], vec!["--config", "a"], vec!["add", "m"]];
    assert_eq!(invocations(block), expected);
    let bench = TestEnvironment::new();
    for bad in [&["lst"][..], &["list", "--jsno"], &["setup", "redo"]] {
        let bad: Vec<_> = bad.iter().map(|word| (*word).to_owned()).collect();
        assert!(argument_error(&bench, &bad).is_some(), "{bad:?}");
    }
}

#[test]
fn documented_commands_are_valid() {
    let bench = TestEnvironment::new();
    let pages = pages();
    let blocks = pages.iter().flat_map(|page| {
        let languages = ["sh", "console"].into_iter();
        languages.flat_map(|language| fences(&page.text, language))
    });
    let shown: Vec<_> = blocks.flat_map(invocations).collect();
    assert!(shown.len() > 40, "{shown:?}");
    let errors: Vec<_> =
        shown.iter().filter_map(|arguments| argument_error(&bench, arguments)).collect();
    assert_eq!(errors, [""; 0]);
}
