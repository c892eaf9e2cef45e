//! HTTP limits on headers, bodies, connections and sessions.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use sha2::Digest;

use crate::support::http::{HttpClient, HttpWorkbench, Response, Session, request, tool};
use crate::support::{DEADLINE, TestEnvironment, fake};

fn serve(limits: Value) -> (HttpWorkbench, HttpClient) {
    let script = json!({ "tools": ["echo", "sleep", "count"] });
    let bench =
        TestEnvironment::new().server("box", "fake", fake(script)).set("toolMode", json!("proxy"));
    bench.set("http", limits).set("limits", json!({ "maxMessageBytes": 65536 })).http()
}

fn said(http: HttpClient, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect(http.0).expect("the server listens");
    stream.set_read_timeout(Some(DEADLINE)).expect("a timeout");
    stream.write_all(text.as_bytes()).expect("the server reads");
    stream
}

fn head(length: usize) -> String {
    format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Accept: application/json\r\nContent-Length: {length}\r\n\r\n"
    )
}

fn rest(mut stream: TcpStream) -> String {
    let mut text = String::new();
    // A reset counts as closed.
    let _ = stream.read_to_string(&mut text);
    text
}

#[track_caller]
fn assert_unharmed(http: HttpClient) {
    let name = ("Mcp-Name", "use_tool");
    let answer = http.modern("tools/call", tool("echo", json!({ "text": "hello" })), &[name]);
    assert_eq!(answer.json()["result"]["isError"], Value::Null);
}

#[test]
fn headers_are_bounded_in_size_and_number() {
    let (_program, http) = serve(json!({ "maxHeaderBytes": 4096 }));
    let long = "x".repeat(5000);
    assert_eq!(http.send("GET", "/health", &[("X-Long", &long)], "").status, 431);
    let many: Vec<_> = (0..200).map(|number| format!("X-{number}")).collect();
    let many: Vec<_> = many.iter().map(|name| (name.as_str(), "1")).collect();
    assert_eq!(http.send("GET", "/health", &many, "").status, 431);
    let mut endless = said(http, "GET /health HTTP/1.1\r\nX-Long: ");
    while endless.write_all(&[b'x'; 4096]).is_ok() {}
    assert_unharmed(http);
}

