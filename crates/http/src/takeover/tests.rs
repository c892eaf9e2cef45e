mod attacks;
mod stage;
use std::time::Duration;

use axum::body::to_bytes;
use http_body_util::BodyExt;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::*;
use crate::router;
use crate::takeover::tests::stage::{COUNT, Replica, ReplicaTestbed, SLOW, pass};
use mcp_workbench_core::state::SessionLease;
use mcp_workbench_serve::frontend::session::ownership::OWNERSHIP_TTL;

#[tokio::test]
async fn a_session_continues_on_another_replica() {
    let stage = ReplicaTestbed::new().await;
    let (first, second) = (stage.replica(), stage.replica());
    let id = first.begin().await;
    stage.open(&first, &id).await;
    let tools = first.tools(&id).await;
    assert!(tools.contains(&COUNT.to_owned()), "{tools:?}");
    first.ask(&id, "logging/setLevel", json!({"level": "error"})).await;
    let tenure = stage.record(&id).await.unwrap().tenure;
    assert_eq!(tenure, SessionLease { owner: first.name(), epoch: 0 });

    assert_eq!(second.tools(&id).await, tools);
    assert_eq!(second.call(&id, COUNT, json!({"n": 1})).await.text(), "counted");
    let record = stage.record(&id).await.unwrap();
    assert_eq!(record.tenure, SessionLease { owner: second.name(), epoch: 1 });
    assert_eq!((record.log_level.as_deref(), record.introduction.is_some()), (Some("error"), true));
    assert_eq!(
        (stage.called(), stage.told()),
        (vec![json!({"n": 1})], vec!["adopted ann 1".to_owned()])
    );
    let figures = second.0.app.gateways.observer().render();
    assert!(figures.contains("mcp_workbench_sessions_adopted_total 1\n"), "{figures}");
}

#[tokio::test]
async fn the_previous_owner_aborts_calls_in_flight_with_an_error() {
    let stage = ReplicaTestbed::new().await;
    let (first, second) = (stage.replica(), stage.replica());
    let id = first.begin().await;
    stage.open(&first, &id).await;
    let listening =
        router(&first.0).oneshot(first.request("GET", Some(&id), &Value::Null)).await.unwrap();
    let slow = async { first.call(&id, SLOW, json!({"n": 1})).await };
    let others = async {
        stage.counting.began.notified().await;
        assert_eq!(second.call(&id, COUNT, json!({"n": 2})).await.text(), "counted");
        first.0.sessions.confirm_ownership(Duration::ZERO).await;
    };
    let (given_up, ()) = tokio::join!(slow, others);
    let (status, code, why) = given_up.refusal();
    assert_eq!((status, code), (200, UNAVAILABLE));
    assert!(why.contains("moved to another replica"), "{why}");
    // The stream has ended too, and the first replica has dropped the session.
    to_bytes(listening.into_body(), 1_000_000).await.unwrap();
    assert_eq!((first.here(), second.here()), (0, 1));
    assert_eq!(stage.record(&id).await.unwrap().tenure.epoch, 1);
    assert_eq!(second.call(&id, COUNT, json!({"n": 3})).await.text(), "counted");
    assert_eq!(stage.called(), [1, 2, 3].map(|n| json!({"n": n})));
}

#[tokio::test]
async fn an_unconfirmed_session_is_taken_back_before_use() {
    let stage = ReplicaTestbed::new().await;
    let (first, second) = (stage.replica(), stage.replica());
    let id = first.begin().await;
    stage.open(&second, &id).await;
    pass(OWNERSHIP_TTL).await;
    assert!(
        first.tools(&id).await.contains(&COUNT.to_owned()),
        "the toolbox opened on the other \
                                                                 replica"
    );
    let tenure = stage.record(&id).await.unwrap().tenure;
    assert_eq!(tenure, SessionLease { owner: first.name(), epoch: 2 });
}

