use std::num::NonZeroU32;
use std::sync::Arc;

use pretty_assertions::assert_eq;
use tokio::time::advance;

use super::*;
use crate::name::{AgentName, ServerName, ServerRef, ToolboxName};
use crate::state::{Rest, Session};

const ROOM: Room = Room { count: 100, bytes: 1 << 24 };

fn rest(payer: &str, session: Option<&str>, text: &str) -> Record {
    Record::Rest(Rest {
        agent: None,
        session: session.map(SessionKey::of_id),
        payer: Some(payer.to_owned()),
        text: text.into(),
        piece: 1,
    })
}

#[expect(clippy::needless_pass_by_value, reason = "a literal reads best without `&`")]
fn key(name: impl ToString) -> Key {
    Key::Rest(name.to_string())
}

async fn has(memory: &Memory, key: &Key) -> bool {
    memory.get(key).await.is_some()
}

/// How many rests there are, and bytes in them; the accounts must agree.
fn kept(memory: &Memory) -> (usize, usize) {
    memory.shelf(&key(""), |shelf| {
        let bytes = shelf.kept.values().map(|kept| kept.record.bytes()).sum();
        let used: usize = shelf.used.values().map(|used| used.count).sum();
        assert_eq!((shelf.in_all.count, used), (shelf.kept.len(), shelf.kept.len()));
        assert_eq!(shelf.in_all.bytes, bytes);
        assert!(shelf.order.len() <= 1 + 2 * shelf.kept.len(), "{}", shelf.order.len());
        (shelf.kept.len(), bytes)
    })
}

#[tokio::test(start_paused = true)]
async fn a_record_is_there_until_its_time_is_over_it_is_taken_or_its_session_ends() {
    let memory = Memory::default();
    for (name, session) in [("a", None), ("b", Some("x")), ("c", Some("y"))] {
        memory.put(key(name), rest("ann", session, name), ROOM).await;
    }
    assert!(has(&memory, &key("b")).await);
    memory.end(&SessionKey::of_id("x"), &Tenure::default());
    assert!(has(&memory, &key("a")).await && !has(&memory, &key("b")).await);
    assert!(memory.take(&key("c")).await.is_some());
    assert_eq!(memory.take(&key("c")).await, None, "one gets it");
    memory.put(key("a"), rest("ann", None, "another"), ROOM).await;
    assert_eq!(kept(&memory), (1, 7));
    advance(Kind::Rest.lifetime().unwrap()).await;
    assert!(!has(&memory, &key("a")).await && memory.take(&key("a")).await.is_none());
    memory.put(key("new"), rest("ann", None, "new"), ROOM).await;
    assert_eq!(kept(&memory), (1, 3));
}

#[tokio::test]
async fn the_oldest_go_where_there_is_no_room_and_those_of_the_same_caller_first() {
    let memory = Memory::default();
    let [of_one, in_all] = [ROOM, Kind::Rest.room()];
    memory.put(key("bob's"), rest("bob", None, "other"), ROOM).await;
    for n in 0..of_one.count + 10 {
        memory.put(key(n), rest("ann", None, "rest"), ROOM).await;
    }
    assert_eq!(kept(&memory).0, of_one.count + 1);
    assert!(!has(&memory, &key(9)).await && has(&memory, &key(10)).await);
    let long = "x".repeat(of_one.bytes);
    memory.put(key("long"), rest("ann", None, &long), ROOM).await;
    assert_eq!(kept(&memory).0, 2, "it takes all that there is for its caller");
    assert!(has(&memory, &key("bob's")).await);
    for n in 0..2 * in_all.bytes / of_one.bytes {
        memory.put(key(n), rest(&n.to_string(), None, &long), ROOM).await;
    }
    assert_eq!(kept(&memory).1, in_all.bytes);
    for n in 0..2 * in_all.count {
        memory.put(key(n), rest(&n.to_string(), None, "rest"), ROOM).await;
    }
    assert!(kept(&memory).0 <= in_all.count);
    // Where one may have more than that, there is that much.
    let more = Room { count: 2 * in_all.count, ..ROOM };
    for n in 0..more.count + 10 {
        memory.put(key(n), rest("ann", None, "rest"), more).await;
    }
    assert_eq!(kept(&memory).0, more.count);
}

#[tokio::test]
async fn tasks_of_one_agent_do_not_push_out_those_of_another() {
    let memory = Memory::default();
    let task = |agent: &str| Record::Task {
        agent: Some(AgentName::new(agent)),
        server: ServerRef { toolbox: ToolboxName::new("box"), server: ServerName::new("srv") },
    };
    let key = |name: &str| Key::Task(name.to_owned());
    memory.put(key("bob's"), task("bob"), ROOM).await;
    for n in 0..=ROOM.count {
        memory.put(key(&n.to_string()), task("ann"), ROOM).await;
    }
    assert!(has(&memory, &key("bob's")).await && has(&memory, &key("1")).await);
    assert!(!has(&memory, &key("0")).await);
}

#[tokio::test(start_paused = true)]
async fn so_many_calls_are_counted_in_a_minute_and_then_one_after_the_other() {
    let memory = Memory::default();
    let rate = Rate { per_minute: NonZeroU32::new(3).unwrap() };
    for _ in 0..3 {
        assert_eq!(memory.count("ann", rate).await, Ok(()));
    }
    assert_eq!(memory.count("ann", rate).await, Err(Duration::from_secs(20)));
    assert_eq!(memory.count("bob", rate).await, Ok(()));
    advance(Duration::from_secs(19)).await;
    assert_eq!(memory.count("ann", rate).await, Err(Duration::from_secs(1)));
    advance(Duration::from_secs(1)).await;
    assert_eq!(memory.count("ann", rate).await, Ok(()));
    assert_eq!(memory.count("ann", rate).await, Err(Duration::from_secs(20)));
    advance(Duration::from_mins(2)).await;
    for n in 0..2 * FIRST_SWEEP {
        assert_eq!(memory.count(&n.to_string(), rate).await, Ok(()));
    }
    let counted = |subject| memory.state(|state| state.counts.clear_at.contains_key(subject));
    assert!(!counted("ann") && counted("0"), "what does not matter any more is forgotten");
}

#[tokio::test]
async fn a_session_is_whose_took_it_over_last() {
    let memory = Memory::default();
    let session = SessionKey::of_id("s");
    let at = |owner: &str, epoch| Tenure { owner: owner.to_owned(), epoch };
    let put = async |tenure: &Tenure| {
        let record = Session { tenure: tenure.clone(), ..Session::default() };
        let key = Key::Session(session.clone());
        memory.put(key, Record::Session(Arc::new(record)), Room::ENDLESS).await
    };
    let (first, second, late) = (at("a", 0), at("b", 1), at("c", 1));
    assert!(put(&first).await && put(&first).await, "its own it may change");
    assert!(put(&second).await);
    assert!(!put(&first).await, "it is not its own any more");
    assert!(!put(&late).await, "one of two who take it over at once gets it");
    assert!(memory.keep(&session, &second).await);
    assert!(!memory.keep(&session, &first).await);
    memory.end(&session, &first);
    assert!(memory.get(&Key::Session(session.clone())).await.is_some());
    memory.end(&session, &second);
    assert!(memory.get(&Key::Session(session)).await.is_none());
}
