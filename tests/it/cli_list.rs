//! `list`: the tools of toolboxes.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::{TestEnvironment, fake};

fn two_toolboxes() -> TestEnvironment {
    let add = json!({
        "name": "add",
        "description": "Adds numbers. Never overflows, e.g. saturates.",
        "inputSchema": { "type": "object" },
        "x-own": 1.50,
    });
    let calc = json!({ "tools": [add, "sub", "secret_sum"] });
    let mut filtered = fake(calc);
    filtered["toolFilters"] = json!(["*", "!secret_*"]);
    TestEnvironment::new()
        .server("dev", "calc", filtered)
        .server("dev", "text", fake(json!({ "tools": ["upper"] })))
        .server("web", "fetch", fake(json!({ "tools": ["get"] })))
}

#[test]
fn lists_every_toolbox() {
    let bench = two_toolboxes();
    bench.settings().bind(|| insta::assert_snapshot!(bench.run(["list"])));
}

#[test]
fn lists_one_toolbox() {
    let bench = two_toolboxes();
    bench.settings().bind(|| insta::assert_snapshot!(bench.run(["list", "web"])));
}

#[test]
fn prints_definitions_as_json() {
    let bench = two_toolboxes();
    let output = bench.run(["list", "dev", "--json"]);
    let listed: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(listed["tools"].as_array().unwrap().len(), 3);
    assert!(output.stdout.contains(r#""x-own":1.5"#), "the definition is the server's own");
    insta::assert_snapshot!(output);
}

#[test]
fn unknown_toolbox_is_an_error() {
    let bench = two_toolboxes();
    let outputs = ["dve", "zzz"].map(|name| bench.run(["list", name]).to_string());
    insta::assert_snapshot!(outputs.join("\n"));
}

#[test]
fn failed_server_is_a_warning() {
    let bench = two_toolboxes().server("dev", "broken", json!({ "command": "no-such-program" }));
    let output = bench.run(["list", "dev"]);
    assert_eq!(output.code, Some(0));
    bench.settings().bind(|| insta::assert_snapshot!(output));
}

#[test]
fn fails_when_every_server_fails() {
    let bench =
        TestEnvironment::new().server("dev", "broken", json!({ "command": "no-such-program" }));
    let output = bench.run(["list"]);
    assert_eq!(output.code, Some(1));
    bench.settings().bind(|| insta::assert_snapshot!(output));
}

#[test]
fn lists_nothing_when_every_server_is_disabled() {
    let bench =
        TestEnvironment::new().server("dev", "off", json!({ "command": "x", "disabled": true }));
    let output = bench.run(["list"]);
    assert_eq!((output.code, output.stdout.as_str()), (Some(0), ""));
    insta::assert_snapshot!(output.stderr);
}
