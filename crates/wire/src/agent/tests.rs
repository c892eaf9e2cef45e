use pretty_assertions::assert_eq;
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};

use super::*;
use crate::memory_pool::{MemoryPool, MemoryPoolConfig};
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

fn link(max: impl Into<ReadLimits>) -> (Pulled, Agent) {
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

#[tokio::test(start_paused = true)]
async fn request_without_memory_is_refused_and_responses_still_arrive() {
    let pool = MemoryPool::new(MemoryPoolConfig {
        bytes: 200_000,
        share: 100_000,
        reserve: 100_000,
        unmetered: 20_000,
        lease: None,
    });
    let intake = ReadLimits { account: pool.account(), ..ReadLimits::from(1 << 20) };
    let (mut messages, mut agent) = link(intake);
    let long = |id: u32| {
        format!(r#"{{"id":{id},"method":"tools/call","params":["{}"]}}"#, "x".repeat(60_000))
    };
    let mut running = Vec::new();
    for id in [1, 2] {
        agent.says(&long(id)).await;
        running.push(messages.request().await);
    }
    let began = tokio::time::Instant::now();
    agent.says(&long(3)).await;
    agent.says(r#"{"id":4,"method":"ping"}"#).await;
    let refused = agent.reads().await;
    assert!(refused.starts_with(r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32000"#), "{refused}");
    assert!(refused.contains("limits.maxBytesInFlight"), "{refused}");
    assert!(began.elapsed() >= MEMORY_TIMEOUT);
    assert_eq!(messages.request().await.method, "ping");
    drop(running);
    agent.says(&long(5)).await;
    // Until the answers are written, their ids hold the requests.
    assert_eq!(messages.request().await.params.unwrap().len(), 60_004);
}

#[tokio::test]
async fn request_with_a_null_id_is_rejected() {
    let (mut messages, mut agent) = link(1 << 20);
    agent.says(r#"{"jsonrpc":"2.0","id":null,"method":"tools/list"}"#).await;
    let (next, ()) = tokio::join!(messages.next(), async {
        let refused = agent.reads().await;
        assert!(
            refused.starts_with(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600"#),
            "{refused}"
        );
        // Some clients write `null` for the id that a notification doesn't have.
        agent.says(r#"{"id":null,"method":"notifications/initialized"}"#).await;
    });
    let Some(IncomingMessage::Notification { method, .. }) = next else { panic!() };
    assert_eq!(method, "notifications/initialized");
}