#[test]
fn closes_connections_with_slow_headers() {
    let (_program, http) = serve(json!({ "headTimeoutMs": 200 }));
    let slow = said(http, "POST /mcp HTTP/1.1\r\nHost: localh");
    let silent = said(http, "");
    assert_eq!((rest(slow), rest(silent)), (String::new(), String::new()));
    // An idle keep-alive connection times out too.
    let used = said(http, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(rest(used).ends_with(r#"{"status":"alive"}"#));
    // The timeout doesn't apply to a running response.
    let session = Session::begin(http);
    let params = tool("sleep", json!({ "ms": 600 }));
    assert_eq!(session.post(&request(1, "tools/call", params)).json()["id"], 1);
}

#[test]
fn a_body_is_bounded_in_size_and_time() {
    let (_program, http) = serve(json!({ "bodyTimeoutMs": 200 }));
    let status = |stream: TcpStream| {
        let response = Response::read(BufReader::new(stream));
        (response.status, response.json()["error"]["code"].clone())
    };
    let slow = said(http, &(head(100) + "{\"jsonrpc\""));
    assert_eq!(status(slow), (408, json!(-32600)));
    let long = said(http, &head(70_000));
    assert_eq!(status(long), (413, json!(-32600)));
    let chunked = head(0).replace("Content-Length: 0", "Transfer-Encoding: chunked");
    let endless = said(http, &format!("{chunked}11000\r\n{}\r\n", "x".repeat(0x11000)));
    assert_eq!(status(endless), (413, json!(-32600)));
    assert_unharmed(http);
}

#[test]
fn truncated_body_is_not_processed() {
    let (_program, http) = serve(json!({}));
    let call = tool("echo", json!({ "text": "x" }));
    let body = request(1, "tools/call", call).to_string();
    for cut in [0, 1, body.len() - 1] {
        let stream = said(http, &(head(body.len()) + &body[..cut]));
        stream.shutdown(std::net::Shutdown::Write).expect("a connection");
        let answer = rest(stream);
        assert!(!answer.contains("200 OK"), "{cut}: {answer}");
    }
    for _ in 0..20 {
        drop(said(http, &(head(body.len()) + &body)));
    }
    assert_unharmed(http);
}

#[test]
fn idle_connection_is_evicted_for_a_new_one() {
    let (_program, http) = serve(json!({ "maxConnections": 2 }));
    let held = [said(http, "GET /hea"), said(http, "GET /hea")];
    let new = said(http, "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert!(rest(new).contains("alive"));
    assert_eq!(held.map(rest)[0], "");
    assert_unharmed(http);
}

#[test]
fn longest_idle_session_is_evicted() {
    let (_program, http) = serve(json!({ "maxSessions": 2 }));
    let list = |session: &Session| session.post(&request(1, "tools/list", json!({}))).status;
    let (first, second) = (Session::begin(http), Session::begin(http));
    assert_eq!(list(&first), 200);
    let third = Session::begin(http);
    assert_eq!((list(&first), list(&second), list(&third)), (200, 404, 200));

    // Sessions with a running call are never evicted.
    let running = [&first, &third].map(|session| {
        let mut params = tool("sleep", json!({ "ms": 60_000, "progressEveryMs": 20 }));
        params["_meta"] = json!({ "progressToken": "mine" });
        let mut stream = session.post(&request(2, "tools/call", params));
        assert!(stream.event().is_some());
        stream
    });
    let params = json!({
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "x", "version": "1" },
    });
    let refused = http.post(&[], &request(0, "initialize", params));
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("2")));
    assert_eq!(refused.json()["error"]["code"], -32000);
    drop(running);
}

/// Opens an event stream of the dashboard, and reads its first event.
fn watch(http: HttpClient, token: Option<&str>) -> (BufReader<TcpStream>, Value) {
    let token = token.map(|token| format!("Authorization: Bearer {token}\r\n"));
    let token = token.unwrap_or_default();
    let head = format!("GET /page/events HTTP/1.1\r\nHost: localhost\r\n{token}\r\n");
    let mut stream = BufReader::new(said(http, &head));
    let event = next_event(&mut stream);
    (stream, event)
}

/// Returns the next event of the dashboard that a test may get.
fn next_event(stream: &mut BufReader<TcpStream>) -> Value {
    loop {
        let mut line = String::new();
        assert!(stream.read_line(&mut line).expect("an event") > 0, "the stream ended");
        if let Some(data) = line.strip_prefix("data:") {
            return serde_json::from_str(data).expect("JSON");
        }
    }
}

#[test]
fn many_viewers_of_the_dashboard_do_not_keep_an_operator_out() {
    let token = "an-operator-token-0123456789";
    let sha256 = sha2::Sha256::digest(token.as_bytes());
    let sha256 = hex::encode(sha256);
    let auth = json!({ "anonymous": true, "operators": [{ "agent": "ops", "sha256": sha256 }] });
    let script = fake(json!({ "tools": ["echo"] }));
    let bench = TestEnvironment::new().server("box", "fake", script).set("auth", auth);
    let (_program, http) = bench.http();
    let (mut operator, event) = watch(http, Some(token));
    assert_eq!(event["mayAct"], true, "{event}");
    let mut crowd: Vec<_> = (0..16).map(|_| watch(http, None).0).collect();
    let metrics = || http.send("GET", "/metrics", &[], "").text();
    let reached = "mcp_workbench_limits_reached_total{quota=\"viewers\"}";
    assert!(!metrics().contains(reached), "16 are allowed");
    crowd.extend((0..24).map(|_| watch(http, None).0));
    for replaced in &mut crowd[..24] {
        while next_event(replaced) != json!({ "isReplaced": true }) {}
    }
    assert!(metrics().contains(&format!("{reached} 24")), "{}", metrics());
    assert_eq!(watch(http, Some(token)).1["mayAct"], true);
    assert_eq!(next_event(&mut operator)["mayAct"], true, "the first operator stays");
    assert_eq!(next_event(&mut crowd[39])["mayAct"], false, "the newest stays");
}
