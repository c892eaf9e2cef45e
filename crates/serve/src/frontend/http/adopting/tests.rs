mod attacks;
mod stage;

use axum::body::to_bytes;
use http_body_util::BodyExt;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::*;
use crate::frontend::http::adopting::tests::stage::{COUNT, Replica, SLOW, Stage, pass};
use crate::frontend::http::router;
use crate::frontend::session::GOOD_FOR;
use crate::state::Tenure;

#[tokio::test]
async fn a_session_goes_on_at_another_replica_with_what_it_has_opened() {
    let stage = Stage::new().await;
    let (first, second) = (stage.replica(), stage.replica());
    let id = first.begin().await;
    stage.open(&first, &id).await;
    let tools = first.tools(&id).await;
    assert!(tools.contains(&COUNT.to_owned()), "{tools:?}");
    first.ask(&id, "logging/setLevel", json!({"level": "error"})).await;
    let tenure = stage.record(&id).await.unwrap().tenure;
    assert_eq!(tenure, Tenure { owner: first.name(), epoch: 0 });

    assert_eq!(second.tools(&id).await, tools);
    assert_eq!(second.call(&id, COUNT, json!({"n": 1})).await.text(), "counted");
    let record = stage.record(&id).await.unwrap();
    assert_eq!(record.tenure, Tenure { owner: second.name(), epoch: 1 });
    assert_eq!((record.log_level.as_deref(), record.introduction.is_some()), (Some("error"), true));
    assert_eq!(
        (stage.called(), stage.told()),
        (vec![json!({"n": 1})], vec!["adopted ann 1".to_owned()])
    );
    let figures = second.0.app.gateways.observer().render();
    assert!(figures.contains("mcp_workbench_sessions_adopted_total 1\n"), "{figures}");
}

#[tokio::test]
async fn whoever_had_a_session_finds_out_and_answers_what_was_under_way() {
    let stage = Stage::new().await;
    let (first, second) = (stage.replica(), stage.replica());
    let id = first.begin().await;
    stage.open(&first, &id).await;
    let listening =
        router(&first.0).oneshot(first.request("GET", Some(&id), &Value::Null)).await.unwrap();
    let slow = async { first.call(&id, SLOW, json!({"n": 1})).await };
    let others = async {
        stage.counting.began.notified().await;
        assert_eq!(second.call(&id, COUNT, json!({"n": 2})).await.text(), "counted");
        first.0.sessions.confirm(Duration::ZERO).await;
    };
    let (given_up, ()) = tokio::join!(slow, others);
    let (status, code, why) = given_up.refusal();
    assert_eq!((status, code), (200, UNAVAILABLE));
    assert!(why.contains("goes on at another replica"), "{why}");
    // The stream ends too, and nothing of the session is left.
    to_bytes(listening.into_body(), 1_000_000).await.unwrap();
    assert_eq!((first.here(), second.here()), (0, 1));
    assert_eq!(stage.record(&id).await.unwrap().tenure.epoch, 1);
    assert_eq!(second.call(&id, COUNT, json!({"n": 3})).await.text(), "counted");
    assert_eq!(stage.called(), [1, 2, 3].map(|n| json!({"n": n})));
}

#[tokio::test]
async fn a_session_that_was_not_confirmed_lately_is_taken_back_before_it_is_used() {
    let stage = Stage::new().await;
    let (first, second) = (stage.replica(), stage.replica());
    let id = first.begin().await;
    stage.open(&second, &id).await;
    pass(GOOD_FOR).await;
    assert!(first.tools(&id).await.contains(&COUNT.to_owned()), "what was opened elsewhere");
    let tenure = stage.record(&id).await.unwrap().tenure;
    assert_eq!(tenure, Tenure { owner: first.name(), epoch: 2 });
}

#[tokio::test]
async fn a_session_that_is_ended_anywhere_is_ended_everywhere() {
    let stage = Stage::new().await;
    let replicas = [stage.replica(), stage.replica(), stage.replica()];
    for (ended_at, status) in [(0, 204), (1, 204), (2, 204)] {
        let id = replicas[0].begin().await;
        replicas[1].tools(&id).await;
        replicas[0].0.sessions.confirm(Duration::ZERO).await;
        let ended = replicas[ended_at].send("DELETE", Some(&id), Value::Null).await;
        assert_eq!(ended.status, status);
        tokio::task::yield_now().await;
        pass(GOOD_FOR).await;
        for replica in &replicas {
            assert_eq!(replica.ask(&id, "ping", json!({})).await.status, 404, "{ended_at}");
        }
    }
}

