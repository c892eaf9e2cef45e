use std::collections::BTreeMap;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio::time::advance;
use tokio_util::task::TaskTracker;

use super::*;
use crate::backend::{AgentHandle, PoolOptions};
use crate::gateway::{Caller, Gateway, GatewayRegistry};
use mcp_workbench_names::{AgentName, ServerName, ServerRef, ToolboxName};
use mcp_workbench_settings::Config;
use mcp_workbench_wire::json::RawJson;

fn config(limits: &Value, own: &Value) -> Arc<Config> {
    let text = json!({
        "limits": limits,
        "mcpServers": { "a": { "command": "a", "limits": own }, "b": { "command": "b" } },
    });
    let env = BTreeMap::new();
    let loaded =
        mcp_workbench_config::parse(&text.to_string(), Path::new("x.json"), Path::new("/"), &env);
    Arc::new(loaded.unwrap().config)
}

fn serve(limits: &Value, own: &Value) -> GatewayRegistry {
    GatewayRegistry::new(config(limits, own), PoolOptions::default(), &TaskTracker::new())
}

fn agent(name: &str) -> Caller {
    Caller { agent: Some(AgentName::new(name)), ..Caller::default() }
}

fn server_ref(server: &str) -> ServerRef {
    ServerRef { toolbox: ToolboxName::new(server), server: ServerName::new(server) }
}

fn tool(server: &str) -> ToolId {
    let ServerRef { toolbox, server } = server_ref(server);
    ToolId { toolbox, server, tool: "t".to_owned() }
}

async fn count(gateway: &Gateway, server: &str) -> Result<(), (String, String)> {
    let (no_agent, tool) = (AgentHandle::new(None), tool(server));
    let server = gateway.servers().require_server(&server_ref(server)).unwrap();
    let mut call = gateway.calls().instrumentation.begin_call(
        &tool,
        Ok(&server.meters),
        None,
        &RequestContext::detached(&no_agent),
    );
    gateway.calls().limits.check_rate_limits(&tool, server, &mut call.context).await.map_err(
        |error| {
            assert_eq!(call.context.end.stop_reason, Some(CallStopReason::Rate));
            said(error)
        },
    )
}

fn said(error: CallError) -> (String, String) {
    let CallError::Refused { reason, hint, .. } = error else { panic!("{error}") };
    (reason, hint)
}

