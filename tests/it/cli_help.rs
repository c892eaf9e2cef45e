//! The help that the program gives.

use pretty_assertions::assert_eq;

use crate::support::{Bench, expect_page};

/// All commands, and those of theirs; the first is the program itself.
const COMMANDS: &[&str] = &[
    "",
    "serve",
    "expose",
    "connect",
    "check",
    "list",
    "search",
    "call",
    "run",
    "token",
    "auth",
    "auth login",
    "auth logout",
    "auth status",
    "auth store",
    "explain",
    "lock",
    "policy",
    "policy diff",
    "catalog",
    "catalog init",
    "catalog check",
    "cache",
    "stats",
    "top",
    "ps",
    "page",
    "logs",
    "setup",
    "setup status",
    "setup undo",
    "import",
    "add",
    "remove",
    "tailor",
    "demo",
    "schema",
    "completions",
    "man",
    "builtin",
];

#[test]
fn every_command_has_help() {
    let bench = Bench::new();
    for command in COMMANDS {
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
    assert!(output.stdout.lines().count() <= 24, "{}", output.stdout);
    insta::assert_snapshot!(output.stdout);
}

/// The commands that `help` names, and those of theirs.
fn commands() -> Vec<String> {
    let snapshot = Bench::new().run_bare(["--help"]).stdout;
    let listed = snapshot.lines().take_while(|line| *line != "Options:");
    let names = listed.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

#[test]
fn help_is_no_wider_than_80_columns_and_the_short_one_fits_one_screen() {
    let bench = Bench::new();
    let commands = commands();
    assert!(commands.len() > 15, "{commands:?}");
    for command in commands.iter().map(String::as_str).chain([""]) {
        for flag in ["-h", "--help"] {
            let output = bench.run_bare(command.split_whitespace().chain([flag]));
            assert_eq!(output.code, Some(0), "{output}");
            let is_wide = |line: &&str| line.chars().count() > 80;
            let wide: Vec<_> = output.stdout.lines().filter(is_wide).collect();
            assert_eq!(wide, [""; 0], "{command} {flag}");
            let lines = output.stdout.lines().count();
            assert!(flag == "--help" || lines <= 24, "{command}: {lines} lines\n{output}");
        }
    }
}

#[test]
fn the_schema_is_the_one_in_the_file() {
    let output = Bench::new().run_bare(["schema"]);
    assert_eq!(output.code, Some(0));
    assert_eq!(output.stdout, include_str!("../../schemas/workbench-config.schema.json"));
}

#[test]
fn completions_are_printed_for_a_shell() {
    let output = Bench::new().run_bare(["completions", "bash"]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
    assert!(output.stdout.contains("_clap_complete_mcp_workbench"), "{}", output.stdout);
}

#[test]
fn a_wrong_command_is_wrong_usage() {
    let output = Bench::new().run_bare(["chek"]);
    assert_eq!(output.code, Some(2));
    insta::assert_snapshot!(output.stderr);
}

#[test]
fn the_page_of_commands_is_what_the_program_says() {
    let bench = Bench::new();
    let mut page = vec![String::from(
        "# Commands\n\nWhat `mcp-workbench help COMMAND` prints. Exit codes are 0 for done, 1 when what was asked for failed,\n\
         and 2 for wrong usage or a configuration that cannot be used.\n",
    )];
    for command in COMMANDS {
        let help = bench.run_bare(command.split_whitespace().chain(["--help"])).stdout;
        // What all commands have is said once, with the program.
        let own = help.split_once("\nGlobal options:\n");
        let own = own.map_or(help.clone(), |(before, after)| {
            let examples = after.split_once("\nExamples:\n");
            let examples = examples.map(|(_, text)| format!("\nExamples:\n{text}"));
            format!("{before}{}", examples.unwrap_or_default())
        });
        let title = if command.is_empty() { "mcp-workbench" } else { command };
        let lines: Vec<_> = own.trim_end().lines().map(str::trim_end).collect();
        page.push(format!("\n## {title}\n\n```text\n{}\n```\n", lines.join("\n")));
    }
    let page = page.concat();
    expect_page("docs/commands.md", &page);
}
