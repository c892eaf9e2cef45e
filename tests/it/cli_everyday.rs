//! Commands that users run every day, with the words and mistakes that they make.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::{TestEnvironment, fake};

fn clock() -> TestEnvironment {
    let program = env!("CARGO_BIN_EXE_mcp-workbench");
    let entry = json!({ "command": program, "args": ["builtin", "clock"] });
    TestEnvironment::new().server("desk", "clock", entry)
}

fn restricted() -> TestEnvironment {
    TestEnvironment::new()
        .server("files", "fs", fake(json!({ "tools": ["read_file", "write_file"] })))
        .set(
            "agentPolicies",
            json!({
                "reader": { "toolOverrides": { "fs": ["read_file"] } },
                "writer": { "toolOverrides": { "fs": ["*"] } },
            }),
        )
        .set("defaultPolicy", json!({ "allowUnknownServers": true }))
}

#[test]
fn task_calls_the_only_tool_that_needs_no_more_arguments() {
    let bench = clock();
    for task in ["what time is it", "tell me the time"] {
        let output = bench.run(["task", task]);
        assert_eq!(output.code, Some(0), "{task}: {output}");
        assert!(output.stdout.contains("\"weekday\""), "{task}: {output}");
    }
    let output = bench.run(["task", "what time is it", "offset=+02:00"]);
    assert!(output.stdout.contains("+02:00"), "{output}");
    // A value in the task isn't ignored.
    let output = bench.run(["task", "what time is it at 17:00 in tokyo"]);
    assert_eq!(output.code, Some(1), "{output}");
}

#[test]
fn task_without_a_match_names_the_tools() {
    let output = clock().run(["task", "xyzzy"]);
    assert!(
        output.stderr.starts_with("error: no tool") || output.stderr.contains("\nerror: no tool")
    );
    assert!(!output.stderr.contains("no_matching_tool"), "{output}");
    assert!(output.stderr.contains("desk (clock.now, clock.elapsed)"), "{output}");
}

#[test]
fn explain_needs_no_agent() {
    let bench = restricted();
    assert_eq!(bench.run(["cache", "refresh"]).code, Some(0));
    let spellings: [&[&str]; 4] = [
        &["fs:read_file"],
        &["files/fs/read_file"],
        &["fs", "read_file"],
        &["files__fs__read_file"],
    ];
    for words in spellings {
        let output = bench.run(["explain"].iter().chain(words).copied());
        let all = ["to agent `reader`", "to agent `writer`", "from unnamed agents"];
        assert!(all.iter().all(|who| output.stdout.contains(who)), "{words:?}: {output}");
    }
    for words in [&["reader", "fs:read_file"][..], &["reader", "files", "fs", "read_file"]] {
        let output = bench.run(["explain"].iter().chain(words).copied());
        assert!(output.stdout.contains("to agent `reader`"), "{words:?}: {output}");
        assert!(!output.stdout.contains("writer"), "{words:?}: {output}");
    }
    let plain = clock();
    let output = plain.run(["explain", "clock:now"]);
    assert!(output.stdout.contains("`now` of `desk/clock` is available to unnamed"), "{output}");
}

#[test]
fn explain_reports_an_unknown_tool_first() {
    let bench = restricted();
    assert_eq!(bench.run(["cache", "refresh"]).code, Some(0));
    let output = bench.run(["explain", "reader", "fs:raed_file"]);
    let first = output.stdout.lines().next().unwrap_or_default();
    assert_eq!(
        first,
        "no tool `raed_file` is known of `files/fs` (did you mean `read_file`?); if there were one:"
    );
    assert!(output.stdout.contains("is hidden from agent `reader`"), "{output}");
    let output = bench.run(["explain", "fs"]);
    assert!(output.stderr.contains("name a tool of `fs`"), "{output}");
}

#[test]
fn misspelled_agent_is_a_warning_in_every_command() {
    let bench = restricted();
    assert_eq!(bench.run(["cache", "refresh"]).code, Some(0));
    let warning =
        "agent `raeder` has no policy, so the default rules apply; did you mean `reader`?";
    let commands: [&[&str]; 5] = [
        &["list", "--agent", "raeder"],
        &["search", "read file", "--agent", "raeder"],
        &["call", "fs:read_file", "--agent", "raeder"],
        &["explain", "fs:read_file", "--agent", "raeder"],
        &["explain", "raeder", "fs:read_file"],
    ];
    for words in commands {
        let output = bench.run(words.iter().copied());
        assert_eq!(output.stderr.matches(warning).count(), 1, "{words:?}: {output}");
    }
    let output = bench.run(["list", "--agent", "raeder"]);
    assert!(output.stderr.contains("agent `raeder` can't use any tool"), "{output}");
    let output = bench.run(["list", "--agent", "reader"]);
    assert!(!output.stderr.contains("has no policy"), "{output}");
}

