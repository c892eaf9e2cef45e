//! Hostile and unlucky agents with sessions on several replicas.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::body::to_bytes;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tower::ServiceExt;

use crate::router;
use crate::session_lookups::{LookupLimiter, MAX_CALLERS, MAX_MISSES, MINUTE};
use crate::takeover::tests::stage::{COUNT, ReplicaTestbed, UNKNOWN, pass};
use crate::takeover::*;
use mcp_workbench_core::state::SessionLease;
use mcp_workbench_core::telemetry::QuotaOwner;

// invariant: session-from-record
#[tokio::test]
async fn contending_replicas_never_repeat_a_call() {
    let stage = ReplicaTestbed::new().await;
    let replicas = [stage.replica(), stage.replica()];
    let id = replicas[0].begin().await;
    stage.open(&replicas[0], &id).await;
    let mut calls = JoinSet::new();
    for n in 0..60 {
        let (replica, id) = (replicas[n % 2].clone(), id.clone());
        calls.spawn(async move { replica.call(&id, COUNT, json!({"n": n})).await });
        if n % 10 == 9 {
            for replica in &replicas {
                replica.0.sessions.confirm_ownership(Duration::ZERO).await;
            }
        }
    }
    let mut counted = 0;
    while let Some(given) = calls.join_next().await {
        let given = given.unwrap();
        let is_counted = given.message["result"]["content"][0]["text"] == "counted";
        let is_refused = given.message["error"]["code"] == UNAVAILABLE;
        assert!(is_counted || is_refused, "{given:?}");
        counted += usize::from(is_counted);
    }
    let mut called: Vec<_> = stage.called().iter().map(|n| n["n"].as_u64().unwrap()).collect();
    let number = called.len();
    called.sort_unstable();
    called.dedup();
    assert_eq!(called.len(), number, "one was called twice");
    assert!((1..=60).contains(&counted) && counted <= number, "{counted} of {number}");
}

#[tokio::test]
async fn session_ids_work_only_for_their_own_caller() {
    let stage = ReplicaTestbed::new().await;
    let (first, second) = (stage.replica(), stage.replica());
    let id = first.begin().await;
    let record = stage.record(&id).await.unwrap();
    let unknown = (404, INVALID_REQUEST, UNKNOWN.to_owned());
    for replica in [&first, &second] {
        let bob = replica.of("bob");
        let never = "0".repeat(32);
        for id in [id.as_str(), never.as_str(), "no id", &id[1..], &id.to_uppercase()] {
            assert_eq!(bob.ask(id, "tools/list", json!({})).await.refusal(), unknown);
            let answer = json!({"jsonrpc": "2.0", "id": 1, "result": {}});
            for (method, body) in [("POST", answer), ("GET", Value::Null), ("DELETE", Value::Null)]
            {
                assert_eq!(bob.send(method, Some(id), body).await.refusal(), unknown, "{method}");
            }
        }
    }
    // A session of one toolbox is unknown to requests for all toolboxes.
    let other = state::SessionRecord {
        toolbox: Some(mcp_workbench_names::ToolboxName::new("box")),
        ..record.clone()
    };
    stage.put(&id, other).await;
    assert_eq!(second.ask(&id, "tools/list", json!({})).await.refusal(), unknown);
    stage.put(&id, record.clone()).await;
    assert_eq!(stage.record(&id).await.unwrap(), record, "no takeover");
    assert_eq!((second.here(), stage.told().len()), (0, 0));
}

#[tokio::test]
async fn unusable_records_are_unknown_and_junk_grants_nothing() {
    let stage = ReplicaTestbed::new().await;
    let (first, second) = (stage.replica(), stage.replica());
    let id = first.begin().await;
    let record = stage.record(&id).await.unwrap();
    let overflow = SessionLease { owner: first.name(), epoch: u64::MAX };
    let ended = state::SessionRecord::ended(&record.tenure).unwrap();
    for unusable in [state::SessionRecord { tenure: overflow, ..record.clone() }, ended] {
        stage.put(&id, unusable).await;
        let refusal = second.ask(&id, "tools/list", json!({})).await.refusal();
        assert_eq!(refusal, (404, INVALID_REQUEST, UNKNOWN.to_owned()));
    }
    let mut junk = record;
    junk.mode = "no such mode".to_owned();
    junk.log_level = Some("no such level".to_owned());
    junk.subscriptions.insert("no address".into());
    junk.chosen.opened.insert(mcp_workbench_names::ToolboxName::new("no such toolbox"));
    junk.tenure = SessionLease { owner: "\n\"".repeat(100), epoch: u64::MAX - 1 };
    let introduction = junk.introduction.as_mut().unwrap();
    introduction.protocol = "no such revision".to_owned();
    introduction.capabilities = RawJson::encode(&json!(["junk"]));
    stage.put(&id, junk).await;
    assert_eq!(second.tools(&id).await, ["open_toolbox"]);
    // The record is rewritten after the client has listed its tools.
    stage.until(&id, |record| record.mode == "dynamic").await;
    assert!(stage.record(&id).await.unwrap().chosen.opened.is_empty());
}

