//! `proxy` mode, and the constant tool list of modern requests in every mode.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::{Agent, TestEnvironment, fake};

fn bench() -> TestEnvironment {
    TestEnvironment::new()
        .set("toolMode", json!("proxy"))
        .toolbox("math", "Adding and echoing")
        .server("math", "calc", fake(json!({"tools": [
            {"name": "echo", "description": "Says it again. And again.", "inputSchema": {"type": "object"}, "later": 1.0},
            {"name": "add", "description": "Adds", "inputSchema": {
                "type": "object",
                "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
                "required": ["a"],
            }},
        ]})))
}

fn agent(bench: &TestEnvironment) -> Agent {
    let agent = bench.agent();
    agent.initialize();
    agent
}

#[test]
fn opening_returns_one_definition_per_line() {
    let bench = bench();
    let agent = agent(&bench);
    assert_eq!(agent.tool_names(), ["open_toolbox", "use_tool"]);
    let text = agent.open("math").text();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(
        lines,
        [
            r#"{"toolbox":"math","description":"Adding and echoing","servers_connected":1,"failed_servers":[],"tools":["#,
            r#"{"toolbox":"math","server":"calc","name":"echo","description":"Says it again. And again.","inputSchema":{"type":"object"},"later":1.0},"#,
            r#"{"toolbox":"math","server":"calc","name":"add","description":"Adds","inputSchema":{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}},"required":["a"]}}"#,
            "]}",
        ]
    );
    serde_json::from_str::<Value>(&text).expect("one JSON text");
    assert_eq!(agent.tool_names(), ["open_toolbox", "use_tool"], "the tool list changed");
    assert!(agent.notifications().is_empty());
}

#[test]
fn use_tool_accepts_all_argument_shapes() {
    let bench = bench();
    let agent = agent(&bench);
    let tool = json!({"toolbox": "math", "server": "calc", "tool": "echo"});
    let named = json!({"toolbox": "math", "server": "calc", "name": "echo"});
    let x = json!({"x": 1});
    for (arguments, expected) in [
        (json!({"tool": tool, "arguments": x}), x.clone()),
        (json!({"tool": named, "arguments": x}), x.clone()),
        (json!({"tool": tool.to_string(), "arguments": x}), x.clone()),
        (json!({"tool": tool, "arguments": x.to_string()}), x.clone()),
        (json!({"tool": tool, "arguments": null}), json!({})),
        (json!({"tool": tool, "arguments": ""}), json!({})),
        (json!({"tool": tool}), json!({})),
        (json!({"tool": "math__calc__echo", "arguments": x}), x.clone()),
        (
            json!({"toolbox_name": "math", "tool_name": "math__calc__echo", "arguments": x}),
            x.clone(),
        ),
        (json!({"toolbox_name": "math", "tool_name": "calc__echo", "arguments": x}), x.clone()),
        (json!({"toolbox_name": "math", "tool_name": "echo", "arguments": x}), x.clone()),
    ] {
        let response = agent.call("use_tool", arguments.clone());
        assert!(!response.is_tool_error(), "{arguments}: {}", response.text());
        let echoed = response.ok()["structuredContent"].clone();
        let echoed = if echoed.is_null() { json!({}) } else { echoed };
        assert_eq!(echoed, expected, "{arguments}");
    }
    // The registered name also works, although it is never listed.
    assert_eq!(agent.call("math__calc__echo", x.clone()).structured(), x);
}

#[test]
fn invalid_use_tool_calls_are_explained() {
    let bench = bench();
    let agent = agent(&bench);
    let explained = |arguments: Value| {
        let response = agent.call("use_tool", arguments);
        assert!(response.is_tool_error());
        response.text()
    };
    let id = |toolbox: &str, server: &str, tool: &str| json!({"tool": {"toolbox": toolbox, "server": server, "tool": tool}});
    insta::assert_snapshot!(explained(json!({})));
    insta::assert_snapshot!(explained(json!({"tool": 7})));
    insta::assert_snapshot!(explained(id("moth", "calc", "add")));
    insta::assert_snapshot!(explained(id("math", "clac", "add")));
    insta::assert_snapshot!(explained(id("math", "calc", "ad")));
    let mut wrong = id("math", "calc", "echo");
    wrong["arguments"] = json!([1]);
    insta::assert_snapshot!(explained(wrong));
}

