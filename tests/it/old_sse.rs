//! Servers on the HTTP+SSE transport of 2024-11-05, the predecessor of streamable HTTP.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::real_http_server::{Kind, RealHttpServer};
use crate::support::{Agent, TestEnvironment};

fn bench(url: &str, kind: Option<&str>) -> TestEnvironment {
    let mut entry = json!({ "url": url });
    if let Some(kind) = kind {
        entry["type"] = kind.into();
    }
    TestEnvironment::new().server("web", "far", entry)
}

fn opened(bench: &TestEnvironment) -> Agent {
    let agent = bench.agent().relisting_on_change();
    agent.initialize();
    agent.open("web").ok();
    agent
}

#[test]
fn real_servers_work_with_and_without_a_configured_type() {
    for (server, path) in
        [(Kind::EverythingSse, "/sse"), (Kind::Python1Sse, "/sse"), (Kind::Python2Sse, "/sse")]
    {
        let far = RealHttpServer::start(server);
        for kind in [None, Some("http"), Some("sse")] {
            let bench = bench(&far.url(path), kind);
            let output = bench.run(["call", "web", "far", "echo", r#"{"message": "ä"}"#]);
            let said = (output.code, output.stdout.as_str());
            assert_eq!(said, (Some(0), "Echo: ä\n"), "{server:?} {kind:?}: {output}");
        }
    }
}

#[test]
fn url_decides_the_transport_of_a_dual_server() {
    let server = RealHttpServer::start(Kind::Both);
    for (path, kind) in [("/sse", None), ("/sse", Some("sse")), ("/mcp", None)] {
        let agent = opened(&bench(&server.url(path), kind));
        let arguments = json!({ "interval": 10, "count": 1 });
        let called = agent.call("web__far__start-notification-stream", arguments);
        assert!(!called.is_tool_error(), "{path}: {}", called.text());
    }
    let output = bench(&server.url("/nothing"), Some("sse")).run(["call", "web", "far", "x"]);
    assert!(output.stderr.contains("404") && output.stderr.contains("`url`"), "{output}");
}

#[test]
fn restart_fails_only_the_call_in_flight() {
    let mut server = RealHttpServer::start(Kind::EverythingSse);
    let agent = opened(&bench(&server.url("/sse"), None));
    let long = json!({ "duration": 60, "steps": 120 });
    let call = agent.send_call("web__far__trigger-long-running-operation", long);
    agent.wait_progress(&call, 1);
    server.kill();
    let lost = agent.wait(&call);
    assert!(lost.is_tool_error(), "{}", lost.text());
    let text = lost.text();
    assert!(text.contains("server `far`") && text.contains("connection lost"), "{text}");
    assert!(text.contains("may or may not have had effects"), "{text}");
    server = RealHttpServer::start_at(Kind::EverythingSse, server.address.port());
    let echo = agent.call("web__far__echo", json!({ "message": "again" }));
    assert_eq!(echo.text(), "Echo: again");
    // Losing an idle connection isn't a failure; the next call reconnects.
    server.restart();
    let echo = agent.call("web__far__echo", json!({ "message": "once more" }));
    assert_eq!(echo.text(), "Echo: once more");
    agent.wait_stderr("connection closed while idle");
}

type Serving = thread::JoinHandle<(Vec<String>, Vec<TcpStream>)>;

/// Answers one request with each response, then stops listening.
fn hostile(answers: Vec<String>) -> (String, Serving) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/sse", listener.local_addr().unwrap());
    let serving = thread::spawn(move || {
        let mut asked = Vec::new();
        let mut open = Vec::new();
        for answer in answers {
            let stream = listener.accept().unwrap().0;
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            asked.push(line.trim_end().to_owned());
            (&stream).write_all(answer.as_bytes()).unwrap();
            open.push(stream);
        }
        (asked, open)
    });
    (url, serving)
}

const STREAM: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";

#[test]
fn server_errors_are_reported_with_a_hint() {
    let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
    elsewhere.set_nonblocking(true).unwrap();
    let there = elsewhere.local_addr().unwrap();
    for (answer, reason, hint) in [
        (
            format!("{STREAM}event: endpoint\ndata: http://{there}/post\n\n"),
            "names another origin",
            "check its `url`",
        ),
        (
            "HTTP/1.1 410 Gone\r\ncontent-length: 0\r\n\r\n".to_owned(),
            "410 Gone",
            "try `/mcp` as the path",
        ),
        (
            "HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n".to_owned(),
            "401 Unauthorized",
            "access token",
        ),
        (
            "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 0\r\n\r\n".to_owned(),
            "instead of an event stream",
            "check its `url`",
        ),
        (format!("{STREAM}: nothing\n\n"), "not ready within 1500 ms", "try again"),
        (format!("{STREAM}data: {}", "x".repeat(100_000)), "not ready within 1500 ms", "try again"),
    ] {
        let (url, serving) = hostile(vec![answer]);
        let entry = json!({ "type": "sse", "url": url, "startupTimeoutMs": 1500 });
        let bench = TestEnvironment::new().server("web", "far", entry);
        let begun = Instant::now();
        let output = bench.run(["call", "web", "far", "x"]);
        assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
        let said = output.to_string();
        assert!(said.contains(reason) && said.contains(hint), "{said}");
        assert_eq!(serving.join().unwrap().0, ["GET /sse HTTP/1.1"]);
        assert!(elsewhere.accept().is_err(), "the client followed the redirect");
    }
}

#[test]
fn import_keeps_the_transport_type() {
    let server = RealHttpServer::start(Kind::EverythingSse);
    let servers = json!({ "old": { "type": "sse", "url": server.url("/sse") } });
    let bench =
        TestEnvironment::new().file("mcp.json", &json!({ "mcpServers": servers }).to_string());
    let output = bench.run_bare(["import", "mcp.json", "--json"]);
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(report["added"][0]["carried_over"], "exact", "{output}");
    let written = std::fs::read_to_string(bench.path("workbench-config.json")).unwrap();
    let written: Value = serde_json::from_str(&written).unwrap();
    let entry = written["toolboxes"].as_object().unwrap().values().next().unwrap();
    assert_eq!(entry["mcpServers"]["old"]["type"], "sse", "{written:#}");
}
