//! What the program says of itself.

use pretty_assertions::assert_eq;

use crate::support::Bench;

#[test]
fn every_command_has_help() {
    let bench = Bench::new();
    let commands = [
        "",
        "serve",
        "check",
        "list",
        "search",
        "call",
        "run",
        "token",
        "explain",
        "policy",
        "policy diff",
        "catalog",
        "catalog init",
        "catalog check",
        "cache",
        "stats",
        "import",
        "tailor",
        "demo",
        "schema",
        "completions",
        "builtin",
    ];
    for command in commands {
        let args = command.split_whitespace().chain(["--help"]);
        let output = bench.run_bare(args);
        assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
        let name = if command.is_empty() { "program" } else { command };
        insta::assert_snapshot!(format!("help_{}", name.replace(' ', "_")), output.stdout);
    }
}

#[test]
fn short_help_fits_one_screen() {
    let output = Bench::new().run_bare(["-h"]);
    assert!(output.stdout.lines().count() <= 40, "{}", output.stdout);
    insta::assert_snapshot!(output.stdout);
}

#[test]
fn the_schema_is_the_one_in_the_file() {
    let output = Bench::new().run_bare(["schema"]);
    assert_eq!(output.code, Some(0));
    assert_eq!(output.stdout, include_str!("../../schemas/workbench-config.schema.json"));
}

#[test]
fn bash_completions_know_the_commands() {
    let output = Bench::new().run_bare(["completions", "bash"]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
    assert!(output.stdout.contains("complete -F _mcp__workbench"));
    for word in ["check", "--connect", "import", "--per-server", "demo"] {
        assert!(output.stdout.contains(word), "no `{word}`");
    }
}

#[test]
fn a_wrong_command_is_wrong_usage() {
    let output = Bench::new().run_bare(["chek"]);
    assert_eq!(output.code, Some(2));
    insta::assert_snapshot!(output.stderr);
}
