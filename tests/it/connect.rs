//! `connect`: stdio clients that share one workbench, its restarts, and the local fallback.

use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use rustix::process::Signal;
use serde_json::json;

use crate::support::process::{StartedProcesses, signal, wait_until_exited};
use crate::support::test_environment::{TOKEN_OF_ANN, TOKEN_OF_BOB};
use crate::support::{Agent, DEADLINE, TestEnvironment, fake};

fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn digest(token: &str) -> String {
    let digest = mcp_workbench_settings::token_digest(token);
    hex::encode(digest)
}

fn bench() -> TestEnvironment {
    let bench = TestEnvironment::new();
    let pids = bench.path_text("pids");
    let bench = bench
        .server(
            "box",
            "fake",
            fake(json!({ "tools": ["echo", "sleep", "count"], "pidFile": pids })),
        )
        .set("toolMode", json!("direct"))
        .set(
            "auth",
            json!({ "tokens": [
                { "agent": "ann", "sha256": digest(TOKEN_OF_ANN) },
                { "agent": "bob", "sha256": digest(TOKEN_OF_BOB) },
            ] }),
        );
    bench.write_config();
    bench
}

/// The service that a bridge has started; killed on drop.
struct Service(TestEnvironment);

impl Service {
    fn end(&self, with: Signal) {
        let pid = self.0.service();
        signal(pid, with);
        wait_until_exited(&[pid], DEADLINE);
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.0.services().into_iter().for_each(|pid| signal(pid, Signal::KILL));
    }
}

fn echo(agent: &Agent) -> String {
    agent.call("box__fake__echo", json!({ "a": 1 })).line
}

#[test]
fn clients_share_the_service_that_the_first_one_starts() {
    let bench = bench();
    bench.remember_service(free_address(), env!("CARGO_BIN_EXE_mcp-workbench"));
    let service = Service(bench.clone());
    let ann = bench.connect("ann").begin(false, json!({}));
    let bob = bench.connect("bob").begin(true, json!({}));
    assert!(echo(&ann).contains("\"result\""), "{}", echo(&ann));
    assert!(echo(&bob).contains("\"result\""), "{}", echo(&bob));
    service.0.service();
    assert_eq!(StartedProcesses::read(bench.path("pids")).servers.len(), 1);
    let has_ann = || bench.workbenches()[0]["agents"].to_string().contains("ann");
    let end = Instant::now() + DEADLINE;
    while !has_ann() {
        assert!(Instant::now() < end, "no session of ann was listed");
    }
    // Closing stdin ends the client and its session, and nothing else.
    ann.close_stdin();
    assert_eq!(ann.wait_exit(Duration::from_secs(2)).code(), Some(0));
    let end = Instant::now() + DEADLINE;
    while has_ann() {
        assert!(Instant::now() < end, "the session of ann did not end");
    }
    assert!(echo(&bob).contains("\"result\""));
    service.end(Signal::TERM);
}

#[test]
fn sessions_survive_a_service_restart() {
    let bench = bench();
    bench.remember_service(free_address(), env!("CARGO_BIN_EXE_mcp-workbench"));
    let service = Service(bench.clone());
    let legacy = bench.connect("ann").begin(false, json!({}));
    let modern = bench.connect("bob").begin(true, json!({}));
    assert!(echo(&legacy).contains("\"result\""));
    assert!(echo(&modern).contains("\"result\""));
    let before = service.0.service();
    // A killed service leaves the call in flight unanswered.
    let call = legacy.send_call("box__fake__sleep", json!({ "ms": 60_000 }));
    service.end(Signal::KILL);
    let echoed = echo_again(&legacy);
    assert!(echoed.contains("\"result\""), "{echoed}");
    assert!(echo_again(&modern).contains("\"result\""));
    let lost = legacy.wait(&call).line;
    assert!(lost.contains("\"error\"") && !lost.contains("\"result\""), "{lost}");
    legacy.next_notification("notifications/tools/list_changed");
    assert_ne!(service.0.service(), before);
    // On SIGTERM it drains, and the next one serves later calls.
    service.end(Signal::TERM);
    assert!(echo_again(&legacy).contains("\"result\""));
    service.end(Signal::TERM);
}

/// A call on a connection that was just lost may have been executed, so it fails. The next call
/// succeeds.
fn echo_again(agent: &Agent) -> String {
    let first = echo(agent);
    if first.contains(r#""data":"broken""#) { echo(agent) } else { first }
}

#[test]
fn client_is_served_locally_without_a_service() {
    let bench = bench();
    for (agent, program, why) in [
        ("ann", Some("/nowhere/mcp-workbench"), "the background service is not responding"),
        (
            "eve",
            Some("/nowhere/mcp-workbench"),
            "the background service has no token for agent `eve`",
        ),
        ("ann", None, "has no background service (run `mcp-workbench setup --service`)"),
    ] {
        match program {
            Some(program) => bench.remember_service(free_address(), program),
            None => std::fs::remove_file(bench.path("workbench.service.json")).unwrap(),
        }
        let agent = bench.connect(agent).begin(false, json!({}));
        assert!(echo(&agent).contains("\"result\""));
        agent.wait_stderr(why);
        agent.close_stdin();
        agent.wait_exit(Duration::from_secs(2));
    }
}

#[test]
fn client_with_its_own_environment_is_served_locally() {
    let bench = TestEnvironment::new().env("ONLY_HERE", "of the client");
    let mut server = fake(json!({ "tools": ["echo"] }));
    server["env"] = json!({ "X": "${ONLY_HERE}" });
    let bench = bench.server("box", "fake", server).set("toolMode", json!("direct"));
    bench.write_config();
    bench.remember_service(free_address(), "/nowhere/mcp-workbench");
    let agent = bench.connect("ann").begin(false, json!({}));
    assert!(echo(&agent).contains("\"result\""));
    agent.wait_stderr("uses `ONLY_HERE` from this client's environment");
}

#[test]
fn unknown_token_is_refused_without_local_fallback() {
    let bench = bench();
    let (_program, http) = bench.http();
    let stranger = bench.set("auth", json!({ "tokens": [] }));
    stranger.remember_service(http.0, env!("CARGO_BIN_EXE_mcp-workbench"));
    let text = std::fs::read_to_string(stranger.path("workbench.service.json")).unwrap();
    stranger
        .write("workbench.service.json", &text.replace(TOKEN_OF_ANN, "mcpw_another_0123456789"));
    let agent = stranger.connect("ann");
    let refused = agent.request("initialize", json!({ "protocolVersion": "2025-11-25" })).line;
    assert!(refused.contains("401 Unauthorized"), "{refused}");
    assert!(!refused.contains("mcpw_another"), "{refused}");
}

#[test]
fn bridge_rejects_invalid_messages() {
    let bench = bench();
    let (_program, http) = bench.http();
    let agent = bench.connect_to(http.0).allowing_violations();
    agent.send_raw("[1, 2");
    agent.send_raw("{}");
    agent.close_stdin();
    agent.wait_end();
    let said = agent.transcript().join("\n");
    assert!(said.contains("-32700") && said.contains("-32600"), "{said}");
}
