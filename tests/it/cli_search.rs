//! `search`: tools that fit a query.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::{TestEnvironment, fake};

fn bench() -> TestEnvironment {
    let create = json!({
        "name": "create_issue",
        "description": "Creates an issue. With a title.",
        "inputSchema": {
            "type": "object",
            "properties": {"title": {"type": "string"}},
            "required": ["title"],
        },
        "x-own": 1.5,
    });
    let delete = json!({
        "name": "delete_repository",
        "description": "Deletes a repository",
        "inputSchema": {"type": "object"},
    });
    let send = json!({
        "name": "send_mail",
        "description": "Sends a mail",
        "inputSchema": {"type": "object"},
    });
    TestEnvironment::new()
        .toolbox("dev", "Code")
        .server("dev", "github", fake(json!({"tools": [create, delete]})))
        .toolbox("office", "Letters")
        .server("office", "post", fake(json!({"tools": [send]})))
}

#[test]
fn prints_a_table_per_query() {
    let bench = bench();
    let output = bench.run(["search", "github create issue", "send a mail", "weather in Paris"]);
    bench.settings().bind(|| insta::assert_snapshot!(output));
}

#[test]
fn full_and_toolbox_flags_change_the_output() {
    let bench = bench();
    let output =
        bench.run(["search", "create issue", "--full", "--limit", "1", "--toolbox", "dev"]);
    bench.settings().bind(|| insta::assert_snapshot!(output));
}

#[test]
fn prints_matches_as_json() {
    let bench = bench();
    let output =
        bench.run(["search", "github create issue", "weather in Paris", "--json", "--limit", "1"]);
    assert_eq!(output.code, Some(0));
    let found: Value = serde_json::from_str(&output.stdout).unwrap();
    let first = &found[0]["tools"][0];
    assert_eq!(found[0]["query"], "github create issue");
    assert_eq!(first["registered_name"], "dev__github__create_issue");
    assert_eq!(first["signature"], "create_issue(title: string)");
    assert!(first.get("definition").is_none());
    assert_eq!(found[1]["tools"], json!([]));
    let output = bench.run(["search", "github create issue", "--json", "--full"]);
    let found: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(found[0]["tools"][0]["definition"]["x-own"], 1.5);
}

#[test]
fn no_match_is_an_error_and_a_failed_server_a_warning() {
    let bench = bench().server("dev", "broken", json!({"command": "no-such-program"}));
    let output = bench.run(["search", "weather in Paris"]);
    assert_eq!(output.code, Some(1));
    bench.settings().bind(|| insta::assert_snapshot!(output));
    let output = bench.run(["search", "create issue", "--toolbox", "offce"]);
    assert_eq!(output.code, Some(1));
    assert!(output.stderr.contains("did you mean `office`?"), "{output}");
}

#[test]
fn nonsense_query_finds_nothing_and_fails() {
    let bench = bench();
    for query in ["zzzz", "xkqj vrzt"] {
        let output = bench.run(["search", query]);
        assert_eq!((output.code, output.stdout.as_str()), (Some(1), ""), "{output}");
        assert!(
            output.stderr.starts_with(&format!("error: no tool matches `{query}`")),
            "{output}"
        );
        let output = bench.run(["search", query, "--json"]);
        assert_eq!(output.code, Some(1));
        let found: Value = serde_json::from_str(&output.stdout).unwrap();
        assert_eq!(found, json!([{"query": query, "tools": []}]));
    }
}

#[test]
fn reports_absent_services() {
    let bench = bench();
    let output = bench.run(["search", "gitlab create issue", "github create issue"]);
    assert_eq!(output.code, Some(0));
    assert_eq!(output.stdout.matches("no server here provides `gitlab`").count(), 1);
    let output = bench.run(["search", "gitlab create issue", "--json"]);
    let found: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(found[0]["absent_services"], json!(["gitlab"]));
}

#[test]
fn failed_server_takes_one_line_next_to_matches() {
    let bench = bench().server("dev", "broken", json!({"command": "no-such-program"}));
    let output = bench.run(["search", "send a mail"]);
    assert_eq!(output.code, Some(0));
    let lines = "warning: `dev/broken` failed to start: command `no-such-program` not found on PATH\n\
                 hint: run `mcp-workbench check --connect dev/broken` to see the details\n";
    assert_eq!(output.stderr, lines);
}

#[test]
fn replaces_control_characters_in_definitions() {
    let tool = json!({
        "name": "wi\u{1b}]0;x\u{7}pe",
        "description": "Wipes a\u{1b}[2J screen\nand more\u{9b}",
        "inputSchema": {"type": "object", "properties": {"\u{1b}[31m": {}}},
    });
    let bench = TestEnvironment::new().server("desk", "screen", fake(json!({"tools": [tool]})));
    for command in [&["list"][..], &["search", "wipe a screen"], &["search", "screen", "--full"]] {
        let output = bench.run(command.iter().copied());
        assert!(output.stdout.contains("wi_]0;x_pe"), "{output}");
        let is_obeyed = |c: char| c.is_control() && c != '\n';
        assert!(!output.stdout.contains(is_obeyed), "{output}");
    }
}

#[test]
fn hides_tools_that_the_agent_may_not_use() {
    let bench = bench()
        .set("agentPolicies", json!({"ann": {"allowedServers": ["post"]}}))
        .set("defaultPolicy", json!({"allowUnknownTools": true, "allowUnknownServers": true}));
    let output = bench.run(["search", "github create issue", "--agent", "ann", "--json"]);
    assert!(!output.stdout.contains("github__"), "{output}");
    let output = bench.run(["search", "github create issue", "--json"]);
    assert!(output.stdout.contains("dev__github__create_issue"), "{output}");
}
