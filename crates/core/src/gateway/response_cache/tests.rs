use std::collections::BTreeMap;
use std::path::Path;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio_util::task::TaskTracker;

use super::*;
use crate::backend::PoolOptions;
use crate::gateway::scope::server_ref;
use crate::gateway::{Caller, GatewayRegistry};
use mcp_workbench_names::ToolboxName;

#[test]
fn only_final_successful_results_are_cacheable() {
    for (answer, expected) in [
        (json!({"content": []}), true),
        (json!({"content": [], "isError": false, "resultType": "complete"}), true),
        (json!({"content": [], "isError": true}), false),
        (json!({"content": [], "isError": "true"}), false),
        (json!({"resultType": "input_required"}), false),
        (json!({"resultType": "task", "taskId": "1"}), false),
        (json!({"task": {"taskId": "1"}}), false),
        (json!([]), false),
    ] {
        assert_eq!(is_cacheable(&RawJson::encode(&answer)), expected, "{answer}");
    }
}

#[tokio::test]
async fn response_cache_is_bounded_and_shared_unless_a_server_sets_max_bytes() {
    let text = json!({"resultCache": {"ttlMs": 60_000, "maxBytes": 10_000}, "mcpServers": {
        "a": {"command": "a"}, "b": {"command": "b"}, "own": {"command": "c", "resultCache": {"maxBytes": 20_000}},
        "off": {"command": "d", "resultCache": {"ttlMs": 0}},
    }});
    let loaded = mcp_workbench_config::parse(
        &text.to_string(),
        Path::new("x.json"),
        Path::new("/"),
        &BTreeMap::new(),
    );
    let config = Arc::new(loaded.unwrap().config);
    let gateways =
        GatewayRegistry::new(Arc::clone(&config), PoolOptions::default(), &TaskTracker::new());
    let gateway = gateways.gateway_for(&Caller::ANONYMOUS, None);
    let server = |name: &str| {
        gateway
            .servers()
            .require_server(&server_ref(&ToolboxName::new(name), &ServerName::new(name)))
            .unwrap()
    };
    let [a, b, own] = ["a", "b", "own"].map(|name| server(name).settings.answers.clone().unwrap());
    assert!(server("off").settings.answers.is_none());
    assert!(Arc::ptr_eq(&a.store, &b.store) && !Arc::ptr_eq(&a.store, &own.store));
    // A new configuration with the same limits reuses the cache.
    gateways.replace_config(config).await;
    let again = gateways.gateway_for(&Caller::ANONYMOUS, None);
    let again = again
        .servers()
        .require_server(&server_ref(&ToolboxName::new("a"), &ServerName::new("a")))
        .unwrap();
    assert!(Arc::ptr_eq(&a.store, &again.settings.answers.as_ref().unwrap().store));

    let key = |n: usize| ResponseKey {
        backend: server("a").shared.id(),
        version: 1,
        ttl: a.ttl,
        agent: None,
        tool: ToolId {
            toolbox: ToolboxName::new("a"),
            server: ServerName::new("a"),
            tool: n.to_string(),
        },
        arguments: None,
    };
    let answer = |n: usize, bytes: usize| {
        RpcOutcome::Result(RawJson::encode(&json!({"content": n, "_meta": "x".repeat(bytes)})))
    };
    for n in 0..100 {
        a.insert_if_cacheable(key(n), &answer(n, 1000));
        assert!(a.store.0.weighted_size() <= 10_000);
    }
    let kept: Vec<usize> = (0..100).filter(|n| a.get(&key(*n)).is_some()).collect();
    assert_eq!(kept, [93, 94, 95, 96, 97, 98, 99], "the newest entries remain");
    let content = |n| {
        a.get(&key(n)).and_then(|raw| raw.member("content")).map(|c| c.parse::<Value>().unwrap())
    };
    assert_eq!(content(99), Some(json!(99)));
    // An oversized entry evicts nothing.
    a.insert_if_cacheable(key(100), &answer(100, 50_000));
    assert!(a.get(&key(100)).is_none() && a.get(&key(99)).is_some());
}
