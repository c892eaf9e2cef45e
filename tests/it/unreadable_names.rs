//! Messages that parsers read differently: names with unpaired surrogates, repeated names, and
//! numbers beyond 64 bits. Checks and edits must hold for every server, whatever its parser.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::http::{Session, request};
use crate::support::{Agent, TestEnvironment, fake};

const PROBLEM: &str = r"the name of a member has an unpaired surrogate (\\ud800 to \\udfff), which is not valid Unicode";

fn bench() -> TestEnvironment {
    let mut entry = fake(json!({ "tools": ["echo", "count", "result"] }));
    entry["overrides"] = json!({ "echo": { "arguments": { "root": "/srv" } } });
    TestEnvironment::new().set("toolMode", json!("direct")).server("box", "srv", entry)
}

fn begun(bench: &TestEnvironment) -> Agent {
    let agent = bench.agent().allowing_violations();
    agent.initialize();
    agent.tools();
    agent
}

fn calls(agent: &Agent) -> Value {
    agent.call("count", json!({})).structured()["calls"]["echo"].clone()
}

fn raw_call(id: &str, tool: &str, arguments: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":"{id}","method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}}}}}"#
    )
}

const ODD_ARGUMENTS: [&str; 4] = [
    r#"{"root":"/etc","\ud800":1}"#,
    r#"{"\uDFFFx":1,"root":"/etc"}"#,
    r#"{"root":"/etc","deep":[{"a":{"\ud83d\ud83d\ude00":[]}}]}"#,
    r#"{"root":"/etc","a":"\ud800","\\\ud800":1}"#,
];

#[test]
fn request_with_an_unreadable_name_never_reaches_the_server() {
    let bench = bench();
    let agent = begun(&bench);
    for (at, arguments) in ODD_ARGUMENTS.iter().enumerate() {
        agent.send_raw(&raw_call(&format!("odd-{at}"), "echo", arguments));
        agent.wait_line(&format!(
            r#"{{"jsonrpc":"2.0","id":"odd-{at}","error":{{"code":-32600,"message":"{PROBLEM}"}}}}"#
        ));
    }
    agent.send_raw(r#"{"jsonrpc":"2.0","id":"m","method":"to\ud800ols/list"}"#);
    agent.wait_line(
        r#"{"jsonrpc":"2.0","id":"m","error":{"code":-32600,"message":"the method has an unpaired surrogate"}}"#,
    );
    agent.send_raw(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"\ud800":1}}"#);
    assert_eq!(calls(&agent), Value::Null);
    agent.wait_stderr("dropped a notification: the name of a member has an unpaired surrogate");
}

#[test]
fn posted_request_with_an_unreadable_name_never_reaches_the_server() {
    let bench = bench();
    let (_workbench, http) = bench.http();
    let session = Session::begin(http);
    for arguments in ODD_ARGUMENTS {
        let answer =
            http.send("POST", "/mcp", &session.headers(), &raw_call("odd", "echo", arguments));
        assert_eq!(answer.status, 400);
        let error = answer.json();
        assert_eq!((&error["id"], &error["error"]["code"]), (&json!("odd"), &json!(-32600)));
        let message = error["error"]["message"].as_str().unwrap();
        assert!(message.contains("unpaired surrogate"), "{message}");
    }
    let notice = r#"{"jsonrpc":"2.0","method":"notifications/x","params":{"\ud800":1}}"#;
    assert_eq!(http.send("POST", "/mcp", &session.headers(), notice).status, 400);
    let params = json!({ "name": "count", "arguments": {} });
    let answer = session.post(&request(2, "tools/call", params));
    assert!(!answer.text().contains("echo"), "the server was called");
}

