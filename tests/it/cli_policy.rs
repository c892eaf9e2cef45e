//! `policy diff`: access that agents gain and lose between two configurations.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::process::Output;
use crate::support::{TestEnvironment, fake};

fn servers() -> Value {
    let delete = json!({
        "name": "delete_file",
        "inputSchema": { "type": "object" },
        "annotations": { "destructiveHint": true },
    });
    json!({
        "files": fake(json!({ "tools": ["read_file", "write_file", delete] })),
        "notes": fake(json!({ "tools": ["add_note"] })),
    })
}

fn old() -> Value {
    json!({
        "mcpServers": servers(),
        "agentPolicies": {
            "reader": { "allowedServers": ["files"], "toolOverrides": { "files": ["read_*", "write_*"] } },
            "same": { "toolOverrides": { "notes": ["add_*"] } },
        },
        "exposedTools": { "files": ["*_file"] },
    })
}

fn new() -> Value {
    json!({
        "mcpServers": servers(),
        "agentPolicies": {
            "reader": { "toolOverrides": { "files": ["read_*"], "notes": ["add_*"] } },
            "same": { "toolOverrides": { "notes": ["add_*"] }, "extends": "careful" },
            "careful": { "when": { "tools": ["write_*"], "arguments": { "/path": { "matches": "^/workspace/" } } } },
        },
        "exposedTools": { "files": ["*_file"] },
        "dangerousTools": ["destructiveHint"],
    })
}

fn diff(bench: &TestEnvironment, old: &Value, new: &Value, more: &[&str]) -> Output {
    bench.write("old.json", &old.to_string());
    bench.write("new.json", &new.to_string());
    bench.run_bare(
        ["policy", "diff", "old.json", "new.json"].into_iter().chain(more.iter().copied()),
    )
}

#[test]
fn names_tools_of_servers_with_cached_listings() {
    let bench = TestEnvironment::new().config(old());
    assert_eq!(bench.run(["cache", "refresh"]).code, Some(0));
    let output = diff(&bench, &old(), &new(), &[]);
    assert_eq!(output.code, Some(1));
    bench.settings().bind(|| insta::assert_snapshot!(output.stdout));
}

#[test]
fn names_rule_patterns_without_cached_listings() {
    let bench = TestEnvironment::new();
    let output = diff(&bench, &old(), &new(), &[]);
    assert_eq!(output.code, Some(1));
    bench.settings().bind(|| insta::assert_snapshot!(output.stdout));
}

#[test]
fn prints_changes_as_json() {
    let bench = TestEnvironment::new();
    let output = diff(&bench, &old(), &new(), &["--json"]);
    let changes: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(output.code, Some(1));
    bench.settings().bind(|| insta::assert_snapshot!(format!("{changes:#}")));
}

#[test]
fn key_spellings_make_no_difference() {
    let bench = TestEnvironment::new();
    let mut snake = old();
    for (camel, spelled) in [("agentPolicies", "agent_policies"), ("exposedTools", "exposed_tools")]
    {
        snake[spelled] = snake[camel].take();
        snake.as_object_mut().unwrap().remove(camel);
    }
    let output = diff(&bench, &old(), &snake, &[]);
    assert_eq!((output.code, output.stdout.as_str()), (Some(0), "no changes for any agent\n"));
    let output = diff(&bench, &old(), &snake, &["--json"]);
    assert_eq!((output.code, output.stdout.trim()), (Some(0), "[]"));
}

#[test]
fn rejects_an_invalid_configuration() {
    let output = diff(&TestEnvironment::new(), &old(), &json!({}), &[]);
    assert_eq!(output.code, Some(2));
}