#[tokio::test]
async fn limits_failed_session_lookups_per_caller() {
    let stage = ReplicaTestbed::new().await;
    let (first, second) = (stage.replica(), stage.replica());
    let id = first.begin().await;
    let bob = second.of("bob");
    let mut given = BTreeMap::new();
    for number in 0..1000 {
        let tried = bob.ask(&format!("{number:032x}"), "tools/list", json!({})).await;
        *given.entry(tried.status).or_insert(0) += 1;
    }
    assert_eq!(given, BTreeMap::from([(404, 100), (429, 900)]));
    assert_eq!(stage.store.looked.swap(0, Ordering::Relaxed), 100);
    assert_eq!(second.tools(&id).await.len(), 1);
    pass(MINUTE).await;
    assert_eq!(bob.ask(&id, "tools/list", json!({})).await.status, 404);
}

#[tokio::test]
async fn concurrent_requests_take_a_session_over_once() {
    let stage = ReplicaTestbed::new().await;
    let (first, second) = (stage.replica(), stage.replica());
    let id = first.begin().await;
    let mut asking = JoinSet::new();
    for _ in 0..20 {
        let (second, id) = (second.clone(), id.clone());
        asking.spawn(async move { second.tools(&id).await });
    }
    assert_eq!(asking.join_all().await.len(), 20);
    assert_eq!((stage.record(&id).await.unwrap().tenure.epoch, stage.told().len()), (1, 1));
    assert!(second.0.adopting.flights.lock().len() <= 1, "the misses are forgotten");
}

#[tokio::test]
async fn takeovers_count_toward_the_session_limits() {
    let stage = ReplicaTestbed::new().await;
    let mut config = stage.config(&json!({}));
    config.limits.per_caller.sessions_per_minute = std::num::NonZeroU32::new(5).unwrap();
    let first = stage.replica_of(config.clone());
    config.limits.per_caller.max_sessions = 1;
    let second = stage.replica_of(config);
    let (one, two) = (first.begin().await, first.begin().await);
    let three = first.begin().await;
    second.tools(&one).await;
    second.tools(&two).await;
    assert_eq!(second.here(), 1, "the first record has been evicted");
    let (status, _, why) = second.ask(&three, "ping", json!({})).await.refusal();
    assert_eq!(status, 429);
    assert!(why.contains("sessionsPerMinute"), "{why}");
    assert_eq!(stage.record(&three).await.unwrap().tenure.epoch, 0, "no takeover");
}

#[tokio::test]
async fn rejects_the_request_state_of_another_replica() {
    let stage = ReplicaTestbed::new().await;
    let (first, second) = (stage.replica(), stage.replica());
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "client", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    });
    for (replica, said) in [
        (first.name(), "belongs to another replica"),
        (second.name(), "does not belong to this request"),
        ("x".to_owned(), "does not belong to this request"),
    ] {
        let params = json!({
            "name": COUNT, "arguments": {}, "_meta": meta,
            "requestState": format!("workbench.{replica}.forged"),
            "inputResponses": {"question": {"action": "accept"}},
        });
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let mut request = second.request("POST", None, &body);
        for (key, value) in [
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "tools/call"),
            ("mcp-name", COUNT),
        ] {
            request.headers_mut().insert(key, value.parse().unwrap());
        }
        let reply = router(&second.0).oneshot(request).await.unwrap();
        let text = to_bytes(reply.into_body(), 1_000_000).await.unwrap();
        let text = String::from_utf8(text.to_vec()).unwrap();
        assert!(text.contains(said), "{replica}: {text}");
    }
    assert!(stage.called().is_empty());
}

#[test]
fn the_lookup_limiter_is_bounded_and_resets_each_minute() {
    let (misses, start) = (LookupLimiter::default(), Instant::now());
    let owner = |number: u32| QuotaOwner::new(None, Some(std::net::Ipv4Addr::from(number).into()));
    for _ in 0..MAX_MISSES {
        assert_eq!(misses.wait(&owner(1), start), None);
        misses.count(&owner(1), start);
    }
    assert_eq!(misses.wait(&owner(1), start + MINUTE / 4), Some(MINUTE * 3 / 4));
    assert_eq!(misses.wait(&owner(2), start), None);
    assert_eq!(misses.wait(&owner(1), start + MINUTE), None);
    for number in 0..5_000 {
        misses.count(&owner(number), start);
    }
    assert_eq!(misses.0.lock().len(), MAX_CALLERS + 1);
    assert!(misses.wait(&owner(1_000_000), start).is_some());
    misses.count(&owner(7), start + MINUTE);
    assert_eq!(misses.wait(&owner(1_000_000), start + MINUTE), None);
}
