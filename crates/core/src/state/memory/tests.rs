use std::num::NonZeroU32;
use std::sync::Arc;

use pretty_assertions::assert_eq;
use tokio::time::advance;

use super::*;
use crate::state::{ResultRemainder, SessionRecord};
use mcp_workbench_names::{AgentName, ServerName, ServerRef, ToolboxName};

const ROOM: Capacity = Capacity { count: 100, bytes: 1 << 24 };

fn rest(owner: &str, session: Option<&str>, text: &str) -> StateRecord {
    StateRecord::Remainder(ResultRemainder {
        agent: None,
        subject: None,
        session: session.map(SessionKey::of_id),
        owner: Some(owner.to_owned()),
        text: text.into(),
        piece: 1,
    })
}

#[expect(clippy::needless_pass_by_value, reason = "a literal reads best without `&`")]
fn key(name: impl ToString) -> RecordKey {
    RecordKey::Rest(name.to_string())
}

async fn has(memory: &MemoryStateStore, key: &RecordKey) -> bool {
    memory.get(key).await.is_some()
}

/// Returns the number of remainders and their size in bytes, after checking the usage counters.
fn kept(memory: &MemoryStateStore) -> (usize, usize) {
    memory.shelf(&key(""), |records| {
        let bytes = records.record.values().map(|record| record.record.bytes()).sum();
        let used: usize = records.used.values().map(|used| used.count).sum();
        assert_eq!((records.in_all.count, used), (records.record.len(), records.record.len()));
        assert_eq!(records.in_all.bytes, bytes);
        assert!(records.order.len() <= 1 + 2 * records.record.len(), "{}", records.order.len());
        (records.record.len(), bytes)
    })
}

#[tokio::test(start_paused = true)]
async fn record_lives_until_it_expires_is_taken_or_its_session_ends() {
    let memory = MemoryStateStore::default();
    for (name, session) in [("a", None), ("b", Some("x")), ("c", Some("y"))] {
        memory.put(key(name), rest("ann", session, name), ROOM).await;
    }
    assert!(has(&memory, &key("b")).await);
    memory.end(&SessionKey::of_id("x"), &SessionLease::default());
    assert!(has(&memory, &key("a")).await && !has(&memory, &key("b")).await);
    assert!(memory.take(&key("c")).await.is_some());
    assert_eq!(memory.take(&key("c")).await, None, "a record is taken once");
    memory.put(key("a"), rest("ann", None, "another"), ROOM).await;
    assert_eq!(kept(&memory), (1, 7));
    advance(RecordKind::Rest.lifetime().unwrap()).await;
    assert!(!has(&memory, &key("a")).await && memory.take(&key("a")).await.is_none());
    memory.put(key("new"), rest("ann", None, "new"), ROOM).await;
    assert_eq!(kept(&memory), (1, 3));
}

#[tokio::test]
async fn eviction_prefers_the_oldest_records_of_the_same_caller() {
    let memory = MemoryStateStore::default();
    let [of_one, in_all] = [ROOM, RecordKind::Rest.room()];
    memory.put(key("bob's"), rest("bob", None, "other"), ROOM).await;
    for n in 0..of_one.count + 10 {
        let expected =
            if n < of_one.count { PutOutcome::Stored } else { PutOutcome::StoredWithEviction };
        assert_eq!(memory.put(key(n), rest("ann", None, "rest"), ROOM).await, expected, "{n}");
    }
    assert_eq!(kept(&memory).0, of_one.count + 1);
    assert!(!has(&memory, &key(9)).await && has(&memory, &key(10)).await);
    let long = "x".repeat(of_one.bytes);
    memory.put(key("long"), rest("ann", None, &long), ROOM).await;
    assert_eq!(kept(&memory).0, 2, "it uses up the caller's capacity");
    assert!(has(&memory, &key("bob's")).await);
    for n in 0..2 * in_all.bytes / of_one.bytes {
        memory.put(key(n), rest(&n.to_string(), None, &long), ROOM).await;
    }
    assert_eq!(kept(&memory).1, in_all.bytes);
    for n in 0..2 * in_all.count {
        memory.put(key(n), rest(&n.to_string(), None, "rest"), ROOM).await;
    }
    assert!(kept(&memory).0 <= in_all.count);
    // The total capacity grows to the caller's if that is larger.
    let more = Capacity { count: 2 * in_all.count, ..ROOM };
    for n in 0..more.count + 10 {
        memory.put(key(n), rest("ann", None, "rest"), more).await;
    }
    assert_eq!(kept(&memory).0, more.count);
}

#[tokio::test]
async fn tasks_of_one_agent_do_not_evict_tasks_of_another() {
    let memory = MemoryStateStore::default();
    let task = |agent: &str| StateRecord::Task {
        agent: Some(AgentName::new(agent)),
        server: ServerRef { toolbox: ToolboxName::new("box"), server: ServerName::new("srv") },
    };
    let key = |name: &str| RecordKey::Task(name.to_owned());
    memory.put(key("bob's"), task("bob"), ROOM).await;
    for n in 0..=ROOM.count {
        memory.put(key(&n.to_string()), task("ann"), ROOM).await;
    }
    assert!(has(&memory, &key("bob's")).await && has(&memory, &key("1")).await);
    assert!(!has(&memory, &key("0")).await);
}

#[tokio::test(start_paused = true)]
async fn rate_allows_a_burst_then_spaces_calls_out() {
    let memory = MemoryStateStore::default();
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
    assert!(!counted("ann") && counted("0"), "expired counters are dropped");
}

#[tokio::test]
async fn newest_lease_owns_the_session() {
    let memory = MemoryStateStore::default();
    let session = SessionKey::of_id("s");
    let at = |owner: &str, epoch| SessionLease { owner: owner.to_owned(), epoch };
    let put = async |tenure: &SessionLease| {
        let record = SessionRecord { tenure: tenure.clone(), ..SessionRecord::default() };
        let key = RecordKey::Session(session.clone());
        let record = StateRecord::Session(Arc::new(record));
        memory.put(key, record, Capacity::UNLIMITED).await.is_stored()
    };
    let (first, second, late) = (at("a", 0), at("b", 1), at("c", 1));
    assert!(put(&first).await && put(&first).await, "the owner can write again");
    assert!(put(&second).await);
    assert!(!put(&first).await, "the previous owner lost the session");
    assert!(!put(&late).await, "only one of two concurrent takeovers succeeds");
    assert!(memory.renew_lease(&session, &second).await);
    assert!(!memory.renew_lease(&session, &first).await);
    memory.end(&session, &first);
    assert!(memory.get(&RecordKey::Session(session.clone())).await.is_some());
    memory.end(&session, &second);
    assert!(memory.get(&RecordKey::Session(session)).await.is_none());
}
