//! Rate and concurrency limits as agents see them.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::{Agent, TestEnvironment, fake};

fn bench(limits: Value) -> TestEnvironment {
    TestEnvironment::new().set("toolMode", json!("direct")).set("limits", limits).server(
        "box",
        "srv",
        fake(json!({ "tools": ["echo", "count", "sleep", "never"] })),
    )
}

fn begin(agent: Agent) -> Agent {
    agent.begin(false, json!({}))
}

#[test]
fn rate_limited_call_is_rejected_with_a_retry_time() {
    let bench = bench(json!({ "perAgent": { "callsPerMinute": 2 } }));
    // The connections have separate sessions; the rate limit covers the agent across all of them.
    let one = Agent::over_http(bench.http());
    let (one, other) = {
        let other = one.beside();
        (begin(one), begin(other))
    };
    one.call("echo", json!({})).ok();
    let counted = other.call("count", json!({})).structured();
    let refused = one.call("echo", json!({}));
    assert!(refused.is_tool_error());
    assert_eq!(
        refused.text().replace("29 s", "30 s"),
        "`box/srv/echo` was not called: too many calls by unnamed agents (limit: 2 per minute).\n\
         What to do: retry in 30 s.",
    );
    assert_eq!(counted["calls"], json!({ "echo": 1, "count": 1 }));
    assert_eq!(one.tools().len(), 4);
}

// invariant: no-unrelated-failures
#[test]
fn canceled_call_frees_its_slot_for_queued_calls() {
    let bench = bench(json!({ "perServer": { "maxConcurrentCalls": 1 }, "maxWaitMs": 60_000 }));
    let agent = begin(bench.agent());
    let first = agent.send_call("sleep", json!({ "ms": 60_000, "progressEveryMs": 10 }));
    agent.wait_progress(&first, 1);
    let second = agent.send_call("echo", json!({ "n": 2 }));
    let third = agent.send_call("count", json!({}));
    assert_eq!(agent.tools().len(), 4);
    assert!(agent.answered(&second).is_none());
    agent.cancel(&first);
    assert_eq!(agent.wait(&second).structured(), json!({ "n": 2 }));
    let counted = agent.wait(&third).structured();
    assert_eq!(counted["calls"], json!({ "sleep": 1, "echo": 1, "count": 1 }));
}

#[test]
fn queued_call_times_out() {
    let bench = bench(json!({ "maxConcurrentCalls": 1, "maxWaitMs": 50 }));
    let agent = begin(bench.agent());
    let first = agent.send_call("sleep", json!({ "ms": 60_000, "progressEveryMs": 10 }));
    agent.wait_progress(&first, 1);
    let refused = agent.call("echo", json!({}));
    assert!(refused.is_tool_error());
    assert_eq!(
        refused.text(),
        "`box/srv/echo` was not called: too many concurrent calls by all agents together \
         (limit: 1), and none ended within 0.05 s.\nWhat to do: retry after other calls have ended.",
    );
    agent.cancel(&first);
}
