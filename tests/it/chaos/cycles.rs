//! Repeated work must not accumulate resources.

use serde_json::json;

use crate::chaos::{Calls, Held, check_rest, end};
use crate::support::process::{StartedProcesses, wait_until_exited};
use crate::support::{DEADLINE, TestEnvironment, fake};

/// The first `WARM` cycles aren't compared, because buffers and pools still grow.
const CYCLES: usize = 12;
const WARM: usize = 3;

#[test]
fn start_stop_cycles_leak_nothing() {
    let mut bench = TestEnvironment::new().set("toolMode", json!("proxy"));
    let names = ["a", "b", "c", "d", "e"];
    for name in names {
        let script = json!({
            "name": name,
            "tools": ["echo", "never", "storm", "progress", "huge"],
            "pidFile": bench.path_text(name),
            "grandchild": true,
        });
        let mut entry = fake(script);
        entry["idleTimeoutMs"] = json!(100);
        entry["callTimeoutMs"] = json!(200);
        bench = bench.server("all", name, entry);
    }
    let agent = bench.agent();
    agent.initialize();
    let before = Held::by(&agent);
    let mut calls = Calls::of(&agent);
    let mut held = Vec::new();
    for cycle in 0..CYCLES {
        agent.open("all").ok();
        let mut sent = Vec::new();
        for name in names {
            for n in 0..20 {
                sent.push(calls.send(name, "echo", &json!({"n": n})));
                let cancelled = calls.send(name, "never", &json!({}));
                calls.cancel(&cancelled);
            }
            sent.push(calls.send(name, "never", &json!({})));
            sent.push(calls.send(name, "storm", &json!({})));
            sent.push(calls.send(name, "progress", &json!({})));
            sent.push(calls.send(name, "huge", &json!({"bytes": 100_000})));
        }
        for id in &sent {
            calls.wait(id);
        }
        // All of them reach their idle timeout.
        for name in names {
            wait_until_exited(&StartedProcesses::read(bench.path(name)).servers, DEADLINE);
        }
        let first = held.first().copied();
        held.push(Held::once(&agent, "leaked files or processes", |held| {
            first.is_none_or(|first: Held| held.files <= first.files && held.processes <= 1)
        }));
        assert!(
            StartedProcesses::read(bench.path("a")).servers.len() > cycle,
            "the idle server was not stopped"
        );
    }
    calls.check();
    let (warm, last) = (held[WARM], held[CYCLES - 1]);
    // Each stopping server occupies a thread for file access; at rest, none is left.
    Held::once(&agent, "leaked threads", |held| held.threads <= before.threads + 1);
    assert!(last.resident < warm.resident + 8_000, "before: {warm}; after: {last}");
    let servers: usize =
        names.iter().map(|name| StartedProcesses::read(bench.path(name)).servers.len()).sum();
    eprintln!(
        "chaos: cycles: {CYCLES} cycles, {servers} starts, {calls}; \
         after {} {warm}; after {CYCLES} {last}",
        WARM + 1
    );
    check_rest(&agent);
    end(&agent);
    for name in names {
        wait_until_exited(&StartedProcesses::read(bench.path(name)).all(), DEADLINE);
    }
}

#[test]
fn large_messages_leak_no_memory() {
    let bench = TestEnvironment::new().set("toolMode", json!("proxy")).server(
        "all",
        "srv",
        fake(json!({"tools": ["echo"], "lean": true})),
    );
    let agent = bench.agent();
    agent.initialize();
    agent.open("all").ok();
    let mut calls = Calls::of(&agent);
    let mut held = Vec::new();
    let blob = "m".repeat(1_000_000);
    for _ in 0..CYCLES {
        let sent: Vec<_> = (0..8).map(|_| calls.send("srv", "echo", &json!({"b": blob}))).collect();
        for id in &sent {
            assert!(calls.wait(id).structured()["b"] == *blob, "the echoed text differs");
        }
        held.push(Held::by(&agent));
    }
    calls.check();
    let (warm, last) = (held[WARM], held[CYCLES - 1]);
    assert!(last.files <= warm.files, "before: {warm}; after: {last}");
    assert!(last.resident < warm.resident + 30_000, "before: {warm}; after: {last}");
    eprintln!("chaos: cycles: {calls} of 1 MB; after {} {warm}; after {CYCLES} {last}", WARM + 1);
    end(&agent);
}
