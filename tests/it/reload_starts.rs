//! The configuration is changed while a server starts that somebody waits for.

use std::thread::yield_now;
use std::time::Instant;

use serde_json::{Value, json};

use crate::support::process::{fake_path, wait_gone};
use crate::support::{Agent, Bench, DEADLINE};

const READ: &str = "the configuration was read anew: ";

/// A server that says that it has begun to start by one file, and goes on when there is another.
fn gated(bench: &Bench, launch: &str) -> Value {
    let wait = r#": > "$1"; until [ -e "$2" ]; do sleep 0.01; done; exec "$3" "$4""#;
    let files = ["begun", "gate"].map(|name| bench.path_text(name));
    let script = json!({ "tools": ["pid"] }).to_string();
    json!({
        "command": "sh",
        "args": ["-c", wait, "sh", files[0], files[1], fake_path(), script],
        "env": { "LAUNCH": launch },
    })
}

/// A call of its tool.
fn call(agent: &Agent) -> crate::support::RequestId {
    let path = json!({ "toolbox": "box", "server": "srv", "tool": "pid" });
    agent.send_call("use_tool", json!({ "tool": path, "arguments": {} }))
}

#[test]
fn a_call_that_waits_for_a_server_that_is_changed_meanwhile_is_answered() {
    let bench = Bench::new().set("watch", json!("everything")).set("toolMode", json!("proxy"));
    let entry = |launch| gated(&bench, launch);
    let before = bench.clone().server("box", "srv", entry("first"));
    let agent = before.agent().begin(false, json!({}));
    let waiting = call(&agent);
    let end = Instant::now() + DEADLINE;
    while !bench.path("begun").exists() {
        assert!(Instant::now() < end, "the server is not started");
        yield_now();
    }
    bench.clone().server("box", "srv", entry("second")).write_config();
    agent.wait_stderr(READ);
    bench.write("gate", "");
    // It was asked of the server that is to go, which goes when it has answered.
    let pid = |id| agent.wait(id).structured()["pid"].as_u64().expect("a pid");
    let first = pid(&waiting);
    wait_gone(&[u32::try_from(first).expect("a pid")], DEADLINE);
    assert_ne!(pid(&call(&agent)), first);
}