fn poll<F: Future>(call: &mut Pin<Box<F>>) -> Poll<F::Output> {
    call.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

async fn enter(
    gateway: &Gateway,
    server: &str,
) -> Result<(CallSlotsGuard, Duration), (String, String)> {
    let (no_agent, tool) = (AgentHandle::new(None), tool(server));
    let context = RequestContext::detached(&no_agent);
    let of = gateway.servers().require_server(&server_ref(server)).unwrap();
    let limits = &gateway.calls().limits;
    assert!(limits.limiters_of(of).any(|limiter| limiter.places.is_some()));
    let mut call =
        gateway.calls().instrumentation.begin_call(&tool, Ok(&of.meters), None, &context);
    let places = limits.acquire_slots(&tool, of, &context, &mut call.context).await;
    let details = &call.context.end;
    assert_eq!(details.stop_reason, places.is_err().then_some(CallStopReason::Concurrency));
    places.map(|places| (places, details.queued)).map_err(said)
}

// invariant: results-per-agent
#[tokio::test(start_paused = true)]
async fn agent_rate_is_shared_across_gateways() {
    let gateways = serve(&json!({ "perAgent": { "callsPerMinute": 3 } }), &json!({}));
    let one = gateways.gateway_for(&agent("ann"), None);
    let other =
        gateways.gateway_for(&agent("ann"), Some(&RawJson::encode(&json!({ "roots": {} }))));
    let stranger = gateways.gateway_for(&agent("bob"), None);
    for gateway in [&one, &other, &one] {
        assert_eq!(count(gateway, "a").await, Ok(()));
    }
    let (reason, hint) = count(&other, "b").await.unwrap_err();
    assert_eq!(reason, "too many calls by agent `ann` (limit: 3 per minute)");
    assert_eq!(hint, "retry in 20 s");
    assert_eq!(count(&stranger, "b").await, Ok(()));
    advance(Duration::from_millis(19_500)).await;
    assert_eq!(count(&one, "a").await.unwrap_err().1, "retry in 1 s");
    advance(Duration::from_millis(500)).await;
    assert_eq!(count(&one, "a").await, Ok(()));
    assert!(count(&one, "a").await.is_err());
}

#[tokio::test(start_paused = true)]
async fn server_rate_is_shared_and_overridden_by_its_entry() {
    let limits = json!({ "perServer": { "callsPerMinute": 1 }, "callsPerMinute": 4 });
    let gateways = serve(&limits, &json!({ "callsPerMinute": 2 }));
    let (ann, bob) =
        (gateways.gateway_for(&agent("ann"), None), gateways.gateway_for(&agent("bob"), None));
    assert_eq!(
        (count(&ann, "b").await, count(&ann, "a").await, count(&bob, "a").await),
        (Ok(()), Ok(()), Ok(()))
    );
    let (reason, _) = count(&bob, "b").await.unwrap_err();
    assert!(reason.contains("calls to server `b` (limit: 1 per minute)"), "{reason}");
    assert!(count(&ann, "a").await.unwrap_err().0.contains("limit: 2 per minute"));
    // Refused calls don't count toward shared limits: one of four is left.
    advance(Duration::from_mins(1)).await;
    assert_eq!((count(&ann, "b").await, count(&ann, "a").await), (Ok(()), Ok(())));

    let gateways = serve(&json!({ "callsPerMinute": 2 }), &json!({}));
    let (ann, bob) =
        (gateways.gateway_for(&agent("ann"), None), gateways.gateway_for(&agent("bob"), None));
    assert_eq!((count(&ann, "a").await, count(&bob, "b").await), (Ok(()), Ok(())));
    assert!(count(&bob, "a").await.unwrap_err().0.contains("calls by all agents together"));
}

#[tokio::test(start_paused = true)]
async fn counts_survive_a_reload_with_the_same_limits() {
    let limits = json!({ "perAgent": { "callsPerMinute": 1 } });
    let gateways = serve(&limits, &json!({}));
    assert_eq!(count(&gateways.gateway_for(&agent("ann"), None), "a").await, Ok(()));
    gateways.replace_config(config(&limits, &json!({ "maxConcurrentCalls": 7 }))).await;
    assert!(count(&gateways.gateway_for(&agent("ann"), None), "a").await.is_err());
    gateways
        .replace_config(config(&json!({ "perAgent": { "callsPerMinute": 2 } }), &json!({})))
        .await;
    assert_eq!(count(&gateways.gateway_for(&agent("ann"), None), "a").await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn dropped_calls_leave_the_slot_queue() {
    let gateways = serve(&json!({ "perServer": { "maxConcurrentCalls": 1 } }), &json!({}));
    let (ann, bob) =
        (gateways.gateway_for(&agent("ann"), None), gateways.gateway_for(&agent("bob"), None));
    let (first, waited) = enter(&ann, "a").await.ok().unwrap();
    assert_eq!(waited, Duration::ZERO);
    drop(enter(&bob, "b").await.ok().unwrap());
    let mut second = Box::pin(enter(&bob, "a"));
    let mut third = Box::pin(enter(&ann, "a"));
    let mut fourth = Box::pin(enter(&bob, "a"));
    tokio::select! {
        biased;
        _ = &mut second => panic!("no free slot"),
        _ = &mut third => panic!("no free slot"),
        _ = &mut fourth => panic!("no free slot"),
        () = tokio::task::yield_now() => {}
    }
    advance(Duration::from_secs(10)).await;
    // The first in the queue is dropped; its agent keeps its turn.
    drop(second);
    drop(first);
    let order = async {
        tokio::select! {
            biased;
            _ = &mut third => panic!("another call is first"),
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
async fn callers_take_slots_in_round_robin_order() {
    let gateways = serve(&json!({ "perServer": { "maxConcurrentCalls": 1 } }), &json!({}));
    let (eve, ann) =
        (gateways.gateway_for(&agent("eve"), None), gateways.gateway_for(&agent("ann"), None));
    let (first, _) = enter(&eve, "a").await.ok().unwrap();
    let mut many: Vec<_> = (0..1000).map(|_| Box::pin(enter(&eve, "a"))).collect();
    for call in &mut many {
        assert!(poll(call).is_pending());
    }
    let mut anns = Box::pin(enter(&ann, "a"));
    assert!(poll(&mut anns).is_pending());
    drop(first);
    // One call of the other agent goes first, not all 1000.
    drop(many.remove(0).await.ok().unwrap());
    let Poll::Ready(anns) = poll(&mut anns) else { panic!("its slot is free") };
    drop(anns.ok().unwrap());
    assert!(many.remove(0).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn call_that_times_out_waiting_holds_no_slot() {
    let limits = json!({ "maxWaitMs": 1500, "maxConcurrentCalls": 2, "perAgent": { "maxConcurrentCalls": 1 } });
    let gateways = serve(&limits, &json!({}));
    let (ann, bob) =
        (gateways.gateway_for(&agent("ann"), None), gateways.gateway_for(&agent("bob"), None));
    let (anns, _) = enter(&ann, "a").await.ok().unwrap();
    let (reason, hint) = enter(&ann, "b").await.map(drop).unwrap_err();
    let expected =
        "too many concurrent calls by agent `ann` (limit: 1), and none ended within 1.5 s";
    assert_eq!(reason, expected);
    assert_eq!(hint, "retry after other calls have ended");
    let (bobs, _) = enter(&bob, "a").await.ok().unwrap();
    let (reason, _) =
        enter(&gateways.gateway_for(&agent("eve"), None), "a").await.map(drop).unwrap_err();
    assert!(reason.contains("calls by all agents together (limit: 2)"), "{reason}");
    drop((anns, bobs));
    let (eves, _) = enter(&gateways.gateway_for(&agent("eve"), None), "a").await.ok().unwrap();
    let (anns, _) = enter(&ann, "a").await.ok().unwrap();
    drop((eves, anns));
}
