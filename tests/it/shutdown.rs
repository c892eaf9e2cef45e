//! However the workbench ends, nothing it started is left.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use crate::support::process::{Started, alive, wait_gone};
use crate::support::{Agent, Bench, fake};

/// The promise.
const GONE: Duration = Duration::from_secs(2);

/// Four servers: two well-behaved, one that ignores SIGTERM and the end of its input, and each
/// with a grandchild, one of which is as stubborn.
fn bench() -> Bench {
    let mut bench = Bench::new();
    let pids = bench.path_text("pids");
    for (name, stubborn, grandchild) in [
        ("good", false, json!(true)),
        ("bad", true, json!(true)),
        ("worse", true, json!("stubborn")),
        ("sly", false, json!("holding")),
    ] {
        let script = json!({
            "tools": ["never", "echo"],
            "stubborn": stubborn,
            "grandchild": grandchild,
            "pidFile": pids,
        });
        bench = bench.server("box", name, fake(script));
    }
    bench
}

/// An agent with all servers running and a call in flight.
fn busy(bench: &Bench) -> (Agent, Vec<u32>) {
    let agent = bench.agent().relisting();
    agent.initialize();
    assert_eq!(agent.open("box").structured()["servers_connected"], 4);
    agent.send_call("box__good__never", json!({}));
    let started = Started::read(bench.path("pids"));
    assert_eq!((started.servers.len(), started.grandchildren.len()), (4, 4));
    let pids = started.all();
    assert!(pids.iter().all(|pid| alive(*pid)));
    (agent, pids)
}

fn ends_in_time(agent: &Agent, pids: &[u32], began: Instant) {
    let status = agent.wait_exit(GONE);
    assert_eq!(status.code(), Some(0));
    wait_gone(pids, GONE.saturating_sub(began.elapsed()));
}

#[test]
fn at_the_end_of_input() {
    let bench = bench();
    let (agent, pids) = busy(&bench);
    let began = Instant::now();
    agent.close_stdin();
    ends_in_time(&agent, &pids, began);
}

#[test]
fn at_sigterm() {
    let bench = bench();
    let (agent, pids) = busy(&bench);
    let began = Instant::now();
    agent.signal(Signal::TERM);
    ends_in_time(&agent, &pids, began);
}

#[test]
fn at_sigint() {
    let bench = bench();
    let (agent, pids) = busy(&bench);
    let began = Instant::now();
    agent.signal(Signal::INT);
    ends_in_time(&agent, &pids, began);
}

#[test]
#[cfg(target_os = "linux")]
fn when_it_is_killed() {
    let bench = bench();
    let (agent, pids) = busy(&bench);
    agent.kill();
    wait_gone(&pids, GONE);
}

#[test]
fn while_servers_are_starting() {
    let bench = Bench::new();
    let pids = bench.path_text("pids");
    let script =
        json!({"hangOnInitialize": true, "stubborn": true, "grandchild": true, "pidFile": pids});
    let bench = bench.server("box", "endless", fake(script));
    let agent = bench.agent();
    agent.initialize();
    agent.send_call("open_toolbox", json!({"toolbox": "box"}));
    let started = loop {
        let started = Started::read(bench.path("pids"));
        if started.grandchildren.len() == 1 {
            break started.all();
        }
        std::thread::yield_now();
    };
    let began = Instant::now();
    agent.close_stdin();
    ends_in_time(&agent, &started, began);
}

#[test]
fn without_an_agent_that_ever_said_a_word() {
    let bench = bench();
    let agent = bench.agent();
    agent.close_stdin();
    assert_eq!(agent.wait_exit(GONE).code(), Some(0));
}

#[test]
fn after_the_answers_to_what_was_asked_last() {
    let bench = Bench::new().server("box", "srv", fake(json!({"tools": ["echo"]})));
    let lines = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"},
        }}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}),
        json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "box__srv__echo"}}),
    ];
    let output = bench.run_with_input(["serve"], &lines.map(|line| format!("{line}\n")).concat());
    let mut ids: Vec<_> =
        output.json_lines().iter().filter_map(|line| line["id"].as_u64()).collect();
    ids.sort_unstable();
    assert_eq!(ids, [1, 2, 3]);
}
