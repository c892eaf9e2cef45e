//! Client profiles: the mode that each client gets, and other adjustments to a client.

use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::{Agent, TestEnvironment, fake};

fn bench() -> TestEnvironment {
    TestEnvironment::new().in_default_mode().toolbox("box", "Saying things again").server(
        "box",
        "srv",
        fake(json!({"tools": [
            {"name": "echo", "description": "Says it again. And again.", "inputSchema": {
                "type": "object",
                "properties": {"text": {"type": "string"}, "times": {"type": "integer"}},
                "required": ["text"],
            }},
            "count",
        ]})),
    )
}

fn greeted(bench: &TestEnvironment, client: &str) -> Agent {
    greeted_in(bench, client, "1").0
}

fn greeted_in(bench: &TestEnvironment, client: &str, version: &str) -> (Agent, String) {
    let agent = bench.agent().relisting_on_change();
    let hello = agent.initialize_with(json!({"clientInfo": {"name": client, "version": version}}));
    (agent, hello["instructions"].as_str().expect("instructions").to_owned())
}

fn has_use_tool(agent: &Agent) -> bool {
    match agent.tool_names().as_slice() {
        [open] if open == "open_toolbox" => false,
        [open, used] if open == "open_toolbox" && used == "use_tool" => true,
        other => panic!("unexpected tools {other:?}"),
    }
}

fn description(agent: &Agent, tool: usize) -> String {
    agent.tools()[tool]["description"].as_str().expect("a text").to_owned()
}

#[test]
fn relisting_client_gets_registered_tools() {
    for client in ["gemini-cli-mcp-client", "opencode"] {
        let agent = greeted(&bench(), client);
        assert!(!has_use_tool(&agent), "{client}: no tool is known yet");
        agent.open("box").ok();
        assert!(agent.tool_names().contains(&"box__srv__echo".to_owned()), "{client}");
    }
}

// invariant: relisting-is-optional
#[test]
fn unknown_client_gets_registered_tools_and_use_tool() {
    let agent = bench().agent();
    let hello = agent.initialize();
    insta::assert_snapshot!(hello["instructions"].as_str().expect("instructions"));
    assert!(has_use_tool(&agent));
    let opened = agent.open("box").text();
    let opened: Value = serde_json::from_str(&opened).expect("JSON");
    assert_eq!(opened["tools"][0]["inputSchema"]["required"], json!(["text"]));
    assert_eq!(opened["tools"][0]["in_your_list"], "box__srv__echo");
    assert!(opened["call"].as_str().expect("a text").contains("else with use_tool"));
    agent.use_tool(["box", "srv", "echo"], json!({"text": "x"})).ok();
    assert_eq!(
        agent.tool_names(),
        ["open_toolbox", "use_tool", "box__srv__echo", "box__srv__count"]
    );
    agent.call("box__srv__count", json!({})).ok();
}

// invariant: relisting-is-optional
#[test]
fn non_relisting_client_gets_use_tool_in_auto_and_dynamic_mode() {
    for (bench, is_told) in [(bench(), false), (bench().set("toolMode", json!("dynamic")), true)] {
        let (agent, instructions) = greeted_in(&bench, "codex-mcp-client", "0.169.0");
        assert!(
            instructions.starts_with(
                "Toolboxes: box (Saying things again). open_toolbox shows the tools of one, use_tool \
                 calls them.\nYour tool list never changes"
            ),
            "{instructions}"
        );
        assert!(has_use_tool(&agent));
        let started = Instant::now();
        let opened = agent.open("box").text();
        assert!(
            started.elapsed() < Duration::from_secs(2),
            "must not wait for the client to refresh its list"
        );
        assert!(opened.contains("echo(text: string, times?: integer)"), "{opened}");
        assert_eq!(opened.contains("your tool list never changes"), is_told, "{opened}");
        agent.use_tool(["box", "srv", "echo"], json!({"text": "x"})).ok();
        assert!(has_use_tool(&agent), "the tool list changed");
        assert!(agent.notifications().is_empty());
    }
}

