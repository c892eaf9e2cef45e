//! Servers that are started before anybody asks for them, and what `/ready` says of them.

use pretty_assertions::assert_eq;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::http::{Http, Session, request, tool};
use crate::support::process::{Started, signal};
use crate::support::{Bench, fake};

fn eager(bench: &Bench, pids: &str) -> Value {
    let mut server = fake(json!({ "tools": ["pid"], "pidFile": bench.path_text(pids) }));
    server["eager"] = true.into();
    server
}

fn bench() -> Bench {
    let bench = Bench::new();
    let server = eager(&bench, "pids");
    bench
        .server("box", "srv", server)
        .server("box", "lazy", fake(json!({ "tools": ["echo"] })))
        .set("toolMode", "proxy".into())
}

fn ready(http: Http) -> (u16, Value) {
    let answer = http.send("GET", "/ready", &[], "");
    (answer.status, answer.json())
}

/// Asks until the answer is this one: nothing else tells of it.
#[track_caller]
fn wait_ready(http: Http, status: u16, body: Value) {
    let mut last = ready(http);
    for _ in 0..20_000 {
        if last == (status, body.clone()) {
            return;
        }
        last = ready(http);
    }
    panic!("{last:?}");
}

#[test]
fn an_eager_server_runs_before_anybody_comes_and_again_when_it_has_died() {
    let bench = bench();
    let (program, http) = bench.http();
    wait_ready(http, 200, json!({ "status": "ready" }));
    program.0.wait_stderr("the server is ready");
    let started = Started::read(bench.path("pids")).servers;
    assert_eq!(started.len(), 1);
    assert!(!program.0.stderr().contains("box/lazy"));
    // Agents that can do nothing in particular are served by that one.
    let name = ("Mcp-Name", "use_tool");
    let call = json!({
        "name": "use_tool",
        "arguments": { "tool": { "toolbox": "box", "server": "srv", "tool": "pid" }, "arguments": {} },
    });
    let answer = http.modern("tools/call", call, &[name]).json();
    assert_eq!(answer["result"]["structuredContent"]["pid"], started[0]);
    signal(started[0], Signal::KILL);
    while Started::read(bench.path("pids")).servers.len() < 2 {
        std::thread::yield_now();
    }
    wait_ready(http, 200, json!({ "status": "ready" }));
}

#[test]
fn agents_that_can_do_more_find_theirs_running() {
    let bench = bench();
    let (_program, http) = bench.http();
    let session = Session::begin(http);
    while Started::read(bench.path("pids")).servers.len() < 2 {
        std::thread::yield_now();
    }
    let listed = session.post(&request(1, "tools/call", tool("echo", json!({})))).status;
    assert_eq!(listed, 200);
}

#[test]
fn one_that_fails_is_named_and_nothing_is_said_of_why() {
    let bench = Bench::new().set("toolMode", "proxy".into()).set("watch", "everything".into());
    let secret = json!({ "command": "/no/such/secret", "eager": true });
    let bench = bench.server("box", "broken", secret);
    let (program, http) = bench.http();
    let failed = json!({ "toolbox": "box", "server": "broken", "state": "failed" });
    wait_ready(http, 503, json!({ "status": "starting", "servers": [failed] }));
    assert_eq!(http.send("GET", "/health", &[], "").status, 200);
    // Whoever comes under another name is told less.
    let other = http.send("GET", "/ready", &[("Host", "evil.example.com")], "");
    assert_eq!((other.status, other.json()), (503, json!({ "status": "starting" })));

    // A configuration that is read anew counts from then on.
    let repaired = eager(&bench, "pids");
    let bench = bench.server("box", "broken", repaired);
    bench.write_config();
    wait_ready(http, 200, json!({ "status": "ready" }));
    drop(program);
}

#[test]
fn over_stdio_it_is_started_when_the_agent_comes() {
    let bench = bench();
    let agent = bench.agent();
    agent.initialize();
    agent.wait_stderr("the server is ready");
    assert_eq!(Started::read(bench.path("pids")).servers.len(), 1);
}

#[test]
fn nothing_else_than_serving_starts_it() {
    let bench = bench();
    let output = bench.run(["call", "box", "lazy", "echo", "{}"]);
    assert_eq!(Started::read(bench.path("pids")).servers, [0; 0], "{output}");
}
