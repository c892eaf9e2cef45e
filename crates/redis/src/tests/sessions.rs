//! Sessions shared by several workbenches.

use pretty_assertions::assert_eq;

use super::*;
use crate::tests::server::Server;
use mcp_workbench_core::state::{Capacity, StateStore};

#[tokio::test]
async fn the_former_owner_notices_a_takeover() {
    let server = Server::start().await;
    let (a, b) = (Workbench::at(&server).await, Workbench::at(&server).await);
    let (id, key) = session_key("credential");
    assert!(a.store.put(key.clone(), session("a", 0), Capacity::UNLIMITED).await.is_stored());
    assert_eq!(b.store.get(&key).await, Some(session("a", 0)));
    assert!(b.store.put(key.clone(), session("b", 1), Capacity::UNLIMITED).await.is_stored());
    assert!(!a.store.put(key.clone(), session("a", 0), Capacity::UNLIMITED).await.is_stored());
    assert!(!a.store.renew_lease(&id, &tenure("a", 0)).await);
    assert!(b.store.renew_lease(&id, &tenure("b", 1)).await);
    // A former owner can't end the session.
    a.store.end(&id, &tenure("a", 0));
    a.settled().await;
    assert_eq!(b.store.get(&key).await, Some(session("b", 1)));
    assert_eq!(a.store.get(&key).await, Some(session("b", 1)));
}

#[tokio::test]
async fn only_one_of_two_concurrent_adoptions_wins() {
    let server = Server::start().await;
    let (a, b) = (Workbench::at(&server).await, Workbench::at(&server).await);
    for round in 0..20 {
        let (_, key) = session_key(&format!("credential {round}"));
        assert!(
            a.store.put(key.clone(), session("gone", 0), Capacity::UNLIMITED).await.is_stored()
        );
        let (one, other) = tokio::join!(
            a.store.put(key.clone(), session("a", 1), Capacity::UNLIMITED),
            b.store.put(key.clone(), session("b", 1), Capacity::UNLIMITED),
        );
        let (one, other) = (one.is_stored(), other.is_stored());
        assert!(one != other, "both: {one}");
        let expected = if one { session("a", 1) } else { session("b", 1) };
        assert_eq!(a.store.get(&key).await, Some(expected));
    }
}

#[tokio::test]
async fn a_tombstone_prevents_a_session_from_being_put_again() {
    let server = Server::start().await;
    let (a, b) = (Workbench::at(&server).await, Workbench::at(&server).await);
    let (id, key) = session_key("credential");
    assert!(a.store.put(key.clone(), session("a", 0), Capacity::UNLIMITED).await.is_stored());
    assert!(b.store.put(key.clone(), session("b", 1), Capacity::UNLIMITED).await.is_stored());
    b.store.end(&id, &tenure("b", 1));
    b.settled().await;
    assert_eq!(b.store.get(&key).await, None);
    // Neither the former owner nor a concurrent takeover can put it again.
    assert_eq!(a.store.get(&key).await, None);
    assert!(!a.store.put(key.clone(), session("a", 0), Capacity::UNLIMITED).await.is_stored());
    assert!(!a.store.put(key.clone(), session("a", 2), Capacity::UNLIMITED).await.is_stored());
    assert_eq!(a.store.get(&key).await, None);
}

#[tokio::test]
async fn lease_renewals_are_rate_limited() {
    let server = Server::start().await;
    let a = Workbench::at(&server).await;
    let (id, key) = session_key("credential");
    a.store.put(key, session("a", 0), Capacity::UNLIMITED).await;
    let at = server.key_with("session:").await;
    let lifetime: u64 = server.ask(&format!("PTTL {at}")).await;
    assert!((590_000..=600_000).contains(&lifetime), "{lifetime}");
    let _: i64 = server.ask(&format!("PEXPIRE {at} 60000")).await;
    assert!(a.store.renew_lease(&id, &tenure("a", 0)).await);
    let lifetime: u64 = server.ask(&format!("PTTL {at}")).await;
    assert!(lifetime <= 60_000, "the TTL was extended immediately: {lifetime}");
    // Advance only the clock of this process.
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(31)).await;
    tokio::time::resume();
    assert!(a.store.renew_lease(&id, &tenure("a", 0)).await);
    let lifetime: u64 = server.ask(&format!("PTTL {at}")).await;
    assert!(lifetime > 60_000, "the TTL was not extended: {lifetime}");
}

#[tokio::test]
async fn the_owner_restores_a_session_record_after_a_flush() {
    let server = Server::start().await;
    let (a, b) = (Workbench::at(&server).await, Workbench::at(&server).await);
    let (id, key) = session_key("credential");
    a.store.put(key.clone(), session("a", 3), Capacity::UNLIMITED).await;
    let _: String = server.ask("FLUSHALL").await;
    assert_eq!(b.store.get(&key).await, None);
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(31)).await;
    tokio::time::resume();
    assert!(a.store.renew_lease(&id, &tenure("a", 3)).await);
    assert_eq!(b.store.get(&key).await, Some(session("a", 3)));
}

#[tokio::test]
async fn oversized_records_are_not_shared() {
    let server = Server::start().await;
    let (a, b) = (Workbench::at(&server).await, Workbench::at(&server).await);
    let (id, key) = session_key("credential");
    a.store.put(key.clone(), session("a", 0), Capacity::UNLIMITED).await;
    let StateRecord::Session(long) = session("a", 0) else { unreachable!() };
    let uris = (0..2000).map(|n| format!("file:///{n}").into()).collect();
    let long =
        StateRecord::Session(Arc::new(SessionRecord { subscriptions: uris, ..(*long).clone() }));
    assert!(a.store.put(key.clone(), long.clone(), Capacity::UNLIMITED).await.is_stored());
    assert_eq!(a.store.get(&key).await, Some(long));
    // The previous record is outdated and must not be found.
    assert_eq!(b.store.get(&key).await, None);
    assert!(a.store.renew_lease(&id, &tenure("a", 0)).await);
}

#[tokio::test]
async fn ignores_foreign_values_and_other_record_versions() {
    let server = Server::start().await;
    let (a, b) = (Workbench::at(&server).await, Workbench::at(&server).await);
    let (id, key) = session_key("credential");
    a.store.put(key.clone(), session("a", 0), Capacity::UNLIMITED).await;
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
        assert!(
            b.store.put(key.clone(), session("b", 1), Capacity::UNLIMITED).await.is_stored(),
            "{junk}"
        );
        assert_eq!(b.store.get(&key).await, Some(session("b", 1)), "{junk}");
        b.store.end(&id, &tenure("b", 1));
        b.settled().await;
        assert_eq!(b.store.get(&key).await, None, "{junk}");
    }
    assert!(b.store.is_up(), "junk must not open the breaker");
}
