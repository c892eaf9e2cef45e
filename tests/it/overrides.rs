//! Changes that the configuration makes to single tools, in every mode: which there are, their
//! names and descriptions, and the arguments that they always have.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::{Agent, Bench, fake};

/// Tools that echo their arguments.
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

/// A server that is divided into two categories.
fn bench(mode: &str) -> Bench {
    let mut files = fake(json!({ "tools": tools() }));
    files["overrides"] = json!({
        "stat": {"enabled": false},
        "read": {"description": "Said of all", "arguments": {"root": "/srv"}},
    });
    Bench::new().config(json!({
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

fn greeted(bench: &Bench) -> Agent {
    let agent = bench.agent().relisting();
    agent.initialize();
    agent
}

#[test]
fn a_category_has_the_tools_it_names_with_its_own_words() {
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
fn pinned_arguments_are_put_into_every_call() {
    for mode in ["dynamic", "proxy", "direct"] {
        let bench = bench(mode);
        let agent = greeted(&bench);
        let path = ["get", "files", "fetch"];
        let called = agent.use_tool(path, json!({"path": "a"})).structured();
        assert_eq!(called, json!({"path": "a", "root": "/srv"}), "{mode}");
        // What the model gives for one does not count.
        let called = agent.call("get__files__fetch", json!({"path": "a", "root": "/"}));
        assert_eq!(called.structured(), json!({"path": "a", "root": "/srv"}), "{mode}");
        // Whether the rest is right is for the server to say.
        let called = agent.call("get__files__fetch", json!({"paht": "a"}));
        assert_eq!(called.structured(), json!({"paht": "a", "root": "/srv"}), "{mode}");
    }
}

#[test]
fn the_other_arguments_stay_byte_for_byte() {
    let bench = bench("proxy");
    let agent = greeted(&bench);
    agent.send_raw(
        r#"{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"get__files__fetch","arguments":{ "root" : 7,  "path":"\u0061" }}}"#,
    );
    agent.wait_line(
        r#"{"jsonrpc":"2.0","id":"x","result":{"content":[{"type":"text","text":"{ \"root\" : \"/srv\",  \"path\":\"\\u0061\" }"}],"structuredContent":{ "root" : "/srv",  "path":"\u0061" }}}"#,
    );
}

#[test]
fn what_is_left_out_looks_like_what_is_not_there() {
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
        // Switched off, of another category, called otherwise, and not what was meant.
        for tool in ["stat", "write", "read", "list"] {
            assert_eq!(text(tool).split('.').next(), absent.split('.').next(), "{mode}: {tool}");
        }
    }
}

#[test]
fn in_direct_mode_what_differs_has_full_names() {
    let bench = bench("direct");
    let agent = greeted(&bench);
    // What begins as clients begin the names of a server's tools is a name of its own.
    let namesake = "get__files__mcp__files__list";
    assert_eq!(agent.tool_names(), ["fetch", namesake, "read", "write"]);
    let called = agent.call("read", json!({"path": "a"})).structured();
    assert_eq!(called, json!({"path": "a", "root": "/srv"}));
}

#[test]
fn of_two_tools_that_come_to_one_name_the_first_has_it_and_check_says_so() {
    let mut entry = fake(json!({ "tools": ["echo", "b"] }));
    entry["overrides"] = json!({"b": {"name": "echo"}});
    let bench = Bench::new().server("box", "one", entry);
    let output = bench.run(["check", "--connect"]);
    assert_eq!(output.code, Some(0), "{output}");
    let said = "warning: tool `b` of `box/one` is not shown: another is called `echo`";
    assert!(output.stdout.contains(said), "{output}");
    let listed = bench.run(["list", "--json"]);
    assert_eq!(listed.stdout.matches("registered_name").count(), 1, "{listed}");
}
