//! Twenty servers, most of them bad, each in its own way, while the good ones are worked hard.

use std::fs;
use std::time::Duration;

use pretty_assertions::assert_eq;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::process::{Started, alive, signal, wait_gone};
use crate::support::{Agent, Bench, RequestId, fake};

const ROUNDS: usize = 5;
const GOOD: usize = 6;
/// The longest message of a server; what is longer is refused.
const MAX_MESSAGE: usize = 20 << 20;

/// A bad server, and the call that brings out the worst in it.
fn bad(kind: usize) -> (&'static str, Value, &'static str, Value) {
    match kind % 7 {
        0 => ("mortal", json!({"tools": ["crash"]}), "crash", json!({})),
        1 => ("hung", json!({"tools": ["never"]}), "never", json!({})),
        2 => (
            "rubbish",
            json!({"tools": ["garbage"], "noise": {"stdout": ["}{", "\u{7f}"], "stderr": ["noise"]}}),
            "garbage",
            json!({"bytes": 200_000}),
        ),
        3 => ("double", json!({"tools": ["twice"]}), "twice", json!({})),
        4 => ("huge", json!({"tools": ["huge"]}), "huge", json!({"bytes": MAX_MESSAGE + 1000})),
        5 => ("storm", json!({"tools": ["grow"]}), "grow", json!({"tools": ["one_more"]})),
        _ => ("slow", json!({"tools": ["trickle"]}), "trickle", json!({"ms": 1})),
    }
}

fn bench() -> (Bench, Vec<(String, &'static str, Value)>) {
    let mut bench = Bench::new()
        .set("toolMode", json!("proxy"))
        .set("limits", json!({"maxMessageBytes": MAX_MESSAGE}));
    let (good, bad_ones) = (bench.path_text("good"), bench.path_text("bad"));
    let entry = |mut script: Value, name: &str, pids: &str| {
        script["pidFile"] = json!(pids);
        script["name"] = json!(name);
        let mut entry = fake(script);
        entry["callTimeoutMs"] = json!(2000);
        entry
    };
    for n in 0..GOOD {
        let name = format!("good{n}");
        let script = json!({"tools": ["echo", "huge", "error", "pid"], "behavior": {
            "error": {"error": {"code": -32050, "message": "no", "data": {"n": 1.5}}},
        }});
        bench = bench.server("all", &name, entry(script, &name, &good));
    }
    let mut worst = Vec::new();
    for n in 0..20 - GOOD {
        let (kind, script, tool, arguments) = bad(n);
        let name = format!("{kind}{n}");
        bench = bench.server("all", &name, entry(script, &name, &bad_ones));
        worst.push((name, tool, arguments));
    }
    (bench, worst)
}

fn send(agent: &Agent, server: &str, tool: &str, arguments: &Value) -> RequestId {
    agent.send_call(
        "use_tool",
        json!({"tool": {"toolbox": "all", "server": server, "tool": tool}, "arguments": arguments}),
    )
}

/// What the workbench holds: open files, tasks of the kernel, resident memory in kB.
fn held(pid: u32) -> (usize, usize, usize) {
    let count = |what: &str| fs::read_dir(format!("/proc/{pid}/{what}")).unwrap().count();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let resident = resident.trim().trim_end_matches(" kB").parse().unwrap();
    (count("fd"), count("task"), resident)
}

#[test]
#[cfg(target_os = "linux")]
fn the_bad_ones_spoil_nothing_and_leave_nothing() {
    let (bench, worst) = bench();
    let agent = bench.agent();
    agent.initialize();
    let opened: Value = serde_json::from_str(&agent.open("all").text()).unwrap();
    assert_eq!(opened["servers_connected"], 20, "{opened}");
    let (files, threads, _) = held(agent.pid());

    let blob = "x".repeat(10_000);
    for round in 0..ROUNDS {
        // A server that dies each time is started after growing pauses, which are not the point.
        let worst = worst.iter().filter(|(_, tool, _)| *tool != "crash" || round < 3);
        let bad: Vec<_> = worst.map(|(name, tool, args)| send(&agent, name, tool, args)).collect();
        let mut good = Vec::new();
        for n in 0..GOOD {
            for call in 0..16 {
                let arguments = json!({"round": round, "n": n, "call": call, "blob": blob});
                let id = send(&agent, &format!("good{n}"), "echo", &arguments);
                good.push((id, arguments));
            }
        }
        // One of the bad ones is killed in the middle of it, whatever it is.
        let started = Started::read(bench.path("bad")).servers;
        if let Some(pid) = started.get(round).filter(|pid| alive(**pid)) {
            signal(*pid, Signal::KILL);
        }
        for (id, arguments) in &good {
            assert_eq!(&agent.wait(id).structured(), arguments);
        }
        let error = agent.wait(&send(&agent, "good0", "error", &json!({}))).error();
        assert_eq!(error, json!({"code": -32050, "message": "no", "data": {"n": 1.5}}));
        for id in &bad {
            agent.wait(id);
        }
    }

    // One server takes much at once, and a large answer comes whole.
    let megabyte = "m".repeat(1_000_000);
    let many: Vec<_> = (0..32)
        .map(|n| send(&agent, "good1", "echo", &json!({"n": n, "blob": megabyte})))
        .collect();
    for (n, id) in many.iter().enumerate() {
        assert_eq!(agent.wait(id).structured()["n"], n);
    }
    let large = agent.wait(&send(&agent, "good2", "huge", &json!({"bytes": 16 << 20})));
    assert_eq!(large.text().len(), 16 << 20);

    let (files_after, threads_after, resident) = held(agent.pid());
    assert!(files_after <= files + 8, "{files} open files became {files_after}");
    assert!(threads_after <= threads + 1, "{threads} threads became {threads_after}");
    assert!(resident < 400_000, "{resident} kB");

    let mut pids = Started::read(bench.path("bad")).all();
    pids.extend(Started::read(bench.path("good")).all());
    agent.close_stdin();
    assert_eq!(agent.wait_exit(Duration::from_secs(2)).code(), Some(0));
    wait_gone(&pids, Duration::from_secs(2));
}