#[tokio::test]
async fn ending_a_session_ends_it_on_all_replicas() {
    let stage = ReplicaTestbed::new().await;
    let replicas = [stage.replica(), stage.replica(), stage.replica()];
    for (ended_at, status) in [(0, 204), (1, 204), (2, 204)] {
        let id = replicas[0].begin().await;
        replicas[1].tools(&id).await;
        replicas[0].0.sessions.confirm_ownership(Duration::ZERO).await;
        let ended = replicas[ended_at].send("DELETE", Some(&id), Value::Null).await;
        assert_eq!(ended.status, status);
        tokio::task::yield_now().await;
        pass(OWNERSHIP_TTL).await;
        for replica in &replicas {
            assert_eq!(replica.ask(&id, "ping", json!({})).await.status, 404, "{ended_at}");
        }
    }
}

#[tokio::test]
async fn a_stopped_replica_leaves_its_sessions_to_others() {
    let stage = ReplicaTestbed::new().await;
    let (first, second) = (stage.replica(), stage.replica());
    let id = first.begin().await;
    stage.open(&first, &id).await;
    let tools = first.tools(&id).await;
    first.0.sessions.leave_all();
    drop(first);
    assert_eq!(second.tools(&id).await, tools);
    second.0.sessions.end(&id);
    tokio::task::yield_now().await;
    assert!(stage.record(&id).await.unwrap().introduction.is_none());
}

#[tokio::test]
async fn disconnecting_during_a_takeover_loses_nothing() {
    let stage = ReplicaTestbed::new().await;
    let (first, second) = (stage.replica(), stage.replica());
    let id = first.begin().await;
    stage.open(&first, &id).await;
    tokio::select! {
        biased;
        _ = second.tools(&id) => panic!("its server has to be listed first"),
        () = async {} => {}
    }
    tokio::task::yield_now().await;
    let record = stage.record(&id).await.unwrap();
    assert_eq!((record.tenure.epoch, record.introduction.is_some()), (1, true));
    assert!(stage.replica().tools(&id).await.contains(&COUNT.to_owned()));
}

#[tokio::test]
async fn a_draining_replica_finishes_calls_of_moved_sessions() {
    let stage = ReplicaTestbed::new().await;
    let (first, second) = (stage.replica(), stage.replica());
    let id = first.begin().await;
    stage.open(&first, &id).await;
    let slow = async { first.call(&id, SLOW, json!({})).await };
    let others = async {
        stage.counting.began.notified().await;
        first.0.under_way.closed_token().cancel();
        assert_eq!(first.call(&id, COUNT, json!({})).await.status, 503);
        assert_eq!(second.call(&id, COUNT, json!({})).await.text(), "counted");
        first.0.sessions.confirm_ownership(Duration::ZERO).await;
        tokio::task::yield_now().await;
        stage.counting.goes_on.notify_one();
    };
    let (slow, ()) = tokio::join!(slow, others);
    assert_eq!(slow.text(), "late");
    // It doesn't take over sessions either.
    assert_eq!(first.call(&second.begin().await, COUNT, json!({})).await.status, 503);
}

#[tokio::test]
async fn tasks_are_available_on_other_replicas_to_their_creator() {
    let stage = ReplicaTestbed::new().await;
    let (first, second) = (stage.replica(), stage.replica());
    let id = first.begin().await;
    let begun = first.call(&id, "box__srv__task", json!({})).await.message;
    assert_eq!(begun["result"]["task"]["taskId"], "t1", "{begun}");
    // Let the second replica list the server.
    let bob = second.of("bob").begin().await;
    second.of("bob").call(&bob, COUNT, json!({})).await;
    let asked = json!({"taskId": "t1"});
    let told = second.ask(&id, "tasks/get", asked.clone()).await.message;
    assert_eq!(told["result"]["from"], "the server", "{told}");
    let told = second.of("bob").ask(&bob, "tasks/get", asked).await.message;
    assert!(told["result"].is_null(), "{told}");
}

