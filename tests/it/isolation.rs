//! Servers with `isolation: session`, which run one process per session.

use pretty_assertions::{assert_eq, assert_ne};
use serde_json::json;

use crate::support::process::{StartedProcesses, alive, wait_until_exited};
use crate::support::{Agent, DEADLINE, TestEnvironment, fake};

fn bench(mode: &str) -> TestEnvironment {
    let bench = TestEnvironment::new();
    let script = json!({ "tools": ["pid", "echo"], "pidFile": bench.path_text("pids") });
    let mut server = fake(script);
    server["isolation"] = "session".into();
    bench.server("box", "srv", server).set("toolMode", mode.into())
}

fn process(agent: &Agent) -> u32 {
    let path = ["box", "srv", "pid"];
    let pid = agent.use_tool(path, json!({})).structured()["pid"].as_u64();
    pid.and_then(|pid| pid.try_into().ok()).expect("a pid")
}

fn begin(agent: Agent) -> Agent {
    agent.begin(false, json!({}))
}

// invariant: sharing-needs-equality
#[test]
fn each_session_has_its_own_process_which_ends_with_it() {
    let bench = bench("proxy");
    let first = begin(Agent::over_http(bench.http()));
    let second = begin(first.beside());
    let (one, two) = (process(&first), process(&second));
    assert_ne!(one, two);
    assert_eq!((process(&first), process(&second)), (one, two));
    assert_eq!(
        StartedProcesses::read(bench.path("pids")).servers,
        [one, two],
        "one process for each session"
    );

    // The gateway listed the tools through the first session's process.
    first.leave();
    wait_until_exited(&[one], DEADLINE);
    assert!(alive(two));
    let third = begin(first.beside());
    let three = process(&third);
    assert!(![one, two].contains(&three), "a new session reused the process of another");
    second.leave();
    wait_until_exited(&[two], DEADLINE);
    assert_eq!(process(&third), three);
    assert_eq!(StartedProcesses::read(bench.path("pids")).servers, [one, two, three]);
}

#[test]
fn session_isolation_in_direct_mode() {
    let bench = bench("direct");
    let first = begin(Agent::over_http(bench.http()));
    let second = begin(first.beside());
    assert_eq!(first.tool_names(), second.tool_names());
    let pid = |agent: &Agent| agent.call("pid", json!({})).structured()["pid"].clone();
    assert_ne!(pid(&first), pid(&second));
    assert_eq!(StartedProcesses::read(bench.path("pids")).servers.len(), 2);
}

#[test]
fn stdio_session_has_a_single_process() {
    let bench = bench("proxy");
    let agent = bench.agent();
    agent.initialize();
    let pid = process(&agent);
    assert_eq!(StartedProcesses::read(bench.path("pids")).servers, [pid]);
}

/// Without a session and an agent name, the request can't be attributed to a process.
#[test]
fn anonymous_sessionless_request_is_rejected_with_the_reason() {
    let bench = bench("proxy");
    let agent = Agent::over_http(bench.http()).begin(true, json!({}));
    let answer = agent.use_tool(["box", "srv", "echo"], json!({ "text": "x" }));
    let answer = answer.result().expect("a result");
    assert_eq!(answer["isError"], true);
    let text = answer["content"][0]["text"].as_str().expect("a text");
    assert!(text.contains("but the request has none"), "{text}");
    let opened = agent.open("box").text();
    assert!(opened.contains("but the request has none"), "{opened}");
    assert_eq!(StartedProcesses::read(bench.path("pids")).servers, [0; 0]);
}
