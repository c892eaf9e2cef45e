//! Limits on rate and concurrency, as agents meet them.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::{Agent, Bench, fake};

fn bench(limits: Value) -> Bench {
    Bench::new().set("toolMode", json!("direct")).set("limits", limits).server(
        "box",
        "srv",
        fake(json!({ "tools": ["echo", "count", "sleep", "never"] })),
    )
}

fn begin(agent: Agent) -> Agent {
    agent.begin(false, json!({}))
}

#[test]
fn a_call_too_many_is_refused_with_the_time_to_wait_and_does_not_reach_the_server() {
    let bench = bench(json!({ "perAgent": { "callsPerMinute": 2 } }));
    // Each connection has sessions of its own, and the rate is that of the agent in all of them.
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
        "`box/srv/echo` was not called: there have been too many calls of agents without a name, \
         which may be 2 a minute.\nWhat to do: wait 30 s, then call it again.",
    );
    assert_eq!(counted["calls"], json!({ "echo": 1, "count": 1 }));
    // Lists are no calls.
    assert_eq!(one.tools().len(), 4);
}

#[test]
fn a_call_waits_for_its_turn_and_one_that_is_cancelled_lets_the_next_through() {
    let bench = bench(json!({ "perServer": { "concurrentCalls": 1 }, "maxWaitMs": 60_000 }));
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
fn a_call_does_not_wait_for_ever() {
    let bench = bench(json!({ "concurrentCalls": 1, "maxWaitMs": 50 }));
    let agent = begin(bench.agent());
    let first = agent.send_call("sleep", json!({ "ms": 60_000, "progressEveryMs": 10 }));
    agent.wait_progress(&first, 1);
    let refused = agent.call("echo", json!({}));
    assert!(refused.is_tool_error());
    assert_eq!(
        refused.text(),
        "`box/srv/echo` was not called: as many calls of all agents together are running as may \
         (1), and none has ended for 0.05 s.\nWhat to do: wait for other calls to end, then call \
         it again.",
    );
    agent.cancel(&first);
}