#[test]
fn dynamic_mode_notes_a_client_that_does_not_relist() {
    let bench = bench().set("toolMode", json!("dynamic")).toolbox("more", "More of it").server(
        "more",
        "srv",
        fake(json!({"tools": ["count"]})),
    );
    let opened = |agent: &Agent, toolbox: &str| -> Value {
        serde_json::from_str(&agent.open(toolbox).text()).expect("JSON")
    };
    let agent = bench.agent();
    agent.initialize();
    assert!(!has_use_tool(&agent), "the client might refresh its list");
    let first = opened(&agent, "box");
    assert!(first["call"].as_str().expect("a text").contains("else with use_tool"), "{first}");
    let note = first["note"].as_str().expect("a text");
    assert!(note.contains("has not refreshed its tool list"), "{note}");
    assert!(note.contains("\"refreshesToolList\": false"), "{note}");
    assert_eq!(first["tools"][0]["inputSchema"]["required"], json!(["text"]), "{first}");
    assert_eq!(first["tools"][0]["in_your_list"], "box__srv__echo");
    agent.use_tool(["box", "srv", "echo"], json!({"text": "x"})).ok();
    // The note comes once, the calling instructions come each time.
    let second = opened(&agent, "more");
    assert!(second["call"].is_string() && second.get("note").is_none(), "{second}");
    // The client was only slow.
    agent.tools();
    let agent = agent.relisting_on_change();
    let third = opened(&agent, "box");
    assert!(third.get("call").is_none() && third["tools_registered"] == 2, "{third}");
}

#[test]
fn activate_mode_notes_a_client_that_does_not_relist() {
    let bench = bench().set("toolMode", json!("activate"));
    let agent = bench.agent();
    agent.initialize();
    assert_eq!(agent.tool_names(), ["toolman_activate"]);
    let on = |name: &str| agent.call("toolman_activate", json!({"tools_on": [name]})).text();
    let answer = on("box_echo");
    assert!(answer.contains("call these tools with use_tool {tool: <name>"), "{answer}");
    assert!(answer.contains("\\\"refreshesToolList\\\": false"), "{answer}");
    let used = agent.call("use_tool", json!({"tool": "box_echo", "arguments": {"text": "x"}}));
    assert_eq!(used.structured(), json!({"text": "x"}));
    let inactive = agent.call("use_tool", json!({"tool": "box_count"}));
    assert!(inactive.is_tool_error() && inactive.text().contains("is inactive"), "{inactive:?}");
    let answer = on("box_count");
    assert!(answer.contains("use_tool") && !answer.contains("refreshesToolList"), "{answer}");
    // A client that lists again gets no such note.
    let agent = bench.agent().relisting_on_change();
    agent.initialize();
    agent.tools();
    let answer = agent.call("toolman_activate", json!({"tools_on": ["box_echo"]})).text();
    assert!(!answer.contains("use_tool"), "{answer}");
}

// invariant: relisting-is-optional
#[test]
fn activate_mode_offers_use_tool_to_non_relisting_clients() {
    let bench = bench().set("toolMode", json!("activate"));
    let (agent, instructions) = greeted_in(&bench, "codex-mcp-client", "0.169.0");
    assert!(
        instructions.starts_with("Toolboxes: box (Saying things again). Call toolman_activate")
    );
    assert_eq!(agent.tool_names(), ["toolman_activate", "use_tool"]);
    let answer = agent.call("toolman_activate", json!({"tools_on": ["box_echo"]})).text();
    assert!(answer.contains("\"required\":[\"text\"]"), "{answer}");
    assert!(answer.contains("call these tools with use_tool {tool: <name>"), "{answer}");
    let used = agent.call("use_tool", json!({"tool": "box_echo", "arguments": {"text": "x"}}));
    assert_eq!(used.structured(), json!({"text": "x"}));
    // An inactive tool, and a tool by its full path.
    assert!(!agent.call("use_tool", json!({"tool": "box_count"})).is_tool_error());
    assert!(!agent.use_tool(["box", "srv", "count"], json!({})).is_tool_error());
    assert_eq!(agent.tool_names(), ["toolman_activate", "use_tool"]);
    let wrong = agent.call("use_tool", json!({"tool": "box_echos"}));
    assert!(wrong.is_tool_error() && wrong.text().contains("Similar: box_echo"), "{wrong:?}");
    assert!(agent.call("use_tool", json!({})).text().contains("Expected {"));
}

