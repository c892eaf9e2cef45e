//! Agents that are served side by side, and what one of them must not learn of another.

use pretty_assertions::{assert_eq, assert_ne};
use serde_json::{Value, json};

use crate::support::process::Started;
use crate::support::{Agent, Bench, fake};

/// The first agent of a server that is, or is not, told the roots of its agent.
fn first(has_roots: bool) -> Agent {
    first_of(&bench(has_roots))
}

fn first_of(bench: &Bench) -> Agent {
    Agent::over_http(bench.http())
}

fn bench(has_roots: bool) -> Bench {
    let bench = Bench::new();
    let mut server = fake(json!({
        "tools": ["ask", "pid", "notify"],
        "capabilities": { "logging": {} },
        "pidFile": bench.path_text("pids"),
    }));
    if has_roots {
        server["roots"] = true.into();
    }
    bench.server("box", "srv", server)
}

/// Begins as an agent that works in this folder.
fn working_in(agent: Agent, uri: &str) -> Agent {
    agent
        .relisting()
        .answering("roots/list", json!({ "roots": [{ "uri": uri }] }))
        .begin(false, json!({ "roots": {} }))
}

/// The process that this agent's calls go to.
fn process(agent: &Agent) -> Value {
    agent.call("box__srv__pid", json!({})).structured()["pid"].clone()
}

/// The roots that the server learns when it asks for them.
fn roots(agent: &Agent) -> Value {
    let asked = agent.call("box__srv__ask", json!({ "method": "roots/list" })).structured();
    asked["result"]["roots"][0]["uri"].clone()
}

#[test]
fn agents_that_differ_in_roots_only_are_both_served() {
    let agent = working_in(first(false), "file:///a");
    agent.open("box").ok();
    let other = agent.beside().begin(false, json!({}));
    assert!(process(&other).is_number());
    assert!(process(&agent).is_number());
}

#[test]
fn agents_that_can_do_the_same_share_a_process_however_they_say_it() {
    let bench = bench(false);
    let odd = json!({ "example.com/odd": { "version": 7 } });
    let spellings = [
        json!({ "sampling": {}, "elicitation": {} }),
        json!({ "elicitation": {}, "sampling": {} }),
        json!({ "sampling": { "odd": 1 }, "elicitation": { "form": {} } }),
        json!({ "sampling": {}, "elicitation": {}, "roots": { "listChanged": true } }),
        json!({ "sampling": {}, "elicitation": {}, "experimental": odd, "extensions": odd }),
    ];
    let first = first_of(&bench).begin(false, spellings[0].clone());
    let shared = process(&first);
    let others: Vec<Agent> =
        spellings.into_iter().map(|said| first.beside().begin(false, said)).collect();
    for other in &others {
        assert_eq!(process(other), shared);
    }
    let started = || Started::read(bench.path("pids")).servers.len();
    assert_eq!(started(), 1);
    let other = first.beside().begin(false, json!({ "elicitation": {} }));
    assert_ne!(process(&other), shared, "that one lends no model");
    assert_eq!(started(), 2);
}

#[test]
fn who_opens_a_toolbox_and_who_calls_first_have_a_process_each() {
    let bench = bench(true);
    let opens = working_in(first_of(&bench), "file:///opens");
    opens.open("box").ok();
    let opened = Started::read(bench.path("pids")).servers;
    let calls = working_in(opens.beside(), "file:///calls");
    assert_eq!(roots(&calls), "file:///calls");
    assert_eq!(roots(&opens), "file:///opens");
    assert_ne!(process(&calls), process(&opens));
    assert_eq!([process(&opens)], opened[..], "what was started for an agent is that agent's");
}

#[test]
fn the_process_of_an_agent_that_has_left_is_not_the_next_ones() {
    let agent = working_in(first(true), "file:///before");
    assert_eq!(roots(&agent), "file:///before");
    let before = process(&agent);
    agent.leave();
    let next = working_in(agent.beside(), "file:///after");
    assert_ne!(process(&next), before);
    assert_eq!(roots(&next), "file:///after");
}

#[test]
fn a_log_of_one_agents_process_is_not_heard_by_another() {
    let say = |agent: &Agent, data: &str| {
        let params = json!({ "level": "error", "data": data });
        let log = json!({ "method": "notifications/message", "params": params });
        agent.call("box__srv__notify", log).ok();
        agent.next_notification("notifications/message")["data"].clone()
    };
    let agent = working_in(first(true), "file:///a");
    assert_eq!(say(&agent, "here"), "here");
    let other = working_in(agent.beside(), "file:///b");
    other.open("box").ok();
    assert_eq!(say(&agent, "a secret"), "a secret");
    assert_eq!(say(&other, "there"), "there");
    assert!(!other.transcript().concat().contains("a secret"));
}
