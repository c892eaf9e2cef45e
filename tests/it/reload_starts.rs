//! Reloading the configuration while a call waits for its server to start.

use std::thread::yield_now;
use std::time::Instant;

use serde_json::{Value, json};

use crate::support::process::{fake_path, wait_until_exited};
use crate::support::{Agent, DEADLINE, TestEnvironment};

const READ: &str = "configuration reloaded: ";

/// A server that creates the file `begun` and waits for the file `gate` before it starts.
fn gated(bench: &TestEnvironment, launch: &str) -> Value {
    let wait = r#": > "$1"; until [ -e "$2" ]; do sleep 0.01; done; exec "$3" "$4""#;
    let files = ["begun", "gate"].map(|name| bench.path_text(name));
    let script = json!({ "tools": ["pid"] }).to_string();
    json!({
        "command": "sh",
        "args": ["-c", wait, "sh", files[0], files[1], fake_path(), script],
        "env": { "LAUNCH": launch },
    })
}

fn call(agent: &Agent) -> crate::support::RequestId {
    let path = json!({ "toolbox": "box", "server": "srv", "tool": "pid" });
    agent.send_call("use_tool", json!({ "tool": path, "arguments": {} }))
}

#[test]
fn call_waiting_for_a_changed_server_is_answered() {
    let bench =
        TestEnvironment::new().set("autoReload", json!("all")).set("toolMode", json!("proxy"));
    let entry = |launch| gated(&bench, launch);
    let before = bench.clone().server("box", "srv", entry("first"));
    let agent = before.agent().begin(false, json!({}));
    let waiting = call(&agent);
    let end = Instant::now() + DEADLINE;
    while !bench.path("begun").exists() {
        assert!(Instant::now() < end, "the server was not started");
        yield_now();
    }
    bench.clone().server("box", "srv", entry("second")).write_config();
    agent.wait_stderr(READ);
    bench.write("gate", "");
    // The call stays with the old process, which exits after the response.
    let pid = |id| agent.wait(id).structured()["pid"].as_u64().expect("a pid");
    let first = pid(&waiting);
    wait_until_exited(&[u32::try_from(first).expect("a pid")], DEADLINE);
    assert_ne!(pid(&call(&agent)), first);
}
