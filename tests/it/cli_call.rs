//! `call`: arguments, results and failures.

use pretty_assertions::assert_eq;
use serde_json::json;

use crate::support::{TestEnvironment, fake};

const RESULT: &str = concat!(
    r#"{"content":[{"type":"text","text":"a\nb"},"#,
    r#"{"type":"image","mimeType":"image/png","data":"AAAA"}],  "x":1.50}"#
);

fn bench() -> TestEnvironment {
    let strict = json!({
        "name": "strict",
        "inputSchema": {
            "type": "object",
            "properties": { "count": { "type": "integer" } },
            "required": ["count"],
        },
    });
    let script = json!({
        "tools": ["echo", "exact", "fails", "error", "crash", strict],
        "behavior": {
            "exact": { "result": { "raw": RESULT } },
            "fails": { "tool_error": { "text": "out of cheese" } },
            "error": { "error": { "code": -32602, "message": "no such cheese" } },
            "strict": { "tool_error": { "text": "count must be whole" } },
            "crash": { "crash": { "stderr": ["out of memory"], "code": 3 } },
        },
    });
    TestEnvironment::new().server("dev", "fake", fake(script)).server(
        "dev",
        "gone",
        json!({ "command": "no-such-program" }),
    )
}

#[test]
fn texts_are_printed_and_the_rest_described() {
    insta::assert_snapshot!(bench().run(["call", "dev", "fake", "exact"]));
}

#[test]
fn only_selected_fields_are_printed() {
    let arguments = r#"{"a": {"b": 1.50}, "c": 2}"#;
    let bench = bench();
    let output = bench.run(["call", "fake:echo", arguments, "--select", "/a/b", "--select", "/d"]);
    assert_eq!(output.stdout, "{\"a\":{\"b\":1.50}}\n", "{output}");
    assert!(output.stderr.contains(r#"No match: `/d` (the result has "a", "c")."#), "{output}");
    let malformed = bench.run(["call", "fake:echo", "--select", "a"]);
    assert_eq!(malformed.code, Some(2), "{malformed}");
    assert!(malformed.stderr.contains("`a` is not a JSON pointer"), "{malformed}");
}

#[test]
fn tool_can_be_named_in_every_spelling() {
    let bench = bench();
    for words in [
        &["dev/fake/echo"][..],
        &["fake:echo"],
        &["fake", "echo"],
        &["dev__fake__echo"],
        &["mcp__workbench__dev__fake__echo"],
    ] {
        let output = bench.run([&["call"], words, &["a=1", "b=two words"]].concat());
        assert_eq!(output.stdout, "{\"a\":1,\"b\":\"two words\"}\n", "{words:?}: {output}");
    }
    let unknown = bench.run(["call", "fakee:echo"]);
    assert_eq!(unknown.code, Some(2), "{unknown}");
    assert!(unknown.stderr.contains("did you mean `fake`?"), "{unknown}");
}

#[test]
fn json_prints_the_raw_result() {
    let output = bench().run(["call", "dev", "fake", "exact", "--json"]);
    assert_eq!(output.code, Some(0));
    assert_eq!(output.stdout, format!("{RESULT}\n"));
}

#[test]
fn arguments_keep_every_byte() {
    let arguments = r#"{"b": 1.0,  "a": [1e2]}"#;
    let output = bench().run(["call", "dev", "fake", "echo", arguments]);
    assert_eq!(output.stdout, format!("{arguments}\n"));
}

#[test]
fn arguments_come_from_standard_input() {
    let output = bench().run_with_input(["call", "dev", "fake", "echo", "-"], "{\"a\": 1}\n");
    assert_eq!(output.stdout, "{\"a\": 1}\n");
}

#[test]
fn failures_are_explained() {
    let bench = bench();
    let calls: [&[&str]; 10] = [
        &["call", "dev", "fake", "fails"],
        &["call", "dev", "fake", "error"],
        &["call", "dev", "fake", "crash"],
        &["call", "dev", "fake", "strict", r#"{"count": "two"}"#],
        &["call", "dev", "fake", "ecko"],
        &["call", "dev", "fak", "echo"],
        &["call", "deev", "fake", "echo"],
        &["call", "dev", "gone", "echo"],
        &["call", "dev", "fake", "echo", "{"],
        &["call", "dev", "fake", "echo", "[]"],
    ];
    let outputs = calls.map(|call| {
        let output = bench.run(call.iter().copied());
        format!("$ mcp-workbench {}\n{output}", call.join(" "))
    });
    insta::assert_snapshot!(outputs.join("\n"));
}

#[test]
fn agent_without_toolboxes_gets_a_hint_to_use_another_agent() {
    let bench = bench().set("agentPolicies", json!({ "ann": { "allowedServers": ["fake"] } }));
    let output = bench.run(["call", "dev", "fake", "echo"]);
    assert_eq!(output.code, Some(1), "{output}");
    let hint = "hint: none is available to this agent; use `--agent NAME` for another agent";
    assert!(output.stderr.contains(hint), "{output}");
}

#[test]
fn json_keeps_the_exit_code_of_a_failed_tool() {
    let output = bench().run(["call", "dev", "fake", "fails", "--json"]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(1), ""));
    assert!(output.stdout.contains(r#""isError":true"#));
}