#[test]
fn server_error_is_followed_by_schema_mismatches() {
    let schema = json!({
        "type": "object",
        "properties": {"a": {"type": "number"}, "b": {"type": "string", "default": "x"}},
        "required": ["a", "b"],
    });
    let raw = r#"{"isError":true, "content":[ {"text":"\u0061 is bad" , "type":"text"} ],"n":1.0}"#;
    let tool = |name: &str| json!({"name": name, "inputSchema": schema});
    let bench = TestEnvironment::new().set("toolMode", json!("proxy")).server(
        "math",
        "calc",
        fake(json!({
            "tools": [tool("add"), tool("fail"), tool("refuse")],
            "behavior": {
                "add": "echo",
                "fail": {"result": {"raw": raw}},
                "refuse": {"error": {"code": -32602, "message": "no such cheese"}},
            },
        })),
    );
    let agent = agent(&bench);
    let taken = agent.use_tool(["math", "calc", "add"], json!({"a": "1"}));
    assert_eq!(taken.structured(), json!({"a": "1"}), "the server accepts the argument");

    let hint = "possible cause: the arguments violate the schema of `math/calc/fail`:\n- `a` is a \
                string; schema: {\"type\":\"number\"}";
    let block = json!({"type": "text", "text": hint});
    let failed = agent.use_tool(["math", "calc", "fail"], json!({"a": "1"})).raw_result();
    assert_eq!(failed, raw.replacen(" ],", &format!(" ,{block}],"), 1));
    let fits = agent.use_tool(["math", "calc", "fail"], json!({"a": 1})).raw_result();
    assert_eq!(fits, raw, "valid arguments got a hint");
    let named = agent.call("math__calc__fail", json!({"a": "1"})).raw_result();
    assert_eq!(named, raw, "a call by name gets no hint");

    let refused = agent.use_tool(["math", "calc", "refuse"], json!({}));
    let hint = "possible cause: the arguments violate the schema of `math/calc/refuse`:\n- `a` is \
                required but missing; schema: {\"type\":\"number\"}";
    assert_eq!(
        refused.error(),
        json!({"code": -32602, "message": "no such cheese", "data": {"hint": hint}})
    );
    let refused = agent.call("math__calc__refuse", json!({}));
    assert_eq!(refused.error(), json!({"code": -32602, "message": "no such cheese"}));
}

#[test]
fn large_toolbox_falls_back_to_signatures() {
    let tools: Vec<_> = (0..40)
        .map(|n| {
            json!({
                "name": format!("tool_{n}"),
                "description": format!("Does thing {n}. {}", "More about it. ".repeat(20)),
                "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
            })
        })
        .collect();
    let bench = TestEnvironment::new()
        .set("toolMode", json!("proxy"))
        .set("limits", json!({"maxListingBytes": 8000}))
        .server("big", "srv", fake(json!({"tools": tools})));
    let agent = agent(&bench);
    let text = agent.open("big").text();
    assert!(text.len() < 8400, "{}", text.len());
    let opened: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(opened["tools"].as_array().unwrap().len(), 40);
    assert_eq!(
        opened["tools"][3],
        json!({"server": "srv", "name": "tool_3", "signature": "tool_3(path: string)", "description": "Does thing 3."})
    );
    assert_eq!(
        opened["more"],
        r#"for full definitions call open_toolbox with "tools": ["tool_0"]"#
    );

    let full = agent
        .call("open_toolbox", json!({"toolbox": "big", "tools": ["tool_3", "big__srv__tool_4"]}))
        .text();
    let full: Value = serde_json::from_str(&full).unwrap();
    assert_eq!(full["tools"].as_array().unwrap().len(), 2);
    assert_eq!(full["tools"][0]["inputSchema"]["required"], json!(["path"]));
    assert_eq!(full["tools"][1]["name"], "tool_4");
    assert!(full.get("more").is_none());

    let response = agent.call("open_toolbox", json!({"toolbox": "big", "tools": ["tol_3"]}));
    assert!(response.is_tool_error());
    assert!(response.text().contains("`tool_3`"), "{}", response.text());
}

