use std::collections::BTreeMap;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio::time::advance;
use tokio_util::task::TaskTracker;

use super::*;
use crate::backend::{PoolOptions, Presence};
use crate::config;
use crate::gateway::{Caller, Gateways};
use crate::name::{AgentName, ServerName, ServerRef, ToolboxName};
use crate::raw::Raw;
use crate::settings::Config;

/// Two servers that are never started.
fn config(limits: &Value, own: &Value) -> Arc<Config> {
    let text = json!({
        "limits": limits,
        "mcpServers": { "a": { "command": "a", "limits": own }, "b": { "command": "b" } },
    });
    let env = BTreeMap::new();
    let loaded = config::parse(&text.to_string(), Path::new("x.json"), Path::new("/"), &env);
    Arc::new(loaded.unwrap().config)
}

fn serve(limits: &Value, own: &Value) -> Gateways {
    Gateways::new(config(limits, own), PoolOptions::default(), &TaskTracker::new())
}

fn agent(name: &str) -> Caller {
    Caller { agent: Some(AgentName::new(name)), toolbox: None }
}

fn server_ref(server: &str) -> ServerRef {
    ServerRef { toolbox: ToolboxName::new(server), server: ServerName::new(server) }
}

fn tool(server: &str) -> ToolId {
    let ServerRef { toolbox, server } = server_ref(server);
    ToolId { toolbox, server, tool: "t".to_owned() }
}

/// Counts a call; an error is the reason and the hint where there were too many.
async fn count(gateway: &Gateway, server: &str) -> Result<(), (String, String)> {
    let (nobody, tool) = (Presence::new(None), tool(server));
    let server = gateway.server(&server_ref(server)).unwrap();
    let mut call =
        gateway.begin_call(&tool, Ok(&server.meters), None, &RequestContext::nobody(&nobody));
    gateway.count(&tool, server, &mut call.context).await.map_err(|error| {
        assert_eq!(call.context.details.stopped_by, Some(Stop::Rate));
        said(error)
    })
}

fn said(error: CallError) -> (String, String) {
    let CallError::Refused { reason, hint, .. } = error else { panic!("{error}") };
    (reason, hint)
}

