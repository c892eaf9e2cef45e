//! Remainders, tasks and rate limits.

use futures_free::all;
use pretty_assertions::assert_eq;
use tempfile::TempDir;

use super::*;
use crate::tests::server::Server;
use mcp_workbench_core::state::{Capacity, StateStore};
use mcp_workbench_names::{ServerName, ServerRef, ToolboxName};

/// Awaits spawned tasks one after the other.
mod futures_free {
    use tokio::task::JoinHandle;

    pub(super) async fn all<T>(begun: Vec<JoinHandle<T>>) -> Vec<T> {
        let mut done = Vec::new();
        for one in begun {
            done.push(one.await.unwrap());
        }
        done
    }
}

/// A workbench with a key.
async fn sealing(server: &Server, folder: &TempDir) -> Workbench {
    Workbench::with(&with_keys(server, folder.path(), &[1]), PATIENT).await
}

const ROOM: Capacity = Capacity { count: 3, bytes: 100 };

fn key(name: &str) -> RecordKey {
    RecordKey::Rest(name.to_owned())
}

#[tokio::test]
async fn remainders_are_shared_and_taken_once() {
    let (server, folder) = (Server::start().await, TempDir::new().unwrap());
    let (a, b) = (sealing(&server, &folder).await, sealing(&server, &folder).await);
    a.store.put(key("r"), rest("ann", None, "text"), ROOM).await;
    assert_eq!(b.store.get(&key("r")).await, Some(rest("ann", None, "text")));
    let at = server.key_with(":rest:").await;
    let lifetime: u64 = server.ask(&format!("PTTL {at}")).await;
    assert!((890_000..=900_000).contains(&lifetime), "{lifetime}");
    let (r, s) = (key("r"), key("r"));
    let (one, other) = tokio::join!(a.store.take(&r), b.store.take(&s));
    assert_eq!(usize::from(one.is_some()) + usize::from(other.is_some()), 1);
    assert_eq!(b.store.get(&key("r")).await, None);
    assert_eq!(server.keys().await, Vec::<String>::new(), "no index entry is left");
}

#[tokio::test]
async fn a_callers_capacity_spans_all_workbenches() {
    let (server, folder) = (Server::start().await, TempDir::new().unwrap());
    let [a, b, c] = [(), (), ()].map(|()| sealing(&server, &folder));
    let (a, b, c) = (a.await, b.await, c.await);
    a.store.put(key("other"), rest("bob", None, "x"), ROOM).await;
    for (workbench, name) in [(&a, "1"), (&b, "2"), (&a, "3"), (&b, "4")] {
        workbench.store.put(key(name), rest("ann", None, "x"), ROOM).await;
    }
    let found = |name: &'static str| {
        let store = &c.store;
        async move { store.get(&key(name)).await.is_some() }
    };
    assert!(!found("1").await && found("2").await && found("3").await && found("4").await);
    // The byte limit evicts the oldest, too.
    b.store.put(key("5"), rest("ann", None, &"x".repeat(99)), ROOM).await;
    assert!(!found("2").await && !found("3").await && found("4").await && found("5").await);
    // A record larger than the capacity isn't shared.
    b.store.put(key("6"), rest("ann", None, &"x".repeat(101)), ROOM).await;
    assert!(!found("6").await && found("other").await);
}

#[tokio::test]
async fn remainders_of_a_session_end_with_it() {
    let (server, folder) = (Server::start().await, TempDir::new().unwrap());
    let (a, b) = (sealing(&server, &folder).await, sealing(&server, &folder).await);
    let (id, session_at) = session_key("credential");
    a.store.put(session_at, session("a", 0), Capacity::UNLIMITED).await;
    a.store.put(key("its"), rest("ann", Some(&id), "x"), ROOM).await;
    a.store.put(key("other"), rest("ann", None, "x"), ROOM).await;
    a.store.end(&id, &tenure("a", 0));
    a.settled().await;
    assert_eq!(b.store.get(&key("its")).await, None);
    assert_eq!(a.store.get(&key("its")).await, None);
    assert!(b.store.get(&key("other")).await.is_some());
}

