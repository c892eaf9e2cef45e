//! `search`: the tools that fit what is wanted.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::{Bench, fake};

fn bench() -> Bench {
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
    Bench::new()
        .toolbox("dev", "Code")
        .server("dev", "github", fake(json!({"tools": [create, delete]})))
        .toolbox("office", "Letters")
        .server("office", "post", fake(json!({"tools": [send]})))
}

#[test]
fn each_query_has_a_table() {
    let bench = bench();
    let output = bench.run(["search", "github create issue", "send a mail", "weather in Paris"]);
    bench.settings().bind(|| insta::assert_snapshot!(output));
}

#[test]
fn whole_tools_and_one_toolbox_are_for_the_asking() {
    let bench = bench();
    let output =
        bench.run(["search", "create issue", "--full", "--limit", "1", "--toolbox", "dev"]);
    bench.settings().bind(|| insta::assert_snapshot!(output));
}

#[test]
fn what_is_found_comes_as_json() {
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
fn nothing_found_is_a_failure_and_a_server_that_fails_a_warning() {
    let bench = bench().server("dev", "broken", json!({"command": "no-such-program"}));
    let output = bench.run(["search", "weather in Paris"]);
    assert_eq!(output.code, Some(1));
    bench.settings().bind(|| insta::assert_snapshot!(output));
    let output = bench.run(["search", "create issue", "--toolbox", "offce"]);
    assert_eq!(output.code, Some(1));
    assert!(output.stderr.contains("did you mean `office`?"), "{output}");
}

#[test]
fn a_made_up_word_finds_nothing_and_fails() {
    let bench = bench();
    for query in ["zzzz", "xkqj vrzt"] {
        let output = bench.run(["search", query]);
        assert_eq!((output.code, output.stdout.as_str()), (Some(1), ""), "{output}");
        assert!(output.stderr.starts_with(&format!("error: no tool fits `{query}`")), "{output}");
        let output = bench.run(["search", query, "--json"]);
        assert_eq!(output.code, Some(1));
        let found: Value = serde_json::from_str(&output.stdout).unwrap();
        assert_eq!(found, json!([{"query": query, "tools": []}]));
    }
}

#[test]
fn a_service_that_is_not_here_is_said_to_be_missing() {
    let bench = bench();
    let output = bench.run(["search", "gitlab create issue", "github create issue"]);
    assert_eq!(output.code, Some(0));
    assert_eq!(output.stdout.matches("no server here is called or about `gitlab`").count(), 1);
    let output = bench.run(["search", "gitlab create issue", "--json"]);
    let found: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(found[0]["absent_services"], json!(["gitlab"]));
}

#[test]
fn a_server_that_fails_has_one_line_where_something_is_found() {
    let bench = bench().server("dev", "broken", json!({"command": "no-such-program"}));
    let output = bench.run(["search", "send a mail"]);
    assert_eq!(output.code, Some(0));
    let line = "not searched: `dev/broken`, which could not be started; \
                `mcp-workbench check --connect` says why\n";
    assert_eq!(output.stderr, line);
}

#[test]
fn what_a_server_writes_does_nothing_to_a_terminal() {
    let tool = json!({
        "name": "wi\u{1b}]0;x\u{7}pe",
        "description": "Wipes a\u{1b}[2J screen\nand more\u{9b}",
        "inputSchema": {"type": "object", "properties": {"\u{1b}[31m": {}}},
    });
    let bench = Bench::new().server("desk", "screen", fake(json!({"tools": [tool]})));
    for command in [&["list"][..], &["search", "wipe a screen"], &["search", "screen", "--full"]] {
        let output = bench.run(command.iter().copied());
        assert!(output.stdout.contains("wi_]0;x_pe"), "{output}");
        let is_obeyed = |c: char| c.is_control() && c != '\n';
        assert!(!output.stdout.contains(is_obeyed), "{output}");
    }
}

#[test]
fn what_an_agent_may_not_use_is_not_found() {
    let bench = bench()
        .set("agentPolicies", json!({"ann": {"allowedServers": ["post"]}}))
        .set("defaultPolicy", json!({"allowUnknownTools": true, "allowUnknownServers": true}));
    let output = bench.run(["search", "github create issue", "--agent", "ann", "--json"]);
    assert!(!output.stdout.contains("github__"), "{output}");
    let output = bench.run(["search", "github create issue", "--json"]);
    assert!(output.stdout.contains("dev__github__create_issue"), "{output}");
}
