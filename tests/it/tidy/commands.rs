//! Command lines that the documentation shows, against the program.

use pretty_assertions::assert_eq;

use crate::support::Bench;
use crate::tidy::documents::{fences, pages};

/// The arguments in each line of a block that starts the program: by its name, through `npx`, or as
/// what another command is given after `--`. What a shell does with it is left out, and so is what it
/// is to start itself.
fn started(block: &str) -> Vec<Vec<String>> {
    let block = block.replace("\\\n", " ");
    // A text over several lines is no command of ours.
    let lines = block.lines().filter_map(|line| shlex::split(line.trim_start_matches("$ ")));
    let arguments = lines.filter_map(|words| {
        let place = words.iter().position(|word| word == "mcp-workbench")?;
        let is_started = match words[..place].last() {
            Some(before) => matches!(before.as_str(), "npx" | "--"),
            None => true,
        };
        let is_further = |word: &&String| !matches!(word.as_str(), "|" | ">" | ">>" | "&&" | "--");
        let rest = words[place + 1..].iter().take_while(is_further).cloned();
        is_started.then(|| rest.collect())
    });
    arguments.collect()
}

/// The errors of the program about its arguments, without doing what they say.
fn faults(bench: &Bench, arguments: &[String]) -> Option<String> {
    let asked = arguments.iter().map(String::as_str).chain(["--help"]);
    let output = bench.run_bare(asked);
    (output.code != Some(0)).then(|| format!("{arguments:?}: {output}"))
}

#[test]
fn command_lines_are_read_as_they_are_meant() {
    let block = "$ mcp-workbench list --json | jq . # all\nnpm i -g mcp-workbench\nnpx mcp-workbench demo\n\
                 claude mcp add x -- mcp-workbench \\\n  --config a\nmcp-workbench add m -- npx -y m\n";
    let expected = [vec!["list", "--json"], vec!["demo"], vec!["--config", "a"], vec!["add", "m"]];
    assert_eq!(started(block), expected);
    let bench = Bench::new();
    for bad in [&["lst"][..], &["list", "--jsno"], &["setup", "redo"]] {
        let bad: Vec<_> = bad.iter().map(|word| (*word).to_owned()).collect();
        assert!(faults(&bench, &bad).is_some(), "{bad:?}");
    }
}

#[test]
fn every_command_that_we_show_is_one() {
    let bench = Bench::new();
    let pages = pages();
    let blocks = pages.iter().flat_map(|page| {
        let languages = ["sh", "console"].into_iter();
        languages.flat_map(|language| fences(&page.text, language))
    });
    let shown: Vec<_> = blocks.flat_map(started).collect();
    assert!(shown.len() > 40, "{shown:?}");
    let faults: Vec<_> = shown.iter().filter_map(|own| faults(&bench, own)).collect();
    assert_eq!(faults, [""; 0]);
}