#[tokio::test]
async fn tasks_are_shared_and_the_oldest_are_evicted() {
    let server = Server::start().await;
    let (a, b) = (Workbench::at(&server).await, Workbench::at(&server).await);
    let at = ServerRef { toolbox: ToolboxName::new("dev"), server: ServerName::new("git") };
    let task = StateRecord::Task { agent: None, server: at };
    let capacity = Capacity { count: 2, ..Capacity::UNLIMITED };
    let keys = ["1", "2", "3"].map(|name| RecordKey::Task(name.to_owned()));
    for key in &keys {
        a.store.put(key.clone(), task.clone(), capacity).await;
    }
    assert_eq!(b.store.get(&keys[0]).await, None);
    assert_eq!(b.store.get(&keys[1]).await, Some(task.clone()));
    assert_eq!(b.store.get(&keys[2]).await, Some(task));
    b.store.remove(&keys[2]);
    b.settled().await;
    assert_eq!(b.store.get(&keys[2]).await, None);
}

#[tokio::test]
async fn a_rate_limit_spans_three_workbenches() {
    let server = Server::start().await;
    let mut begun = Vec::new();
    for _ in 0..3 {
        let workbench = Arc::new(Workbench::at(&server).await);
        begun.extend((0..14).map(|_| Arc::clone(&workbench)));
    }
    begun.truncate(40);
    let tasks = TaskTracker::new();
    let begun = begun
        .into_iter()
        .map(|workbench| tasks.spawn(async move { workbench.store.count("ann", rate(30)).await }));
    let counted = all(begun.collect()).await;
    assert_eq!(counted.iter().filter(|counted| counted.is_ok()).count(), 30);
    for wait in counted.into_iter().filter_map(Result::err) {
        assert!(wait <= Duration::from_secs(2), "{wait:?}");
    }
}

#[tokio::test]
async fn rate_limits_use_the_servers_clock_and_ignore_junk() {
    let server = Server::start().await;
    let a = Workbench::at(&server).await;
    assert_eq!(a.store.count("ann", rate(1)).await, Ok(()));
    assert!(a.store.count("ann", rate(1)).await.is_err());
    assert_eq!(a.store.count("bob", rate(1)).await, Ok(()));
    for subject in ["ann", "bob"] {
        let _ = a.store.count(subject, rate(1)).await;
    }
    for at in server.keys().await {
        let lifetime: i64 = server.ask(&format!("PTTL {at}")).await;
        assert!((1..=60_000).contains(&lifetime), "{lifetime}");
    }
    let at = server.keys().await;
    for junk in ["9e300", "nan", "inf", "-1", "junk", ""] {
        for at in &at {
            let _: redis::Value = server.ask(&format!("SET {at} {junk}")).await;
        }
        assert_eq!(a.store.count("ann", rate(1)).await, Ok(()), "{junk}");
    }
    for at in &at {
        let _: i64 = server.ask(&format!("DEL {at}")).await;
        let _: i64 = server.ask(&format!("RPUSH {at} junk")).await;
    }
    assert_eq!(a.store.count("ann", rate(1)).await, Ok(()));
}

#[tokio::test]
async fn ignores_foreign_values_among_rest_records() {
    let (server, folder) = (Server::start().await, TempDir::new().unwrap());
    let (a, b) = (sealing(&server, &folder).await, sealing(&server, &folder).await);
    a.store.put(key("r"), rest("ann", None, "text"), ROOM).await;
    let all = server.keys().await;
    for at in &all {
        let _: i64 = server.ask(&format!("DEL {at}")).await;
        let _: i64 = server.ask(&format!("RPUSH {at} junk")).await;
    }
    assert_eq!(b.store.get(&key("r")).await, None);
    assert_eq!(b.store.take(&key("r")).await, None);
    a.store.put(key("r"), rest("ann", None, "text"), ROOM).await;
    assert_eq!(b.store.get(&key("r")).await, Some(rest("ann", None, "text")));
    // An index can contain foreign entries, too.
    let list = server.key_with("rest-list:of").await;
    let _: i64 = server.ask(&format!("ZADD {list} 9e15 junk")).await;
    a.store.put(key("s"), rest("ann", None, "text"), ROOM).await;
    assert!(b.store.get(&key("s")).await.is_some());
    assert!(a.store.is_up() && b.store.is_up());
}

fn task() -> StateRecord {
    let server = ServerRef { toolbox: ToolboxName::new("dev"), server: ServerName::new("git") };
    StateRecord::Task { agent: None, server }
}

