//! `policy diff`: what agents gain and lose between two configurations.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::process::Output;
use crate::support::{Bench, fake};

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

fn diff(bench: &Bench, old: &Value, new: &Value, more: &[&str]) -> Output {
    bench.write("old.json", &old.to_string());
    bench.write("new.json", &new.to_string());
    bench.run_bare(
        ["policy", "diff", "old.json", "new.json"].into_iter().chain(more.iter().copied()),
    )
}

#[test]
fn of_servers_that_have_run_it_names_the_tools() {
    let bench = Bench::new().config(old());
    assert_eq!(bench.run(["cache", "refresh"]).code, Some(0));
    let output = diff(&bench, &old(), &new(), &[]);
    assert_eq!(output.code, Some(1));
    bench.settings().bind(|| insta::assert_snapshot!(output.stdout));
}

#[test]
fn of_others_it_names_what_the_lists_name() {
    let bench = Bench::new();
    let output = diff(&bench, &old(), &new(), &[]);
    assert_eq!(output.code, Some(1));
    bench.settings().bind(|| insta::assert_snapshot!(output.stdout));
}

#[test]
fn changes_come_as_json_too() {
    let bench = Bench::new();
    let output = diff(&bench, &old(), &new(), &["--json"]);
    let changes: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(output.code, Some(1));
    bench.settings().bind(|| insta::assert_snapshot!(format!("{changes:#}")));
}

#[test]
fn nothing_changes_between_spellings() {
    let bench = Bench::new();
    let mut snake = old();
    for (camel, spelled) in [("agentPolicies", "agent_policies"), ("exposedTools", "exposed_tools")]
    {
        snake[spelled] = snake[camel].take();
        snake.as_object_mut().unwrap().remove(camel);
    }
    let output = diff(&bench, &old(), &snake, &[]);
    assert_eq!((output.code, output.stdout.as_str()), (Some(0), "nothing changes for any agent\n"));
    let output = diff(&bench, &old(), &snake, &["--json"]);
    assert_eq!((output.code, output.stdout.trim()), (Some(0), "[]"));
}

#[test]
fn a_configuration_that_cannot_be_used_is_refused() {
    let output = diff(&Bench::new(), &old(), &json!({}), &[]);
    assert_eq!(output.code, Some(2));
}
