//! `task`: one task, its output and its failures.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::{TestEnvironment, fake};

fn bench() -> TestEnvironment {
    let tool = |name: &str, description: &str, required: &[&str]| {
        json!({
            "name": name,
            "description": description,
            "inputSchema": {
                "type": "object",
                "properties": {"title": {"type": "string", "description": "What it is about"}},
                "required": required,
            },
        })
    };
    let script = json!({
        "tools": [
            tool("add_note", "Adds a note.", &["title"]),
            tool("delete_note", "Deletes a note.", &["title"]),
            tool("list_notes", "Lists all notes.", &[]),
        ],
        "behavior": {
            "list_notes": {"result": {"raw": r#"{"content":[{"type":"text","text":"milk\neggs"}]}"#}},
            "delete_note": {"tool_error": {"text": "there is no such note"}},
        },
    });
    TestEnvironment::new().server("desk", "notes", fake(script))
}

#[test]
fn prints_each_step_and_the_result() {
    insta::assert_snapshot!(bench().run(["task", "list all notes"]));
}

#[test]
fn explain_prints_options_and_scores() {
    insta::assert_snapshot!(bench().run(["task", "--explain", "list all notes"]));
}

#[test]
fn dry_run_stops_before_the_call() {
    let given = r#"{"title": "milk"}"#;
    insta::assert_snapshot!(bench().run(["task", "--dry-run", "delete a note", given]));
    let output = bench().run(["task", "--dry-run", "--json", "delete a note", given]);
    assert_eq!(output.code, Some(0));
    let shape: Value = serde_json::from_str(&output.stdout).expect("JSON");
    let expected =
        json!({"success": true, "tool_used": "notes.delete_note", "arguments": {"title": "milk"}});
    assert_eq!(shape, expected);
}

#[test]
fn json_equals_the_execute_task_result() {
    let output = bench().run(["task", "--json", "list all notes"]);
    assert_eq!(output.code, Some(0));
    let expected =
        "{\"success\":true,\"tool_used\":\"notes.list_notes\",\"result\":\"milk\\neggs\"}\n";
    assert_eq!(output.stdout, expected);
    let output = bench().run(["task", "--json", "add a note"]);
    assert_eq!(output.code, Some(1));
    let shape: Value = serde_json::from_str(&output.stdout).expect("JSON");
    assert_eq!(shape["error"]["type"], "missing_parameters");
}

#[test]
fn failures_are_explained() {
    let bench = bench();
    let tasks: [&[&str]; 10] = [
        &["task", "add a note"],
        &["task", "a note"],
        &["task", "a note", "--tool", "notes.keep"],
        &["task", "a note", "--tool", "notes.add_note", r#"{"title": "milk"}"#],
        &["task", "add a note", r#"{"title": 7}"#],
        &["task", "delete a note", r#"{"arguments": {"title": "milk"}}"#],
        &["task", "xyzzy"],
        &["task", " "],
        &["task", "add a note", r#"{"title": "milk"}"#],
        &["task", "add a note", "[1]"],
    ];
    let outputs = tasks.map(|task| {
        let output = bench.run(task.iter().copied());
        format!("$ mcp-workbench {}\n{output}", task.join(" "))
    });
    let outputs = outputs.join("\n");
    assert!(!outputs.contains("execute_task"), "names a tool that only agents have");
    insta::assert_snapshot!(outputs);
}

#[test]
fn runs_in_every_mode_and_as_an_agent() {
    for mode in ["dynamic", "direct", "navigate", "activate"] {
        let bench = bench().set("toolMode", json!(mode));
        let output = bench.run(["task", "list all notes"]);
        assert_eq!(output.stdout, "milk\neggs\n", "{mode}: {output}");
    }
    let bench = bench()
        .set("agentPolicies", json!({"reader": {"toolOverrides": {"notes": ["list_notes"]}}}));
    let output = bench.run(["task", "--agent", "reader", "delete a note", "--json"]);
    assert!(!output.stdout.contains("delete_note"), "{output}");
}