#[test]
fn bare_catalog_check_finds_the_generated_folder() {
    let bench = clock();
    let folder = bench.path_text("catalog");
    assert_eq!(bench.run(["catalog", "init", &folder]).code, Some(0));
    let output = bench.run_bare(["catalog", "check"]);
    assert_eq!(output.code, Some(0), "{output}");
    assert!(output.stdout.contains("the catalog matches its servers"), "{output}");
    assert_eq!(bench.run(["catalog", "init", &bench.path_text("other")]).code, Some(0));
    let output = bench.run_bare(["catalog", "check"]);
    assert_eq!(output.code, Some(2), "{output}");
    assert!(output.stderr.contains("name one of `catalog`, `other`"), "{output}");
}

#[test]
fn stats_of_another_file_is_an_error() {
    let bench = clock().file("notes.txt", "hello\nworld\n").file("other.jsonl", "{\"a\": 1}\n");
    for name in ["notes.txt", "other.jsonl"] {
        let output = bench.run(["stats", &bench.path_text(name)]);
        assert_eq!(output.code, Some(1), "{output}");
        assert!(output.stderr.contains("isn't an audit log"), "{output}");
    }
    let empty = bench.file("empty.jsonl", "");
    assert_eq!(empty.run(["stats", &empty.path_text("empty.jsonl")]).code, Some(0));
}

#[test]
fn call_without_a_terminal_says_how_to_confirm() {
    let bench = clock()
        .set("dangerousTools", json!(["now"]))
        .set("requireConfirmation", json!(["dangerousTools"]));
    let output = bench.run(["call", "clock:now"]);
    assert_eq!(output.code, Some(1), "{output}");
    assert!(output.stderr.contains("run `mcp-workbench call` in a terminal"), "{output}");
    assert!(!output.stderr.contains("elicitation"), "{output}");
}

#[test]
fn common_mistakes_get_hints() {
    let bench = clock();
    let output = bench.run(["call", "clock:now", "--offset", "+02:00"]);
    assert!(output.stderr.contains("to pass it to the tool, use 'offset=+02:00'"), "{output}");
    let output = bench.run(["check", "clock"]);
    assert!(output.stderr.contains("use 'check --connect clock'"), "{output}");
}

#[test]
fn check_of_one_server_counts_all() {
    let bench = clock().server("desk", "a", fake(json!({ "tools": ["x"] }))).server(
        "desk",
        "b",
        fake(json!({ "tools": ["y"] })),
    );
    let output = bench.run(["check", "--connect", "clock"]);
    assert_eq!(output.code, Some(0), "{output}");
    assert!(output.stdout.contains("tested 1 of 3 servers"), "{output}");
}

#[test]
fn failed_servers_are_one_line_each() {
    let bench = clock().server("desk", "broken", json!({ "command": "no-such-program" }));
    for words in [&["list"][..], &["search", "time"], &["search", "xyzzy"]] {
        let output = bench.run(words.iter().copied());
        let about: Vec<_> =
            output.stderr.lines().filter(|line| line.contains("desk/broken")).collect();
        assert_eq!(about.len(), 2, "{output}");
        assert!(about[0].starts_with("warning: `desk/broken` failed to start: "), "{output}");
        assert!(about[1].contains("`mcp-workbench check --connect desk/broken`"), "{output}");
    }
    let output = bench.run(["list", "--json"]);
    let listed: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(listed["failed"][0]["server"], "broken");
}

#[cfg(unix)]
#[test]
fn program_that_echoes_its_input_is_not_an_mcp_server() {
    let bench = TestEnvironment::new().server("desk", "echo", json!({ "command": "cat" }));
    let output = bench.run(["check", "--connect"]);
    assert_eq!(output.code, Some(1), "{output}");
    assert!(output.stdout.contains("not an MCP server: it sends back its input"), "{output}");
}
