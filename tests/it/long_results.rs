//! Results over `maxResultBytes`: truncation, and reading the rest as a resource.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::{Agent, Response, TestEnvironment, fake};

const MOST: usize = 2000;

fn bench(mode: &str) -> TestEnvironment {
    let echo = json!({ "name": "echo", "inputSchema": { "type": "object" }, "outputSchema": { "type": "object" } });
    let script = json!({
        "protocol": "dual",
        "tools": [echo, "result", "tool_error", "huge", "error"],
        "capabilities": { "resources": {} },
        "answers": { "resources/list": { "resources": [{ "uri": "file:///a", "name": "a" }] } },
    });
    TestEnvironment::new()
        .set("toolMode", json!(mode))
        .set("limits", json!({ "maxResultBytes": MOST }))
        .set("activeToolsets", json!(["*"]))
        .server("box", "srv", fake(script))
}

fn call(agent: &Agent, mode: &str, tool: &str, arguments: Value) -> Response {
    let path = json!({ "toolbox": "box", "server": "srv", "tool": tool });
    match mode {
        "direct" => agent.call(tool, arguments),
        "activate" => agent.call(&format!("box_{tool}"), arguments),
        "modular" => agent
            .call("call-modular-tool", json!({ "group": "box", "name": tool, "args": arguments })),
        "dynamic" => agent.call(&format!("box__srv__{tool}"), arguments),
        _ => agent.call("use_tool", json!({ "tool": path, "arguments": arguments })),
    }
}

fn read(agent: &Agent, uri: &str) -> Response {
    agent.request("resources/read", json!({ "uri": uri }))
}

fn rest(result: &Value) -> String {
    let blocks = result["content"].as_array().unwrap();
    let note = blocks.last().unwrap()["text"].as_str().unwrap();
    let (_, uri) = note.rsplit_once(' ').unwrap();
    assert!(uri.starts_with("mcp-workbench://results/"), "{note}");
    uri.to_owned()
}

fn read_all(agent: &Agent, uri: &str) -> String {
    let (mut uri, mut all) = (uri.to_owned(), String::new());
    loop {
        let read = read(agent, &uri).ok();
        let contents = read["contents"].as_array().unwrap();
        assert_eq!(
            (&contents[0]["uri"], &contents[0]["mimeType"]),
            (&json!(uri), &json!("text/plain"))
        );
        assert!(contents[0]["text"].to_string().len() <= MOST + 2);
        all += contents[0]["text"].as_str().unwrap();
        match contents.get(1) {
            Some(note) => {
                let (_, next) = note["text"].as_str().unwrap().rsplit_once(' ').unwrap();
                next.clone_into(&mut uri);
            }
            None => return all,
        }
    }
}

#[test]
fn a_long_result_is_read_in_pieces_in_every_mode_and_era() {
    for mode in ["direct", "proxy", "dynamic", "activate", "modular"] {
        for (is_modern, over_http) in [(false, false), (true, false), (false, true), (true, true)] {
            let bench = bench(mode);
            let agent = if over_http { Agent::over_http(bench.http()) } else { bench.agent() };
            let agent = agent.begin(is_modern, json!({}));
            if mode == "dynamic" {
                agent.open("box").ok();
            }
            let lines: Vec<String> = (0..3000).map(|n| n.to_string()).collect();
            let text = lines.join("\n€");
            let blocks =
                json!([{ "type": "text", "text": text }, { "type": "image", "data": "aaaa" }]);
            let raw =
                json!({ "content": blocks, "structuredContent": { "n": 1 }, "_meta": { "x": 1 } });
            let result = call(&agent, mode, "result", json!({ "raw": raw.to_string() })).ok();
            let content = result["content"].as_array().unwrap();
            assert_eq!(content.len(), 3, "{mode} {is_modern} {over_http}");
            let first = content[0]["text"].as_str().unwrap();
            assert!(
                text.starts_with(first)
                    && (MOST - 100..=MOST).contains(&content[0].to_string().len())
            );
            let uri = rest(&result);
            assert_eq!(
                (&content[1]["type"], &content[1]["uri"]),
                (&json!("resource_link"), &json!(uri))
            );
            assert_eq!(
                (&result["structuredContent"], &result["_meta"]["x"]),
                (&Value::Null, &json!(1))
            );
            let note = content[2]["text"].as_str().unwrap();
            assert!(note.contains("including `structuredContent`"), "{note}");
            let all = read_all(&agent, &uri);
            let expected = "\n{\"type\":\"image\",\"data\":\"aaaa\"}\nstructuredContent: {\"n\":1}";
            assert_eq!(format!("{first}{all}"), format!("{text}{expected}"));
            // Stored results aren't listed, and an unknown URI gets the error of any missing
            // resource.
            let list = agent.request("resources/list", json!({})).ok();
            assert!(!list.to_string().contains("results/"), "{list}");
            let code = if is_modern { -32602 } else { -32002 };
            let unknown = "mcp-workbench://results/0123456789abcdef0123456789abcdef".to_owned();
            let end = format!("{uri}?offset={}", all.len() + 1);
            for uri in [unknown, end, format!("{uri}?offset=1")] {
                assert_eq!(read(&agent, &uri).error()["code"], code, "{mode} {uri}");
            }
        }
    }
}