#[test]
fn tool_search_client_gets_signatures_in_the_description() {
    let bench = bench().toolbox("more", "What is not known yet").server(
        "more",
        "new",
        fake(json!({"tools": ["later"]})),
    );
    let (agent, instructions) = greeted_in(&bench, "claude-code", "2.1.329");
    insta::assert_snapshot!(instructions);
    assert!(has_use_tool(&agent));
    for tool in agent.tools() {
        assert_eq!(tool["_meta"], json!({"anthropic/alwaysLoad": true}));
    }
    assert_eq!(
        description(&agent, 1),
        "Calls a tool of a toolbox. open_toolbox shows the tools and their arguments.",
        "no server has been started yet"
    );
    let opened = agent.open("box").text();
    assert!(opened.contains(r#"{"server":"srv","signature":"echo(text: string, times?: integer)","description":"Says it again."}"#), "{opened}");
    assert!(agent.notifications().is_empty(), "a changed list costs this client a turn");

    let agent = greeted_in(&bench, "claude-code", "2.1.329").0;
    insta::assert_snapshot!(description(&agent, 1));
    agent.use_tool(["box", "srv", "echo"], json!({"text": "at once"})).ok();
}

#[test]
fn signatures_are_filtered_and_truncated() {
    let filtered = {
        let mut entry = fake(json!({"tools": ["echo", "secret"]}));
        entry["toolFilters"] = json!(["!secret"]);
        TestEnvironment::new().in_default_mode().server("box", "srv", entry)
    };
    let agent = greeted(&filtered, "claude-code");
    agent.open("box").ok();
    let text = description(&greeted(&filtered, "claude-code"), 1);
    assert!(text.contains("echo(") && !text.contains("secret"), "{text}");

    let tools: Vec<_> = (0..60).map(|n| format!("a_tool_with_quite_a_long_name_{n}")).collect();
    let bench = bench().server("big", "srv", fake(json!({"tools": tools})));
    let agent = greeted(&bench, "claude-code");
    agent.open("big").ok();
    agent.open("box").ok();
    let old = description(&greeted_in(&bench, "claude-code", "2.1.84").0, 1);
    assert!(old.len() <= 2048 && old.contains("lists tools of: big."), "{old}");
    let new = description(&greeted_in(&bench, "claude-code", "2.1.329").0, 1);
    assert!(new.len() <= 4096 && new.contains("a_tool_with_quite_a_long_name_59()"), "{new}");
}

// invariant: text-is-bounded
#[test]
fn tool_lists_fit_the_client_answer_limit() {
    let tools: Vec<_> = (0..200)
        .map(|n| {
            let description = "Does it. ".repeat(20);
            json!({"name": format!("tool_{n}"), "description": description, "inputSchema": {}})
        })
        .collect();
    let bench = bench().server("big", "srv", fake(json!({"tools": tools})));
    let answer = |client| greeted(&bench, client).open("big").text();
    assert!(answer("codex-mcp-client").len() <= 12_000);
    let whole = answer("test-agent").len();
    assert!((12_000..=40_000).contains(&whole), "{whole}");
    let bench = bench.set("clients", json!({"test-agent": {"answerLimit": 3000}}));
    let short = greeted(&bench, "test-agent").open("big").text();
    assert!(short.len() <= 3000 && short.contains("tools_left_out"), "{short}");
    for (mode, call) in [
        ("modular", ("get-modular-tools", json!({"group": "big"}))),
        ("search", ("search_tools", json!({"queries": ["tool does it", "a tool"], "limit": 20}))),
    ] {
        let agent = greeted(&bench.clone().set("toolMode", json!(mode)), "test-agent");
        let answer = agent.call(call.0, call.1).text();
        assert!(answer.len() <= 3000, "{mode}: {} bytes", answer.len());
    }
}

#[test]
fn answer_waits_for_the_client_settling_time() {
    let bench = bench()
        .set("clients", json!({"slow": {"refreshesToolList": true, "toolListDelayMs": 700}}));
    let agent = greeted(&bench, "slow");
    let started = Instant::now();
    agent.open("box").ok();
    assert!(started.elapsed() >= Duration::from_millis(700), "{:?}", started.elapsed());
}

#[test]
fn modern_era_is_offered_only_to_non_relisting_clients() {
    let bench = bench();
    let agent = bench.agent().modern();
    assert!(has_use_tool(&agent));
    agent.request("server/discover", json!({})).ok();
    let meta = |client: &str| {
        json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": client, "version": "2.1.329"},
        })
    };
    let agent = bench.agent();
    let refused = agent.request("server/discover", json!({"_meta": meta("opencode")}));
    assert_eq!(refused.error()["code"], -32601);
    agent.request("server/discover", json!({"_meta": meta("claude-code")})).ok();
    for client in ["opencode", "claude-code"] {
        let list = agent.request("tools/list", json!({"_meta": meta(client)})).ok();
        assert_eq!(list["tools"].as_array().expect("a list").len(), 2, "{client}");
    }
}

