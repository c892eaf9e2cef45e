//! The help texts, and the pages generated from them.

use pretty_assertions::assert_eq;

use crate::support::{TestEnvironment, expect_page};

/// All commands and subcommands; the empty string is the program itself.
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

// invariant: conventions-hold
#[test]
fn every_command_has_help() {
    let bench = TestEnvironment::new();
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
    let output = TestEnvironment::new().run_bare(["-h"]);
    assert!(output.stdout.lines().count() <= 24, "{}", output.stdout);
    insta::assert_snapshot!(output.stdout);
}

fn commands() -> Vec<String> {
    let snapshot = TestEnvironment::new().run_bare(["--help"]).stdout;
    let listed = snapshot.lines().take_while(|line| *line != "Options:");
    let names = listed.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

#[test]
fn help_fits_80_columns_and_short_help_24_lines() {
    let bench = TestEnvironment::new();
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
fn schema_matches_the_file() {
    let output = TestEnvironment::new().run_bare(["schema"]);
    assert_eq!(output.code, Some(0));
    assert_eq!(output.stdout, include_str!("../../schemas/workbench-config.schema.json"));
}

#[test]
fn prints_bash_completions() {
    let output = TestEnvironment::new().run_bare(["completions", "bash"]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
    assert!(output.stdout.contains("_clap_complete_mcp_workbench"), "{}", output.stdout);
}

#[test]
fn unknown_command_is_a_usage_error() {
    let output = TestEnvironment::new().run_bare(["chek"]);
    assert_eq!(output.code, Some(2));
    insta::assert_snapshot!(output.stderr);
}

#[test]
fn commands_page_matches_the_help() {
    let bench = TestEnvironment::new();
    let mut page = vec![String::from(
        "# Commands\n\nWhat `mcp-workbench help COMMAND` prints. Exit codes are 0 for done, 1 when what was asked for failed,\n\
         and 2 for wrong usage or a configuration that cannot be used.\n",
    )];
    for command in COMMANDS {
        let help = bench.run_bare(command.split_whitespace().chain(["--help"])).stdout;
        // The global options appear only in the section of the program itself.
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
