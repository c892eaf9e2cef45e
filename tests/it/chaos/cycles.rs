//! Cycles of the same work: the resources that are held do not grow.

use serde_json::json;

use crate::chaos::{Calls, Held, check_rest, end};
use crate::support::process::{Started, wait_gone};
use crate::support::{Bench, DEADLINE, fake};

/// How often; the first few times are not compared, for buffers and pools grow to their size.
const CYCLES: usize = 12;
const WARM: usize = 3;

#[test]
fn servers_that_come_and_go_leave_nothing() {
    let mut bench = Bench::new().set("toolMode", json!("proxy"));
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
        // All are stopped for being idle.
        for name in names {
            wait_gone(&Started::read(bench.path(name)).servers, DEADLINE);
        }
        let first = held.first().copied();
        held.push(Held::once(&agent, "something is left", |held| {
            first.is_none_or(|first: Held| held.files <= first.files && held.processes <= 1)
        }));
        assert!(Started::read(bench.path("a")).servers.len() > cycle, "it was not stopped");
    }
    calls.check();
    let (warm, last) = (held[WARM], held[CYCLES - 1]);
    // As many work on files as stop at once; at rest none of them is left.
    Held::once(&agent, "threads are left", |held| held.threads <= before.threads + 1);
    assert!(last.resident < warm.resident + 8_000, "{warm} became {last}");
    let servers: usize =
        names.iter().map(|name| Started::read(bench.path(name)).servers.len()).sum();
    eprintln!(
        "chaos: cycles: {CYCLES} cycles, {servers} starts, {calls}; \
         after {} {warm}; after {CYCLES} {last}",
        WARM + 1
    );
    check_rest(&agent);
    end(&agent);
    for name in names {
        wait_gone(&Started::read(bench.path(name)).all(), DEADLINE);
    }
}

#[test]
fn large_messages_leave_no_memory_behind() {
    let bench = Bench::new().set("toolMode", json!("proxy")).server(
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
            assert!(calls.wait(id).structured()["b"] == *blob, "it came back as another");
        }
        held.push(Held::by(&agent));
    }
    calls.check();
    let (warm, last) = (held[WARM], held[CYCLES - 1]);
    assert!(last.files <= warm.files, "{warm} became {last}");
    assert!(last.resident < warm.resident + 30_000, "{warm} became {last}");
    eprintln!("chaos: cycles: {calls} of 1 MB; after {} {warm}; after {CYCLES} {last}", WARM + 1);
    end(&agent);
}
