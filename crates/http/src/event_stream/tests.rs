use std::sync::Arc;

use pretty_assertions::assert_eq;
use tokio_util::task::TaskTracker;

use super::*;
use mcp_workbench_core::gateway::{self, QuotaRegistry};
use mcp_workbench_core::telemetry::{QuotaOwner, Telemetry};
use mcp_workbench_wire::json::RawJson;
use mcp_workbench_wire::writer::MessageWriter;

struct Carried {
    writer: MessageWriter,
    readers: mpsc::Sender<StreamReader>,
    tasks: TaskTracker,
}

fn room() -> SendQuota {
    let quotas =
        QuotaRegistry::new(&Arc::new(Telemetry::default()), gateway::MemoryPools::default());
    SendQuota::of(&quotas.quota_for(&QuotaOwner::Local))
}

fn carried() -> Carried {
    let (writer, outbox) = MessageWriter::detached();
    let (stream, readers) = ResumableStream::new(3, outbox, None, None, room());
    let tasks = TaskTracker::new();
    tasks.spawn(stream.run());
    tasks.close();
    Carried { writer, readers, tasks }
}

impl Carried {
    async fn says(&self, text: &str) {
        self.writer.send_flushed(vec![Bytes::copy_from_slice(text.as_bytes())]).await.unwrap();
    }

    async fn read(&self, after: Option<u64>, is_primed: bool) -> mpsc::Receiver<Bytes> {
        let (events, receiver) = mpsc::channel(1);
        let reader = StreamReader { events, after, wants_priming: is_primed };
        self.readers.send(reader).await.unwrap_or_else(|_| panic!("the stream is over"));
        receiver
    }
}

async fn next(events: &mut mpsc::Receiver<Bytes>) -> String {
    String::from_utf8(events.recv().await.expect("an event").to_vec()).unwrap()
}

#[test]
fn a_message_is_one_line_of_data() {
    let parts = ["{\"a\":\r\n", "1}"].map(|part| Bytes::from_static(part.as_bytes()));
    assert_eq!(event(None, parts.to_vec()), "event: message\ndata: {\"a\":  1}\n\n");
    let event = event(Some((3, 7)), parts.to_vec());
    assert_eq!(event, "id: 3-7\nevent: message\ndata: {\"a\":  1}\n\n");
    assert_eq!(parse_event_id("3-7"), Some((3, 7)));
    assert_eq!([parse_event_id("3"), parse_event_id("x-1"), parse_event_id("")], [None; 3]);
}

#[tokio::test]
async fn buffers_unread_events_without_blocking() {
    let stream = carried();
    for n in 1..=REPLAY_CAPACITY + 2 {
        stream.says(&n.to_string()).await;
    }
    let mut events = stream.read(None, false).await;
    for n in 3..=REPLAY_CAPACITY + 2 {
        assert_eq!(next(&mut events).await, format!("id: 3-{n}\nevent: message\ndata: {n}\n\n"));
    }
}

#[tokio::test]
async fn slow_readers_lose_no_events() {
    let stream = carried();
    let mut events = stream.read(None, false).await;
    let last = 3 * REPLAY_CAPACITY;
    let writer = stream.writer.clone();
    stream.tasks.spawn(async move {
        for n in 1..=last {
            writer.send(vec![Bytes::from(n.to_string())]).await.unwrap();
        }
    });
    for n in 1..=last {
        assert!(next(&mut events).await.ends_with(&format!("data: {n}\n\n")));
    }
}

#[tokio::test]
async fn a_client_resumes_after_the_last_event_received() {
    let stream = carried();
    let mut events = stream.read(None, true).await;
    assert_eq!(next(&mut events).await, "id: 3-0\nretry: 1000\ndata: \n\n");
    for n in 1..=3 {
        stream.says(&n.to_string()).await;
        assert!(next(&mut events).await.starts_with(&format!("id: 3-{n}\n")));
    }
    drop(events);
    let mut events = stream.read(Some(1), false).await;
    assert!(next(&mut events).await.starts_with("id: 3-2\n"));
    assert!(next(&mut events).await.starts_with("id: 3-3\n"));
    let mut instead = stream.read(None, false).await;
    assert_eq!(events.recv().await, None);
    stream.says("4").await;
    assert!(next(&mut instead).await.starts_with("id: 3-4\n"));
}

#[tokio::test(start_paused = true)]
async fn an_ended_stream_can_be_resumed_for_a_while() {
    let stream = carried();
    let mut events = stream.read(None, false).await;
    stream.says("1").await;
    let Carried { writer, readers, tasks } = stream;
    drop(writer);
    next(&mut events).await;
    assert_eq!(events.recv().await, None);
    let (again, mut receiver) = mpsc::channel(1);
    let reader = StreamReader { events: again, after: Some(0), wants_priming: false };
    assert!(readers.send(reader).await.is_ok());
    assert!(next(&mut receiver).await.starts_with("id: 3-1\n"));
    assert_eq!(receiver.recv().await, None);
    tasks.wait().await;
    assert!(readers.is_closed());
}

#[tokio::test(start_paused = true)]
async fn an_idle_stream_sends_keep_alive_comments() {
    let stream = carried();
    let mut events = stream.read(None, false).await;
    assert_eq!(events.recv().await, Some(COMMENT));
    assert_eq!(events.recv().await, Some(COMMENT));
}

#[tokio::test(start_paused = true)]
async fn a_modern_request_is_cancelled_when_its_client_leaves() {
    let (writer, outbox) = MessageWriter::detached();
    let (events, mut receiver) = mpsc::channel(1);
    let cancelled = Cancellation::new();
    let tasks = TaskTracker::new();
    tasks.spawn(stream_request(None, outbox, events, cancelled.clone(), None, room()));
    writer.send(vec![Bytes::from_static(b"1")]).await.unwrap();
    assert_eq!(next(&mut receiver).await, "event: message\ndata: 1\n\n");
    assert_eq!(receiver.recv().await, Some(COMMENT));
    assert!(!cancelled.is_cancelled());
    drop(receiver);
    cancelled.cancelled().await;
    assert!(writer.send(Vec::new()).await.is_err());
}

#[tokio::test]
async fn a_modern_stream_ends_with_its_outbox() {
    let (writer, outbox) = MessageWriter::detached();
    let (events, mut receiver) = mpsc::channel(1);
    let cancelled = Cancellation::new();
    TaskTracker::new().spawn(stream_request(None, outbox, events, cancelled.clone(), None, room()));
    drop(writer);
    assert_eq!(receiver.recv().await, None);
    assert!(!cancelled.is_cancelled());
}

#[tokio::test]
async fn a_lost_long_answer_is_replayed_as_an_error() {
    let stream = carried();
    let mut events = stream.read(None, false).await;
    let long = RawJson::encode(&"a".repeat(MAX_REPLAY_BYTES));
    let answer = incoming::encode_response(RawJson::encode(&7), RpcOutcome::Result(long));
    stream.writer.send(answer).await.unwrap();
    assert!(next(&mut events).await.len() > MAX_REPLAY_BYTES);
    let mut events = stream.read(Some(0), false).await;
    let again = next(&mut events).await;
    assert!(again.starts_with("id: 3-1\n") && again.contains("\"id\":7,\"error\""), "{again}");
    assert!(again.contains("send the request again"), "{again}");
}
