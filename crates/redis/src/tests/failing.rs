//! Outages and misbehaving servers.

use pretty_assertions::assert_eq;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::spawn_blocking;

use super::*;
use crate::tests::server::Server;
use mcp_workbench_core::state::{Capacity, StateStore};

/// Timeouts that a test reaches soon, but a healthy server doesn't.
const SHORT: StoreTimeouts = StoreTimeouts {
    connect: Duration::from_millis(500),
    response: Duration::from_millis(250),
    bulk: Duration::from_millis(250),
};

fn is_up_again(heard: &[Option<String>]) -> bool {
    heard.len() >= 3 && heard.last().is_some_and(Option::is_none)
}

#[tokio::test]
async fn falls_back_to_memory_and_reconnects_after_a_crash() {
    let mut server = Server::start().await;
    let a = Workbench::with(&server.config(), SHORT).await;
    let (id, key) = session_key("credential");
    assert!(a.store.put(key.clone(), session("a", 0), Capacity::UNLIMITED).await.is_stored());
    server.kill();
    let (other, other_key) = session_key("another");
    assert!(a.store.put(other_key.clone(), session("a", 0), Capacity::UNLIMITED).await.is_stored());
    assert_eq!(a.store.get(&other_key).await, Some(session("a", 0)));
    assert_eq!(a.store.get(&key).await, Some(session("a", 0)));
    assert!(a.store.renew_lease(&other, &tenure("a", 0)).await);
    assert!(a.store.count("ann", rate(1)).await.is_ok());
    assert!(
        a.store.count("ann", rate(1)).await.is_err(),
        "rates are limited locally without the store"
    );
    let rests = RecordKey::Rest("r".to_owned());
    a.store.put(rests.clone(), rest("ann", None, "x"), Capacity::UNLIMITED).await;
    assert!(a.store.take(&rests).await.is_some());
    until("it is told", async || a.heard.all().len() >= 2).await;
    let heard = a.heard.all();
    assert!(heard[0].is_none() && heard[1].is_some(), "{heard:?}");

    server.restart().await;
    until("it is found", async || is_up_again(&a.heard.all())).await;
    let b = Workbench::at(&server).await;
    assert_eq!(b.store.get(&other_key).await, None);
    // Sessions in use are put again when their lease is renewed.
    for id in [&id, &other] {
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(31)).await;
        tokio::time::resume();
        assert!(a.store.renew_lease(id, &tenure("a", 0)).await);
    }
    assert_eq!(b.store.get(&key).await, Some(session("a", 0)));
    assert_eq!(b.store.get(&other_key).await, Some(session("a", 0)));
}

#[tokio::test]
async fn waits_for_a_hung_store_once_and_then_uses_memory() {
    let server = Server::start().await;
    let a = Workbench::with(&server.config(), SHORT).await;
    let (_, key) = session_key("credential");
    assert!(a.store.put(key.clone(), session("a", 0), Capacity::UNLIMITED).await.is_stored());
    let _: String = server.ask("CLIENT PAUSE 3000 ALL").await;
    let since = Instant::now();
    for _ in 0..100 {
        assert_eq!(a.store.get(&key).await, Some(session("a", 0)));
        assert!(a.store.count("ann", rate(1000)).await.is_ok());
    }
    let took = since.elapsed();
    assert!(took >= SHORT.response && took < 2 * SHORT.response, "{took:?}");
    until("it is told", async || a.heard.all().len() >= 2).await;
    until("it is found again", async || is_up_again(&a.heard.all())).await;
    assert_eq!(a.heard.all().len(), 3, "reported more than once: {:?}", a.heard.all());
}

#[tokio::test]
async fn connects_once_the_store_comes_up() {
    let mut server = Server::start().await;
    server.kill();
    let a = Workbench::with(&server.config(), SHORT).await;
    assert!(!a.store.is_up());
    let (_, key) = session_key("credential");
    assert!(a.store.put(key.clone(), session("a", 0), Capacity::UNLIMITED).await.is_stored());
    server.restart().await;
    until("it is found", async || a.store.is_up()).await;
    assert!(a.store.put(key.clone(), session("a", 0), Capacity::UNLIMITED).await.is_stored());
    let b = Workbench::at(&server).await;
    assert!(b.store.get(&key).await.is_some());
}