#[tokio::test]
async fn rejects_messages_for_requests_of_another_replica() {
    let stage = ReplicaTestbed::new().await;
    let (first, second) = (stage.replica(), stage.replica());
    let id = first.begin().await;
    let answer = json!({"jsonrpc": "2.0", "id": 1, "result": {}});
    let params = json!({"requestId": 1});
    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
    for message in [&answer, &cancelled] {
        let (status, code, why) = second.send("POST", Some(&id), message.clone()).await.refusal();
        assert_eq!((status, code), (409, UNAVAILABLE));
        assert!(why.contains("send the request again"), "{why}");
    }
    let mut request = second.request("GET", Some(&id), &Value::Null);
    request.headers_mut().insert("last-event-id", "3-1".parse().unwrap());
    assert_eq!(router(&second.0).oneshot(request).await.unwrap().status(), StatusCode::CONFLICT);
    assert_eq!(stage.record(&id).await.unwrap().tenure.epoch, 0);
    assert_eq!(stage.told(), ["hops"], "once a minute");
    // After a takeover, responses to earlier server requests match none of the new ones.
    second.tools(&id).await;
    assert_eq!(second.send("POST", Some(&id), answer).await.status, 409);
    assert_eq!(second.send("POST", Some(&id), cancelled).await.status, 202);
    assert!(
        first_number_of_epoch(1) > first_number_of_epoch(0) + 4_000_000_000
            && first_number_of_epoch(u64::MAX) < 1 << 53
    );
}

#[tokio::test]
async fn hopping_sessions_are_reported_once_a_minute() {
    let stage = ReplicaTestbed::new().await;
    let replicas = [stage.replica(), stage.replica()];
    let id = replicas[0].begin().await;
    for round in 1..8 {
        replicas[round % 2].tools(&id).await;
        pass(OWNERSHIP_TTL).await;
        let hops = stage.told().iter().filter(|told| *told == "hops").count();
        // Each of the two replicas reports it.
        assert_eq!(hops, round.saturating_sub(3).min(2), "{round}");
    }
}

#[tokio::test]
async fn lost_state_of_isolated_servers_is_reported_once() {
    let stage = ReplicaTestbed::new().await;
    let config = stage.config(&json!({"isolation": "session"}));
    let (first, second) = (stage.replica_of(config.clone()), stage.replica_of(config));
    let (used, unused) = (first.begin().await, first.begin().await);
    stage.open(&first, &used).await;
    assert_eq!(first.call(&used, COUNT, json!({"n": 1})).await.text(), "counted");
    let text = second.call(&used, COUNT, json!({"n": 2})).await.text();
    assert!(text.starts_with("error: ") && text.contains("lost its state"), "{text}");
    assert_eq!(stage.called(), [json!({"n": 1})], "nothing was done");
    assert_eq!(second.call(&used, COUNT, json!({"n": 3})).await.text(), "counted");
    assert_eq!(second.call(&unused, COUNT, json!({"n": 4})).await.text(), "counted");
    // Every loss is reported, even one that was unreported at the next takeover.
    let third = stage.replica_of(stage.config(&json!({"isolation": "session"})));
    let fourth = stage.replica_of(stage.config(&json!({"isolation": "session"})));
    third.tools(&used).await;
    assert!(fourth.call(&used, COUNT, json!({"n": 5})).await.text().starts_with("error: "));
}