#[test]
fn short_results_are_verbatim_and_tool_errors_truncated() {
    let agent = bench("direct").agent().begin(false, json!({}));
    let raw = format!(r#"{{ "content":[], "structuredContent":{{"a":"{}"}} }}"#, "x".repeat(1000));
    assert_eq!(agent.call("result", json!({ "raw": raw })).raw_result(), raw);
    let failed = agent.call("tool_error", json!({ "text": "y".repeat(5000) }));
    assert!(failed.is_tool_error());
    let failed = failed.ok();
    let first = failed["content"][0]["text"].as_str().unwrap().len();
    assert_eq!(read_all(&agent, &rest(&failed)), "y".repeat(5000 - first));
    let message = "z".repeat(5000);
    let error = agent.call("error", json!({ "code": -32000, "message": message })).error();
    assert_eq!(error["message"], message);
    // Truncated results lack `structuredContent`, so a client would reject them against an output
    // schema.
    assert!(agent.tools().iter().all(|tool| tool["outputSchema"].is_null()));
    let whole = bench("direct").set("limits", json!({})).agent().begin(false, json!({}));
    assert!(whole.tools().iter().any(|tool| !tool["outputSchema"].is_null()));
    assert_eq!(whole.call("huge", json!({ "bytes": 5000 })).text().len(), 5000);
}

// invariant: results-per-agent
#[test]
fn stored_results_are_private_to_their_session() {
    let bench = bench("proxy");
    let one = Agent::over_http(bench.http());
    let other = one.beside().begin(false, json!({}));
    let one = one.begin(false, json!({}));
    let result = call(&one, "proxy", "huge", json!({ "bytes": 5000 })).ok();
    let uri = rest(&result);
    assert!(read(&one, &uri).result().is_some());
    let refused = read(&other, &uri).error();
    assert_eq!(refused["code"], -32002);
    assert_eq!(refused["message"], format!("resource `{uri}` not found"));
    // Sessionless requests are attributed to the agent.
    let modern = one.beside().begin(true, json!({}));
    let uri = rest(&call(&modern, "proxy", "huge", json!({ "bytes": 5000 })).ok());
    assert!(read(&modern, &uri).result().is_some());
}

#[test]
fn stored_results_are_limited_per_caller() {
    let limits = json!({
        "maxResultBytes": MOST,
        "perCaller": { "maxStoredResults": 2, "maxStoredBytes": 20_000 },
    });
    let bench = bench("proxy").set("limits", limits);
    let agent = bench.agent().begin(false, json!({}));
    let long = |bytes: usize| call(&agent, "proxy", "huge", json!({ "bytes": bytes })).ok();
    let is_there = |uri: &str| read(&agent, uri).result().is_some();
    let [first, second] = [(); 2].map(|()| rest(&long(5000)));
    assert!(is_there(&first) && is_there(&second));
    let third = rest(&long(5000));
    assert_eq!([&first, &second, &third].map(|uri| is_there(uri)), [false, true, true]);
    // A result over the quota evicts the others and is stored up to the quota.
    let longest = long(50_000);
    assert!(longest.to_string().contains("The first 20000 of them can be read"));
    assert_eq!([&second, &third, &rest(&longest)].map(|uri| is_there(uri)), [false, false, true]);
    assert_eq!(read_all(&agent, &rest(&longest)).len(), 20_000);
    agent.wait_stderr("limit reached");
    agent.wait_stderr("quota=\"stored_bytes\"");
}

#[test]
fn client_without_resource_links_gets_text_only() {
    let agent = bench("direct").agent();
    agent.initialize_with(json!({ "protocolVersion": "2025-03-26" }));
    let result = agent.call("huge", json!({ "bytes": 5000 })).ok();
    let kinds: Vec<_> = result["content"].as_array().unwrap().iter().map(|b| &b["type"]).collect();
    assert_eq!(kinds, ["text", "text"]);
    assert!(read(&agent, &rest(&result)).result().is_some());
}
