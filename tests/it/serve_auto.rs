//! What is decided by a client's program: `toolMode: "auto"`, and what else its profile says.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::{Agent, Bench, fake};

fn bench() -> Bench {
    Bench::new().set("toolMode", json!("auto")).server(
        "box",
        "srv",
        fake(json!({"tools": ["echo"]})),
    )
}

/// An agent of this program, that has said hello.
fn greeted(bench: &Bench, client: &str) -> Agent {
    let agent = bench.agent().relisting();
    agent.initialize_with(json!({"clientInfo": {"name": client, "version": "1"}}));
    agent
}

fn is_dynamic(agent: &Agent) -> bool {
    match agent.tool_names().as_slice() {
        [open] if open == "open_toolbox" => true,
        [open, used] if open == "open_toolbox" && used == "use_tool" => false,
        other => panic!("neither mode has {other:?}"),
    }
}

#[test]
fn clients_that_list_again_in_time_get_dynamic_and_all_others_proxy() {
    let bench = bench();
    for client in ["claude-code", "gemini-cli-mcp-client", "opencode"] {
        let agent = greeted(&bench, client);
        assert!(is_dynamic(&agent), "{client}");
        agent.open("box").ok();
        assert!(agent.tool_names().contains(&"box__srv__echo".to_owned()), "{client}");
    }
    for client in ["codex-mcp-client", "somebody"] {
        let agent = greeted(&bench, client);
        assert!(!is_dynamic(&agent), "{client}");
        let opened = agent.open("box").ok();
        assert!(opened["content"][0]["text"].as_str().expect("a text").contains("inputSchema"));
        agent.use_tool(["box", "srv", "echo"], json!({})).ok();
    }
}

#[test]
fn modern_requests_get_proxy_and_who_would_get_dynamic_is_sent_to_the_older_era() {
    let bench = bench();
    let agent = bench.agent().modern();
    assert!(!is_dynamic(&agent));
    agent.request("server/discover", json!({})).ok();
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "claude-code", "version": "2.1.329"},
    });
    let agent = bench.agent();
    let refused = agent.request("server/discover", json!({"_meta": meta}));
    assert_eq!(refused.error()["code"], -32601);
    assert!(!is_dynamic_for(&agent, &meta), "lists must not change in that era");
}

fn is_dynamic_for(agent: &Agent, meta: &Value) -> bool {
    let list = agent.request("tools/list", json!({"_meta": meta})).ok();
    list["tools"].as_array().expect("a list").len() == 1
}

#[test]
fn the_configuration_knows_better() {
    let clients = json!({
        "*": {"relistsInTime": true},
        "claude-code": {"relistsInTime": false, "toolSearch": false},
        "tiny": {"nameLimit": 30},
    });
    let bench = bench().set("clients", clients);
    assert!(is_dynamic(&greeted(&bench, "somebody")));
    let claude = greeted(&bench, "claude-code");
    assert!(!is_dynamic(&claude));
    assert!(claude.tools().iter().all(|tool| tool.get("_meta").is_none()));
    greeted(&bench, "tiny").wait_stderr("does not take names as long as `maxToolNameLength`");
}

#[test]
fn our_own_tools_ask_not_to_be_hidden_behind_a_search() {
    let bench = bench();
    let agent = greeted(&bench, "claude-code");
    agent.open("box").ok();
    let tools = agent.tools();
    assert_eq!(tools[0]["_meta"], json!({"anthropic/alwaysLoad": true}));
    assert_eq!(tools[1]["name"], "box__srv__echo");
    assert!(tools[1].get("_meta").is_none());
    assert!(greeted(&bench, "somebody").tools().iter().all(|tool| tool.get("_meta").is_none()));
}

/// Claude Code was seen to show 2 KiB of a description.
#[test]
fn the_catalog_fits_a_client_that_cuts_descriptions() {
    let tools: Vec<_> = (0..60)
        .map(|n| {
            let description = format!("Does thing {n} {}", "and more of it ".repeat(6));
            json!({"name": format!("tool_{n}"), "description": description, "inputSchema": {}})
        })
        .collect();
    let bench = Bench::new()
        .set("toolMode", json!("activate"))
        .set("activeToolsets", json!(["box_tool_7"]))
        .server("box", "srv", fake(json!({"tools": tools})));
    let own = |agent: &Agent| agent.tools().remove(0);
    let whole = own(&greeted(&bench, "somebody"));
    let text = whole["description"].as_str().expect("a text");
    assert!(text.len() > 4000 && text.contains("box_tool_59: Does thing 59 and more"));
    assert!(whole["inputSchema"]["properties"].get("list").is_none());

    let agent = greeted(&bench, "claude-code");
    let short = own(&agent);
    let text = short["description"].as_str().expect("a text");
    assert!(text.len() <= 2048, "{}", text.len());
    assert!(text.contains("\n* box_tool_7") && text.contains("\n  box_tool_59\n"), "{text}");
    assert!(text.ends_with("for whole entries."), "it says how to see the rest: {text}");
    assert!(short["inputSchema"]["properties"]["list"].is_object());
    let answer = agent.call("toolman_activate", json!({"list": "box_tool_5*"})).text();
    let answer: Value = serde_json::from_str(&answer).expect("JSON");
    let catalog = answer["result"]["catalog"].as_array().expect("entries");
    assert_eq!(catalog.len(), 11);
    assert!(catalog[1].as_str().expect("a line").starts_with("  box_tool_50: Does thing 50 and"));
}