#[tokio::test]
async fn a_replica_that_ends_leaves_its_sessions_to_others() {
    let stage = Stage::new().await;
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
async fn a_client_that_leaves_while_its_session_moves_loses_nothing() {
    let stage = Stage::new().await;
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
async fn a_replica_that_drains_answers_calls_of_sessions_that_have_moved() {
    let stage = Stage::new().await;
    let (first, second) = (stage.replica(), stage.replica());
    let id = first.begin().await;
    stage.open(&first, &id).await;
    let slow = async { first.call(&id, SLOW, json!({})).await };
    let others = async {
        stage.counting.began.notified().await;
        first.0.under_way.draining().cancel();
        assert_eq!(first.call(&id, COUNT, json!({})).await.status, 503);
        assert_eq!(second.call(&id, COUNT, json!({})).await.text(), "counted");
        first.0.sessions.confirm(Duration::ZERO).await;
        tokio::task::yield_now().await;
        stage.counting.goes_on.notify_one();
    };
    let (slow, ()) = tokio::join!(slow, others);
    assert_eq!(slow.text(), "late");
    // Nor does it take over any more.
    assert_eq!(first.call(&second.begin().await, COUNT, json!({})).await.status, 503);
}

#[tokio::test]
async fn a_task_is_asked_after_at_another_replica_by_whoever_began_it() {
    let stage = Stage::new().await;
    let (first, second) = (stage.replica(), stage.replica());
    let id = first.begin().await;
    let begun = first.call(&id, "box__srv__task", json!({})).await.message;
    assert_eq!(begun["result"]["task"]["taskId"], "t1", "{begun}");
    // Its server is known there.
    let bob = second.of("bob").begin().await;
    second.of("bob").call(&bob, COUNT, json!({})).await;
    let asked = json!({"taskId": "t1"});
    let told = second.ask(&id, "tasks/get", asked.clone()).await.message;
    assert_eq!(told["result"]["from"], "the server", "{told}");
    let told = second.of("bob").ask(&bob, "tasks/get", asked).await.message;
    assert!(told["result"].is_null(), "{told}");
}

#[tokio::test]
async fn what_belongs_to_a_request_of_another_replica_is_refused_and_moves_nothing() {
    let stage = Stage::new().await;
    let (first, second) = (stage.replica(), stage.replica());
    let id = first.begin().await;
    let answer = json!({"jsonrpc": "2.0", "id": 1, "result": {}});
    let params = json!({"requestId": 1});
    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
    for message in [&answer, &cancelled] {
        let (status, code, why) = second.send("POST", Some(&id), message.clone()).await.refusal();
        assert_eq!((status, code), (409, UNAVAILABLE));
        assert!(why.contains("make the request anew"), "{why}");
    }
    let mut request = second.request("GET", Some(&id), &Value::Null);
    request.headers_mut().insert("last-event-id", "3-1".parse().unwrap());
    assert_eq!(router(&second.0).oneshot(request).await.unwrap().status(), StatusCode::CONFLICT);
    assert_eq!(stage.record(&id).await.unwrap().tenure.epoch, 0);
    assert_eq!(stage.told(), ["hops"], "once a minute");
    // Where the session has moved, an answer to a question from before answers none of now.
    second.tools(&id).await;
    assert_eq!(second.send("POST", Some(&id), answer).await.status, 409);
    assert_eq!(second.send("POST", Some(&id), cancelled).await.status, 202);
    assert!(numbers(1) > numbers(0) + 4_000_000_000 && numbers(u64::MAX) < 1 << 53);
}

#[tokio::test]
async fn a_session_that_does_not_stay_is_told_of_once_a_minute() {
    let stage = Stage::new().await;
    let replicas = [stage.replica(), stage.replica()];
    let id = replicas[0].begin().await;
    for round in 1..8 {
        replicas[round % 2].tools(&id).await;
        pass(GOOD_FOR).await;
        let hops = stage.told().iter().filter(|told| *told == "hops").count();
        // Each of the two tells it for itself.
        assert_eq!(hops, round.saturating_sub(3).min(2), "{round}");
    }
}

#[tokio::test]
async fn the_state_of_a_server_that_keeps_sessions_apart_is_told_to_be_lost_once() {
    let stage = Stage::new().await;
    let config = stage.config(&json!({"isolation": "session"}));
    let (first, second) = (stage.replica_of(config.clone()), stage.replica_of(config));
    let (used, unused) = (first.begin().await, first.begin().await);
    stage.open(&first, &used).await;
    assert_eq!(first.call(&used, COUNT, json!({"n": 1})).await.text(), "counted");
    let text = second.call(&used, COUNT, json!({"n": 2})).await.text();
    assert!(text.starts_with("error: ") && text.contains("was lost"), "{text}");
    assert_eq!(stage.called(), [json!({"n": 1})], "nothing was done");
    assert_eq!(second.call(&used, COUNT, json!({"n": 3})).await.text(), "counted");
    assert_eq!(second.call(&unused, COUNT, json!({"n": 4})).await.text(), "counted");
    // Each loss is told, and one that was not told yet still is after the next move.
    let third = stage.replica_of(stage.config(&json!({"isolation": "session"})));
    let fourth = stage.replica_of(stage.config(&json!({"isolation": "session"})));
    third.tools(&used).await;
    assert!(fourth.call(&used, COUNT, json!({"n": 5})).await.text().starts_with("error: "));
}

/// Moves a session to and fro, and returns what is seen of the members of its record that other replicas need.
async fn seen_without(lost: Option<&'static str>) -> [bool; 4] {
    let stage = Stage::new().await;
    *stage.store.without.lock().unwrap() = lost;
    let config = stage.config(&json!({"isolation": "session"}));
    let mut other = config.clone();
    other.toolboxes[0].servers[0].tool_filters = vec!["count".to_owned()];
    let (first, second) = (stage.replica_of(config), stage.replica_of(other));
    let id = first.begin().await;
    stage.open(&first, &id).await;
    first.call(&id, COUNT, json!({})).await;
    // What the server lists is no news there.
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
        pass(GOOD_FOR).await;
        [&first, &second][round % 2].tools(&id).await;
    }
    let hops = stage.told().contains(&"hops".to_owned());
    [is_told_of_lists, is_told_of_loss, hops, !begun_with.is_empty()]
}

#[tokio::test]
async fn each_member_of_a_record_that_others_need_is_missed_where_it_is_lost() {
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
async fn the_rest_of_a_result_is_read_at_another_replica_and_by_its_own_session() {
    let stage = Stage::new().await;
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
    assert!(read(&other).await["result"].is_null(), "it is the session's own");
}

#[tokio::test]
async fn each_replica_shows_what_its_own_configuration_says_and_tells_of_what_differs() {
    let stage = Stage::new().await;
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
