//! Twenty servers, fourteen of them misbehaving in different ways, with load on the healthy ones.

use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::chaos::{Calls, Held, end};
use crate::support::process::{StartedProcesses, alive, signal};
use crate::support::{TestEnvironment, fake};

const ROUNDS: usize = 4;
const GOOD: usize = 6;
const MAX_MESSAGE: usize = 1 << 20;
const CALL_TIMEOUT: Duration = Duration::from_secs(2);

struct MisbehavingServer {
    name: &'static str,
    script: Value,
    /// The call that triggers the misbehavior.
    call: (&'static str, Value),
    /// The number of rounds with a call. Servers that crash get fewer: their restarts have a
    /// growing backoff, which this test isn't about.
    rounds: usize,
    ends: &'static [&'static str],
}

fn bad() -> Vec<MisbehavingServer> {
    let bad = |name, tool, arguments, rounds, ends| MisbehavingServer {
        name,
        script: json!({"tools": [tool]}),
        call: (tool, arguments),
        rounds,
        ends,
    };
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    let deep = format!(r#"{{"jsonrpc":"2.0","method":"deep","params":{deep}}}"#);
    let blob = "x".repeat(300_000);
    let mut all = vec![
        bad("mortal", "crash", json!({"code": 3}), 3, &["tool error"]),
        bad("halved", "half", json!({}), 3, &["tool error"]),
        bad("hung", "never", json!({}), ROUNDS, &["tool error"]),
        bad("slow", "trickle", json!({"ms": 1000}), ROUNDS, &["tool error"]),
        bad("frozen", "echo", json!({"blob": blob}), ROUNDS, &["tool error"]),
        bad("mute", "echo", json!({}), 2, &["tool error"]),
        bad("huge", "huge", json!({"bytes": MAX_MESSAGE}), ROUNDS, &["tool error"]),
        bad("rubbish", "garbage", json!({"bytes": 200_000}), ROUNDS, &["result"]),
        bad("binary", "binary", json!({"bytes": 200_000}), ROUNDS, &["result"]),
        bad("deep", "garbage", json!({"line": deep}), ROUNDS, &["result"]),
        bad("double", "twice", json!({}), ROUNDS, &["result"]),
        bad("confused", "ids", json!({}), ROUNDS, &["result"]),
        bad("growing", "grow", json!({"tools": ["one_more"]}), ROUNDS, &["result"]),
        bad("stormy", "storm", json!({"count": 2000}), ROUNDS, &["result"]),
    ];
    for one in &mut all {
        match one.name {
            "stormy" => one.script["changeOnList"] = json!(true),
            "mute" => one.script["hangOnInitialize"] = json!(true),
            "rubbish" => one.script["noise"] = json!({"stdout": ["}{", "\u{7f}"], "stderr": ["x"]}),
            _ => {}
        }
    }
    all
}

fn bench(bad: &[MisbehavingServer]) -> TestEnvironment {
    let mut bench = TestEnvironment::new()
        .set("toolMode", json!("proxy"))
        .set("limits", json!({"maxMessageBytes": MAX_MESSAGE}));
    let scripts = (0..GOOD).map(|n| {
        let script = json!({"tools": ["echo", "raw_error", "pid"]});
        (format!("good{n}"), script)
    });
    let scripts = scripts.chain(bad.iter().map(|bad| (bad.name.to_owned(), bad.script.clone())));
    for (name, mut script) in scripts {
        script["pidFile"] = json!(bench.path_text(&name));
        let mut entry = fake(script);
        entry["callTimeoutMs"] = json!(CALL_TIMEOUT.as_millis());
        entry["startupTimeoutMs"] = json!(if name == "mute" { 500 } else { 20_000 });
        bench = bench.server("all", &name, entry);
    }
    bench
}

#[test]
fn misbehaving_servers_affect_no_others_and_leak_nothing() {
    let bad = bad();
    assert_eq!(bad.len() + GOOD, 20);
    let bench = bench(&bad);
    let agent = bench.agent();
    agent.initialize();
    let opened: Value = serde_json::from_str(&agent.open("all").text()).unwrap();
    assert_eq!(opened["servers_connected"], 19, "{opened}");
    let before = Held::by(&agent);
    let started = |name: &str| StartedProcesses::read(bench.path(name)).servers;
    signal(started("frozen")[0], Signal::STOP);

    let mut calls = Calls::of(&agent);
    let mut slowest = Duration::ZERO;
    let blob = "x".repeat(10_000);
    for round in 0..ROUNDS {
        let worst: Vec<_> = bad
            .iter()
            .filter(|bad| round < bad.rounds)
            .map(|bad| (bad, calls.send(bad.name, bad.call.0, &bad.call.1)))
            .collect();
        let began = Instant::now();
        let mut good = Vec::new();
        for call in 0..16 {
            for n in 0..GOOD {
                let arguments = json!({"round": round, "n": n, "call": call, "blob": blob});
                good.push((calls.send(&format!("good{n}"), "echo", &arguments), arguments));
            }
        }
        // Kill a misbehaving server in the middle of the round.
        let killed = ["rubbish", "binary", "double", "stormy"][round];
        for pid in started(killed).into_iter().filter(|pid| alive(*pid)) {
            signal(pid, Signal::KILL);
        }
        for (id, arguments) in &good {
            assert_eq!(&calls.wait(id).structured(), arguments);
        }
        slowest = slowest.max(began.elapsed());
        for (bad, id) in &worst {
            let response = calls.wait(id);
            let may_end = bad.ends.contains(&response.kind()) || bad.name == killed;
            assert!(may_end, "{} in round {round}: {}", bad.name, response.line);
        }
    }
    // No healthy call has waited for a misbehaving server.
    assert!(slowest < CALL_TIMEOUT, "{slowest:?}");
    calls.check();

    // An exited server frees at least its three pipes.
    let after = Held::once(&agent, "leaked files", |held| {
        held.files + 3 * before.processes.saturating_sub(held.processes) <= before.files
    });
    assert!(after.threads <= before.threads + 1, "before: {before}; after: {after}");
    assert!(after.resident < before.resident + 40_000, "before: {before}; after: {after}");
    eprintln!(
        "chaos: crowd: 20 servers, {calls}; slowest wave of {} good calls {slowest:.0?}; \
         before {before}; after {after}",
        16 * GOOD
    );
    let mut pids: Vec<u32> = bad.iter().flat_map(|bad| started(bad.name)).collect();
    pids.extend((0..GOOD).flat_map(|n| started(&format!("good{n}"))));
    end(&agent);
    assert!(!pids.iter().any(|pid| alive(*pid)));
}

#[test]
fn flooding_server_does_not_block_others() {
    const CALLS: usize = 200;
    let notice = |method: &str, params: Value| {
        json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string()
    };
    let progress = json!({"progressToken": 1_000_000_000, "progress": 1});
    for (what, line) in [
        ("rubbish", "x".repeat(1000)),
        ("blank lines", " ".to_owned()),
        ("log messages", notice("notifications/message", json!({"level": "info", "data": "x"}))),
        ("progress", notice("notifications/progress", progress)),
        ("changes", notice("notifications/tools/list_changed", json!({}))),
        ("answers", json!({"jsonrpc": "2.0", "id": 1_000_000_000, "result": {}}).to_string()),
        ("pings", json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string()),
    ] {
        let bench = TestEnvironment::new()
            .set("toolMode", json!("proxy"))
            .server("all", "flood", fake(json!({"tools": ["flood"]})))
            .server("all", "good", fake(json!({"tools": ["echo"]})));
        let agent = bench.agent();
        agent.initialize();
        agent.open("all").ok();
        let mut calls = Calls::of(&agent);
        let before = Held::by(&agent);
        let id = calls.send("flood", "flood", &json!({"line": line}));
        assert_eq!(calls.wait(&id).text(), "as you wish");
        let began = Instant::now();
        for n in 0..CALLS {
            let id = calls.send("good", "echo", &json!({"n": n}));
            assert_eq!(calls.wait(&id).structured(), json!({"n": n}));
        }
        let took = began.elapsed();
        let after = Held::by(&agent);
        eprintln!(
            "chaos: crowd: {CALLS} sequential calls during a flood of {what}: {took:.0?}; \
             before {before}; after {after}"
        );
        // The flood never pauses, so calls that waited for a pause would not have been answered.
        assert!(
            after.resident < before.resident + 20_000,
            "{what}: before: {before}; after: {after}"
        );
        calls.check();
        end(&agent);
    }
}
