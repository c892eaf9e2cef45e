//! Agents over HTTP: sessions of the older revisions, and the newest revision without sessions.

use std::thread;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::http::{HttpClient, HttpWorkbench, Response, Session, request, tool};
use crate::support::{TestEnvironment, fake};

fn serve() -> (HttpWorkbench, HttpClient) {
    let script = json!({ "tools": ["echo", "sleep", "count", "ask"] });
    let bench =
        TestEnvironment::new().server("box", "fake", fake(script)).set("toolMode", json!("proxy"));
    bench.http()
}

#[test]
fn session_lifecycle() {
    let (_program, http) = serve();
    let session = Session::begin(http);
    let tools = session.post(&request(1, "tools/list", json!({}))).json();
    assert_eq!(tools["result"]["tools"][0]["name"], "open_toolbox");
    let odd = r#"{"jsonrpc":"2.0","id":"a\u0062","method":"tools/call","params":
        {"name":"use_tool","arguments":{"tool":{"toolbox":"box","server":"fake","tool":"echo"},
        "arguments":{"n": 1.00,"text":"a\u0062"}}}}"#;
    let answer = session.http.send("POST", "/mcp", &session.headers(), odd).text();
    assert!(answer.starts_with(r#"{"jsonrpc":"2.0","id":"a\u0062","result":"#), "{answer}");
    let ended = http.send("DELETE", "/mcp", &session.headers(), "");
    assert_eq!(ended.status, 204);
    for gone in [session.post(&request(2, "tools/list", json!({}))), session.get(None)] {
        assert_eq!(gone.status, 404);
    }
}

#[test]
fn toolbox_path_serves_only_that_toolbox() {
    let bench = TestEnvironment::new()
        .server("box", "fake", fake(json!({ "tools": ["echo"] })))
        .server("other box", "other", fake(json!({ "tools": ["count"] })));
    let (_program, http) = bench.http();
    let tools = |path: &str| {
        let answer = http.modern_at(path, "tools/list", json!({}), &[]).json();
        let tools = answer["result"]["tools"].as_array().expect("a list").clone();
        tools.iter().map(|tool| tool["name"].as_str().unwrap_or_default().to_owned()).collect()
    };
    let (one, other): (Vec<String>, Vec<String>) = (tools("/mcp/box"), tools("/mcp/other%20box"));
    assert_eq!((one, other), (vec!["echo".to_owned()], vec!["count".to_owned()]));

    let params = json!({ "name": "count", "arguments": {} });
    let name = ("Mcp-Name", "count");
    let answer = http.modern_at("/mcp/box", "tools/call", params, &[name]).json();
    assert!(answer["error"]["message"].is_string() || answer["result"]["isError"] == true);

    let answer = http.modern_at("/mcp/no-box", "tools/list", json!({}), &[]);
    assert_eq!((answer.status, answer.json()["error"]["code"].clone()), (404, json!(-32600)));
    // A session of `/mcp` isn't valid at a toolbox path.
    let session = Session::begin(http);
    let answer = http.send("GET", "/mcp/box", &session.headers(), "");
    assert_eq!(answer.status, 404);
}

#[test]
fn initialize_with_an_unknown_session_starts_a_new_one() {
    let (_program, http) = serve();
    let params = json!({
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": { "name": "test-agent", "version": "1.0.0" },
    });
    for old in ["11111111-2222-3333-4444-555555555555", &"0".repeat(32)] {
        let headers = [("Mcp-Session-Id", old)];
        assert_eq!(http.post(&headers, &request(1, "tools/list", json!({}))).status, 404);
        let answer = http.post(&headers, &request(2, "initialize", params.clone()));
        let new = answer.header("mcp-session-id").expect("a session").to_owned();
        assert_eq!(answer.status, 200);
        assert_ne!(new, old);
        let headers = [("Mcp-Session-Id", new.as_str())];
        assert_eq!(http.post(&headers, &request(3, "tools/list", json!({}))).status, 200);
    }
    // A live session stays the same one.
    let session = Session::begin(http);
    let again = session.post(&request(4, "initialize", params));
    assert_eq!(again.header("mcp-session-id"), None);
}

#[test]
fn slash_at_the_end_of_the_path_changes_nothing() {
    let (_program, http) = serve();
    let session = Session::begin(http);
    let list = request(1, "tools/list", json!({})).to_string();
    for path in ["/mcp", "/mcp/"] {
        assert_eq!(http.send("POST", path, &session.headers(), &list).status, 200, "{path}");
        assert_eq!(http.send("GET", path, &[], "").status, 405, "{path}");
    }
    for path in ["/mcp/", "/mcp/box", "/mcp/box/"] {
        let answer = http.modern_at(path, "tools/list", json!({}), &[]);
        assert_eq!(answer.status, 200, "{path}");
    }
    assert_eq!(http.modern_at("/mcp/no-box/", "tools/list", json!({}), &[]).status, 404);
}

#[test]
fn request_with_a_null_id_is_rejected() {
    let (_program, http) = serve();
    let session = Session::begin(http);
    let message = json!({ "jsonrpc": "2.0", "id": null, "method": "tools/list" });
    let answer = session.post(&message);
    assert_eq!(answer.status, 400);
    assert_eq!(answer.json()["error"]["code"], -32600);
    let message = json!({ "jsonrpc": "2.0", "id": null, "method": "notifications/initialized" });
    assert_eq!(session.post(&message).status, 202);
}

#[test]
fn health_reports_alive() {
    let (_program, http) = serve();
    let alive = http.send("GET", "/health", &[], "");
    assert_eq!((alive.status, alive.json()), (200, json!({ "status": "alive" })));
    assert_eq!(http.send("POST", "/health", &[], "").status, 405);
}

#[test]
fn modern_requests_need_no_session() {
    let (_program, http) = serve();
    let found = http.modern("server/discover", json!({}), &[]);
    assert_eq!((found.status, found.header("mcp-session-id")), (200, None));
    let found = found.json();
    assert_eq!(found["id"], 7);
    assert!(found["result"]["supportedVersions"].as_array().is_some_and(|all| !all.is_empty()));
    let name = ("Mcp-Name", "use_tool");
    let answer = http.modern("tools/call", tool("echo", json!({"text": "hello"})), &[name]);
    assert_eq!(answer.status, 200);
    assert_eq!(answer.json()["result"]["resultType"], "complete");

    let refused = |response: Response| {
        let status = response.status;
        (status, response.json()["error"]["code"].clone())
    };
    let call = || tool("echo", json!({}));
    assert_eq!(refused(http.modern("tools/call", call(), &[])), (400, json!(-32020)));
    let other = ("Mcp-Name", "open_toolbox");
    assert_eq!(refused(http.modern("tools/call", call(), &[other])), (400, json!(-32020)));
    assert_eq!(refused(http.modern("no/such/method", json!({}), &[])), (404, json!(-32601)));
    assert_eq!(http.send("GET", "/mcp", &[], "").status, 405);
}

#[test]
fn call_stream_carries_progress_and_can_be_resumed() {
    let (_program, http) = serve();
    let session = Session::begin(http);
    let mut params = tool("sleep", json!({ "ms": 300, "progressEveryMs": 50 }));
    params["_meta"] = json!({ "progressToken": "mine" });
    let mut stream = session.post(&request(1, "tools/call", params));
    assert_eq!(stream.header("content-type"), Some("text/event-stream"));
    let primed = stream.event().expect("an event");
    assert_eq!((primed.data.as_str(), primed.retry.is_some()), ("", true));
    let first = stream.event().expect("an event");
    assert_eq!(first.json()["params"]["progressToken"], "mine");
    drop(stream);
    let rest = session.get(first.id.as_deref()).messages();
    let (answer, progress) = rest.split_last().expect("an answer");
    assert_eq!(answer["id"], 1);
    assert!(progress.iter().all(|message| message["method"] == "notifications/progress"));
}

#[test]
fn server_requests_arrive_on_the_stream_of_the_call() {
    let (_program, http) = serve();
    let session = Session::begin(http);
    let form = json!({ "message": "Who?", "requestedSchema": { "type": "object" } });
    let params = tool("ask", json!({ "method": "elicitation/create", "params": form }));
    let mut stream = session.post(&request(1, "tools/call", params));
    assert_eq!(stream.event().expect("an event").data, "");
    let asked = stream.event().expect("an event").json();
    assert_eq!((&asked["method"], &asked["params"]), (&json!("elicitation/create"), &form));
    let said = json!({ "action": "accept", "content": { "name": "me" } });
    let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": said });
    assert_eq!(session.post(&answer).status, 202);
    let answer = stream.event().expect("an event").json();
    assert_eq!(answer["id"], 1);
    assert!(answer.to_string().contains(r#""name":"me""#), "{answer}");
    assert_eq!(stream.event(), None);
}

#[test]
fn modern_server_requests_are_answered_by_a_new_request() {
    let (_program, http) = serve();
    let form = json!({ "message": "Who?", "requestedSchema": { "type": "object" } });
    let params = tool("ask", json!({ "method": "elicitation/create", "params": form }));
    let call = |more: Value| {
        let mut params = params.clone();
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({"elicitation": {}});
        for (key, value) in more.as_object().into_iter().flatten() {
            params[key] = value.clone();
        }
        let answer = http.modern("tools/call", params, &[("Mcp-Name", "use_tool")]);
        assert_eq!(answer.status, 200);
        answer.json()["result"].clone()
    };
    let required = call(json!({}));
    assert_eq!(required["resultType"], "input_required");
    let questions = required["inputRequests"].as_object().expect("questions");
    let (key, question) = questions.iter().next().expect("a question");
    assert_eq!(question["params"], form);
    let said = json!({ "action": "accept", "content": { "name": "me" } });
    let state = &required["requestState"];
    let done = call(json!({ "inputResponses": { key: said }, "requestState": state }));
    assert_eq!(done["resultType"], "complete");
    assert!(done.to_string().contains(r#""name":"me""#), "{done}");
}

#[test]
fn closing_the_stream_cancels_a_modern_request() {
    let (_program, http) = serve();
    let mut params = tool("sleep", json!({ "ms": 60_000, "progressEveryMs": 20 }));
    params["_meta"] = json!({ "progressToken": "mine" });
    let name = ("Mcp-Name", "use_tool");
    let mut stream = http.modern("tools/call", params, &[name]);
    assert!(stream.event().is_some());
    drop(stream);
    // Only the server can tell that the call was cancelled, so poll it.
    loop {
        let count = http.modern("tools/call", tool("count", json!({})), &[name]).json();
        let cancelled = count["result"]["structuredContent"]["cancelled"].as_array();
        if cancelled.is_some_and(|cancelled| cancelled.len() == 1) {
            break;
        }
    }
}

#[test]
fn list_changed_arrives_on_the_session_stream() {
    let script = json!({ "tools": ["echo"] });
    let bench = TestEnvironment::new().server("box", "fake", fake(script));
    let (_program, http) = bench.http();
    let session = Session::begin(http);
    let mut stream = session.get(None);
    assert_eq!(stream.event().expect("an event").data, "");
    let params = json!({ "name": "open_toolbox", "arguments": { "toolbox": "box" } });
    thread::scope(|scope| {
        let opened = scope.spawn(|| session.post(&request(1, "tools/call", params)));
        let told = stream.event().expect("an event").json();
        assert_eq!(told["method"], "notifications/tools/list_changed");
        let tools = session.post(&request(2, "tools/list", json!({}))).json();
        let names = tools["result"]["tools"].as_array().expect("a list").iter();
        assert!(names.into_iter().any(|tool| tool["name"] == "box__fake__echo"), "{tools}");
        assert_eq!(opened.join().expect("an answer").status, 200);
    });
    // Another session hasn't opened the toolbox.
    let other = Session::begin(http);
    let tools = other.post(&request(1, "tools/list", json!({}))).json();
    assert_eq!(tools["result"]["tools"].as_array().map(Vec::len), Some(1), "{tools}");
}

#[test]
fn invalid_requests_are_rejected() {
    let bench = TestEnvironment::new().server("box", "fake", fake(json!({ "tools": ["echo"] })));
    let bench = bench.set("limits", json!({ "maxMessageBytes": 65536 }));
    let (_program, http) = bench.http();
    let message = request(1, "tools/list", json!({}));
    let status = |headers: &[(&str, &str)]| http.post(headers, &message).status;
    assert_eq!(status(&[("Host", "evil.example.com")]), 403);
    assert_eq!(status(&[("Origin", "http://evil.example.com")]), 403);
    assert_eq!(status(&[("Content-Type", "text/plain")]), 415);
    assert_eq!(status(&[("Accept", "text/html")]), 406);
    assert_eq!(status(&[("Origin", "http://localhost:1")]), 400);
    assert_eq!(status(&[("Mcp-Session-Id", "unknown")]), 404);
    let sent = |method: &str, path: &str, body: &str| {
        let response = http.send(method, path, &[], body);
        (response.status, response.json()["error"]["code"].clone())
    };
    assert_eq!(sent("POST", "/", "{}"), (404, json!(-32600)));
    assert_eq!(sent("PUT", "/mcp", "{}"), (405, json!(-32600)));
    assert_eq!(sent("POST", "/mcp", "hello"), (400, json!(-32700)));
    assert_eq!(sent("POST", "/mcp", &json!([message]).to_string()), (400, json!(-32600)));
    let long = request(1, "tools/list", json!({ "text": "x".repeat(65536) })).to_string();
    assert_eq!(sent("POST", "/mcp", &long), (413, json!(-32600)));
}

#[test]
fn serve_reports_an_address_in_use() {
    let bench = TestEnvironment::new().server("box", "fake", fake(json!({ "tools": ["echo"] })));
    let (_program, http) = bench.http();
    let output = bench.run(["serve", "--http", &http.0.to_string()]);
    assert_eq!(output.code, Some(1));
    assert!(output.stderr.contains("failed to listen on"), "{output}");
}

// invariant: no-secrets-in-records
#[test]
fn metrics_are_labeled_with_configured_names_only() {
    let (_program, http) = serve();
    let session = Session::begin(http);
    session.post(&request(1, "tools/list", json!({}))).text();
    for id in 2..5 {
        session.post(&request(id, "tools/call", tool("echo", json!({"say": "made-up"})))).text();
    }
    session.post(&request(5, "tools/call", tool("made-up", json!({})))).text();
    let metrics = http.send("GET", "/metrics", &[], "");
    assert_eq!(metrics.status, 200);
    assert!(metrics.header("content-type").is_some_and(|form| form.contains("openmetrics-text")));
    let text = metrics.text();
    let place = r#"toolbox="box",server="fake""#;
    for line in [
        format!(r#"mcp_workbench_tool_calls_total{{{place},outcome="ok"}} 3"#),
        format!(r#"mcp_workbench_tool_calls_total{{{place},outcome="unknown_tool"}} 1"#),
        format!("mcp_workbench_tool_call_duration_seconds_count{{{place}}} 4"),
        format!("mcp_workbench_servers_running{{{place}}} 1"),
        format!(r#"mcp_workbench_server_starts_total{{{place},result="ok"}} 1"#),
        "mcp_workbench_sessions 1".to_owned(),
        "mcp_workbench_audit_records_lost_total 0".to_owned(),
        "# EOF".to_owned(),
    ] {
        assert!(text.contains(&line), "no {line} in\n{text}");
    }
    let tasks = text.lines().find_map(|line| line.strip_prefix("mcp_workbench_runtime_tasks "));
    assert!(tasks.is_some_and(|tasks| tasks.parse::<u32>().is_ok_and(|tasks| tasks > 0)), "{text}");
    assert!(!text.contains("made-up"), "{text}");
    assert_eq!(http.send("GET", "/metrics", &[("Host", "evil.example")], "").status, 403);
}
