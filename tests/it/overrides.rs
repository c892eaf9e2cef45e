//! `overrides` and categories in every mode: disabled tools, names, descriptions and pinned
//! arguments.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::{Agent, TestEnvironment, fake};

fn tools() -> Value {
    let schema = json!({
        "type": "object",
        "properties": {"path": {"type": "string"}, "root": {"type": "string"}},
        "required": ["path", "root"],
        "additionalProperties": false,
    });
    let plain = json!({"type": "object"});
    json!([
        {"name": "read", "description": "Reads", "inputSchema": schema, "later": 1.0},
        {"name": "write", "inputSchema": plain},
        {"name": "list", "inputSchema": plain},
        {"name": "stat", "inputSchema": plain},
        {"name": "mcp__files__list", "description": "A namesake", "inputSchema": plain},
    ])
}

fn bench(mode: &str) -> TestEnvironment {
    let mut files = fake(json!({ "tools": tools() }));
    files["overrides"] = json!({
        "stat": {"enabled": false},
        "read": {"description": "Said of all", "arguments": {"root": "/srv"}},
    });
    TestEnvironment::new().config(json!({
        "toolMode": mode,
        "mcpServers": {"files": files},
        "categories": {
            "get": {
                "description": "Reading",
                "server": "files",
                "tools": {
                    "includeNames": ["mcp__files__read", "mcp__files__list", "stat"],
                    "overrides": {
                        "mcp__files__read": {"name": "fetch", "description": "Said of one"},
                    },
                },
            },
            "put": {
                "description": "Writing",
                "server": "files",
                "tools": {"includeNames": ["write", "read"]},
            },
        },
    }))
}

fn greeted(bench: &TestEnvironment) -> Agent {
    let agent = bench.agent().relisting_on_change();
    agent.initialize();
    agent
}

#[test]
fn category_has_its_tools_with_their_overrides() {
    let bench = bench("dynamic");
    let agent = greeted(&bench);
    agent.open("get");
    let tools = agent.tools();
    let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["open_toolbox", "get__files__fetch", "get__files__mcp__files__list"]);
    assert_eq!(
        tools[1].to_string(),
        json!({
            "name": "get__files__fetch",
            "description": "Said of one",
            "inputSchema": {
                "type": "object",
                "properties": {"path": {"type": "string"}},
                "required": ["path"],
                "additionalProperties": false,
            },
            "later": 1.0,
        })
        .to_string()
    );
    agent.open("put");
    let tools = agent.tools();
    let read = tools.iter().find(|tool| tool["name"] == "put__files__read").unwrap();
    assert_eq!(read["description"], "Said of all");
}

#[test]
fn pinned_arguments_are_added_to_every_call() {
    for mode in ["dynamic", "proxy", "direct"] {
        let bench = bench(mode);
        let agent = greeted(&bench);
        let path = ["get", "files", "fetch"];
        let called = agent.use_tool(path, json!({"path": "a"})).structured();
        assert_eq!(called, json!({"path": "a", "root": "/srv"}), "{mode}");
        // A model can't override a pinned argument.
        let called = agent.call("get__files__fetch", json!({"path": "a", "root": "/"}));
        assert_eq!(called.structured(), json!({"path": "a", "root": "/srv"}), "{mode}");
        // The server validates the other arguments.
        let called = agent.call("get__files__fetch", json!({"paht": "a"}));
        assert_eq!(called.structured(), json!({"paht": "a", "root": "/srv"}), "{mode}");
    }
}

#[test]
fn other_arguments_are_passed_verbatim() {
    let bench = bench("proxy");
    let agent = greeted(&bench);
    agent.send_raw(
        r#"{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"get__files__fetch","arguments":{ "root" : 7,  "path":"\u0061" }}}"#,
    );
    agent.wait_line(
        r#"{"jsonrpc":"2.0","id":"x","result":{"content":[{"type":"text","text":"{  \"path\":\"\\u0061\" ,\"root\":\"/srv\"}"}],"structuredContent":{  "path":"\u0061" ,"root":"/srv"}}}"#,
    );
}

#[test]
fn excluded_tools_are_indistinguishable_from_missing_ones() {
    for mode in ["dynamic", "proxy", "direct"] {
        let bench = bench(mode);
        let agent = greeted(&bench);
        agent.open("get");
        let text = |tool: &str| {
            let response = agent.use_tool(["get", "files", tool], json!({}));
            assert!(response.is_tool_error(), "{mode}: {tool}");
            response.text().replace(tool, "…")
        };
        let absent = text("nowhere");
        // Disabled, in another category, renamed, and a different tool than the prefixed one.
        for tool in ["stat", "write", "read", "list"] {
            assert_eq!(text(tool).split('.').next(), absent.split('.').next(), "{mode}: {tool}");
        }
    }
}

#[test]
fn direct_mode_uses_full_names_for_ambiguous_tools() {
    let bench = bench("direct");
    let agent = greeted(&bench);
    // A prefix as clients use it is part of this tool's own name.
    let namesake = "get__files__mcp__files__list";
    assert_eq!(agent.tool_names(), ["fetch", namesake, "read", "write"]);
    let called = agent.call("read", json!({"path": "a"})).structured();
    assert_eq!(called, json!({"path": "a", "root": "/srv"}));
}

#[test]
fn first_tool_keeps_a_duplicate_name_and_check_warns() {
    let mut entry = fake(json!({ "tools": ["echo", "b"] }));
    entry["overrides"] = json!({"b": {"name": "echo"}});
    let bench = TestEnvironment::new().server("box", "one", entry);
    let output = bench.run(["check", "--connect"]);
    assert_eq!(output.code, Some(0), "{output}");
    let said = "warning: tool `b` of `box/one` is hidden: the name `echo` is taken";
    assert!(output.stdout.contains(said), "{output}");
    let listed = bench.run(["list", "--json"]);
    assert_eq!(listed.stdout.matches("registered_name").count(), 1, "{listed}");
}