// invariant: text-is-bounded
#[test]
fn truncated_list_reports_the_omitted_count() {
    let tools: Vec<_> = (0..500).map(|n| format!("a_tool_with_a_rather_long_name_{n}")).collect();
    let bench = TestEnvironment::new()
        .set("toolMode", json!("proxy"))
        .set("limits", json!({"maxListingBytes": 4000}))
        .server("big", "srv", fake(json!({"tools": tools})));
    let agent = agent(&bench);
    let text = agent.open("big").text();
    assert!(text.len() < 4400, "{}", text.len());
    let opened: Value = serde_json::from_str(&text).unwrap();
    let shown = opened["tools"].as_array().unwrap().len();
    assert!(shown > 10);
    assert_eq!(opened["tools_left_out"], 500 - shown);
}

#[test]
fn modern_requests_get_a_constant_list_in_dynamic_mode() {
    let bench = bench().set("toolMode", json!("dynamic"));
    let agent = bench.agent().modern();
    let probe = agent.request("server/discover", json!({}));
    assert_eq!(probe.error()["code"], -32601, "dynamic does not offer the modern revision");
    assert_eq!(agent.tool_names(), ["open_toolbox", "use_tool"]);
    let opened = agent.open("math");
    assert!(opened.text().contains(r#""inputSchema""#));
    assert_eq!(opened.ok()["resultType"], "complete");
    assert_eq!(agent.tool_names(), ["open_toolbox", "use_tool"]);
    let used = agent.use_tool(["math", "calc", "echo"], json!({"x": 1}));
    assert_eq!(used.ok()["structuredContent"], json!({"x": 1}));
    assert_eq!(used.ok()["resultType"], "complete");
    assert!(agent.notifications().is_empty());
}

// invariant: any-era-pairing
#[test]
fn proxy_serves_both_eras_on_one_pipe() {
    let bench = bench();
    let agent = bench.agent().modern();
    let discovered = agent.request("server/discover", json!({})).ok();
    assert!(discovered["supportedVersions"].as_array().unwrap().contains(&json!("2026-07-28")));
    assert!(discovered["instructions"].as_str().unwrap().starts_with("Toolboxes: math ("));
    let list = agent.request("tools/list", json!({})).ok();
    assert_eq!(list["ttlMs"], 0);
    assert_eq!(list["resultType"], "complete");
    agent.call("math__calc__echo", json!({})).ok();

    // Without `_meta`, so it is a request of an older revision.
    agent.send_raw(
        &json!({"jsonrpc": "2.0", "id": "first", "method": "initialize", "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "test-agent", "version": "1.0.0"},
        }})
        .to_string(),
    );
    assert_eq!(agent.wait(&"first".into()).ok()["protocolVersion"], "2025-11-25");
    agent.send_raw(r#"{"jsonrpc": "2.0", "id": "second", "method": "tools/list"}"#);
    assert!(agent.wait(&"second".into()).ok().get("resultType").is_none());
    assert_eq!(agent.request("tools/list", json!({})).ok()["resultType"], "complete");
}

#[test]
fn notification_before_initialize_is_ignored() {
    let bench = bench();
    let agent = bench.agent();
    agent.notify("notifications/initialized", Value::Null);
    agent.initialize();
    assert_eq!(agent.tool_names(), ["open_toolbox", "use_tool"]);
}

#[test]
fn unknown_revision_is_rejected_with_the_supported_ones() {
    let bench = bench();
    let agent = bench.agent();
    let response = agent.request(
        "tools/list",
        json!({"_meta": {"io.modelcontextprotocol/protocolVersion": "2031-01-01", "io.modelcontextprotocol/clientCapabilities": {}}}),
    );
    assert_eq!(response.error()["code"], -32022);
    assert!(response.error()["data"]["supported"].as_array().unwrap().len() >= 5);
}

#[test]
fn open_subscription_does_not_delay_shutdown() {
    let bench = bench();
    let agent = bench.agent().modern();
    agent.request("server/discover", json!({})).ok();
    agent
        .send_request("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    agent.next_notification("notifications/subscriptions/acknowledged");
    agent.close_stdin();
    let status = agent.wait_exit(std::time::Duration::from_secs(2));
    assert_eq!(status.code(), Some(0));
}
