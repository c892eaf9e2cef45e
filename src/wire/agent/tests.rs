use pretty_assertions::assert_eq;
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};

use super::*;

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

fn link(max: usize) -> (Requests, AgentTransport, Agent) {
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let (reader, writer) = tokio::io::split(ours);
    let (requests, transport, _) = connect(reader, writer, max, &TaskTracker::new());
    let (reader, output) = tokio::io::split(theirs);
    (requests, transport, Agent { input: BufReader::new(reader).lines(), output })
}

#[tokio::test]
async fn a_call_keeps_its_text_and_its_id() {
    let (mut requests, _transport, mut agent) = link(1 << 20);
    agent.says(r#"{"id":"a\u0062","method":"tools/call","params":{"x": 1.0}}"#).await;
    let request = requests.next().await.unwrap();
    assert_eq!(request.method, "tools/call");
    assert_eq!(request.params.unwrap().as_bytes(), br#"{"x": 1.0}"#);
    let (_, ()) =
        tokio::join!(request.reply.result(Raw::encode(&serde_json::json!({"y": 2.0}))), async {
            let answer = agent.reads().await;
            assert_eq!(answer, r#"{"jsonrpc":"2.0","id":"a\u0062","result":{"y":2.0}}"#);
        });
}

#[tokio::test]
async fn a_cancelled_call_is_told_and_never_answered() {
    let (mut requests, _transport, mut agent) = link(1 << 20);
    agent.says(r#"{"id":1,"method":"tools/call"}"#).await;
    let request = requests.next().await.unwrap();
    agent.says(r#"{"method":"notifications/cancelled","params":{"requestId":1}}"#).await;
    request.reply.cancelled().await;
    request.reply.result(Raw::encode(&1)).await.unwrap();
    agent.says("nonsense").await;
    assert!(agent.reads().await.contains("-32700"));
}

#[tokio::test]
async fn a_call_that_is_lost_is_answered_with_an_error() {
    let (mut requests, _transport, mut agent) = link(1 << 20);
    agent.says(r#"{"id":1,"method":"tools/call"}"#).await;
    drop(requests.next().await.unwrap());
    assert!(agent.reads().await.starts_with(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603"#));
}

#[tokio::test]
async fn everything_else_goes_to_rmcp_but_what_comes_before_the_first_request() {
    let (_requests, mut transport, mut agent) = link(1 << 20);
    agent.says(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
    agent.says(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#).await;
    agent.says(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).await;
    let message = transport.receive().await.unwrap();
    assert!(format!("{message:?}").contains("Ping"), "{message:?}");
}

#[tokio::test]
async fn what_cannot_be_understood_is_answered_and_the_link_goes_on() {
    let (mut requests, _transport, mut agent) = link(300);
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
    assert_eq!(requests.next().await.unwrap().method, "tools/list");
}

#[tokio::test]
async fn the_end_of_input_is_noticed_while_a_call_runs() {
    let (mut requests, mut transport, mut agent) = link(1 << 20);
    agent.says(r#"{"id":1,"method":"tools/call"}"#).await;
    let _running = requests.next().await.unwrap();
    agent.output.shutdown().await.unwrap();
    assert!(requests.next().await.is_none());
    assert!(transport.receive().await.is_none());
}