#[tokio::test]
async fn remainders_stay_in_the_process_without_a_key() {
    let server = Server::start().await;
    let (a, b) = (Workbench::at(&server).await, Workbench::at(&server).await);
    a.store.put(key("r"), rest("ann", None, "text"), ROOM).await;
    a.settled().await;
    assert_eq!(server.keys().await, Vec::<String>::new());
    assert_eq!(b.store.get(&key("r")).await, None);
    assert_eq!(a.store.get(&key("r")).await, Some(rest("ann", None, "text")));
    assert_eq!(a.store.take(&key("r")).await, Some(rest("ann", None, "text")));
    assert_eq!(a.store.take(&key("r")).await, None);
}

#[tokio::test]
async fn records_are_sealed_for_their_own_key() {
    let (server, folder) = (Server::start().await, TempDir::new().unwrap());
    let (a, b) = (sealing(&server, &folder).await, sealing(&server, &folder).await);
    let (_, session_at) = session_key("credential");
    let (_, other_at) = session_key("other");
    a.store.put(session_at.clone(), session("secret", 0), Capacity::UNLIMITED).await;
    let tasks = ["1", "2"].map(|name| RecordKey::Task(name.to_owned()));
    for task_at in &tasks {
        a.store.put(task_at.clone(), task(), Capacity::UNLIMITED).await;
    }
    a.store.put(key("r"), rest("secret", None, "secret"), ROOM).await;
    let with = |word: &'static str| server.key_with(word);
    let [session_name, task_name, rest_name] =
        [with(":session:").await, with(":task:").await, with(":rest:").await];
    for at in server.keys().await {
        let dump: Vec<u8> = server.ask(&format!("DUMP {at}")).await;
        let is_owner_field = at == session_name;
        let word: &[u8] = if is_owner_field { b"introduction" } else { b"secret" };
        assert!(!dump.windows(word.len()).any(|part| part == word), "{at}");
    }
    assert_eq!(b.store.get(&session_at).await, Some(session("secret", 0)));
    assert_eq!(b.store.get(&tasks[0]).await, Some(task()));
    assert_eq!(b.store.get(&key("r")).await, Some(rest("secret", None, "secret")));

    // None can be moved to another key, or be replaced by one that isn't sealed.
    a.store.put(other_at.clone(), session("b", 0), Capacity::UNLIMITED).await;
    let keys = server.keys().await;
    let other = keys.iter().find(|at| at.contains(":session:") && **at != session_name).unwrap();
    let _: i64 = server.ask(&format!("COPY {session_name} {other} REPLACE")).await;
    assert_eq!(b.store.get(&other_at).await, None);
    let other = keys.iter().find(|at| at.contains(":task:") && **at != task_name).unwrap();
    let c = sealing(&server, &folder).await;
    let _: i64 = server.ask(&format!("COPY {task_name} {other} REPLACE")).await;
    let found = [c.store.get(&tasks[0]).await, c.store.get(&tasks[1]).await];
    assert_eq!(found.iter().flatten().count(), 1);
    let _: i64 = server.ask(&format!("COPY {other} {rest_name} REPLACE")).await;
    assert_eq!(b.store.get(&key("r")).await, None);
    for (at, planted) in [(&session_at, session("b", 0)), (&key("r"), rest("b", None, "x"))] {
        let text = planted.encode().unwrap();
        let ask = match at {
            RecordKey::Session(_) => format!("HSET {session_name} text {text}"),
            _ => format!("SET {rest_name} {text}"),
        };
        let _: redis::Value = server.ask(&ask).await;
        assert_eq!(b.store.get(at).await, None, "{planted:?}");
    }
    assert!(b.store.is_up());
}

#[tokio::test]
async fn record_that_could_not_be_written_is_not_lost() {
    let server = Server::start().await;
    let a = Workbench::at(&server).await;
    let at = RecordKey::Task("1".to_owned());
    let _: String = server.ask("CONFIG SET maxmemory 1").await;
    a.store.put(at.clone(), task(), Capacity::UNLIMITED).await;
    let _: String = server.ask("CONFIG SET maxmemory 0").await;
    until("it is found", async || a.store.is_up()).await;
    assert_eq!(a.store.take(&at).await, Some(task()));
    assert_eq!(a.store.take(&at).await, None);
}