// invariant: bytes-unchanged
#[test]
fn pinned_arguments_replace_every_spelling_of_their_name() {
    let agent = begun(&bench());
    for (at, (given, sent)) in [
        (r#"{"root":"/etc","a":1.0,"r\u006fot":"/b"}"#, r#"{"a":1.0,"root":"/srv"}"#),
        (r#"{ "a" : "\ud800" }"#, r#"{ "a" : "\ud800" ,"root":"/srv"}"#),
        (r#"{"ROOT":"/etc"}"#, r#"{"root":"/srv"}"#),
        (
            r#"{"a":1.0,"Root":{"up":"/etc"},"roo\u0054":1,"x":"\ud800"}"#,
            r#"{"a":1.0,"x":"\ud800","root":"/srv"}"#,
        ),
    ]
    .into_iter()
    .enumerate()
    {
        agent.send_raw(&raw_call(&format!("pin-{at}"), "echo", given));
        let text = json!(sent);
        agent.wait_line(&format!(
            r#"{{"jsonrpc":"2.0","id":"pin-{at}","result":{{"content":[{{"type":"text","text":{text}}}],"structuredContent":{sent}}}}}"#
        ));
    }
}

#[test]
fn repeated_parameters_of_a_request_are_rejected() {
    let agent = begun(&bench());
    agent.send_raw(
        r#"{"jsonrpc":"2.0","id":"two","method":"tools/call","params":{"name":"count","n\u0061me":"echo"}}"#,
    );
    agent.wait_line(
        r#"{"jsonrpc":"2.0","id":"two","error":{"code":-32602,"message":"the parameter `name` is repeated"}}"#,
    );
}

/// Some servers ignore the case of names.
#[test]
fn parameters_that_differ_only_in_case_never_reach_the_server() {
    let script = json!({
        "tools": ["echo", "count"],
        "capabilities": {"prompts": {}, "resources": {}, "completions": {}},
        "answers": {
            "prompts/list": {"prompts": [{"name": "p"}]},
            "resources/list": {"resources": [{"uri": "file:///a", "name": "a"}]},
        },
        "repeat": ["prompts/get", "resources/read", "completion/complete"],
    });
    let bench = TestEnvironment::new()
        .set("toolMode", json!("direct"))
        .set("agentPolicies", json!({ "a": { "toolOverrides": { "srv": ["count"] } } }))
        .server("box", "srv", fake(script));
    for (over_http, is_modern) in [(false, false), (false, true), (true, false), (true, true)] {
        let agent = if over_http {
            Agent::over_http(bench.http_with(["--agent", "a"]))
        } else {
            bench.agent_with(["--agent", "a"])
        };
        let agent = agent.begin(is_modern, json!({}));
        agent.tools();
        for (method, params) in [
            ("tools/call", json!({"name": "count", "arguments": {}, "Name": "echo"})),
            ("tools/call", json!({"name": "count", "arguments": {}, "NAME": "echo", "x": 1})),
            ("tools/call", json!({"name": "count", "arguments": {}, "Arguments": {"a": 1}})),
            ("tools/call", json!({"name": "count", "argument\u{17f}": {"a": 1}})),
            ("resources/read", json!({"uri": "file:///a", "URI": "file:///b"})),
            ("prompts/get", json!({"name": "p", "Name": "q"})),
            (
                "completion/complete",
                json!({"ref": {"type": "ref/prompt", "name": "p"}, "Ref": {"type": "ref/prompt", "name": "q"},
                    "argument": {"name": "x", "value": ""}}),
            ),
            ("tasks/get", json!({"taskId": "1", "taskID": "2"})),
        ] {
            let refused = agent.request(method, params.clone());
            let told = format!("{params} {over_http} {is_modern}: {}", refused.line);
            let error = refused.error();
            assert_eq!(error["code"], -32602, "{told}");
            let message = error["message"].as_str().unwrap();
            assert!(
                message.contains("differ only in case") || message.contains("must be spelled"),
                "{told}"
            );
        }
        let params =
            json!({"name": "count", "arguments": {}, "Other": 1, "other_2": {"a": 1, "A": 2}});
        let counted = agent.request("tools/call", params).ok();
        assert_eq!(counted["structuredContent"]["calls"]["echo"], Value::Null);
        agent.request("prompts/get", json!({"name": "p", "arguments": {}})).ok();
    }
}

#[test]
fn unusable_request_is_answered_with_its_id() {
    let bench = bench();
    let agent = begun(&bench);
    agent.send_raw(r#"{"jsonrpc":"2.0","id":"twice","method":"ping","method":"tools/list"}"#);
    assert_eq!(agent.wait(&"twice".into()).error()["code"], -32700);
    let (_workbench, http) = bench.http();
    let session = Session::begin(http);
    let twice = r#"{"jsonrpc":"2.0","params":{},"params":{},"id":"twice","method":"ping"}"#;
    let answer = http.send("POST", "/mcp", &session.headers(), twice);
    assert_eq!(answer.status, 400);
    let error = answer.json();
    assert_eq!((&error["id"], &error["error"]["code"]), (&json!("twice"), &json!(-32700)));
}

#[test]
fn response_with_an_unreadable_name_fails_only_its_call() {
    let agent = begun(&bench());
    let raw = r#"{"content":[],"structuredContent":{"a":{"\udc00":1}}}"#;
    let failed = agent.call("result", json!({ "raw": raw }));
    assert!(failed.is_tool_error(), "{}", failed.text());
    assert!(failed.text().contains("unpaired surrogate"), "{}", failed.text());
    let raw = r#"{"content":[],"structuredContent":{"a":"\udc00"}}"#;
    agent.send_raw(&raw_call("half", "result", &json!({ "raw": raw }).to_string()));
    agent.wait_line(&format!(r#"{{"jsonrpc":"2.0","id":"half","result":{raw}}}"#));
}

#[test]
fn unreadable_names_from_remote_servers_fail_alone() {
    for transport in [Transport::Json, Transport::EventStream, Transport::OldSse] {
        let entry = start(transport);
        let bench =
            TestEnvironment::new().set("toolMode", json!("direct")).server("box", "far", entry);
        let agent = begun(&bench);
        assert_eq!(agent.tool_names(), ["odd", "fine"], "{transport:?}");
        agent.wait_stderr("skipped tool `bad`: the name of a member has an unpaired surrogate");
        let failed = agent.call("odd", json!({}));
        assert!(failed.is_tool_error(), "{transport:?}: {}", failed.text());
        assert!(failed.text().contains("unpaired surrogate"), "{transport:?}: {}", failed.text());
        assert_eq!(agent.call("fine", json!({})).text(), "fine", "{transport:?}");
    }
}

#[test]
fn long_results_are_truncated_whatever_their_text() {
    let bench = bench().set("limits", json!({ "maxResultBytes": 2000 }));
    let agent = begun(&bench);
    let long = "x".repeat(5000);
    for raw in [
        format!(r#"{{"content":[{{"type":"text","text":"\ud83d{long}\ud800"}}]}}"#),
        format!(r#"{{"content":[],"content":[{{"type":"text","text":"{long}"}}]}}"#),
        format!(
            r#"{{"structuredContent":{{}},"content":[],"structured\u0043ontent":{{"a":"{long}"}}}}"#
        ),
    ] {
        let answer = agent.call("result", json!({ "raw": raw }));
        let length = answer.ok().to_string().len();
        assert!(length < 3000, "{length} bytes");
    }
}

#[test]
fn numbers_beyond_64_bits_are_checked_and_shown_exactly() {
    let when = json!({ "tools": ["srv:echo"], "arguments": { "/n": { "max": 1_u64 << 53 } } });
    let bench = TestEnvironment::new()
        .set("toolMode", json!("direct"))
        .set("dangerousTools", json!(["srv:echo"]))
        .set(
            "agentPolicies",
            json!({ "a": { "toolOverrides": { "srv": ["echo"] }, "when": when } }),
        )
        .server("box", "srv", fake(json!({ "tools": ["echo"] })));
    let agent = bench
        .agent_with(["--agent", "a"])
        .allowing_violations()
        .with_reply("elicitation/create", json!({ "action": "decline" }));
    agent.initialize_with(json!({ "capabilities": { "elicitation": {} } }));
    agent.tools();
    let over = agent.call("echo", json!({ "n": 9_007_199_254_740_993_u64 }));
    assert!(over.text().contains("at most 9007199254740992"), "{}", over.text());
    agent.send_raw(&raw_call("exact", "echo", r#"{"n":9007199254740992.0,"m":[1e400,-0]}"#));
    let asked = agent.next_request("elicitation/create");
    let message = asked["params"]["message"].as_str().unwrap();
    assert!(message.contains(r#"{"n":9007199254740992.0,"m":[1e400,-0]}"#), "{message}");
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transport {
    Json,
    EventStream,
    OldSse,
}

type OpenStream = Arc<Mutex<Option<TcpStream>>>;

/// Starts a server whose tool `bad` and whose results of `odd` have an unreadable name, and returns
/// its entry. Its threads end with the test process.
fn start(transport: Transport) -> Value {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let open = OpenStream::default();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let open = Arc::clone(&open);
            thread::spawn(move || serve(transport, &stream.unwrap(), &open));
        }
    });
    let kind = if transport == Transport::OldSse { "sse" } else { "http" };
    json!({ "type": kind, "url": url })
}

fn serve(transport: Transport, stream: &TcpStream, open: &OpenStream) {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).unwrap() == 0 {
            return;
        }
    }
    let head = head.to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    reader.read_exact(&mut body).unwrap();
    let write = |mut stream: &TcpStream, text: &str| {
        let _ = stream.write_all(text.as_bytes());
    };
    if head.starts_with("get") && transport == Transport::OldSse {
        let begin = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
        {
            // The client posts as soon as it knows the endpoint. The answer needs the stream.
            let mut open = open.lock().unwrap();
            write(stream, &format!("{begin}event: endpoint\ndata: /mcp\n\n"));
            *open = Some(stream.try_clone().unwrap());
        }
        // The stream stays open until the client closes it.
        let _ = reader.read(&mut [0]);
        return;
    }
    let message: Value = serde_json::from_slice(&body).unwrap_or_default();
    let Some(answer) = answer(&message) else {
        let status = if message.is_null() { 405 } else { 202 };
        return write(
            stream,
            &format!("HTTP/1.1 {status} x\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"),
        );
    };
    let (status, kind, body) = match transport {
        Transport::Json => (200, "application/json", answer),
        Transport::EventStream => (200, "text/event-stream", format!("data: {answer}\n\n")),
        Transport::OldSse => {
            let open = open.lock().unwrap();
            write(open.as_ref().unwrap(), &format!("event: message\ndata: {answer}\n\n"));
            (202, "text/plain", String::new())
        }
    };
    let length = body.len();
    write(
        stream,
        &format!(
            "HTTP/1.1 {status} x\r\nconnection: close\r\ncontent-type: {kind}\r\n\
             content-length: {length}\r\n\r\n{body}"
        ),
    );
}

/// Returns the response to a request as JSON text; `None` for a notification.
fn answer(message: &Value) -> Option<String> {
    let id = message.get("id")?;
    let tool = message["params"]["name"].as_str().unwrap_or_default();
    let result = match (message["method"].as_str()?, tool) {
        ("initialize", _) => {
            r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"far","version":"1"}}"#
        }
        ("tools/list", _) => {
            r#"{"tools":[
            {"name":"odd","inputSchema":{"type":"object"}},
            {"name":"bad","inputSchema":{"type":"object","properties":{"\ud800":{}}}},
            {"name":"fine","inputSchema":{"type":"object"}}]}"#
        }
        ("tools/call", "odd") => r#"{"content":[],"structuredContent":{"\ud800":1}}"#,
        ("tools/call", _) => r#"{"content":[{"type":"text","text":"fine"}]}"#,
        _ => {
            return Some(format!(
                r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"unknown"}}}}"#
            ));
        }
    };
    Some(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{}}}"#, result.replace('\n', "")))
}
