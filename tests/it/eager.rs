//! Servers with `eager`, which start before the first request, and their state in `/ready`.

use pretty_assertions::assert_eq;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::http::{HttpClient, Session, request, tool};
use crate::support::process::{StartedProcesses, signal};
use crate::support::{TestEnvironment, fake};

fn eager(bench: &TestEnvironment, pids: &str) -> Value {
    let mut server = fake(json!({ "tools": ["pid"], "pidFile": bench.path_text(pids) }));
    server["eager"] = true.into();
    server
}

fn bench() -> TestEnvironment {
    let bench = TestEnvironment::new();
    let server = eager(&bench, "pids");
    bench
        .server("box", "srv", server)
        .server("box", "lazy", fake(json!({ "tools": ["echo"] })))
        .set("toolMode", "proxy".into())
}

fn ready(http: HttpClient) -> (u16, Value) {
    let answer = http.send("GET", "/ready", &[], "");
    (answer.status, answer.json())
}

#[track_caller]
fn wait_ready(http: HttpClient, status: u16, body: Value) {
    let mut last = ready(http);
    for _ in 0..20_000 {
        if last == (status, body.clone()) {
            return;
        }
        last = ready(http);
    }
    panic!("{last:?}");
}

// invariant: start-priority
#[test]
fn eager_server_starts_unasked_and_restarts_after_death() {
    let bench = bench();
    let (program, http) = bench.http();
    wait_ready(http, 200, json!({ "status": "ready" }));
    program.0.wait_stderr("server is ready");
    let started = StartedProcesses::read(bench.path("pids")).servers;
    assert_eq!(started.len(), 1);
    assert!(!program.0.stderr().contains("box/lazy"));
    // An agent without capabilities is served by the process that started eagerly.
    let name = ("Mcp-Name", "use_tool");
    let call = json!({
        "name": "use_tool",
        "arguments": { "tool": { "toolbox": "box", "server": "srv", "tool": "pid" }, "arguments": {} },
    });
    let answer = http.modern("tools/call", call, &[name]).json();
    assert_eq!(answer["result"]["structuredContent"]["pid"], started[0]);
    signal(started[0], Signal::KILL);
    while StartedProcesses::read(bench.path("pids")).servers.len() < 2 {
        std::thread::yield_now();
    }
    wait_ready(http, 200, json!({ "status": "ready" }));
}

// invariant: start-priority
#[test]
fn capable_agent_gets_its_own_eager_process() {
    let bench = bench();
    let (_program, http) = bench.http();
    let session = Session::begin(http);
    while StartedProcesses::read(bench.path("pids")).servers.len() < 2 {
        std::thread::yield_now();
    }
    let listed = session.post(&request(1, "tools/call", tool("echo", json!({})))).status;
    assert_eq!(listed, 200);
}

#[test]
fn ready_names_failed_eager_servers_without_the_reason() {
    let bench =
        TestEnvironment::new().set("toolMode", "proxy".into()).set("autoReload", "all".into());
    let secret = json!({ "command": "/no/such/secret", "eager": true });
    let bench = bench.server("box", "broken", secret);
    let (program, http) = bench.http();
    let failed = json!({ "toolbox": "box", "server": "broken", "state": "failed" });
    wait_ready(http, 503, json!({ "status": "starting", "servers": [failed] }));
    assert_eq!(http.send("GET", "/health", &[], "").status, 200);
    // A request with a foreign `Host` gets no details.
    let other = http.send("GET", "/ready", &[("Host", "evil.example.com")], "");
    assert_eq!((other.status, other.json()), (503, json!({ "status": "starting" })));

    let repaired = eager(&bench, "pids");
    let bench = bench.server("box", "broken", repaired);
    bench.write_config();
    wait_ready(http, 200, json!({ "status": "ready" }));
    drop(program);
}

#[test]
fn starts_on_initialize_over_stdio() {
    let bench = bench();
    let agent = bench.agent();
    agent.initialize();
    agent.wait_stderr("server is ready");
    assert_eq!(StartedProcesses::read(bench.path("pids")).servers.len(), 1);
}

#[test]
fn other_commands_do_not_start_eager_servers() {
    let bench = bench();
    let output = bench.run(["call", "box", "lazy", "echo", "{}"]);
    assert_eq!(StartedProcesses::read(bench.path("pids")).servers, [0; 0], "{output}");
}
