//! `token`: new and existing tokens.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::{TestEnvironment, fake};

#[test]
fn new_token_comes_with_a_valid_entry() {
    let bench = TestEnvironment::new().server("box", "fake", fake(json!({ "tools": ["echo"] })));
    let output = bench.run_bare(["token", "claude"]);
    assert_eq!(output.code, Some(0), "{output}");
    let (token, entry) = output.stdout.trim().split_once('\n').expect("two lines");
    assert!(token.starts_with("mcpw_") && token.len() > 40, "{token}");
    let entry: Value = serde_json::from_str(entry).expect("an entry");
    assert_eq!(entry["agent"], "claude");
    assert!(!entry.to_string().contains(token));
    let checked = bench.set("auth", json!({ "tokens": [entry] })).run(["check"]);
    assert_eq!(checked.code, Some(0), "{checked}");
    let other = TestEnvironment::new().run_bare(["token", "claude"]);
    assert_ne!(other.stdout, output.stdout);
}

#[test]
fn existing_token_is_hashed_and_not_printed() {
    let bench = TestEnvironment::new();
    let args = ["token", "codex", "--from-stdin", "--json"];
    let output = bench.run_with_input(args, "a-token-of-an-agent\n");
    assert_eq!(output.code, Some(0), "{output}");
    let made: Value = serde_json::from_str(&output.stdout).expect("JSON");
    let sha256 = "12f09d8e2b481aff53ecf648458b7da475195bcef21fe5d9fa11850f8825dd91";
    assert_eq!(made["entry"], json!({ "agent": "codex", "sha256": sha256 }));
    assert_eq!(made.get("token"), None);
    let output = bench.run_with_input(["token", "codex", "--from-stdin"], "short");
    assert_eq!(output.code, Some(2), "{output}");
    assert!(!output.stderr.contains("short"), "{output}");
}
