//! Trace spans of calls, as a collector receives them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use crate::support::{DEADLINE, TestEnvironment, fake};

const TRACE: [u8; 16] = [0x4b; 16];
const PARENT: [u8; 8] = [0x0f; 8];

fn collector() -> (String, Receiver<(String, Vec<u8>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Some(export) = stream.ok().and_then(take) else { continue };
            if sender.send(export).is_err() {
                return;
            }
        }
    });
    (address, receiver)
}

fn take(stream: TcpStream) -> Option<(String, Vec<u8>)> {
    let mut reader = BufReader::new(stream);
    let mut line = || {
        let mut line = String::new();
        reader.read_line(&mut line).ok().map(|_| line.trim_end().to_ascii_lowercase())
    };
    let path = line()?.split(' ').nth(1)?.to_owned();
    let mut length = 0;
    while let Some(header) = line().filter(|line| !line.is_empty()) {
        if let Some(value) = header.strip_prefix("content-length: ") {
            length = value.parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    reader.get_mut().write_all(answer).ok()?;
    Some((path, body))
}

fn contains(body: &[u8], part: &[u8]) -> bool {
    body.windows(part.len()).any(|window| window == part)
}

#[test]
fn call_span_connects_agent_and_server() {
    let (address, exports) = collector();
    let bench = TestEnvironment::new().server("box", "srv", fake(json!({"tools": ["request"]})));
    let agent = bench.agent_with(["--otlp", &address]).relisting_on_change();
    agent.initialize();
    let parent = format!("00-{}-{}-01", hex::encode(TRACE), hex::encode(PARENT));
    let params = json!({
        "name": "box__srv__request",
        "arguments": {},
        "_meta": {"traceparent": parent, "mine": 1},
    });
    let seen = agent.request("tools/call", params).text();
    let seen: serde_json::Value =
        serde_json::from_str(&seen).expect("the request that the server got");
    let passed_on = seen["_meta"]["traceparent"].as_str().expect("a trace").to_owned();
    assert_eq!(seen["_meta"]["mine"], 1);
    let [_, trace, own, flags] = passed_on.split('-').collect::<Vec<_>>()[..] else {
        panic!("no traceparent: {passed_on}")
    };
    assert_eq!((trace, flags), (hex::encode(TRACE).as_str(), "01"));
    assert_ne!(own, hex::encode(PARENT));

    agent.close_stdin();
    agent.wait_exit(Duration::from_secs(5));
    let (path, body) = exports.recv_timeout(DEADLINE).expect("an export");
    assert_eq!(path, "/v1/traces");
    for (part, what) in [
        (TRACE.as_slice(), "the trace"),
        (PARENT.as_slice(), "the parent"),
        (hex::decode(own).unwrap().as_slice(), "the span"),
        (b"tools/call request", "the name"),
        (b"gen_ai.tool.name", "the tool"),
        (b"mcp-workbench", "the service"),
    ] {
        assert!(contains(&body, part), "{what} is missing");
    }
}

#[test]
fn http_traceparent_is_continued() {
    let (address, exports) = collector();
    let bench = TestEnvironment::new()
        .set("telemetry", json!({"otlp": address}))
        .set("toolMode", json!("proxy"))
        .server("box", "srv", fake(json!({"tools": ["request"]})));
    let (program, http) = bench.http();
    let parent = format!("00-{}-{}-01", hex::encode(TRACE), hex::encode(PARENT));
    let tool = json!({"toolbox": "box", "server": "srv", "tool": "request"});
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    });
    let params = json!({"name": "use_tool", "arguments": {"tool": tool}, "_meta": meta});
    let headers = [
        ("traceparent", parent.as_str()),
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", "use_tool"),
    ];
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let answer = http.post(&headers, &message).text();
    assert!(answer.contains(&hex::encode(TRACE)), "{answer}");
    program.0.signal(Signal::TERM);
    program.0.wait_exit(Duration::from_secs(5));
    let (_, body) = exports.recv_timeout(DEADLINE).expect("an export");
    assert!(contains(&body, &TRACE) && contains(&body, &PARENT));
}

// invariant: every-call-recorded
#[test]
fn audit_metrics_and_spans_agree_on_a_call() {
    let (address, exports) = collector();
    let mut entry = fake(json!({
        "tools": ["echo", "fail", "secret"],
        "behavior": {"fail": {"tool_error": {"text": "it does not work"}}},
    }));
    entry["toolFilters"] = json!(["!secret"]);
    let bench = TestEnvironment::new()
        .set("telemetry", json!({"otlp": address}))
        .set("audit", json!({"file": "audit.jsonl"}))
        .set("toolMode", json!("proxy"))
        .server("box", "srv", entry);
    let (program, http) = bench.http();
    let calls = [("echo", "ok"), ("fail", "tool_error"), ("secret", "unknown_tool")];
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    });
    let headers = [
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", "use_tool"),
    ];
    for (tool, _) in calls {
        let tool = json!({"toolbox": "box", "server": "srv", "tool": tool});
        let params = json!({"name": "use_tool", "arguments": {"tool": tool}, "_meta": meta});
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        http.post(&headers, &message);
    }
    let metrics = http.send("GET", "/metrics", &[], "").text();
    program.0.signal(Signal::TERM);
    program.0.wait_exit(Duration::from_secs(5));
    let (_, spans) = exports.recv_timeout(DEADLINE).expect("an export");
    let audit = std::fs::read_to_string(bench.path("audit.jsonl")).expect("an audit");
    let lines: Vec<serde_json::Value> =
        audit.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len(), calls.len(), "{audit}");
    for ((tool, outcome), line) in calls.into_iter().zip(&lines) {
        // Only the audit log distinguishes denied from unknown tools.
        let decision = if tool == "secret" { "denied" } else { "allowed" };
        assert_eq!((&line["tool"], &line["decision"]), (&json!(tool), &json!(decision)));
        let recorded = line["outcome"].as_str().unwrap_or("unknown_tool");
        assert_eq!(recorded, outcome);
        assert_eq!([&line["toolbox"], &line["server"]], ["box", "srv"]);
        let counted = format!(
            "mcp_workbench_tool_calls_total{{toolbox=\"box\",server=\"srv\",outcome=\"{outcome}\"}} 1"
        );
        assert!(metrics.contains(&counted), "no {counted} in\n{metrics}");
        let session = line["session"].as_str().expect("a session");
        for part in [format!("tools/call {tool}"), session.to_owned(), outcome.to_owned()] {
            assert!(contains(&spans, part.as_bytes()), "no {part} in the spans");
        }
    }
    for part in ["mcp_workbench.toolbox", "mcp_workbench.server", "mcp_workbench.outcome"] {
        assert!(contains(&spans, part.as_bytes()), "no {part} in the spans");
    }
}

// invariant: telemetry-never-blocks
#[test]
fn unreachable_collector_blocks_neither_calls_nor_shutdown() {
    let bench = TestEnvironment::new()
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
        .server("box", "srv", fake(json!({"tools": ["echo"]})));
    let agent = bench.agent().relisting_on_change();
    agent.initialize();
    assert!(!agent.call("box__srv__echo", json!({})).is_tool_error());
    agent.close_stdin();
    agent.wait_exit(Duration::from_secs(2));
    agent.wait_stderr("failed to export spans");
}
