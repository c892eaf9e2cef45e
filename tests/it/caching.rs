//! Caching of tool results.

use std::time::{Duration, Instant};

use pretty_assertions::{assert_eq, assert_ne};
use serde_json::{Value, json};

use crate::support::{Agent, Response, TestEnvironment, fake};

const HOUR: u64 = 3_600_000;

/// A tool whose results all differ, because they count the calls.
fn counting(name: &str, annotations: Value) -> Value {
    json!({ "name": name, "inputSchema": { "type": "object" }, "annotations": annotations })
}

fn entry(cache: Value) -> Value {
    let only_reads = json!({ "readOnlyHint": true, "idempotentHint": true });
    let mut entry = fake(json!({
        "tools": [
            counting("look", only_reads.clone()),
            counting("half", json!({ "readOnlyHint": true })),
            counting("fail", only_reads.clone()),
            counting("ask", only_reads),
            "grow", "crash",
        ],
        "behavior": { "look": "count", "half": "count", "fail": "tool_error" },
    }));
    entry["resultCache"] = cache;
    entry
}

fn bench(cache: Value) -> TestEnvironment {
    TestEnvironment::new().set("toolMode", json!("direct")).set("resultCache", cache).server(
        "box",
        "srv",
        entry(json!({})),
    )
}

fn begin(agent: Agent) -> Agent {
    agent.begin(false, json!({}))
}

fn look(agent: &Agent, arguments: &str) -> Response {
    look_at(agent, "look", arguments)
}

fn look_at(agent: &Agent, tool: &str, arguments: &str) -> Response {
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(1);
    let id = format!("own-{}", NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
    agent.send_raw(&format!(
        r#"{{"jsonrpc":"2.0","id":"{id}","method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}}}}}"#
    ));
    agent.wait(&id.as_str().into())
}

// invariant: bytes-unchanged
#[test]
fn equal_calls_are_answered_from_the_cache_byte_for_byte() {
    let agent = begin(bench(json!({ "ttlMs": HOUR })).agent());
    let first = look(&agent, r#"{"a":1,"b":"x"}"#).raw_result();
    let same = look(&agent, r#"{ "b" : "\u0078", "a":1 }"#).raw_result();
    assert_eq!(first, same);
    for other in [r#"{"a":1.0,"b":"x"}"#, r#"{"a":2,"b":"x"}"#, "{}", r#"{"a":1,"b":"x","c":null}"#]
    {
        assert_ne!(look(&agent, other).raw_result(), first, "{other}");
    }
    assert_eq!(look(&agent, r#"{"a":1,"b":"x"}"#).raw_result(), first);
    // Tools that aren't declared repeatable are called every time, and so are failing ones.
    let [one, two] = [(); 2].map(|()| look_at(&agent, "half", "{}").raw_result());
    assert_ne!(one, two);
    for _ in 0..2 {
        assert!(look_at(&agent, "fail", "{}").is_tool_error());
    }
    let calls = look(&agent, r#"{"last":1}"#).structured()["calls"].clone();
    assert_eq!(calls, json!({ "look": 6, "half": 2, "fail": 2 }));
    // A call with additional params has another cache key.
    let task = json!({ "name": "look", "arguments": {"a": 1, "b": "x"}, "task": {} });
    assert_ne!(agent.request("tools/call", task).raw_result(), first);
}

#[test]
fn caches_results_only_when_configured_and_until_the_ttl() {
    let agent = begin(bench(json!({})).agent());
    assert_ne!(look(&agent, "{}").raw_result(), look(&agent, "{}").raw_result());
    let agent = begin(bench(json!({ "ttlMs": 100 })).agent());
    let (since, first) = (Instant::now(), look(&agent, "{}").raw_result());
    while look(&agent, "{}").raw_result() == first {
        assert!(since.elapsed() < Duration::from_secs(10), "the cached result did not expire");
    }
    assert!(since.elapsed() >= Duration::from_millis(100), "the result was not cached");
}

// invariant: results-per-agent
#[test]
fn cached_results_are_not_shared_between_agents() {
    let bench = bench(json!({ "ttlMs": HOUR }));
    let [one, other] = ["ann", "bob"].map(|name| begin(bench.agent_with(["--agent", name])));
    let answers = [&one, &other].map(|agent| look(agent, "{}").raw_result());
    assert_eq!([&one, &other].map(|agent| look(agent, "{}").raw_result()), answers);
    // Within one process, unnamed agents count as one.
    let one = begin(Agent::over_http(bench.http()));
    let other = begin(one.beside());
    assert_eq!(look_over_http(&one), look_over_http(&other));
}

fn look_over_http(agent: &Agent) -> Value {
    agent.call("look", json!({})).ok()
}

// invariant: results-per-agent
#[test]
fn list_changed_and_restart_clear_cached_results() {
    let agent = begin(bench(json!({ "ttlMs": HOUR })).agent());
    let first = look(&agent, "{}").raw_result();
    assert_eq!(look(&agent, "{}").raw_result(), first);
    agent.call("grow", json!({ "tools": ["more"] })).ok();
    agent.next_notification("notifications/tools/list_changed");
    while !agent.tool_names().contains(&"more".to_owned()) {
        agent.next_notification("notifications/tools/list_changed");
    }
    let second = look(&agent, "{}").raw_result();
    assert_ne!(second, first);
    assert_eq!(look(&agent, "{}").raw_result(), second);
    assert!(agent.call("crash", json!({})).is_tool_error());
    // The restarted server counts from zero.
    let calls = look(&agent, "{}").structured()["calls"].clone();
    assert_eq!(calls, json!({ "look": 1 }));
}

#[test]
fn results_that_needed_user_input_are_not_cached() {
    for protocol in ["legacy", "modern"] {
        let mut entry = entry(json!({ "ttlMs": HOUR }));
        let mut script: Value = serde_json::from_str(entry["args"][0].as_str().unwrap()).unwrap();
        script["protocol"] = protocol.into();
        entry["args"][0] = script.to_string().into();
        let bench =
            TestEnvironment::new().set("toolMode", json!("direct")).server("box", "srv", entry);
        let agent = bench
            .agent()
            .with_reply("elicitation/create", json!({ "action": "accept", "content": {} }))
            .begin(false, json!({ "elicitation": {} }));
        let asked = json!({ "method": "elicitation/create", "params": {
            "message": "Sure?", "requestedSchema": { "type": "object", "properties": {} },
        } });
        for _ in 0..2 {
            agent.call("ask", asked.clone()).ok();
            agent.next_request("elicitation/create");
        }
    }
}
