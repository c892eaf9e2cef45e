//! `expose`: a remotely exposed server behaves like one that the workbench starts itself.

use std::fs;
use std::time::Duration;

use pretty_assertions::assert_eq;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::agent::Response;
use crate::support::http::{HttpClient, HttpWorkbench, Session, request};
use crate::support::{Agent, TestEnvironment, fake};

/// Tools with unusual names and spelling, which must come through byte for byte.
const TOOLS: [&str; 5] = [
    r#"{ "inputSchema" : {"type":"object"} ,"name":"open_toolbox","odd":1.0,"odd":2,"description":"\/ \u00e9" }"#,
    r#"{"name":"use_tool","inputSchema":{"type":"object","properties":{"n":{"maximum":1e3,"default":-0}}},"outputSchema":{"type":"object"}}"#,
    r#"{"name":"a_name_that_is_far_longer_than_what_a_workbench_would_register_it_under","inputSchema":{"type":"object"}}"#,
    r#"{"name":"with.dots/and:more","inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":"ui://a"}}}"#,
    r#"{"name":"echo","inputSchema":{"type":"object"}}"#,
];

const RESULT: &str = r#"{ "content" :[ {"type":"text","text":"\u0041","n":1.0} ] , "odd":-0}"#;

fn script() -> Value {
    json!({
        "instructions": "Ask it twice.",
        "tools": ["open_toolbox", "with.dots/and:more"],
        "behavior": {
            "open_toolbox": { "result": { "raw": RESULT } },
            "with.dots/and:more": { "result": { "raw": RESULT } },
        },
        "capabilities": { "resources": {}, "prompts": {}, "tools": { "listChanged": true, "odd": 1 } },
        "answers": {
            "resources/list": { "resources": [{ "uri": "workbench://x", "name": "x", "odd": 1 }] },
            "resources/templates/list": { "resourceTemplates": [{ "uriTemplate": "t://{a}", "name": "t" }] },
            "prompts/list": { "prompts": [{ "name": "open toolbox", "odd": 2 }] },
            "resources/read": { "contents": [{ "uri": "workbench://x", "text": "read" }] },
            "prompts/get": { "messages": [] },
        },
        "rawAnswers": { "tools/list": format!(r#"{{"tools":[{}]}}"#, TOOLS.join(",")) },
    })
}

fn answer(http: HttpClient, is_modern: bool, method: &str, params: Value) -> String {
    let name = params["name"].as_str().or(params["uri"].as_str()).unwrap_or_default().to_owned();
    if is_modern {
        let headers = [("Mcp-Name", name.as_str())];
        return http.modern(method, params, &headers).text();
    }
    Session::begin(http).post(&request(1, method, params)).text()
}

#[test]
fn exposes_the_server_byte_for_byte() {
    let bench = TestEnvironment::new()
        .server("box", "odd", fake(script()))
        .server("box", "other", fake(json!({ "tools": ["other"] })))
        .set("limits", json!({ "maxResultBytes": 2000 }));
    let (_program, http) = bench.expose(["odd"]);
    for is_modern in [false, true] {
        let listed = answer(http, is_modern, "tools/list", json!({}));
        let tools = format!(r#""tools":[{}]"#, TOOLS.join(","));
        assert!(listed.contains(&tools), "{listed}");
        for name in ["open_toolbox", "with.dots/and:more"] {
            let called = answer(http, is_modern, "tools/call", json!({ "name": name }));
            assert!(called.contains(&RESULT[1..RESULT.len() - 1]), "{called}");
        }
        let unknown = answer(http, is_modern, "tools/call", json!({ "name": "box__odd__echo" }));
        assert!(unknown.contains("there is no tool"), "{unknown}");
        let read = answer(http, is_modern, "resources/read", json!({ "uri": "workbench://x" }));
        assert!(read.contains(r#""text":"read""#), "{read}");
        let prompts = answer(http, is_modern, "prompts/list", json!({}));
        assert!(prompts.contains(r#"{"name":"open toolbox","odd":2}"#), "{prompts}");
    }
    let hello = http.post(&[], &request(0, "initialize", json!({
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "c", "version": "1" },
    }))).json();
    assert_eq!(hello["result"]["instructions"], "Ask it twice.");
    assert_eq!(
        hello["result"]["capabilities"],
        json!({ "resources": {}, "prompts": {}, "tools": { "listChanged": true, "odd": 1 } })
    );
}

/// Returns an agent whose workbench starts the server and one whose workbench reaches it through
/// `expose`.
fn both(mode: &str, entry: &Value) -> [(Agent, Option<(HttpWorkbench, HttpClient)>); 2] {
    let far = TestEnvironment::new().server("box", "srv", entry.clone()).expose(["box/srv"]);
    let url = json!({ "url": format!("http://{}/mcp", far.1.0), "roots": true });
    let mut near = entry.clone();
    near["roots"] = true.into();
    [(near, None), (url, Some(far))].map(|(entry, far)| {
        let bench = TestEnvironment::new().set("toolMode", mode.into()).server("box", "srv", entry);
        (
            bench.agent().with_reply(
                "elicitation/create",
                json!({ "action": "accept", "content": { "a": 1 } }),
            ),
            far,
        )
    })
}

fn said(response: &Response) -> String {
    match response.result() {
        Some(_) => response.raw_result(),
        None => response.error().to_string(),
    }
}

fn walk(agent: &Agent) -> Vec<String> {
    agent.initialize_with(json!({ "capabilities": { "elicitation": {}, "roots": {} } }));
    let mut seen = vec![agent.open("box").ok().to_string()];
    agent.request("logging/setLevel", json!({ "level": "debug" })).ok();
    seen.push(agent.request("tools/list", json!({})).raw_result());
    let calls = [
        ("box__srv__echo", json!({ "n": 1e3, "é": [null] })),
        (
            "box__srv__ask",
            json!({ "method": "elicitation/create", "params": {
            "message": "Sure?", "requestedSchema": { "type": "object", "properties": {} } } }),
        ),
        ("box__srv__sleep", json!({ "ms": 30, "progressEveryMs": 10 })),
        ("box__srv__nothing", json!({})),
    ];
    for (tool, arguments) in calls {
        let params = json!({ "name": tool, "arguments": arguments });
        seen.push(said(&agent.request("tools/call", params)));
    }
    for (method, params) in [
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("prompts/list", json!({})),
        ("resources/read", json!({ "uri": "a://1" })),
        ("prompts/get", json!({ "name": "p" })),
    ] {
        seen.push(said(&agent.request(method, params)));
    }
    seen
}

#[test]
fn exposed_server_is_equivalent_to_a_local_one() {
    let script = json!({
        "instructions": "Ask it twice.",
        "tools": ["echo", "ask", "sleep", "count"],
        "capabilities": { "resources": {}, "prompts": {}, "logging": {} },
        "answers": {
            "resources/list": { "resources": [{ "uri": "a://1", "name": "x", "odd": 1 }] },
            "resources/templates/list": { "resourceTemplates": [{ "uriTemplate": "t://{a}", "name": "t" }] },
            "prompts/list": { "prompts": [{ "name": "p", "odd": 2 }] },
            "resources/read": { "contents": [{ "uri": "a://1", "text": "read" }] },
            "prompts/get": { "messages": [] },
        },
    });
    let [near, far] = both("dynamic", &fake(script));
    // The workbenches speak 2026-07-28 to each other, which adds cache hints to read results.
    let hints = r#""ttlMs":0,"cacheScope":"private","#;
    let seen: Vec<String> = walk(&far.0).into_iter().map(|text| text.replace(hints, "")).collect();
    assert_eq!(seen, walk(&near.0));
    let id = far.0.send_call("box__srv__sleep", json!({ "ms": 60_000, "progressEveryMs": 10 }));
    far.0.wait_progress(&id, 2);
    far.0.cancel(&id);
    let count = || far.0.call("box__srv__count", json!({})).ok().to_string();
    let cancelled = std::iter::repeat_with(count).take(200);
    assert!(cancelled.into_iter().any(|count| !count.contains(r#"\"cancelled\":[]"#)));
}

#[test]
fn exposes_a_command_without_a_configuration() {
    let entry = fake(json!({ "tools": ["echo"] }));
    let (program, script) =
        (entry["command"].as_str().unwrap(), entry["args"][0].as_str().unwrap());
    let (program, http) = TestEnvironment::new().expose(["--", program, script]);
    assert_eq!(http.send("GET", "/health", &[], "").status, 200);
    let ready = || http.send("GET", "/ready", &[], "").status == 200;
    assert!(std::iter::repeat_with(ready).take(1000).any(|is_ready| is_ready));
    // `/ready` turns 200 slightly before the metrics are updated.
    let counts = || http.send("GET", "/metrics", &[], "").text();
    let is_counted = |metrics: String| metrics.contains("mcp_workbench_servers_running");
    assert!(std::iter::repeat_with(counts).take(1000).any(is_counted), "{}", counts());
    let called =
        answer(http, false, "tools/call", json!({ "name": "echo", "arguments": { "a": 1 } }));
    assert!(called.contains(r#"{"a":1}"#), "{called}");
    program.0.signal(Signal::TERM);
    assert_eq!(program.0.wait_exit(Duration::from_secs(5)).code(), Some(0));
}

#[test]
fn exposed_server_that_fails_to_start_is_not_ready() {
    let broken = fake(json!({ "failStart": { "stderr": ["no key"] } }));
    let (_program, http) = TestEnvironment::new().server("box", "odd", broken).expose(["odd"]);
    let hello = answer(http, true, "server/discover", json!({}));
    assert!(hello.contains("the server `odd` could not be started"), "{hello}");
    assert_eq!(http.send("GET", "/ready", &[], "").status, 503);
}

#[test]
fn unknown_server_fails_at_start_and_is_ignored_on_reload() {
    let bench = TestEnvironment::new()
        .server("one", "same", fake(json!({})))
        .server("two", "same", fake(json!({})))
        .server("two", "files", fake(json!({ "tools": ["echo"] })));
    bench.write_config();
    let refused = |name: &str| {
        let config = bench.path_text("workbench.json");
        let output = bench.run_bare(["expose", name, "--http", "127.0.0.1:0", "-c", &config]);
        assert_eq!(output.code, Some(2));
        output.stderr
    };
    assert!(refused("fils").contains("did you mean `files`?"));
    assert!(refused("same").contains("one of `one/same`, `two/same`"));

    let (program, http) = bench.expose(["files"]);
    let call = || {
        let params = json!({ "name": "echo", "arguments": {} });
        answer(http, false, "tools/call", params)
    };
    assert!(call().contains("content"));
    let without = json!({ "mcpServers": { "a": fake(json!({})) } });
    fs::write(bench.config_path(), without.to_string()).unwrap();
    program.0.signal(Signal::HUP);
    program.0.wait_stderr("no server `files` in the configuration");
    assert!(call().contains("content"));
}

#[test]
fn access_rules_apply_to_an_exposed_server() {
    let bench = TestEnvironment::new()
        .env("TOKEN_OF_ANN", "mcpw_ann_0123456789abcdefghij")
        .env("TOKEN_OF_BOB", "mcpw_bob_0123456789abcdefghij")
        .server("box", "files", fake(json!({ "tools": ["echo", "sleep"] })))
        .set("auth", json!({ "tokens": [
            { "agent": "ann", "env": "TOKEN_OF_ANN" }, { "agent": "bob", "env": "TOKEN_OF_BOB" },
        ] }))
        .set("agentPolicies", json!({ "ann": { "toolOverrides": { "files": ["echo"] } }, "bob": { "allowedServers": [] } }));
    let (_program, http) = bench.expose(["files"]);
    assert_eq!(http.modern("tools/list", json!({}), &[]).status, 401);
    let of = |token: &str| {
        let token = format!("Bearer {token}");
        http.modern("tools/list", json!({}), &[("Authorization", &token)]).text()
    };
    let ann = of("mcpw_ann_0123456789abcdefghij");
    assert!(ann.contains("echo") && !ann.contains("sleep"), "{ann}");
    assert!(of("mcpw_bob_0123456789abcdefghij").contains(r#""tools":[]"#));
}
