#![allow(
    clippy::needless_pass_by_value,
    reason = "a JSON literal as an argument reads best without `&`"
)]

use std::collections::HashMap;

use pretty_assertions::assert_eq;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::*;
use crate::envelope::RpcOutcome;
use crate::incoming::IncomingMessage;
use crate::json::RawJson;
use crate::mailbox::RequestError;
use crate::outgoing::PendingRequest;
use crate::server::DisconnectReason;

pub(super) const JSON: &str = "content-type: application/json\r\n";
pub(super) const EVENTS: &str = "content-type: text/event-stream\r\n";
pub(super) const SESSION: &str = "content-type: application/json\r\nmcp-session-id: s-1\r\n";

/// A server whose responses the test writes.
pub(super) struct Server {
    pub(super) url: Url,
    requests: mpsc::UnboundedReceiver<Got>,
    listening: JoinHandle<()>,
}

/// A received request, and the connection that its response goes to.
pub(super) struct Got {
    pub(super) line: String,
    /// Path and query.
    pub(super) path: String,
    headers: HashMap<String, String>,
    pub(super) body: Value,
    stream: TcpStream,
}

impl Server {
    pub(super) async fn start() -> Self {
        Self::at(TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    pub(super) fn at(listener: TcpListener) -> Self {
        let url = format!("http://{}/mcp", listener.local_addr().unwrap()).parse().unwrap();
        let (sender, requests) = mpsc::unbounded_channel();
        let listening = TaskTracker::new().spawn(async move {
            loop {
                let stream = listener.accept().await.unwrap().0;
                let sender = sender.clone();
                TaskTracker::new().spawn(async move {
                    if let Some(got) = Got::read(stream).await {
                        let _ = sender.send(got);
                    }
                });
            }
        });
        Self { url, requests, listening }
    }

    pub(super) async fn leaves(self) -> std::net::SocketAddr {
        self.listening.abort();
        let _ = self.listening.await;
        self.url.socket_addrs(|| None).unwrap()[0]
    }

    pub(super) async fn next(&mut self) -> Got {
        let wait = timeout(Duration::from_secs(20), self.requests.recv());
        wait.await.expect("a request in time").unwrap()
    }

    /// Returns `true` if no request arrived before this call.
    pub(super) async fn has_none(&mut self) -> bool {
        // On one machine, requests sent earlier arrive before the probe.
        let mut probe =
            TcpStream::connect(self.url.socket_addrs(|| None).unwrap()[0]).await.unwrap();
        probe.write_all(b"PROBE / HTTP/1.1\r\n\r\n").await.unwrap();
        self.next().await.line == "PROBE"
    }

    pub(super) fn link(&self, max: usize) -> (ServerConnection, mpsc::UnboundedReceiver<String>) {
        self.link_by(TransportMode::Streamable, max)
    }

    pub(super) fn link_as(
        &self,
        credentials: Arc<dyn Credentials>,
        max: usize,
    ) -> (ServerConnection, mpsc::UnboundedReceiver<String>) {
        link_to(self.url.clone().into(), credentials, max)
    }

    pub(super) fn link_by(
        &self,
        transport: TransportMode,
        max: usize,
    ) -> (ServerConnection, mpsc::UnboundedReceiver<String>) {
        let token = HeaderValue::from_static("Bearer hunter2");
        let headers = HeaderMap::from_iter([(AUTHORIZATION, token)]);
        let address = ServerAddress { url: self.url.clone(), transport };
        link_to(address, Arc::new(StaticHeaders::new(headers)), max)
    }

    /// Establishes a legacy session. The server offers no stream for server messages.
    async fn legacy(&mut self) -> (ServerConnection, mpsc::UnboundedReceiver<String>) {
        let (connection, hearing) = self.link(1 << 20);
        let mut request = ask(&connection, "initialize").await;
        let got = self.next().await;
        let result = json!({"protocolVersion": "2025-06-18"});
        let body = answer(&got.body["id"], result);
        got.says("200 OK", SESSION, &body).await;
        request.response().await.unwrap();
        connection.notify("notifications/initialized", None);
        self.next().await.says("202 Accepted", "", "").await;
        self.next().await.says("405 Method Not Allowed", "", "").await;
        (connection, hearing)
    }
}

/// Connects to `address` and returns the methods of incoming messages.
fn link_to(
    address: ServerAddress,
    credentials: Arc<dyn Credentials>,
    max: usize,
) -> (ServerConnection, mpsc::UnboundedReceiver<String>) {
    let (heard, hearing) = mpsc::unbounded_channel();
    let hear = move |incoming| {
        let method = match incoming {
            IncomingMessage::Request(request) => {
                let pong = RpcOutcome::Result(RawJson::encode(&json!({"pong": true})));
                request.responder.try_respond(pong);
                request.method
            }
            IncomingMessage::Notification { method, .. } => method,
        };
        heard.send(method).unwrap();
    };
    let connection = connect(address, credentials, max, "test", hear, &TaskTracker::new());
    (connection.unwrap(), hearing)
}

impl Got {
    async fn read(stream: TcpStream) -> Option<Self> {
        let mut stream = BufReader::new(stream);
        let (mut line, mut headers) = (String::new(), HashMap::new());
        stream.read_line(&mut line).await.ok().filter(|length| *length > 0)?;
        loop {
            let mut header = String::new();
            stream.read_line(&mut header).await.ok()?;
            let Some((name, value)) = header.trim_end().split_once(": ") else { break };
            headers.insert(name.to_owned(), value.to_owned());
        }
        let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.ok()?;
        let body = serde_json::from_slice(&body).unwrap_or_default();
        let mut words = line.split(' ').map(str::to_owned);
        let (line, path) = (words.next()?, words.next()?);
        Some(Self { line, path, headers, body, stream: stream.into_inner() })
    }

    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// Sends a whole response or the beginning of a stream, and closes the connection.
    pub(super) async fn says(mut self, status: &str, headers: &str, body: &str) {
        self.begins(status, headers, body).await;
    }

    pub(super) async fn begins(&mut self, status: &str, headers: &str, body: &str) {
        let head = format!("HTTP/1.1 {status}\r\nconnection: close\r\n{headers}\r\n{body}");
        self.stream.write_all(head.as_bytes()).await.unwrap();
    }

    pub(super) async fn adds(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.unwrap();
    }

    pub(super) async fn waits_for_hang_up(mut self) {
        assert_eq!(self.stream.read(&mut [0]).await.unwrap(), 0);
    }

    pub(super) async fn answers(self, result: Value) {
        let body = answer(&self.body["id"], result);
        self.says("200 OK", JSON, &body).await;
    }
}

pub(super) fn answer(id: &Value, result: Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()
}

fn raw(value: Value) -> RawJson {
    RawJson::encode(&value)
}

pub(super) async fn ask(connection: &ServerConnection, method: &str) -> PendingRequest {
    connection.send_request(method, &[], &[], false).await.unwrap()
}

pub(super) async fn ask_modern(
    connection: &ServerConnection,
    method: &str,
    params: &[(&str, &RawJson)],
) -> PendingRequest {
    let version = "io.modelcontextprotocol/protocolVersion".into();
    connection
        .send_request(method, params, &[(version, raw(json!("2026-07-28")))], false)
        .await
        .unwrap()
}

pub(super) async fn result(mut pending: PendingRequest) -> Value {
    match pending.response().await {
        Ok(RpcOutcome::Result(result)) => result.parse().unwrap(),
        other => panic!("{other:?}"),
    }
}

pub(super) async fn error(mut pending: PendingRequest) -> Value {
    match pending.response().await {
        Ok(RpcOutcome::Error(error)) => error.parse().unwrap(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn legacy_session_id_is_sent_and_finally_deleted() {
    let mut server = Server::start().await;
    let (connection, _hearing) = server.link(1 << 20);
    let mut request = ask(&connection, "initialize").await;
    let got = server.next().await;
    assert_eq!(got.header("accept"), "application/json, text/event-stream");
    assert_eq!(got.header("authorization"), "Bearer hunter2");
    assert_eq!(got.header("mcp-session-id"), "");
    assert_eq!(got.header("mcp-protocol-version"), "");
    let version = json!({"protocolVersion": "2025-06-18"});
    let id = got.body["id"].clone();
    got.says("200 OK", SESSION, &answer(&id, version)).await;
    request.response().await.unwrap();

    connection.notify("notifications/initialized", None);
    let initialized = server.next().await;
    assert_eq!(initialized.body["method"], "notifications/initialized");
    initialized.says("202 Accepted", "", "").await;
    let listening = server.next().await;
    assert_eq!(listening.line, "GET");
    assert_eq!(listening.header("accept"), "text/event-stream");
    listening.says("405 Method Not Allowed", "", "").await;

    let list = ask(&connection, "tools/list").await;
    let got = server.next().await;
    assert_eq!(got.header("mcp-session-id"), "s-1");
    assert_eq!(got.header("mcp-protocol-version"), "2025-06-18");
    assert_eq!(got.header("mcp-method"), "");
    got.answers(json!({"tools": []})).await;
    assert_eq!(result(list).await, json!({"tools": []}));

    connection.close_input();
    let end = server.next().await;
    assert_eq!((end.line.as_str(), end.header("mcp-session-id")), ("DELETE", "s-1"));
    end.says("200 OK", "", "").await;
    connection.closed().await;
}

#[tokio::test]
async fn multi_line_response_is_joined_to_one_line() {
    let mut server = Server::start().await;
    let (connection, _) = server.legacy().await;
    for kind in [JSON, EVENTS] {
        let mut call = ask(&connection, "tools/call").await;
        let got = server.next().await;
        let answer = json!({"jsonrpc": "2.0", "id": got.body["id"], "result": {"a": ["b"]}});
        let pretty = serde_json::to_string_pretty(&answer).unwrap();
        let body = match kind {
            JSON => pretty,
            _ => format!("data: {}\n\n", pretty.replace('\n', "\ndata: ")),
        };
        got.says("200 OK", kind, &body).await;
        let Ok(RpcOutcome::Result(result)) = call.response().await else { panic!("no result") };
        assert!(!result.as_str().contains('\n'), "{result:?}");
        assert_eq!(result.parse::<Value>().unwrap(), json!({"a": ["b"]}));
    }
}

#[tokio::test]
async fn messages_before_the_response_are_delivered_first() {
    let mut server = Server::start().await;
    let (connection, mut hearing) = server.legacy().await;
    let params = [("name", &raw(json!("slow")))];
    let mut call = connection.send_request("tools/call", &params, &[], true).await.unwrap();
    let mut got = server.next().await;
    let (id, token) = (&got.body["id"].clone(), &got.body["params"]["_meta"]["progressToken"]);
    let progress = json!({"method": "notifications/progress",
        "params": {"progressToken": token, "progress": 0}});
    let ping = r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#;
    got.begins("200 OK", EVENTS, &format!("data: {progress}\n\ndata: {ping}\n\n")).await;
    assert!(matches!(call.next().await, crate::outgoing::RequestEvent::Progress(_)));
    assert_eq!(hearing.recv().await.unwrap(), "ping");
    let pong = server.next().await;
    assert_eq!(pong.body, json!({"jsonrpc": "2.0", "id": "p", "result": {"pong": true}}));
    assert_eq!(pong.header("mcp-session-id"), "s-1");
    pong.says("202 Accepted", "", "").await;
    got.adds(&format!("data: {}\n\n", answer(id, json!(1.0)))).await;
    assert_eq!(result(call).await, json!(1.0));
}

#[tokio::test]
async fn server_message_stream_is_reopened() {
    let mut server = Server::start().await;
    let (connection, mut hearing) = server.link(1 << 20);
    let request = ask(&connection, "initialize").await;
    server.next().await.answers(json!({"protocolVersion": "2025-06-18"})).await;
    result(request).await;
    connection.notify("notifications/initialized", None);
    server.next().await.says("202 Accepted", "", "").await;
    let changed = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
    let text = format!("retry: 1\nid: 5\ndata: {changed}\n\n");
    server.next().await.says("200 OK", EVENTS, &text).await;
    assert_eq!(hearing.recv().await.unwrap(), "notifications/tools/list_changed");
    let again = server.next().await;
    assert_eq!((again.line.as_str(), again.header("last-event-id")), ("GET", "5"));
    again.says("404 Not Found", "", "").await;
    // The server has lost the session, so the connection ends.
    connection.closed().await;
}

#[tokio::test]
async fn broken_response_stream_is_resumed() {
    let mut server = Server::start().await;
    let (connection, _hearing) = server.legacy().await;
    let call = ask(&connection, "tools/call").await;
    let got = server.next().await;
    let id = got.body["id"].clone();
    let began = Instant::now();
    got.says("200 OK", EVENTS, "id: 1\nretry: 30\ndata:\n\n").await;
    let again = server.next().await;
    assert!(began.elapsed() >= Duration::from_millis(30));
    assert_eq!((again.line.as_str(), again.header("last-event-id")), ("GET", "1"));
    again.says("200 OK", EVENTS, "id: 2\ndata:\n\n").await;
    let again = server.next().await;
    assert_eq!(again.header("last-event-id"), "2");
    let text = format!("id: 3\ndata: {}\n\n", answer(&id, json!("late")));
    again.says("200 OK", EVENTS, &text).await;
    assert_eq!(result(call).await, "late");

    let call = ask(&connection, "tools/call").await;
    server.next().await.says("200 OK", EVENTS, ": nothing to resume\n\n").await;
    assert_eq!(error(call).await["data"], "broken");
}

#[tokio::test]
async fn last_event_without_a_blank_line_is_read() {
    let mut server = Server::start().await;
    let (connection, _hearing) = server.legacy().await;
    for (end, expected) in [("\n", "whole"), ("", "whole"), ("\r\n: bye", "whole")] {
        let call = ask(&connection, "tools/call").await;
        let got = server.next().await;
        let text =
            format!("event: message\ndata: {}{end}", answer(&got.body["id"], json!("whole")));
        got.says("200 OK", EVENTS, &text).await;
        assert_eq!(result(call).await, expected);
    }
    // An event that was cut off is resumed.
    let call = ask(&connection, "tools/call").await;
    let got = server.next().await;
    let text = answer(&got.body["id"], json!("resumed"));
    let cut = format!("id: 1\nretry: 1\ndata:\n\nid: 2\ndata: {}", &text[..text.len() - 3]);
    got.says("200 OK", EVENTS, &cut).await;
    let again = server.next().await;
    assert_eq!(again.header("last-event-id"), "1");
    again.says("200 OK", EVENTS, &format!("data: {text}\n\n")).await;
    assert_eq!(result(call).await, "resumed");
}

#[tokio::test]
async fn error_with_a_null_id_answers_its_post() {
    let mut server = Server::start().await;
    let (connection, _hearing) = server.legacy().await;
    let body = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"kaboom"}}"#;
    let events = format!("data: {body}\n\n");
    for (headers, body) in [(JSON, body), (EVENTS, events.as_str())] {
        let (call, mut other) =
            (ask(&connection, "tools/call").await, ask(&connection, "tools/call").await);
        let (first, second) = (server.next().await, server.next().await);
        let is_first = first.body["id"].as_u64() < second.body["id"].as_u64();
        let (got, got_other) = if is_first { (first, second) } else { (second, first) };
        got.says("200 OK", headers, body).await;
        assert_eq!(error(call).await["message"], "kaboom");
        got_other.answers(json!("fine")).await;
        assert!(other.response().await.is_ok());
    }
}

#[tokio::test]
async fn malformed_body_fails_its_request_with_an_excerpt() {
    let mut server = Server::start().await;
    let (connection, _hearing) = server.legacy().await;
    for kind in [JSON, EVENTS] {
        let mut call = ask(&connection, "tools/call").await;
        let got = server.next().await;
        let body = format!(r#"{{"id":{},"result":{{"mean":NaN}}}}"#, got.body["id"]);
        let body = if kind == EVENTS { format!("data: {body}\n\n") } else { body };
        got.says("200 OK", kind, &body).await;
        let Err(RequestError::Malformed(why)) = call.response().await else { panic!() };
        assert!(why.contains(r#""mean":NaN"#), "{why}");
    }
}

#[tokio::test]
async fn unknown_session_with_401_is_a_lost_session_and_no_challenge() {
    struct NoChallenge;
    impl Credentials for NoChallenge {
        fn authorization(&self) -> BoxFuture<'_, HeaderMap> {
            Box::pin(async { HeaderMap::new() })
        }
        fn on_challenge(&self, _: Challenge) -> BoxFuture<'_, RetryDecision> {
            panic!("a lost session needs no sign-in");
        }
        fn secrets(&self) -> Vec<String> {
            Vec::new()
        }
    }

    let mut server = Server::start().await;
    let (connection, _hearing) = server.link_as(Arc::new(NoChallenge), 1 << 20);
    let mut request = ask(&connection, "initialize").await;
    let got = server.next().await;
    let body = answer(&got.body["id"], json!({"protocolVersion": "2025-06-18"}));
    got.says("200 OK", SESSION, &body).await;
    request.response().await.unwrap();
    let mut call = ask(&connection, "tools/call").await;
    server.next().await.says("401 Unauthorized", JSON, r#"{"error":"Session not found"}"#).await;
    assert_eq!(call.response().await, Err(RequestError::NotSent));
    connection.closed().await;
    assert_eq!(connection.disconnect_reason(), Some(DisconnectReason::Session));
}

#[tokio::test]
async fn unknown_session_with_status_200_is_a_lost_session() {
    let mut server = Server::start().await;
    let (connection, _hearing) = server.legacy().await;
    let mut call = ask(&connection, "tools/call").await;
    let got = server.next().await;
    let error = json!({"code": -32001, "message": "Session not found"});
    let body = json!({"jsonrpc": "2.0", "id": got.body["id"], "error": error}).to_string();
    got.says("200 OK", JSON, &body).await;
    assert_eq!(call.response().await, Err(RequestError::NotSent));
    connection.closed().await;
}

#[tokio::test]
async fn lost_session_ends_the_connection() {
    let mut server = Server::start().await;
    for (status, body) in [("404 Not Found", ""), ("400 Bad Request", "No valid session ID")] {
        let (connection, _hearing) = server.legacy().await;
        let mut call = ask(&connection, "tools/call").await;
        server.next().await.says(status, "", body).await;
        assert_eq!(call.response().await, Err(RequestError::NotSent));
        connection.closed().await;
        assert_eq!(connection.disconnect_reason(), Some(DisconnectReason::Session));
    }

    let (connection, _hearing) = server.legacy().await;
    let call = ask(&connection, "tools/call").await;
    let body = r#"{"error":{"code":-32601,"message":"no such method"}}"#;
    server.next().await.says("404 Not Found", JSON, body).await;
    assert_eq!(error(call).await["code"], -32601);
    assert!(!connection.is_closed());
}

#[tokio::test]
async fn modern_request_headers_name_method_and_arguments() {
    let mut server = Server::start().await;
    let (connection, _hearing) = server.link(1 << 20);
    let list = ask_modern(&connection, "tools/list", &[]).await;
    let got = server.next().await;
    assert_eq!(got.header("mcp-protocol-version"), "2026-07-28");
    assert_eq!(got.header("mcp-method"), "tools/list");
    let good = json!({"name": "good", "inputSchema": {"properties":
        {"region": {"type": "string", "x-mcp-header": "Region"}}}});
    let bad = json!({"name": "bad", "inputSchema": {"x-mcp-header": "A"}});
    got.answers(json!({"tools": [good, bad], "ttlMs": 0})).await;
    assert_eq!(result(list).await, json!({"tools": [good], "ttlMs": 0}));

    let (name, arguments) = (raw(json!("good")), raw(json!({"region": "north"})));
    let call =
        ask_modern(&connection, "tools/call", &[("name", &name), ("arguments", &arguments)]).await;
    let got = server.next().await;
    assert_eq!(got.header("mcp-name"), "good");
    assert_eq!(got.header("mcp-param-region"), "north");
    assert_eq!(got.header("mcp-session-id"), "");
    got.answers(json!({})).await;
    result(call).await;
    connection.close_input();
    connection.closed().await;
}

#[tokio::test]
async fn modern_call_is_cancelled_by_closing_its_response() {
    let mut server = Server::start().await;
    let (connection, _hearing) = server.link(1 << 20);
    let call = ask_modern(&connection, "subscriptions/listen", &[]).await;
    let mut got = server.next().await;
    got.begins("200 OK", EVENTS, ": here\n\n").await;
    drop(call);
    assert_eq!(got.stream.read(&mut [0]).await.unwrap(), 0);
    // No cancellation notification was sent.
    let next = ask_modern(&connection, "server/discover", &[]).await;
    let got = server.next().await;
    assert_eq!(got.body["method"], "server/discover");
    got.answers(json!({})).await;
    result(next).await;
}

#[tokio::test]
async fn legacy_call_is_cancelled_by_a_notification() {
    let mut server = Server::start().await;
    let (connection, _hearing) = server.legacy().await;
    let call = ask(&connection, "tools/call").await;
    let mut got = server.next().await;
    got.begins("200 OK", EVENTS, ": here\n\n").await;
    drop(call);
    let cancelled = server.next().await;
    assert_eq!(cancelled.body["params"]["requestId"], got.body["id"]);
    cancelled.says("202 Accepted", "", "").await;
    assert_eq!(got.stream.read(&mut [0]).await.unwrap(), 0);
}

#[tokio::test]
async fn transport_errors_become_the_response() {
    let mut server = Server::start().await;
    let (connection, _hearing) = server.link(1000);
    let html = format!("<p>\n  not you, hunter2 {}", "x".repeat(5000));
    let own = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32021,"message":"m","data":[1]}}"#;
    let cases = [
        ("401 Unauthorized", JSON, own, json!({"httpStatus": 401}), -32603),
        ("503 Service Unavailable", "", &html, json!({"httpStatus": 503}), -32603),
        ("400 Bad Request", JSON, own, json!([1]), -32021),
        ("202 Accepted", "", "", json!({"httpStatus": 202}), -32603),
        ("200 OK", JSON, "[1,2]", json!({"httpStatus": 200}), -32603),
        ("302 Found", "location: https://elsewhere/\r\n", "", json!({"httpStatus": 302}), -32603),
        ("307 x", "location: http://localhost:1/\r\n", "", json!({"httpStatus": 307}), -32603),
    ];
    for (status, headers, body, data, code) in cases {
        let request = ask_modern(&connection, "tools/list", &[]).await;
        server.next().await.says(status, headers, body).await;
        let error = error(request).await;
        assert_eq!((&error["data"], &error["code"]), (&data, &json!(code)), "{error}");
        let message = error["message"].as_str().unwrap();
        assert!(message.len() < 300 && !message.contains("hunter2"), "{message}");
    }
    let mut request = ask_modern(&connection, "tools/list", &[]).await;
    server.next().await.says("200 OK", "content-length: 9999\r\n", &html).await;
    assert_eq!(request.response().await, Err(RequestError::Oversized(9999)));

    let mut request = ask_modern(&connection, "tools/list", &[]).await;
    server.next().await.says("200 OK", EVENTS, &format!("data: {}\n\n", "x".repeat(5000))).await;
    assert_eq!(request.response().await, Err(RequestError::Oversized(5000)));
}

#[tokio::test]
async fn connection_refused_is_reported_as_unreachable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url: Url =
        format!("http://{}/?key=hunter2", listener.local_addr().unwrap()).parse().unwrap();
    drop(listener);
    let tasks = TaskTracker::new();
    let connection =
        connect(url, Arc::new(StaticHeaders::default()), 1000, "test", |_| {}, &tasks).unwrap();
    let error = error(ask(&connection, "initialize").await).await;
    assert_eq!(
        HttpTransportError::from_error_object(&raw(error.clone())),
        Some(HttpTransportError::Unreachable)
    );
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("refused") && !message.contains("hunter2"), "{message}");
}

#[tokio::test]
async fn same_origin_redirect_keeps_the_headers() {
    let mut server = Server::start().await;
    let (connection, _hearing) = server.link(1000);
    let request = ask_modern(&connection, "tools/list", &[]).await;
    server.next().await.says("307 Temporary Redirect", "location: /mcp/\r\n", "").await;
    let got = server.next().await;
    assert_eq!((got.line.as_str(), got.header("mcp-method")), ("POST", "tools/list"));
    assert_eq!(got.header("authorization"), "Bearer hunter2");
    got.answers(json!({"tools": []})).await;
    result(request).await;
}

#[tokio::test]
async fn header_mismatch_triggers_list_changed() {
    let mut server = Server::start().await;
    let (connection, mut hearing) = server.link(1000);
    let call = ask_modern(&connection, "tools/call", &[("name", &raw(json!("x")))]).await;
    let body = r#"{"error":{"code":-32020,"message":"Mcp-Param-X is missing"}}"#;
    server.next().await.says("400 Bad Request", JSON, body).await;
    assert_eq!(error(call).await["code"], -32020);
    assert_eq!(hearing.recv().await.unwrap(), "notifications/tools/list_changed");
}
