//! A store that fails, and how everything goes on.

use pretty_assertions::assert_eq;
use tokio::net::TcpListener;

use super::*;
use crate::shared::tests::server::Server;
use crate::state::{Room, Store};

/// Limits that are soon reached, and yet kept by a server that is well.
const SHORT: Limits = Limits {
    connect: Duration::from_millis(500),
    answer: Duration::from_millis(250),
    bulk: Duration::from_millis(250),
};

fn is_up_again(heard: &[Option<String>]) -> bool {
    heard.len() >= 3 && heard.last().is_some_and(Option::is_none)
}

#[tokio::test]
async fn a_store_that_is_killed_is_done_without_and_found_again() {
    let mut server = Server::start().await;
    let a = Workbench::with(&server.config(), SHORT).await;
    let (id, key) = session_key("credential");
    assert!(a.store.put(key.clone(), session("a", 0), Room::ENDLESS).await);
    server.kill();
    let (other, other_key) = session_key("another");
    assert!(a.store.put(other_key.clone(), session("a", 0), Room::ENDLESS).await);
    assert_eq!(a.store.get(&other_key).await, Some(session("a", 0)));
    assert_eq!(a.store.get(&key).await, Some(session("a", 0)));
    assert!(a.store.keep(&other, &tenure("a", 0)).await);
    assert!(a.store.count("ann", rate(1)).await.is_ok());
    assert!(a.store.count("ann", rate(1)).await.is_err(), "rates are kept here meanwhile");
    let rests = Key::Rest("r".to_owned());
    a.store.put(rests.clone(), rest("ann", None, "x"), Room::ENDLESS).await;
    assert!(a.store.take(&rests).await.is_some());
    until("it is told", async || a.heard.all().len() >= 2).await;
    let heard = a.heard.all();
    assert!(heard[0].is_none() && heard[1].is_some(), "{heard:?}");

    server.restart().await;
    until("it is found", async || is_up_again(&a.heard.all())).await;
    let b = Workbench::at(&server).await;
    assert_eq!(b.store.get(&other_key).await, None);
    // Those who are used are put again.
    for id in [&id, &other] {
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(31)).await;
        tokio::time::resume();
        assert!(a.store.keep(id, &tenure("a", 0)).await);
    }
    assert_eq!(b.store.get(&key).await, Some(session("a", 0)));
    assert_eq!(b.store.get(&other_key).await, Some(session("a", 0)));
}

#[tokio::test]
async fn a_store_that_stands_still_costs_its_limit_once() {
    let server = Server::start().await;
    let a = Workbench::with(&server.config(), SHORT).await;
    let (_, key) = session_key("credential");
    assert!(a.store.put(key.clone(), session("a", 0), Room::ENDLESS).await);
    let _: String = server.ask("CLIENT PAUSE 3000 ALL").await;
    let since = Instant::now();
    for _ in 0..100 {
        assert_eq!(a.store.get(&key).await, Some(session("a", 0)));
        assert!(a.store.count("ann", rate(1000)).await.is_ok());
    }
    let took = since.elapsed();
    assert!(took >= SHORT.answer && took < 2 * SHORT.answer, "{took:?}");
    until("it is told", async || a.heard.all().len() >= 2).await;
    until("it is found again", async || is_up_again(&a.heard.all())).await;
    assert_eq!(a.heard.all().len(), 3, "it is told once: {:?}", a.heard.all());
}

#[tokio::test]
async fn a_store_that_is_not_there_at_first_is_found_later() {
    let mut server = Server::start().await;
    server.kill();
    let a = Workbench::with(&server.config(), SHORT).await;
    assert!(!a.store.is_up());
    let (_, key) = session_key("credential");
    assert!(a.store.put(key.clone(), session("a", 0), Room::ENDLESS).await);
    server.restart().await;
    until("it is found", async || a.store.is_up()).await;
    assert!(a.store.put(key.clone(), session("a", 0), Room::ENDLESS).await);
    let b = Workbench::at(&server).await;
    assert!(b.store.get(&key).await.is_some());
}

#[tokio::test]
async fn a_store_that_takes_no_writes_is_none() {
    let server = Server::start().await;
    let a = Workbench::with(&server.config(), SHORT).await;
    let (_, key) = session_key("credential");
    let _: String = server.ask("CONFIG SET maxmemory 1").await;
    assert!(a.store.put(key.clone(), session("a", 0), Room::ENDLESS).await);
    assert_eq!(a.store.get(&key).await, Some(session("a", 0)));
    until("it is told", async || a.heard.all().len() >= 2).await;
    let heard = a.heard.all();
    let why = heard[1].clone().unwrap_or_default();
    assert!(why.contains("OOM") || why.contains("maxmemory"), "{why}");
    let _: String = server.ask("CONFIG SET maxmemory 0").await;
    until("it is found", async || a.store.is_up()).await;
}

#[tokio::test]
async fn scripts_that_the_store_has_forgotten_are_sent_again() {
    let server = Server::start().await;
    let a = Workbench::at(&server).await;
    let (_, key) = session_key("credential");
    assert!(a.store.put(key.clone(), session("a", 0), Room::ENDLESS).await);
    let _: String = server.ask("SCRIPT FLUSH").await;
    assert!(a.store.put(key.clone(), session("a", 0), Room::ENDLESS).await);
    assert_eq!(a.heard.all(), [None]);
}

#[tokio::test]
async fn nobody_waits_for_a_server_that_never_speaks() {
    let silent = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = silent.local_addr().unwrap().port();
    for scheme in ["redis", "rediss"] {
        secrets::provide_tls();
        let since = Instant::now();
        let a = Workbench::with(&config(&format!("{scheme}://127.0.0.1:{port}")), SHORT).await;
        assert!(!a.store.is_up());
        assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
        assert!(a.store.count("ann", rate(1)).await.is_ok());
    }
}