#[test]
fn auto_mode_over_http() {
    let first = Agent::over_http(bench().http());
    let names = |client: &str| {
        let agent = first.beside();
        agent.initialize_with(json!({"clientInfo": {"name": client, "version": "1"}}));
        agent.tool_names()
    };
    assert_eq!(names("opencode"), ["open_toolbox"]);
    for client in ["claude-code", "qwen-cli-mcp-client-workbench", "somebody"] {
        assert_eq!(names(client), ["open_toolbox", "use_tool"], "{client}");
    }
}

#[test]
fn configuration_overrides_client_detection() {
    let clients = json!({
        "*": {"refreshesToolList": true},
        "claude-code": {"refreshesToolList": false, "hasToolSearch": false},
        "tiny": {"nameLimit": 30, "instructionsLimit": 100},
    });
    let bench = bench().set("clients", clients);
    assert!(!has_use_tool(&greeted(&bench, "somebody")));
    let claude = greeted(&bench, "claude-code");
    assert!(has_use_tool(&claude));
    assert!(claude.tools().iter().all(|tool| tool.get("_meta").is_none()));
    let (tiny, instructions) = greeted_in(&bench, "tiny", "1");
    tiny.wait_stderr("rejects names as long as `maxToolNameLength`");
    assert_eq!(
        instructions,
        "Toolboxes: box (Saying things again). Call open_toolbox to use one, unless use_tool has its \
         tools."
    );
}

#[test]
fn own_tools_are_marked_always_load() {
    let bench = bench().set("toolMode", json!("dynamic"));
    let agent = greeted(&bench, "claude-code");
    agent.open("box").ok();
    let tools = agent.tools();
    for ours in &tools[..2] {
        assert_eq!(ours["_meta"], json!({"anthropic/alwaysLoad": true}));
    }
    assert_eq!(tools[1]["name"], "use_tool");
    assert_eq!(tools[2]["name"], "box__srv__echo");
    assert!(tools[2].get("_meta").is_none());
    assert!(greeted(&bench, "somebody").tools().iter().all(|tool| tool.get("_meta").is_none()));
}

/// Claude Code shows 2 KiB of a description.
#[test]
fn catalog_fits_truncated_descriptions() {
    let tools: Vec<_> = (0..60)
        .map(|n| {
            let description = format!("Does thing {n} {}", "and more of it ".repeat(6));
            json!({"name": format!("tool_{n}"), "description": description, "inputSchema": {}})
        })
        .collect();
    let bench = TestEnvironment::new()
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
    assert!(text.ends_with("for full entries."), "says how to see the rest: {text}");
    assert!(short["inputSchema"]["properties"]["list"].is_object());
    let answer = agent.call("toolman_activate", json!({"list": "box_tool_5*"})).text();
    let answer: Value = serde_json::from_str(&answer).expect("JSON");
    let catalog = answer["result"]["catalog"].as_array().expect("entries");
    assert_eq!(catalog.len(), 11);
    assert!(catalog[1].as_str().expect("a line").starts_with("  box_tool_50: Does thing 50 and"));
}
