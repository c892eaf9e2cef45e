use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};
use tokio::time::{Instant, sleep};
use tokio_util::task::TaskTracker;

use super::*;

const PATIENCE: Duration = Duration::from_secs(30);

/// The far end of the link.
struct Server {
    input: Lines<BufReader<ReadHalf<DuplexStream>>>,
    output: WriteHalf<DuplexStream>,
}

impl Server {
    /// The method of the next message, and its id.
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

fn link() -> (Link, Server) {
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let (reader, writer) = tokio::io::split(ours);
    let tasks = TaskTracker::new();
    let link = crate::wire::server::connect(reader, writer, 1 << 16, "test", |_| {}, &tasks);
    let (reader, output) = tokio::io::split(theirs);
    (link, Server { input: BufReader::new(reader).lines(), output })
}

/// Greets as a client that has tried nothing yet.
async fn greeted(link: &Link) -> Result<Era, String> {
    let none = Raw::encode(&json!({}));
    match begin(link, Protocol::Auto, Era::Legacy, &none, PATIENCE).await {
        Ok(greeting) => Ok(greeting.era),
        Err(Unwelcome::Refused(refusal)) => Err(refusal.message),
        Err(other) => Err(format!("{other:?}")),
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_leads_to_the_other_greeting_soon() {
    let (link, mut server) = link();
    let begun = Instant::now();
    let serving = async {
        let (method, id) = server.hears().await;
        assert_eq!(method, "initialize");
        server.refuses(&id, "not so").await;
        let (method, id) = server.hears().await;
        assert_eq!(method, "server/discover");
        server.welcomes(&id).await;
    };
    let (greeted, ()) = tokio::join!(greeted(&link), serving);
    assert_eq!(greeted, Ok(Era::Modern));
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn silence_leads_to_the_other_greeting_and_the_first_welcome_counts() {
    let (link, mut server) = link();
    let begun = Instant::now();
    let serving = async {
        let (_, first) = server.hears().await;
        let (method, second) = server.hears().await;
        assert_eq!(method, "server/discover");
        assert!(begun.elapsed() >= PATIENCE);
        // Its own pace, on a clock that stands still.
        sleep(Duration::from_secs(5)).await;
        server.refuses(&second, "unknown").await;
        server.welcomes(&first).await;
        assert_eq!(server.hears().await.0, "notifications/initialized");
    };
    let (greeted, ()) = tokio::join!(greeted(&link), serving);
    assert_eq!(greeted, Ok(Era::Legacy));
}

#[tokio::test(start_paused = true)]
async fn what_refuses_both_is_quoted_on_the_first() {
    let (link, mut server) = link();
    let serving = async {
        let (_, id) = server.hears().await;
        server.refuses(&id, "the moon is full").await;
        let (_, id) = server.hears().await;
        server.refuses(&id, "what is that?").await;
    };
    let (greeted, ()) = tokio::join!(greeted(&link), serving);
    assert_eq!(greeted, Err("the moon is full".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn what_ends_of_the_second_greeting_has_refused_the_first() {
    let (link, mut server) = link();
    let serving = async move {
        let (_, id) = server.hears().await;
        server.refuses(&id, "the moon is full").await;
        server.hears().await;
        // With it its output ends.
        drop(server);
    };
    let (greeted, ()) = tokio::join!(greeted(&link), serving);
    assert_eq!(greeted, Err("the moon is full".to_owned()));
}
