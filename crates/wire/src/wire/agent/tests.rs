use pretty_assertions::assert_eq;
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};

use super::*;
use tokio::sync::mpsc;

/// The agent's end of a connection.
struct Agent {
    input: Lines<BufReader<ReadHalf<DuplexStream>>>,
    output: WriteHalf<DuplexStream>,
}

impl Agent {
    async fn reads(&mut self) -> String {
        self.input.next_line().await.unwrap().unwrap()
    }

    async fn says(&mut self, line: &str) {
        self.output.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }
}

struct Pulled(mpsc::UnboundedReceiver<IncomingMessage>);

impl Pulled {
    async fn next(&mut self) -> Option<IncomingMessage> {
        self.0.recv().await
    }

    async fn request(&mut self) -> incoming::IncomingRequest {
        match self.next().await {
            Some(IncomingMessage::Request(request)) => request,
            Some(IncomingMessage::Notification { method, .. }) => {
                panic!("a notification: {method}")
            }
            None => panic!("the end"),
        }
    }
}

fn link(max: usize) -> (Pulled, Agent) {
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let (reader, writer) = tokio::io::split(ours);
    let tasks = TaskTracker::new();
    let (mut messages, _) = connect(reader, writer, max, &tasks);
    let (pulled, receiver) = mpsc::unbounded_channel();
    tasks.spawn(async move {
        while let Some(incoming) = messages.next().await {
            pulled.send(incoming).unwrap_or_default();
        }
    });
    let (reader, output) = tokio::io::split(theirs);
    (Pulled(receiver), Agent { input: BufReader::new(reader).lines(), output })
}

// invariant: bytes-unchanged
#[tokio::test]
async fn request_keeps_its_raw_params_and_id() {
    let (mut messages, mut agent) = link(1 << 20);
    agent.says(r#"{"id":"a\u0062","method":"tools/call","params":{"x": 1.0}}"#).await;
    let request = messages.request().await;
    assert_eq!(request.method, "tools/call");
    assert_eq!(request.params.unwrap().as_bytes(), br#"{"x": 1.0}"#);
    let (_, ()) = tokio::join!(
        request
            .responder
            .respond(RpcOutcome::Result(RawJson::encode(&serde_json::json!({"y": 2.0})))),
        async {
            let answer = agent.reads().await;
            assert_eq!(answer, r#"{"jsonrpc":"2.0","id":"a\u0062","result":{"y":2.0}}"#);
        }
    );
}

#[tokio::test]
async fn cancelled_request_gets_no_response() {
    let (mut messages, mut agent) = link(1 << 20);
    agent.says(r#"{"id":1,"method":"tools/call"}"#).await;
    let request = messages.request().await;
    agent.says(r#"{"method":"notifications/cancelled","params":{"requestId":1}}"#).await;
    request.responder.cancelled().await;
    request.responder.respond(RpcOutcome::Result(RawJson::encode(&1))).await.unwrap();
    agent.says("nonsense").await;
    assert!(agent.reads().await.contains("-32700"));
}

// invariant: one-response
#[tokio::test]
async fn dropped_request_gets_an_error_response() {
    let (mut messages, mut agent) = link(1 << 20);
    agent.says(r#"{"id":1,"method":"tools/call"}"#).await;
    drop(messages.request().await);
    assert!(agent.reads().await.starts_with(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603"#));
}

// invariant: bad-input-fails-alone
#[tokio::test]
async fn invalid_input_is_answered_and_the_connection_continues() {
    let (mut messages, mut agent) = link(300);
    agent.says("hello").await;
    assert!(
        agent.reads().await.starts_with(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700"#)
    );
    agent.says(r#"{"id":5,"nothing":1}"#).await;
    assert!(agent.reads().await.contains("-32600"));
    agent
        .says(&format!(r#"{{"id":6,"method":"tools/call","params":"{}"}}"#, "x".repeat(400)))
        .await;
    let refused = agent.reads().await;
    assert!(refused.starts_with(r#"{"jsonrpc":"2.0","id":6,"error":{"code":-32600"#), "{refused}");
    agent.says(r#"{"id":7,"method":"tools/list"}"#).await;
    assert_eq!(messages.request().await.method, "tools/list");
}

#[tokio::test]
async fn end_of_input_is_noticed_while_a_request_runs() {
    let (mut messages, mut agent) = link(1 << 20);
    agent.says(r#"{"id":1,"method":"tools/call"}"#).await;
    let _running = messages.request().await;
    agent.output.shutdown().await.unwrap();
    assert!(messages.next().await.is_none());
}
