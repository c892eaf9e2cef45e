use pretty_assertions::assert_eq;
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};

use super::*;
use tokio::sync::mpsc;

/// The far end of a link: what an agent writes and reads.
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

/// The messages of an agent, pulled as they come.
struct Pulled(mpsc::UnboundedReceiver<Incoming>);

impl Pulled {
    async fn next(&mut self) -> Option<Incoming> {
        self.0.recv().await
    }

    async fn request(&mut self) -> incoming::Request {
        match self.next().await {
            Some(Incoming::Request(request)) => request,
            Some(Incoming::Notification { method, .. }) => panic!("a notification: {method}"),
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

#[tokio::test]
async fn a_call_keeps_its_text_and_its_id() {
    let (mut messages, mut agent) = link(1 << 20);
    agent.says(r#"{"id":"a\u0062","method":"tools/call","params":{"x": 1.0}}"#).await;
    let request = messages.request().await;
    assert_eq!(request.method, "tools/call");
    assert_eq!(request.params.unwrap().as_bytes(), br#"{"x": 1.0}"#);
    let (_, ()) = tokio::join!(
        request.reply.answer(Outcome::Result(Raw::encode(&serde_json::json!({"y": 2.0})))),
        async {
            let answer = agent.reads().await;
            assert_eq!(answer, r#"{"jsonrpc":"2.0","id":"a\u0062","result":{"y":2.0}}"#);
        }
    );
}

#[tokio::test]
async fn a_cancelled_call_is_told_and_never_answered() {
    let (mut messages, mut agent) = link(1 << 20);
    agent.says(r#"{"id":1,"method":"tools/call"}"#).await;
    let request = messages.request().await;
    agent.says(r#"{"method":"notifications/cancelled","params":{"requestId":1}}"#).await;
    request.reply.cancelled().await;
    request.reply.answer(Outcome::Result(Raw::encode(&1))).await.unwrap();
    agent.says("nonsense").await;
    assert!(agent.reads().await.contains("-32700"));
}

#[tokio::test]
async fn a_call_that_is_lost_is_answered_with_an_error() {
    let (mut messages, mut agent) = link(1 << 20);
    agent.says(r#"{"id":1,"method":"tools/call"}"#).await;
    drop(messages.request().await);
    assert!(agent.reads().await.starts_with(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603"#));
}

#[tokio::test]
async fn what_cannot_be_understood_is_answered_and_the_link_goes_on() {
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
async fn the_end_of_input_is_noticed_while_a_call_runs() {
    let (mut messages, mut agent) = link(1 << 20);
    agent.says(r#"{"id":1,"method":"tools/call"}"#).await;
    let _running = messages.request().await;
    agent.output.shutdown().await.unwrap();
    assert!(messages.next().await.is_none());
}
