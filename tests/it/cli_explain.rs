//! `explain`, and `check` and `list` with `--agent`.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::{TestEnvironment, fake};

fn bench() -> TestEnvironment {
    let delete = json!({
        "name": "delete_repository",
        "inputSchema": { "type": "object" },
        "annotations": { "destructiveHint": true },
    });
    let mut github = fake(json!({ "tools": ["get_file", "create_issue", delete] }));
    github["toolFilters"] = json!(["!create_*"]);
    TestEnvironment::new()
        .server("dev", "github", github)
        .server("dev", "files", fake(json!({ "tools": ["read_file", "write_file"] })))
        .server("web", "search", fake(json!({ "tools": ["search"] })))
        .set("agentPolicies", json!({
            "reader": { "allowedServers": ["files", "github"], "toolOverrides": { "files": ["read_*"] } },
            "writer": {
                "extends": "reader",
                "toolOverrides": { "files": ["*"] },
                "when": [
                    { "tools": ["write_*"], "arguments": { "/path": { "matches": "^/workspace/" } } },
                    { "tools": ["write_*"], "time": { "days": [] } },
                ],
            },
        }))
        .set("exposedTools", json!({ "github": ["get_*", "create_*", "delete_*"] }))
        .set("dangerousTools", json!(["destructiveHint"]))
}

fn explained(bench: &TestEnvironment, cases: &[[&str; 3]]) -> String {
    let refreshed = bench.run(["cache", "refresh"]);
    assert_eq!(refreshed.code, Some(0), "{}", refreshed.stderr);
    let explained = cases.iter().map(|[agent, server, tool]| {
        let output = bench.run(["explain", agent, server, tool]);
        assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
        output.stdout
    });
    explained.collect::<Vec<_>>().join("\n")
}

#[test]
fn explains_the_deciding_rule_and_the_needed_change() {
    let bench = bench();
    let text = explained(
        &bench,
        &[
            ["reader", "files", "read_file"],
            ["reader", "files", "write_file"],
            ["reader", "search", "search"],
            ["reader", "github", "create_issue"],
            ["writer", "dev/files", "write_file"],
            ["writer", "github", "delete_repository"],
            ["-", "search", "search"],
            ["nobody", "github", "get_file"],
        ],
    );
    bench.settings().bind(|| insta::assert_snapshot!(text));
}

#[test]
fn explains_renamed_tools_by_both_names() {
    let mut github = fake(json!({ "tools": ["get_file", "fetch", "push"] }));
    github["overrides"] = json!({
        "get_file": { "name": "fetch", "arguments": { "owner": "me" } },
        "push": { "enabled": false },
    });
    let bench = TestEnvironment::new()
        .server("dev", "github", github)
        .set("exposedTools", json!({ "github": ["get_file", "fetch", "push"] }));
    let text = explained(
        &bench,
        &[["-", "github", "fetch"], ["-", "github", "get_file"], ["-", "github", "push"]],
    );
    bench.settings().bind(|| insta::assert_snapshot!(text));
    let output = bench.run(["explain", "-", "github", "fetch", "--json"]);
    let answers: Value = serde_json::from_str(&output.stdout).unwrap();
    let answer = &answers[0];
    assert_eq!(
        (&answer["tool"], &answer["configured_name"]),
        (&json!("get_file"), &json!("fetch"))
    );
    assert_eq!((&answer["pinned"], &answer["listed"]), (&json!(["owner"]), &json!(true)));
}

#[test]
fn explains_disabled_servers() {
    let bench = TestEnvironment::new()
        .server("dev", "github", json!({ "command": "x", "disabled": true }))
        .server("dev", "files", fake(json!({ "tools": ["read_file"] })));
    let output = bench.run(["explain", "-", "github", "get_file"]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
    bench.settings().bind(|| insta::assert_snapshot!(output.stdout));
    let output = bench.run(["explain", "-", "dev/github", "get_file", "--json"]);
    let answers: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(answers.as_array().map(Vec::len), Some(1));
    assert_eq!((&answers[0]["rule"], &answers[0]["visible"]), (&json!("disabled"), &json!(false)));
}

#[test]
fn explains_as_json() {
    let bench = bench();
    let output = bench.run(["explain", "writer", "files", "write_file", "--json"]);
    let answers: Value = serde_json::from_str(&output.stdout).unwrap();
    bench.settings().bind(|| insta::assert_snapshot!(format!("{answers:#}")));
}

#[test]
fn unknown_server_is_a_usage_error() {
    let output = bench().run(["explain", "reader", "filles", "read_file"]);
    assert_eq!(output.code, Some(2));
    assert_eq!(
        output.stderr,
        "error: no server `filles` in the configuration\n\nhint: did you mean `files`?\n"
    );
}

#[test]
fn check_and_list_show_only_what_the_agent_may_use() {
    let bench = bench();
    let of_all = bench.run(["check"]).stdout;
    assert!(of_all.contains("2 toolboxes, 3 servers"), "{of_all}");
    let of_reader = bench.run(["check", "--connect", "--agent", "reader"]).stdout;
    assert!(of_reader.contains("for agent `reader`: 1 toolbox, 2 servers"), "{of_reader}");
    assert!(of_reader.contains("3 tools") && !of_reader.contains("search"), "{of_reader}");
    let listed = bench.run(["list", "--agent", "reader"]);
    assert!(listed.stdout.contains("3 tools in toolbox `dev`"), "{}", listed.stdout);
    assert!(listed.stderr.contains("showing the tools of agent `reader`"), "{}", listed.stderr);
    let nobody = bench.run(["list"]);
    assert!(nobody.stdout.contains("2 tools in toolbox `dev`"), "{}", nobody.stdout);
    let unknown = bench.run(["list", "web", "--agent", "reader"]);
    assert!(unknown.stderr.contains("there is no toolbox `web`"), "{}", unknown.stderr);
    assert!(unknown.stderr.contains("available toolboxes: `dev`\n"), "{}", unknown.stderr);
}
