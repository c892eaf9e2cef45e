use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};
use tokio::time::{Instant, sleep};
use tokio_util::task::TaskTracker;

use super::*;

const TIMEOUT: Duration = Duration::from_secs(30);

struct Server {
    input: Lines<BufReader<ReadHalf<DuplexStream>>>,
    output: WriteHalf<DuplexStream>,
}

impl Server {
    async fn hears(&mut self) -> (String, Value) {
        let line = self.input.next_line().await.unwrap().unwrap();
        let message: Value = serde_json::from_str(&line).unwrap();
        (message["method"].as_str().unwrap().to_owned(), message["id"].clone())
    }

    async fn says(&mut self, id: &Value, member: &str, value: Value) {
        let mut message = json!({"jsonrpc": "2.0", "id": id});
        message[member] = value;
        self.output.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn refuses(&mut self, id: &Value, message: &str) {
        self.says(id, "error", json!({"code": -32601, "message": message})).await;
    }

    async fn welcomes(&mut self, id: &Value) {
        self.says(id, "result", json!({"capabilities": {}, "instructions": "Hello."})).await;
    }
}

fn link() -> (ServerConnection, Server) {
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let (reader, writer) = tokio::io::split(ours);
    let tasks = TaskTracker::new();
    let connection =
        mcp_workbench_wire::server::connect(reader, writer, 1 << 16, "test", |_| {}, &tasks);
    let (reader, output) = tokio::io::split(theirs);
    (connection, Server { input: BufReader::new(reader).lines(), output })
}

async fn greeted(connection: &ServerConnection) -> Result<Era, String> {
    let none = RawJson::encode(&json!({}));
    match negotiate(connection, Protocol::Auto, Era::Legacy, &none, TIMEOUT).await {
        Ok(handshake) => Ok(handshake.era),
        Err(HandshakeError::Refused(refusal)) => Err(refusal.message),
        Err(other) => Err(format!("{other:?}")),
    }
}

#[tokio::test(start_paused = true)]
async fn rejection_triggers_the_other_hello_at_once() {
    let (connection, mut server) = link();
    let begun = Instant::now();
    let serving = async {
        let (method, id) = server.hears().await;
        assert_eq!(method, "initialize");
        server.refuses(&id, "not so").await;
        let (method, id) = server.hears().await;
        assert_eq!(method, "server/discover");
        server.welcomes(&id).await;
    };
    let (greeted, ()) = tokio::join!(greeted(&connection), serving);
    assert_eq!(greeted, Ok(Era::Modern));
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn silence_triggers_the_other_hello_and_first_success_wins() {
    let (connection, mut server) = link();
    let begun = Instant::now();
    let serving = async {
        let (_, first) = server.hears().await;
        let (method, second) = server.hears().await;
        assert_eq!(method, "server/discover");
        assert!(begun.elapsed() >= TIMEOUT);
        // The server is slow. The paused clock advances on its own.
        sleep(Duration::from_secs(5)).await;
        server.refuses(&second, "unknown").await;
        server.welcomes(&first).await;
        assert_eq!(server.hears().await.0, "notifications/initialized");
    };
    let (greeted, ()) = tokio::join!(greeted(&connection), serving);
    assert_eq!(greeted, Ok(Era::Legacy));
}

#[tokio::test(start_paused = true)]
async fn rejecting_both_hellos_reports_the_first_rejection() {
    let (connection, mut server) = link();
    let serving = async {
        let (_, id) = server.hears().await;
        server.refuses(&id, "the moon is full").await;
        let (_, id) = server.hears().await;
        server.refuses(&id, "what is that?").await;
    };
    let (greeted, ()) = tokio::join!(greeted(&connection), serving);
    assert_eq!(greeted, Err("the moon is full".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn close_after_the_second_hello_reports_the_first_rejection() {
    let (connection, mut server) = link();
    let serving = async move {
        let (_, id) = server.hears().await;
        server.refuses(&id, "the moon is full").await;
        server.hears().await;
        // Closes the output too.
        drop(server);
    };
    let (greeted, ()) = tokio::join!(greeted(&connection), serving);
    assert_eq!(greeted, Err("the moon is full".to_owned()));
}

#[test]
fn version_offered_in_a_rejection_is_found() {
    for (rejection, expected) in [
        (
            r#"{"code":-32602,"message":"Unsupported protocol version","data":{"supported":["2024-11-05","2025-06-18"]}}"#,
            Some("2025-06-18"),
        ),
        (
            r#"{"message":"HTTP status 400: Unsupported protocol version (supported versions: 2025-03-26, 2024-11-05)"}"#,
            Some("2025-03-26"),
        ),
        (r#"{"message":"Bad Request: unsupported MCP-Protocol-Version 2025-11-25"}"#, None),
        (r#"{"message":"the version of 1999-01-01 is meant"}"#, None),
        (r#"{"message":"certificate expired on 2025-06-18"}"#, None),
    ] {
        assert_eq!(offered_version(rejection), expected, "{rejection}");
    }
}

#[tokio::test(start_paused = true)]
async fn offered_version_is_requested_once() {
    let (connection, mut server) = link();
    let offer =
        json!({"code": -32602, "message": "version?", "data": {"supported": ["2025-03-26"]}});
    let serving = async {
        for _ in 0..2 {
            let (method, id) = server.hears().await;
            assert_eq!(method, "initialize");
            server.says(&id, "error", offer.clone()).await;
        }
        let (method, id) = server.hears().await;
        assert_eq!(method, "server/discover");
        server.refuses(&id, "unknown").await;
    };
    let (greeted, ()) = tokio::join!(greeted(&connection), serving);
    assert_eq!(greeted, Err("version?".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn unpaired_surrogates_in_instructions_fail_no_handshake() {
    let (connection, mut server) = link();
    let serving = async {
        let (_, id) = server.hears().await;
        let text = format!(r#"{{"id":{id},"result":{{"instructions":"a \ud83d b"}}}}"#);
        server.output.write_all(format!("{text}\n").as_bytes()).await.unwrap();
    };
    let none = RawJson::encode(&json!({}));
    let greeting = negotiate(&connection, Protocol::Auto, Era::Legacy, &none, TIMEOUT);
    let (handshake, ()) = tokio::join!(greeting, serving);
    assert_eq!(handshake.unwrap().instructions.as_deref(), Some("a \u{fffd} b"));
}
