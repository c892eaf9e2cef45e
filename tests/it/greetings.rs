//! Servers that take one greeting and not the other, in every way of not taking it.
//!
//! The clock of another process cannot be paused, so where something is late the times are short.

use std::fs;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::{Agent, Bench, fake};

/// A bench with one server, which notes its requests, and an agent that has opened its toolbox.
fn open(protocol: &str, script: Value) -> (Bench, Agent, Value) {
    let bench = Bench::new().set("toolMode", json!("proxy"));
    let mut script = script;
    script["tools"] = json!(["echo"]);
    script["requestFile"] = bench.path_text("requests").into();
    let mut entry = fake(script);
    entry["protocol"] = protocol.into();
    entry["startupTimeoutMs"] = 2000.into();
    let bench = bench.server("box", "srv", entry);
    let agent = bench.agent();
    agent.initialize();
    let opened = serde_json::from_str(&agent.open("box").text()).expect("JSON");
    (bench, agent, opened)
}

/// The greetings that the server got.
fn greetings(bench: &Bench) -> Vec<String> {
    let requests = fs::read_to_string(bench.path("requests")).unwrap_or_default();
    let is_greeting = |method: &&str| ["initialize", "server/discover"].contains(method);
    requests.lines().filter(is_greeting).map(str::to_owned).collect()
}

#[track_caller]
fn works(protocol: &str, script: Value, expected: &[&str]) {
    let (bench, agent, opened) = open(protocol, script);
    assert_eq!(opened["servers_connected"], 1, "{opened}");
    assert_eq!(agent.call("box__srv__echo", json!({"x": 1})).structured(), json!({"x": 1}));
    assert_eq!(greetings(&bench), expected);
}

#[track_caller]
fn fails(protocol: &str, script: Value, reason: &str) {
    let (_bench, _agent, opened) = open(protocol, script);
    assert_eq!(opened["servers_connected"], 0, "{opened}");
    assert!(opened["failed_servers"].to_string().contains(reason), "{opened}");
}

#[test]
fn a_legacy_server_is_greeted_once() {
    works("auto", json!({}), &["initialize"]);
    works("auto", json!({"dieOnDiscover": true}), &["initialize"]);
    works("legacy", json!({"protocol": "dual"}), &["initialize"]);
}

#[test]
fn a_modern_server_that_refuses_a_handshake_is_discovered() {
    works("auto", json!({"protocol": "modern"}), &["initialize", "server/discover"]);
    works("modern", json!({"protocol": "modern"}), &["server/discover"]);
    works("modern", json!({"protocol": "dual"}), &["server/discover"]);
}

#[test]
fn a_server_that_ends_of_a_handshake_is_started_when_its_era_is_said() {
    let script = json!({"protocol": "modern", "dieOnInitialize": true});
    works("modern", script.clone(), &["server/discover"]);
    fails("auto", script, "it ended before it was ready");
}

#[test]
fn a_server_of_the_other_era_than_is_said_is_not_started() {
    fails("legacy", json!({"protocol": "modern"}), "Unsupported protocol version");
    fails("modern", json!({}), "Method not found");
    fails("modern", json!({"dieOnDiscover": true}), "it ended before it was ready");
    fails("modern", json!({"silentOnDiscover": true}), "it was not ready within 2000 ms");
}

#[test]
fn a_server_that_is_silent_is_greeted_in_the_other_way() {
    let script = json!({"protocol": "dual", "hangOnInitialize": true});
    works("auto", script, &["initialize", "server/discover"]);
    let script = json!({"hangOnInitialize": true, "silentOnDiscover": true});
    fails("auto", script, "it was not ready within 2000 ms");
}

#[test]
fn an_answer_that_comes_after_the_second_greeting_counts() {
    // Later than half of the time for its start.
    let late = json!({"initializeDelayMs": 1300});
    works("auto", late, &["initialize", "server/discover"]);
    let silent = json!({"initializeDelayMs": 1300, "silentOnDiscover": true});
    works("auto", silent, &["initialize", "server/discover"]);
}

#[test]
fn a_late_refusal_of_the_first_greeting_does_not_spoil_the_second() {
    let script = json!({"protocol": "modern", "initializeDelayMs": 1300});
    works("auto", script, &["initialize", "server/discover"]);
}

#[test]
fn what_ends_of_the_second_greeting_is_started_anew_for_each() {
    let refusing = json!({
        "dieOnDiscover": true,
        "initializeError": {"code": -32000, "message": "the moon is full"},
    });
    fails("auto", refusing, "the moon is full");
}

#[test]
fn the_era_that_worked_is_tried_first_the_next_time() {
    let (bench, agent, _) = open("auto", json!({"protocol": "modern", "exitAfterCalls": 1}));
    for _ in 0..3 {
        agent.call("box__srv__echo", json!({})).ok();
    }
    let greetings = greetings(&bench);
    assert_eq!(greetings[..3], ["initialize", "server/discover", "server/discover"]);
    assert!(greetings[1..].iter().all(|greeting| greeting == "server/discover"), "{greetings:?}");
}