#[tokio::test]
async fn falls_back_to_memory_if_the_store_rejects_writes() {
    let server = Server::start().await;
    let a = Workbench::with(&server.config(), SHORT).await;
    let (_, key) = session_key("credential");
    let _: String = server.ask("CONFIG SET maxmemory 1").await;
    assert!(a.store.put(key.clone(), session("a", 0), Capacity::UNLIMITED).await.is_stored());
    assert_eq!(a.store.get(&key).await, Some(session("a", 0)));
    until("it is told", async || a.heard.all().len() >= 2).await;
    let heard = a.heard.all();
    let why = heard[1].clone().unwrap_or_default();
    assert!(why.contains("OOM") || why.contains("maxmemory"), "{why}");
    let _: String = server.ask("CONFIG SET maxmemory 0").await;
    until("it is found", async || a.store.is_up()).await;
}

#[tokio::test]
async fn resends_scripts_after_a_script_flush() {
    let server = Server::start().await;
    let a = Workbench::at(&server).await;
    let (_, key) = session_key("credential");
    assert!(a.store.put(key.clone(), session("a", 0), Capacity::UNLIMITED).await.is_stored());
    let _: String = server.ask("SCRIPT FLUSH").await;
    assert!(a.store.put(key.clone(), session("a", 0), Capacity::UNLIMITED).await.is_stored());
    assert_eq!(a.heard.all(), [None]);
}

#[tokio::test]
async fn gives_up_on_a_silent_server() {
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

#[tokio::test]
async fn falls_back_to_memory_on_malformed_responses() {
    let folder = tempfile::tempdir().unwrap();
    let nested = "*1\r\n".repeat(100_000);
    for answer in [
        "+NOT WHAT WAS ASKED\r\n",
        ":1\r\n",
        "HTTP/1.1 400 Bad Request\r\n\r\n",
        "$2000000000\r\nx",
        "$-7\r\n",
        "*2000000000\r\n",
        "%1000000000\r\n",
        "-NOSCRIPT no\r\n",
        "-MOVED 1 127.0.0.1:1\r\n",
        "\0\u{1}\u{2}",
        "$5\r\nhello\r\n",
        nested.as_str(),
    ] {
        let hostile = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = hostile.local_addr().unwrap().port();
        let said = answer.to_owned();
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let own = tasks.clone();
        let speaking = stop.clone().run_until_cancelled_owned(async move {
            while let Ok((mut stream, _)) = hostile.accept().await {
                let said = said.clone();
                own.spawn(async move {
                    let mut heard = [0; 4096];
                    while matches!(stream.read(&mut heard).await, Ok(1..)) {
                        if stream.write_all(said.as_bytes()).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        tasks.spawn(speaking);
        let key = folder.path().join("key");
        std::fs::write(&key, [1; 32]).unwrap();
        let keys = vec![key];
        let config = SharedStoreConfig { keys, ..config(&format!("redis://127.0.0.1:{port}")) };
        let since = Instant::now();
        let a = Workbench::with(&config, SHORT).await;
        let (_, session_key) = session_key("credential");
        assert!(
            a.store
                .put(session_key.clone(), session("a", 0), Capacity::UNLIMITED)
                .await
                .is_stored()
        );
        assert_eq!(a.store.get(&session_key).await, Some(session("a", 0)));
        assert!(a.store.count("ann", rate(1)).await.is_ok());
        let (logins, listings) = (a.store.logins().unwrap(), a.store.listings().unwrap());
        spawn_blocking(move || {
            assert!(logins.load("login").is_err(), "an unavailable store is an error");
            logins.save("login", b"record").unwrap();
            assert_eq!(logins.last_known("login").as_deref(), Some(&b"record"[..]));
            assert_eq!(listings.find("listing"), None);
        })
        .await
        .unwrap();
        assert!(since.elapsed() < Duration::from_secs(10), "{:?}", since.elapsed());
        stop.cancel();
    }
}
