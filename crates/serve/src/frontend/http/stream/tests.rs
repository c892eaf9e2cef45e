use std::sync::Arc;

use pretty_assertions::assert_eq;
use tokio_util::task::TaskTracker;

use super::*;
use crate::gateway::{self, Payers};
use crate::observe::{Observer, Payer};
use crate::raw::Raw;
use crate::wire::writer::Writer;

/// A stream that is carried, and the two ends of it.
struct Carried {
    writer: Writer,
    readers: mpsc::Sender<Reader>,
    tasks: TaskTracker,
}

fn room() -> Room {
    let payers = Payers::new(&Arc::new(Observer::default()), gateway::Bytes::default());
    Room::of(&payers.purse(&Payer::Local))
}

fn carried() -> Carried {
    let (writer, outbox) = Writer::detached();
    let (stream, readers) = Stream::new(3, outbox, None, None, room());
    let tasks = TaskTracker::new();
    tasks.spawn(stream.run());
    tasks.close();
    Carried { writer, readers, tasks }
}

impl Carried {
    async fn says(&self, text: &str) {
        self.writer.send_written(vec![Bytes::copy_from_slice(text.as_bytes())]).await.unwrap();
    }

    async fn read(&self, after: Option<u64>, is_primed: bool) -> mpsc::Receiver<Bytes> {
        let (events, receiver) = mpsc::channel(1);
        let reader = Reader { events, after, is_primed };
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
    assert_eq!(position("3-7"), Some((3, 7)));
    assert_eq!([position("3"), position("x-1"), position("")], [None; 3]);
}

#[tokio::test]
async fn what_nobody_reads_is_kept_and_blocks_nobody() {
    let stream = carried();
    for n in 1..=KEPT + 2 {
        stream.says(&n.to_string()).await;
    }
    let mut events = stream.read(None, false).await;
    for n in 3..=KEPT + 2 {
        assert_eq!(next(&mut events).await, format!("id: 3-{n}\nevent: message\ndata: {n}\n\n"));
    }
}

#[tokio::test]
async fn what_is_read_slowly_is_not_lost() {
    let stream = carried();
    let mut events = stream.read(None, false).await;
    let last = 3 * KEPT;
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
async fn a_client_that_comes_back_goes_on_after_what_it_got() {
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
async fn a_stream_that_has_ended_waits_a_while_for_a_client() {
    let stream = carried();
    let mut events = stream.read(None, false).await;
    stream.says("1").await;
    let Carried { writer, readers, tasks } = stream;
    drop(writer);
    next(&mut events).await;
    assert_eq!(events.recv().await, None);
    let (again, mut receiver) = mpsc::channel(1);
    let reader = Reader { events: again, after: Some(0), is_primed: false };
    assert!(readers.send(reader).await.is_ok());
    assert!(next(&mut receiver).await.starts_with("id: 3-1\n"));
    assert_eq!(receiver.recv().await, None);
    tasks.wait().await;
    assert!(readers.is_closed());
}

#[tokio::test(start_paused = true)]
async fn a_quiet_stream_shows_that_it_is_alive() {
    let stream = carried();
    let mut events = stream.read(None, false).await;
    assert_eq!(events.recv().await, Some(COMMENT));
    assert_eq!(events.recv().await, Some(COMMENT));
}

#[tokio::test(start_paused = true)]
async fn a_modern_request_is_cancelled_when_its_client_leaves() {
    let (writer, outbox) = Writer::detached();
    let (events, mut receiver) = mpsc::channel(1);
    let cancelled = Cancellation::new();
    let tasks = TaskTracker::new();
    tasks.spawn(carry(None, outbox, events, cancelled.clone(), None, room()));
    writer.send(vec![Bytes::from_static(b"1")]).await.unwrap();
    assert_eq!(next(&mut receiver).await, "event: message\ndata: 1\n\n");
    assert_eq!(receiver.recv().await, Some(COMMENT));
    assert!(!cancelled.is_cancelled());
    drop(receiver);
    cancelled.cancelled().await;
    assert!(writer.send(Vec::new()).await.is_err());
}

#[tokio::test]
async fn a_modern_stream_ends_with_what_it_carries() {
    let (writer, outbox) = Writer::detached();
    let (events, mut receiver) = mpsc::channel(1);
    let cancelled = Cancellation::new();
    TaskTracker::new().spawn(carry(None, outbox, events, cancelled.clone(), None, room()));
    drop(writer);
    assert_eq!(receiver.recv().await, None);
    assert!(!cancelled.is_cancelled());
}

#[tokio::test]
async fn a_long_answer_that_was_lost_on_its_way_is_an_error() {
    let stream = carried();
    let mut events = stream.read(None, false).await;
    let long = Raw::encode(&"a".repeat(LONG));
    let answer = incoming::answer(Raw::encode(&7), Outcome::Result(long));
    stream.writer.send(answer).await.unwrap();
    assert!(next(&mut events).await.len() > LONG);
    // It comes back for what it did not get whole.
    let mut events = stream.read(Some(0), false).await;
    let again = next(&mut events).await;
    assert!(again.starts_with("id: 3-1\n") && again.contains("\"id\":7,\"error\""), "{again}");
    assert!(again.contains("ask again"), "{again}");
}