/// Lets a call go on as far as it can.
fn poll<F: Future>(call: &mut Pin<Box<F>>) -> Poll<F::Output> {
    call.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

async fn enter(gateway: &Gateway, server: &str) -> Result<(Places, Duration), (String, String)> {
    let (nobody, tool) = (Presence::new(None), tool(server));
    let context = RequestContext::nobody(&nobody);
    let of = gateway.server(&server_ref(server)).unwrap();
    assert!(gateway.has_places(of));
    let mut call = gateway.begin_call(&tool, Ok(&of.meters), None, &context);
    let places = gateway.take_places(&tool, of, &context, &mut call.context).await;
    let details = &call.context.details;
    assert_eq!(details.stopped_by, places.is_err().then_some(Stop::Concurrency));
    places.map(|places| (places, details.waited)).map_err(said)
}

#[tokio::test(start_paused = true)]
async fn an_agent_has_one_rate_through_all_gateways() {
    let gateways = serve(&json!({ "perAgent": { "callsPerMinute": 3 } }), &json!({}));
    let one = gateways.of(&agent("ann"), None);
    let other = gateways.of(&agent("ann"), Some(&Raw::encode(&json!({ "roots": {} }))));
    let stranger = gateways.of(&agent("bob"), None);
    for gateway in [&one, &other, &one] {
        assert_eq!(count(gateway, "a").await, Ok(()));
    }
    let (reason, hint) = count(&other, "b").await.unwrap_err();
    assert_eq!(reason, "there have been too many calls of agent `ann`, which may be 3 a minute");
    assert_eq!(hint, "wait 20 s, then call it again");
    assert_eq!(count(&stranger, "b").await, Ok(()));
    advance(Duration::from_millis(19_500)).await;
    assert_eq!(count(&one, "a").await.unwrap_err().1, "wait 1 s, then call it again");
    advance(Duration::from_millis(500)).await;
    assert_eq!(count(&one, "a").await, Ok(()));
    assert!(count(&one, "a").await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_server_has_one_rate_for_all_agents_and_what_it_says_itself_goes_first() {
    let limits = json!({ "perServer": { "callsPerMinute": 1 }, "callsPerMinute": 4 });
    let gateways = serve(&limits, &json!({ "callsPerMinute": 2 }));
    let (ann, bob) = (gateways.of(&agent("ann"), None), gateways.of(&agent("bob"), None));
    assert_eq!(
        (count(&ann, "b").await, count(&ann, "a").await, count(&bob, "a").await),
        (Ok(()), Ok(()), Ok(()))
    );
    let (reason, _) = count(&bob, "b").await.unwrap_err();
    assert!(reason.contains("calls of server `b`, which may be 1 a minute"), "{reason}");
    assert!(count(&ann, "a").await.unwrap_err().0.contains("may be 2 a minute"));
    // What was refused has used up nothing of what all share: of four a minute, one is left.
    advance(Duration::from_mins(1)).await;
    assert_eq!((count(&ann, "b").await, count(&ann, "a").await), (Ok(()), Ok(())));

    let gateways = serve(&json!({ "callsPerMinute": 2 }), &json!({}));
    let (ann, bob) = (gateways.of(&agent("ann"), None), gateways.of(&agent("bob"), None));
    assert_eq!((count(&ann, "a").await, count(&bob, "b").await), (Ok(()), Ok(())));
    assert!(count(&bob, "a").await.unwrap_err().0.contains("calls of all agents together"));
}

#[tokio::test(start_paused = true)]
async fn what_was_counted_counts_under_the_next_configuration_with_the_same_limits() {
    let limits = json!({ "perAgent": { "callsPerMinute": 1 } });
    let gateways = serve(&limits, &json!({}));
    assert_eq!(count(&gateways.of(&agent("ann"), None), "a").await, Ok(()));
    gateways.replace(config(&limits, &json!({ "concurrentCalls": 7 }))).await;
    assert!(count(&gateways.of(&agent("ann"), None), "a").await.is_err());
    gateways.replace(config(&json!({ "perAgent": { "callsPerMinute": 2 } }), &json!({}))).await;
    assert_eq!(count(&gateways.of(&agent("ann"), None), "a").await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn calls_wait_in_line_for_a_place_and_those_that_are_given_up_give_theirs_back() {
    let gateways = serve(&json!({ "perServer": { "concurrentCalls": 1 } }), &json!({}));
    let (ann, bob) = (gateways.of(&agent("ann"), None), gateways.of(&agent("bob"), None));
    let (first, waited) = enter(&ann, "a").await.ok().unwrap();
    assert_eq!(waited, Duration::ZERO);
    // Another server's places are others.
    drop(enter(&bob, "b").await.ok().unwrap());
    let mut second = Box::pin(enter(&bob, "a"));
    let mut third = Box::pin(enter(&ann, "a"));
    let mut fourth = Box::pin(enter(&bob, "a"));
    tokio::select! {
        biased;
        _ = &mut second => panic!("there is no place"),
        _ = &mut third => panic!("there is no place"),
        _ = &mut fourth => panic!("there is no place"),
        () = tokio::task::yield_now() => {}
    }
    advance(Duration::from_secs(10)).await;
    // The one that is first in line is given up; its agent has the turn still.
    drop(second);
    drop(first);
    let order = async {
        tokio::select! {
            biased;
            _ = &mut third => panic!("it is not its turn"),
            fourth = &mut fourth => fourth.ok().unwrap(),
        }
    };
    let (fourth, waited) = order.await;
    assert_eq!(waited, Duration::from_secs(10));
    drop(fourth);
    assert!(third.await.is_ok());
    assert!(enter(&ann, "a").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn one_with_many_calls_keeps_nobody_else_from_its_turn() {
    let gateways = serve(&json!({ "perServer": { "concurrentCalls": 1 } }), &json!({}));
    let (eve, ann) = (gateways.of(&agent("eve"), None), gateways.of(&agent("ann"), None));
    let (first, _) = enter(&eve, "a").await.ok().unwrap();
    let mut many: Vec<_> = (0..1000).map(|_| Box::pin(enter(&eve, "a"))).collect();
    for call in &mut many {
        assert!(poll(call).is_pending());
    }
    let mut anns = Box::pin(enter(&ann, "a"));
    assert!(poll(&mut anns).is_pending());
    drop(first);
    // One of the others is before it in line, and no more.
    drop(many.remove(0).await.ok().unwrap());
    let Poll::Ready(anns) = poll(&mut anns) else { panic!("it is its turn") };
    drop(anns.ok().unwrap());
    assert!(many.remove(0).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_gets_no_place_in_time_is_refused_and_holds_none() {
    let limits =
        json!({ "maxWaitMs": 1500, "concurrentCalls": 2, "perAgent": { "concurrentCalls": 1 } });
    let gateways = serve(&limits, &json!({}));
    let (ann, bob) = (gateways.of(&agent("ann"), None), gateways.of(&agent("bob"), None));
    let (anns, _) = enter(&ann, "a").await.ok().unwrap();
    let (reason, hint) = enter(&ann, "b").await.map(drop).unwrap_err();
    let expected =
        "as many calls of agent `ann` are running as may (1), and none has ended for 1.5 s";
    assert_eq!(reason, expected);
    assert_eq!(hint, "wait for other calls to end, then call it again");
    let (bobs, _) = enter(&bob, "a").await.ok().unwrap();
    let (reason, _) = enter(&gateways.of(&agent("eve"), None), "a").await.map(drop).unwrap_err();
    assert!(reason.contains("calls of all agents together are running as may (2)"), "{reason}");
    drop((anns, bobs));
    let (eves, _) = enter(&gateways.of(&agent("eve"), None), "a").await.ok().unwrap();
    let (anns, _) = enter(&ann, "a").await.ok().unwrap();
    drop((eves, anns));
}
