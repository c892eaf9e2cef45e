//! Sessions that several workbenches know.

use pretty_assertions::assert_eq;

use super::*;
use crate::shared::tests::server::Server;
use crate::state::{Room, Store};

#[tokio::test]
async fn a_session_goes_on_elsewhere_and_its_old_owner_learns_of_it() {
    let server = Server::start().await;
    let (a, b) = (Workbench::at(&server).await, Workbench::at(&server).await);
    let (id, key) = session_key("credential");
    assert!(a.store.put(key.clone(), session("a", 0), Room::ENDLESS).await);
    assert_eq!(b.store.get(&key).await, Some(session("a", 0)));
    assert!(b.store.put(key.clone(), session("b", 1), Room::ENDLESS).await);
    assert!(!a.store.put(key.clone(), session("a", 0), Room::ENDLESS).await);
    assert!(!a.store.keep(&id, &tenure("a", 0)).await);
    assert!(b.store.keep(&id, &tenure("b", 1)).await);
    // Whoever has lost it ends nothing.
    a.store.end(&id, &tenure("a", 0));
    a.settled().await;
    assert_eq!(b.store.get(&key).await, Some(session("b", 1)));
    assert_eq!(a.store.get(&key).await, Some(session("b", 1)));
}

#[tokio::test]
async fn of_two_who_take_a_session_over_at_once_one_gets_it() {
    let server = Server::start().await;
    let (a, b) = (Workbench::at(&server).await, Workbench::at(&server).await);
    for round in 0..20 {
        let (_, key) = session_key(&format!("credential {round}"));
        assert!(a.store.put(key.clone(), session("gone", 0), Room::ENDLESS).await);
        let (one, other) = tokio::join!(
            a.store.put(key.clone(), session("a", 1), Room::ENDLESS),
            b.store.put(key.clone(), session("b", 1), Room::ENDLESS),
        );
        assert!(one != other, "both: {one}");
        let expected = if one { session("a", 1) } else { session("b", 1) };
        assert_eq!(a.store.get(&key).await, Some(expected));
    }
}

#[tokio::test]
async fn a_session_that_has_ended_is_put_by_nobody_again() {
    let server = Server::start().await;
    let (a, b) = (Workbench::at(&server).await, Workbench::at(&server).await);
    let (id, key) = session_key("credential");
    assert!(a.store.put(key.clone(), session("a", 0), Room::ENDLESS).await);
    assert!(b.store.put(key.clone(), session("b", 1), Room::ENDLESS).await);
    b.store.end(&id, &tenure("b", 1));
    b.settled().await;
    assert_eq!(b.store.get(&key).await, None);
    // Neither by who had it once, nor by who was about to take it over.
    assert_eq!(a.store.get(&key).await, None);
    assert!(!a.store.put(key.clone(), session("a", 0), Room::ENDLESS).await);
    assert!(!a.store.put(key.clone(), session("a", 2), Room::ENDLESS).await);
    assert_eq!(a.store.get(&key).await, None);
}

#[tokio::test]
async fn a_session_is_prolonged_now_and_then_and_not_each_time() {
    let server = Server::start().await;
    let a = Workbench::at(&server).await;
    let (id, key) = session_key("credential");
    a.store.put(key, session("a", 0), Room::ENDLESS).await;
    let at = server.key_with("session:").await;
    let lifetime: u64 = server.ask(&format!("PTTL {at}")).await;
    assert!((590_000..=600_000).contains(&lifetime), "{lifetime}");
    let _: i64 = server.ask(&format!("PEXPIRE {at} 60000")).await;
    assert!(a.store.keep(&id, &tenure("a", 0)).await);
    let lifetime: u64 = server.ask(&format!("PTTL {at}")).await;
    assert!(lifetime <= 60_000, "it was prolonged at once: {lifetime}");
    // The clock of this process alone goes on.
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(31)).await;
    tokio::time::resume();
    assert!(a.store.keep(&id, &tenure("a", 0)).await);
    let lifetime: u64 = server.ask(&format!("PTTL {at}")).await;
    assert!(lifetime > 60_000, "it was not prolonged: {lifetime}");
}

#[tokio::test]
async fn what_the_store_has_lost_is_put_again_by_who_uses_it() {
    let server = Server::start().await;
    let (a, b) = (Workbench::at(&server).await, Workbench::at(&server).await);
    let (id, key) = session_key("credential");
    a.store.put(key.clone(), session("a", 3), Room::ENDLESS).await;
    let _: String = server.ask("FLUSHALL").await;
    assert_eq!(b.store.get(&key).await, None);
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(31)).await;
    tokio::time::resume();
    assert!(a.store.keep(&id, &tenure("a", 3)).await);
    assert_eq!(b.store.get(&key).await, Some(session("a", 3)));
}

#[tokio::test]
async fn a_record_that_is_too_long_stays_in_its_own_workbench() {
    let server = Server::start().await;
    let (a, b) = (Workbench::at(&server).await, Workbench::at(&server).await);
    let (id, key) = session_key("credential");
    a.store.put(key.clone(), session("a", 0), Room::ENDLESS).await;
    let Record::Session(long) = session("a", 0) else { unreachable!() };
    let uris = (0..2000).map(|n| format!("file:///{n}")).collect();
    let long = Record::Session(Arc::new(Session { subscriptions: uris, ..(*long).clone() }));
    assert!(a.store.put(key.clone(), long.clone(), Room::ENDLESS).await);
    assert_eq!(a.store.get(&key).await, Some(long));
    // What was there before is not true any more.
    assert_eq!(b.store.get(&key).await, None);
    assert!(a.store.keep(&id, &tenure("a", 0)).await);
}

#[tokio::test]
async fn what_is_not_ours_or_of_another_version_is_not_there() {
    let server = Server::start().await;
    let (a, b) = (Workbench::at(&server).await, Workbench::at(&server).await);
    let (id, key) = session_key("credential");
    a.store.put(key.clone(), session("a", 0), Room::ENDLESS).await;
    let at = server.key_with("session:").await;
    for junk in [
        format!("HSET {at} text {{\"version\":99,\"record\":{{}}}}"),
        format!("HSET {at} text \u{1}\u{2}junk"),
        format!("HSET {at} text {{\"version\":1,\"record\":{{\"rest\":{{}}}}}}"),
        format!("HSET {at} text {}", "x".repeat(100_000)),
    ] {
        let _: i64 = server.ask(&junk).await;
        assert_eq!(b.store.get(&key).await, None, "{junk}");
    }
    for junk in [
        format!("HSET {at} epoch nan"),
        format!("HSET {at} epoch -"),
        format!("SET {at} junk"),
        format!("RPUSH {at} junk"),
    ] {
        let _: i64 = server.ask(&format!("DEL {at}")).await;
        let _: redis::Value = server.ask(&junk).await;
        assert_eq!(b.store.get(&key).await, None, "{junk}");
        assert!(b.store.put(key.clone(), session("b", 1), Room::ENDLESS).await, "{junk}");
        assert_eq!(b.store.get(&key).await, Some(session("b", 1)), "{junk}");
        b.store.end(&id, &tenure("b", 1));
        b.settled().await;
        assert_eq!(b.store.get(&key).await, None, "{junk}");
    }
    assert!(b.store.is_up(), "junk is no reason to give the store up");
}
