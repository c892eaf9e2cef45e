//! How many threads serve agents: several over HTTP, one over stdio.

use std::fs;
use std::num::NonZero;
use std::path::Path;
use std::thread;

use pretty_assertions::assert_eq;
use serde_json::json;

use crate::support::http::{Program, tool};
use crate::support::{Agent, Bench, fake};

/// The most threads that serve over HTTP.
const MOST: usize = 8;

fn bench() -> Bench {
    Bench::new().server("box", "fake", fake(json!({ "tools": ["echo", "pid"] })))
}

/// The time of the processor that each thread of this name has used, in nanoseconds.
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

/// Calls often; each answer must be that of its own call.
fn call_often(agent: &Agent, who: &str) {
    for number in 0..200 {
        let text = format!("{who} {number}");
        let answer = agent.call("box__fake__echo", json!({ "text": text })).structured();
        assert_eq!(answer["text"], text);
    }
}

#[test]
fn over_http_agents_are_served_by_a_thread_for_each_processor() {
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
        assert_eq!(used, [0; 0], "on one processor the first thread does everything");
    } else {
        assert_eq!(used.len(), processors.min(MOST));
        assert!(used.iter().filter(|used| **used > 0).count() > 1, "they share the work: {used:?}");
    }
}

#[test]
fn over_http_modern_requests_are_served_at_the_same_time() {
    let (program, http): (Program, _) = bench().http();
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

#[test]
fn over_stdio_one_thread_does_everything_that_is_not_waiting_for_files() {
    let agent = bench().agent();
    agent.initialize();
    call_often(&agent, "it");
    assert_eq!(used_by(agent.pid(), "worker"), [0; 0]);
    assert_eq!(used_by(agent.pid(), "launcher"), [0; 0]);
}
