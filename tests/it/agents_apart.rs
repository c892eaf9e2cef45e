//! Agents that are served side by side, and what one of them must not learn of another.

use pretty_assertions::{assert_eq, assert_ne};
use serde_json::{Value, json};

use crate::support::{Agent, Bench, fake};

/// The first agent of a server that is, or is not, told the roots of its agent.
fn first(has_roots: bool) -> Agent {
    let mut server = fake(json!({
        "tools": ["ask", "pid", "notify"],
        "capabilities": { "logging": {} },
    }));
    if has_roots {
        server["roots"] = true.into();
    }
    Agent::over_http(Bench::new().server("box", "srv", server).http())
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

/// What the server learns when it asks for the roots.
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
fn who_opens_a_toolbox_and_who_calls_first_have_a_process_each() {
    let opens = working_in(first(true), "file:///opens");
    opens.open("box").ok();
    let calls = working_in(opens.beside(), "file:///calls");
    assert_eq!(roots(&calls), "file:///calls");
    assert_eq!(roots(&opens), "file:///opens");
    assert_ne!(process(&calls), process(&opens));
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
