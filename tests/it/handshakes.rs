//! Servers that accept only one of the two handshakes, and every way to reject the other.
//!
//! The clock of another process can't be paused, so the delays are real and short.

use std::fs;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::{Agent, TestEnvironment, fake};

/// One server that records its requests, and an agent that has opened its toolbox.
fn open(protocol: &str, script: Value) -> (TestEnvironment, Agent, Value) {
    let bench = TestEnvironment::new().set("toolMode", json!("proxy"));
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

fn greetings(bench: &TestEnvironment) -> Vec<String> {
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
fn legacy_server_gets_a_single_handshake() {
    works("auto", json!({}), &["initialize"]);
    works("auto", json!({"dieOnDiscover": true}), &["initialize"]);
    works("legacy", json!({"protocol": "dual"}), &["initialize"]);
}

#[test]
fn server_that_rejects_initialize_is_discovered() {
    works("auto", json!({"protocol": "modern"}), &["initialize", "server/discover"]);
    works("modern", json!({"protocol": "modern"}), &["server/discover"]);
    works("modern", json!({"protocol": "dual"}), &["server/discover"]);
}

#[test]
fn server_that_dies_on_initialize_needs_a_configured_era() {
    let script = json!({"protocol": "modern", "dieOnInitialize": true});
    works("modern", script.clone(), &["server/discover"]);
    fails("auto", script, "exited during startup");
}

#[test]
fn wrong_configured_era_fails_the_start() {
    fails("legacy", json!({"protocol": "modern"}), "Unsupported protocol version");
    fails("modern", json!({}), "Method not found");
    fails("modern", json!({"dieOnDiscover": true}), "exited during startup");
    fails("modern", json!({"silentOnDiscover": true}), "not ready within 2000 ms");
}

#[test]
fn silent_server_gets_the_other_handshake() {
    let script = json!({"protocol": "dual", "hangOnInitialize": true});
    works("auto", script, &["initialize", "server/discover"]);
    let script = json!({"hangOnInitialize": true, "silentOnDiscover": true});
    fails("auto", script, "not ready within 2000 ms");
}

#[test]
fn late_response_to_the_first_handshake_counts() {
    // Later than half of the startup timeout.
    let late = json!({"initializeDelayMs": 1300});
    works("auto", late, &["initialize", "server/discover"]);
    let silent = json!({"initializeDelayMs": 1300, "silentOnDiscover": true});
    works("auto", silent, &["initialize", "server/discover"]);
}

#[test]
fn late_rejection_of_the_first_handshake_keeps_the_second() {
    let script = json!({"protocol": "modern", "initializeDelayMs": 1300});
    works("auto", script, &["initialize", "server/discover"]);
}

#[test]
fn starts_a_new_process_for_each_handshake_if_the_server_exits() {
    let refusing = json!({
        "dieOnDiscover": true,
        "initializeError": {"code": -32000, "message": "the moon is full"},
    });
    fails("auto", refusing, "the moon is full");
}

#[test]
fn restart_tries_the_last_working_era_first() {
    let (bench, agent, _) = open("auto", json!({"protocol": "modern", "exitAfterCalls": 1}));
    for _ in 0..3 {
        agent.call("box__srv__echo", json!({})).ok();
    }
    let greetings = greetings(&bench);
    assert_eq!(greetings[..3], ["initialize", "server/discover", "server/discover"]);
    assert!(greetings[1..].iter().all(|greeting| greeting == "server/discover"), "{greetings:?}");
}
