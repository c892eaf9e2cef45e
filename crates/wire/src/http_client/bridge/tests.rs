use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, duplex, split};
use tokio::io::{ReadHalf, WriteHalf};

use super::*;
use crate::http_client::StaticHeaders;
use crate::http_client::tests::{EVENTS, Got, JSON, SESSION, Server, answer};

/// A client whose bridge leads to a server that the test plays.
struct Client {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    input: WriteHalf<DuplexStream>,
    end: tokio::task::JoinHandle<Result<BridgeOutcome, String>>,
}

impl Client {
    fn of(server: &Server) -> Self {
        let (ours, theirs) = duplex(1 << 16);
        let token = StaticHeaders::bearer("hunter2hunter2").unwrap();
        let upstream =
            BridgeUpstream { url: server.url.clone(), credentials: Arc::new(token), max: 10_000 };
        let end = TaskTracker::new().spawn(async move {
            let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
            run(split(theirs), upstream, async || Ok(()), &stop, &tasks).await
        });
        let (output, input) = split(ours);
        Self { lines: BufReader::new(output).lines(), input, end }
    }

    async fn says(&mut self, line: &str) {
        self.input.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    async fn hears(&mut self) -> String {
        let line = timeout(Duration::from_secs(20), self.lines.next_line()).await;
        line.expect("a line in time").unwrap().unwrap()
    }

    /// Establishes a legacy session. The server offers no stream for server messages.
    async fn begins(&mut self, server: &mut Server, session: &str) {
        self.says(HELLO).await;
        greets(server, session).await;
        self.hears().await;
        self.says(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
        settles(server).await;
    }
}

const HELLO: &str = r#"{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"x":1}}"#;
const GREETED: &str = r#"{"jsonrpc":"2.0","id":"hello","result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true},"prompts":{}}}}"#;

async fn greets(server: &mut Server, session: &str) {
    let got = server.next().await;
    assert_eq!(got.body, serde_json::from_str::<Value>(HELLO).unwrap());
    assert_eq!(got.header("mcp-session-id"), "");
    got.says("200 OK", &SESSION.replace("s-1", session), GREETED).await;
}

async fn settles(server: &mut Server) {
    let got = server.next().await;
    assert_eq!(got.body["method"], "notifications/initialized");
    got.says("202 Accepted", "", "").await;
    refuses_stream(server.next().await).await;
}

async fn refuses_stream(got: Got) {
    assert_eq!(got.line, "GET");
    got.says("405 Method Not Allowed", "", "").await;
}

#[tokio::test]
async fn messages_are_forwarded_unchanged() {
    let mut server = Server::start().await;
    let mut client = Client::of(&server);
    client.begins(&mut server, "s-1").await;

    let call = r#"{"id":"a \u0031", "jsonrpc":"2.0","method":"tools/call","unknown":[1.0],"params":{"_meta":{"progressToken":"p"}}}"#;
    client.says(call).await;
    let mut got = server.next().await;
    assert_eq!(got.header("authorization"), "Bearer hunter2hunter2");
    assert_eq!(got.header("mcp-session-id"), "s-1");
    assert_eq!(got.body, serde_json::from_str::<Value>(call).unwrap());
    let progress = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":1}}"#;
    let question = r#"{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"n":1E2}}"#;
    let answer = r#"{"jsonrpc":"2.0","id":"a \u0031","result":{"content":[],"more":1.50}}"#;
    got.begins("200 OK", EVENTS, &format!("data: {progress}\n\ndata: {question}\n\n")).await;
    assert_eq!(client.hears().await, progress);
    assert_eq!(client.hears().await, question);
    let said = r#"{"jsonrpc":"2.0","id":1,"result":{"action":"decline"}}"#;
    client.says(said).await;
    let told = server.next().await;
    assert_eq!(told.body, serde_json::from_str::<Value>(said).unwrap());
    told.says("202 Accepted", "", "").await;
    got.adds(&format!("data: {answer}\n\n")).await;
    assert_eq!(client.hears().await, answer);

    // A response without a request isn't forwarded, and leaving deletes the session.
    client.says(said).await;
    client.input.shutdown().await.unwrap();
    let end = server.next().await;
    assert_eq!((end.line.as_str(), end.header("mcp-session-id")), ("DELETE", "s-1"));
    end.says("204 No Content", "", "").await;
    assert_eq!(client.end.await.unwrap(), Ok(BridgeOutcome::ClientLeft));
}

#[tokio::test]
async fn lost_session_is_restored_and_rejected_requests_resent() {
    let mut server = Server::start().await;
    let mut client = Client::of(&server);
    client.begins(&mut server, "s-1").await;
    let level = r#"{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"info"}}"#;
    client.says(level).await;
    server.next().await.answers(json!({})).await;
    client.hears().await;
    // The server accepts this one.
    client.says(r#"{"jsonrpc":"2.0","id":2,"method":"tools/call"}"#).await;
    let mut under_way = server.next().await;
    let asked = r#"{"jsonrpc":"2.0","id":9,"method":"roots/list"}"#;
    under_way.begins("200 OK", EVENTS, &format!("id: 5\ndata: {asked}\n\n")).await;
    assert_eq!(client.hears().await, asked);

    client.says(r#"{"jsonrpc":"2.0","id":3,"method":"tools/list"}"#).await;
    server.next().await.says("404 Not Found", "", "").await;
    greets(&mut server, "s-2").await;
    let got = server.next().await;
    assert_eq!(got.body["method"], "notifications/initialized");
    got.says("202 Accepted", "", "").await;
    let (mut level_again, mut list_again) = (false, false);
    while !(level_again && list_again) {
        let got = server.next().await;
        match got.body["id"].as_u64() {
            Some(1) => {
                level_again = true;
                assert_eq!(got.body, serde_json::from_str::<Value>(level).unwrap());
                got.answers(json!({})).await;
            }
            Some(3) => {
                list_again = true;
                assert_eq!(got.header("mcp-session-id"), "s-2");
                got.answers(json!({ "tools": [] })).await;
            }
            _ => refuses_stream(got).await,
        }
    }
    let cancelled =
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}"#;
    assert_eq!(client.hears().await, cancelled);
    let changed = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
    assert_eq!(client.hears().await, changed);
    assert_eq!(client.hears().await, answer(&json!(3), json!({ "tools": [] })));
    // It may have been executed, so it isn't sent again.
    drop(under_way);
    let again = server.next().await;
    assert_eq!((again.line.as_str(), again.header("last-event-id")), ("GET", "5"));
    again.says("404 Not Found", "", "").await;
    let lost = client.hears().await;
    assert!(lost.contains(r#""id":2,"error""#) && lost.contains("may have had effects"), "{lost}");
}

#[tokio::test]
async fn modern_request_is_resent_after_503() {
    let mut server = Server::start().await;
    let mut client = Client::of(&server);
    let request = r#"{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
    client.says(request).await;
    for _ in 0..2 {
        let got = server.next().await;
        assert_eq!(got.header("mcp-method"), "tools/list");
        got.says("503 Service Unavailable", JSON, "").await;
    }
    server.next().await.answers(json!({ "tools": [] })).await;
    assert_eq!(client.hears().await, answer(&json!(7), json!({ "tools": [] })));

    // Closing the response cancels the request.
    client.says(&request.replace("tools/list", "tools/call")).await;
    let mut got = server.next().await;
    got.begins("200 OK", EVENTS, ": here\n\n").await;
    client
        .says(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#)
        .await;
    got.waits_for_hang_up().await;
}

#[tokio::test]
async fn changed_protocol_version_ends_the_session() {
    let mut server = Server::start().await;
    let mut client = Client::of(&server);
    client.begins(&mut server, "s-1").await;
    client.says(r#"{"jsonrpc":"2.0","id":3,"method":"tools/list"}"#).await;
    server.next().await.says("404 Not Found", "", "").await;
    let got = server.next().await;
    got.says("200 OK", SESSION, &GREETED.replace("2025-06-18", "2025-11-25")).await;
    let end = client.end.await.unwrap().unwrap();
    assert!(
        matches!(end, BridgeOutcome::ServerReplaced(ref why) if why.contains("2025-11-25")),
        "{end:?}"
    );
}

// invariant: one-response
#[tokio::test]
async fn requests_on_a_closed_connection_fail() {
    let mut server = Server::start().await;
    let mut client = Client::of(&server);
    client.begins(&mut server, "s-1").await;
    client.says(r#"{"jsonrpc":"2.0","id":2,"method":"tools/call"}"#).await;
    let mut under_way = server.next().await;
    under_way.begins("200 OK", EVENTS, ": no answer\n\n").await;
    client.says(r#"{"jsonrpc":"2.0","id":3,"method":"tools/list"}"#).await;
    server.next().await.says("404 Not Found", "", "").await;
    // The first new connection fails, and the second closes the one that the call was sent on.
    let hello = server.next().await;
    assert_eq!(hello.body["method"], "initialize");
    hello.says("500 Internal Server Error", "", "").await;
    greets(&mut server, "s-2").await;
    let lost = client.hears().await;
    assert!(lost.contains(r#""id":2,"error""#) && lost.contains("may have had effects"), "{lost}");
    loop {
        let got = server.next().await;
        match got.body["method"].as_str() {
            Some("tools/list") => break got.answers(json!({ "tools": [] })).await,
            Some(_) => got.says("202 Accepted", "", "").await,
            None => refuses_stream(got).await,
        }
    }
    loop {
        let heard = client.hears().await;
        if !heard.contains("list_changed") {
            break assert_eq!(heard, answer(&json!(3), json!({ "tools": [] })));
        }
    }
}