/// Returns, in this order, `true` if list changes, lost state, hops and the configuration were
/// reported.
async fn seen_without(lost: Option<&'static str>) -> [bool; 4] {
    let stage = ReplicaTestbed::new().await;
    *stage.store.without.lock() = lost;
    let config = stage.config(&json!({"isolation": "session"}));
    let mut other = config.clone();
    other.toolboxes[0].servers[0].tool_filters = vec!["count".to_owned()];
    let (first, second) = (stage.replica_of(config), stage.replica_of(other));
    let id = first.begin().await;
    stage.open(&first, &id).await;
    first.call(&id, COUNT, json!({})).await;
    // Its servers are listed before the takeover.
    second.call(&second.begin().await, COUNT, json!({})).await;
    stage.until(&id, |record| !record.configuration.is_empty() || lost.is_some()).await;
    let begun_with = stage.record(&id).await.unwrap().configuration;
    let listening = second.request("GET", Some(&id), &Value::Null);
    let listening = router(&second.0).oneshot(listening).await.unwrap();
    let mut listening = listening.into_body();
    let heard = tokio::time::timeout(Duration::from_millis(300), listening.frame()).await;
    let is_told_of_lists = heard.is_ok();
    let is_told_of_loss = second.call(&id, COUNT, json!({})).await.text().starts_with("error: ");
    for round in 0..6 {
        pass(OWNERSHIP_TTL).await;
        [&first, &second][round % 2].tools(&id).await;
    }
    let hops = stage.told().contains(&"hops".to_owned());
    [is_told_of_lists, is_told_of_loss, hops, !begun_with.is_empty()]
}

#[tokio::test]
async fn every_record_field_is_needed_for_a_takeover() {
    for (lost, expected) in [
        (None, [true; 4]),
        (Some("lists"), [false, true, true, true]),
        (Some("isolated"), [true, false, true, true]),
        (Some("moves"), [true, true, false, true]),
        (Some("configuration"), [true, true, true, false]),
    ] {
        assert_eq!(seen_without(lost).await, expected, "{lost:?}");
    }
}

#[tokio::test]
async fn truncated_results_are_readable_on_other_replicas() {
    let stage = ReplicaTestbed::new().await;
    let config = || {
        let mut config = stage.config(&json!({}));
        config.limits.max_result_bytes = Some(2_000);
        config
    };
    let (first, second) = (stage.replica_of(config()), stage.replica_of(config()));
    let (id, other) = (first.begin().await, first.begin().await);
    stage.open(&first, &id).await;
    let given = first.call(&id, "box__srv__long", json!({})).await.message.to_string();
    let at = given.find("mcp-workbench://results/").unwrap();
    let uri: String = given[at..].chars().take_while(|c| !"\"\\ ".contains(*c)).collect();
    let read = async |id: &str| second.ask(id, "resources/read", json!({"uri": uri})).await.message;
    let contents = read(&id).await["result"]["contents"][0]["text"].clone();
    assert!(contents.as_str().is_some_and(|text| text.contains("line\n")), "{contents}");
    assert!(read(&other).await["result"].is_null(), "stored results are private to their session");
}

#[tokio::test]
async fn a_takeover_follows_the_new_replicas_configuration() {
    let stage = ReplicaTestbed::new().await;
    let first = stage.replica();
    let mut config = stage.config(&json!({}));
    config.toolboxes[0].servers[0].tool_filters = vec!["long".to_owned()];
    let second = stage.replica_of(config);
    let id = first.begin().await;
    stage.open(&first, &id).await;
    let listening =
        router(&second.0).oneshot(second.request("GET", Some(&id), &Value::Null)).await.unwrap();
    let tools = second.tools(&id).await;
    assert_eq!(tools[1..], ["box__srv__long"], "{tools:?}");
    let fingerprint = |replica: &Replica| replica.0.app.gateways.fingerprint().to_string();
    assert_ne!(fingerprint(&first), fingerprint(&second));
    assert_eq!(stage.record(&id).await.unwrap().configuration, fingerprint(&second));
    let heard = listening.into_body().frame().await.unwrap().unwrap().into_data().unwrap();
    let heard = String::from_utf8(heard.to_vec()).unwrap();
    assert!(heard.contains("notifications/tools/list_changed"), "{heard}");
}
