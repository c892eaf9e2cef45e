//! The help texts, and the pages generated from them.

use pretty_assertions::assert_eq;

use crate::support::{TestEnvironment, expect_page};

/// All commands and subcommands in the order of `--help`; the empty string is the program itself.
const COMMANDS: &[&str] = &[
    "",
    "serve",
    "expose",
    "connect",
    "reload",
    "list",
    "search",
    "call",
    "task",
    "skill",
    "setup",
    "setup status",
    "setup undo",
    "import",
    "demo",
    "add",
    "remove",
    "check",
    "catalog",
    "catalog init",
    "catalog check",
    "tailor",
    "schema",
    "top",
    "ps",
    "logs",
    "stats",
    "dashboard",
    "auth",
    "auth login",
    "auth logout",
    "auth status",
    "auth store",
    "token",
    "policy",
    "policy diff",
    "explain",
    "trust",
    "lock",
    "approvals",
    "approvals approve",
    "approvals deny",
    "approvals key",
    "cache",
    "cache list",
    "cache refresh",
    "cache clear",
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

/// Returns the commands that a help text lists, except `help`.
fn listed(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| !line.starts_with("Usage:"));
    let lines = lines.take_while(|line| *line != "Options:");
    let commands = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = commands.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

/// Returns the commands that `mcp-workbench --help` lists, each followed by its subcommands.
fn commands() -> Vec<String> {
    let bench = TestEnvironment::new();
    let help = |command: &str| bench.run_bare(command.split_whitespace().chain(["--help"])).stdout;
    let mut all = Vec::new();
    for command in listed(&help("")) {
        let text = help(&command);
        let has_subcommands = text.contains("\nCommands:\n");
        let subcommands = if has_subcommands { listed(&text) } else { Vec::new() };
        let subcommands: Vec<_> =
            subcommands.into_iter().map(|name| format!("{command} {name}")).collect();
        all.push(command);
        all.extend(subcommands);
    }
    all
}

#[test]
fn every_listed_command_is_tested() {
    assert_eq!(COMMANDS[0], "");
    assert_eq!(commands(), COMMANDS[1..]);
}

#[test]
fn help_fits_80_columns_and_short_help_24_lines() {
    let bench = TestEnvironment::new();
    for command in COMMANDS {
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
    let output = TestEnvironment::new().run_bare(["schema", "project"]);
    assert_eq!(output.stdout, include_str!("../../schemas/workbench-project.schema.json"));
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

fn usage_error(args: &[&str]) -> String {
    let output = TestEnvironment::new().run_bare(args.iter().copied());
    assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""), "{output}");
    output.stderr
}

#[test]
fn commands_of_other_programs_are_answered_with_suggestions() {
    for args in [&["run"][..], &["run", "list all notes"], &["help", "run"]] {
        let error = usage_error(args);
        let tips = "error: unrecognized subcommand 'run'\n\n  \
                    tip: to start the server, use 'serve'\n  \
                    tip: to run a task described in words, use 'task'\n";
        assert!(error.starts_with(tips), "{error}");
    }
    let suggestions: [(&[&str], &str); 7] = [
        (&["start", "--http", "127.0.0.1:0"], "use 'serve'"),
        (&["-c", "x.json", "doctor"], "use 'check --connect'"),
        (&["status"], "use 'setup status'"),
        (&["login", "hub"], "use 'auth login'"),
        (&["page"], "use 'dashboard'"),
        (&["uninstall"], "use 'setup undo'"),
        (&["ls"], "use 'list'"),
    ];
    for (args, tip) in suggestions {
        let error = usage_error(args);
        assert!(error.contains(tip), "{error}");
    }
    // A wrong subcommand is not a wrong command.
    assert!(!usage_error(&["cache", "ls"]).contains("use 'list'"));
}

#[test]
fn old_flags_are_answered_with_the_new_ones() {
    let suggestions: [(&[&str], &str); 5] = [
        (&["--mode", "direct", "serve"], "tip: '--mode' was replaced by '--tool-mode'"),
        (&["serve", "--mode=direct"], "tip: '--mode' was replaced by '--tool-mode'"),
        (&["auth", "login", "hub", "--for", "ann"], "tip: '--for' was replaced by '--agent'"),
        (
            &["serve", "--http", "127.0.0.1:0", "--grace", "10"],
            "tip: '--grace' was replaced by '--shutdown-timeout' with a unit, such as '10s'",
        ),
        (
            &["tailor", "--task", "x", "--service-type", "api"],
            "tip: '--service-type' was replaced by '--project-type'",
        ),
    ];
    for (args, tip) in suggestions {
        let error = usage_error(args);
        assert!(error.contains(tip), "{error}");
        assert_eq!(error.matches("tip:").count(), 1, "{error}");
    }
}

#[test]
fn renamed_environment_variables_are_errors() {
    let bench = TestEnvironment::new().env("MCP_WORKBENCH_AGENT", "ann");
    let output = bench.run_bare(["check"]);
    assert_eq!(output.code, Some(2), "{output}");
    assert!(output.stderr.contains("was renamed to `WORKBENCH_AGENT`"), "{output}");
}

#[test]
fn durations_need_a_unit() {
    let error = usage_error(&["serve", "--http", "127.0.0.1:0", "--shutdown-timeout", "30"]);
    assert!(error.contains("add a unit: `30s` for seconds"), "{error}");
    let error = usage_error(&["serve", "--http", "127.0.0.1:0", "--drain-delay", "2h"]);
    assert!(error.contains("expected at most 1h"), "{error}");
}

#[test]
fn commands_page_matches_the_help() {
    let bench = TestEnvironment::new();
    let mut page = vec![String::from(
        "# Commands\n\nThis page contains the output of `mcp-workbench help COMMAND` for every command. The exit code is 0 for\n\
         success, 1 if the command failed, and 2 for wrong usage or an invalid configuration.\n",
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

#[test]
fn named_file_is_served() {
    const TEXT: &str = r#"{"mcpServers": {"calc": {"command": "sh"}}}"#;
    // `chekc` is a file, too, but looks like a command.
    let bench = TestEnvironment::new().file("my.json", TEXT).file("chekc", TEXT);
    for args in [&["my.json"][..], &["./my.json"], &["serve", "my.json"], &["./chekc"]] {
        let output = bench.run_bare(args.iter().copied());
        assert_eq!(output.code, Some(0), "{output}");
        assert!(output.stderr.contains("using configuration"), "{output}");
    }
    let missing = bench.run_bare(["nope.json"]);
    assert_eq!(missing.code, Some(2), "{missing}");
    assert!(missing.stderr.contains("no configuration at `nope.json`"), "{missing}");
    let mistyped = bench.run_bare(["chekc"]);
    assert_eq!(mistyped.code, Some(2), "{mistyped}");
    assert!(mistyped.stderr.contains("'check'"), "{mistyped}");
}
