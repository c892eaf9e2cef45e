//! Worker threads: several over HTTP, one over stdio.

use std::fs;
use std::num::NonZero;
use std::path::Path;
use std::thread;

use pretty_assertions::assert_eq;
use serde_json::json;

use crate::support::http::{HttpWorkbench, tool};
use crate::support::{Agent, TestEnvironment, fake};

/// Maximum number of HTTP workers.
const MOST: usize = 8;

fn bench() -> TestEnvironment {
    TestEnvironment::new().server("box", "fake", fake(json!({ "tools": ["echo", "pid"] })))
}

/// CPU time of each thread with this name, in nanoseconds.
fn used_by(pid: u32, name: &str) -> Vec<u64> {
    let used = |thread: &Path| {
        let is_one =
            fs::read_to_string(thread.join("comm")).is_ok_and(|found| found.trim() == name);
        let used = fs::read_to_string(thread.join("schedstat")).ok().filter(|_| is_one)?;
        used.split(' ').next()?.parse().ok()
    };
    let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("a process that runs");
    threads.filter_map(|thread| used(&thread.expect("a thread").path())).collect()
}

fn call_often(agent: &Agent, who: &str) {
    for number in 0..200 {
        let text = format!("{who} {number}");
        let answer = agent.call("box__fake__echo", json!({ "text": text })).structured();
        assert_eq!(answer["text"], text);
    }
}

// invariant: thread-layout
#[test]
fn http_uses_a_worker_per_processor() {
    let first = Agent::over_http(bench().http()).begin(false, json!({}));
    let second = first.beside().begin(false, json!({}));
    let server = first.call("box__fake__pid", json!({})).structured();
    thread::scope(|scope| {
        scope.spawn(|| call_often(&first, "first"));
        scope.spawn(|| call_often(&second, "second"));
    });
    assert_eq!(first.call("box__fake__pid", json!({})).structured(), server);
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    let used = used_by(first.pid(), "worker");
    if processors == 1 {
        assert_eq!(used, [0; 0], "on one processor, only the main thread works");
    } else {
        assert_eq!(used.len(), processors.min(MOST));
        assert!(
            used.iter().filter(|used| **used > 0).count() > 1,
            "threads share the work: {used:?}"
        );
    }
}

#[test]
fn modern_http_requests_are_served_concurrently() {
    let (program, http): (HttpWorkbench, _) = bench().http();
    thread::scope(|scope| {
        for who in ["first", "second"] {
            scope.spawn(move || {
                let named = [("Mcp-Name", "use_tool")];
                for number in 0..50 {
                    let text = format!("{who} {number}");
                    let params = tool("echo", json!({ "text": text }));
                    let answer = http.modern("tools/call", params, &named).json();
                    assert_eq!(answer["result"]["structuredContent"]["text"], text);
                }
            });
        }
    });
    assert!(!program.0.stderr().contains("WARN"), "{}", program.0.stderr());
}

// invariant: thread-layout
#[test]
fn stdio_uses_a_single_thread() {
    let agent = bench().agent();
    agent.initialize();
    call_often(&agent, "it");
    assert_eq!(used_by(agent.pid(), "worker"), [0; 0]);
    assert_eq!(used_by(agent.pid(), "launcher"), [0; 0]);
}
