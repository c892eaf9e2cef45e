//! Many concurrent messages, and very large ones.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Instant;

use pretty_assertions::assert_eq;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::chaos::{Calls, Held, end};
use crate::support::process::signal;
use crate::support::{DEADLINE, TestEnvironment, fake};

const AT_ONCE: usize = 32;

/// `srv` runs each call in a thread. `lean` reads nothing while its responses aren't consumed.
fn bench(tools: Value) -> TestEnvironment {
    let mut entry = fake(json!({"tools": tools}));
    let mut lean = fake(json!({"tools": ["echo"], "lean": true}));
    entry["callTimeoutMs"] = json!(20_000);
    lean["callTimeoutMs"] = json!(20_000);
    TestEnvironment::new().server("all", "srv", entry).server("all", "lean", lean)
}

#[test]
fn concurrent_large_calls_return_intact() {
    let bench = bench(json!(["echo"]));
    let agent = bench.agent().relisting_on_change();
    agent.initialize();
    agent.open("all");
    let before = Held::by(&agent);
    let mut calls = Calls::of(&agent);
    for size in [10_000, 1_000_000] {
        let blob = "m".repeat(size);
        for server in ["srv", "lean"] {
            let began = Instant::now();
            let sent: Vec<_> = (0..AT_ONCE)
                .map(|n| calls.send(server, "echo", &json!({"n": n, "blob": blob})))
                .collect();
            for (n, id) in sent.iter().enumerate() {
                assert!(calls.wait(id).structured() == json!({"n": n, "blob": blob}), "call {n}");
            }
            let took = began.elapsed();
            eprintln!("chaos: pressure: {AT_ONCE} x {size} bytes at {server}: {took:.0?}");
        }
    }
    calls.check();
    eprintln!("chaos: pressure: {calls}; before {before}; after {}", Held::by(&agent));
    end(&agent);
}

#[test]
fn sixteen_megabyte_messages_pass_both_ways() {
    let bench = bench(json!(["huge", "echo"]));
    let agent = bench.agent().relisting_on_change();
    agent.initialize();
    agent.open("all");
    let answer = agent.call("all__srv__huge", json!({"bytes": 16 << 20}));
    assert_eq!(answer.text().len(), 16 << 20);
    let blob = "m".repeat(16 << 20);
    let answer = agent.call("all__lean__echo", json!({"blob": blob}));
    assert!(answer.structured()["blob"] == *blob, "the echoed text differs");
    assert_eq!(agent.call("all__srv__echo", json!({"a": 1})).structured(), json!({"a": 1}));
    assert_eq!(agent.call("all__lean__echo", json!({"a": 1})).structured(), json!({"a": 1}));
    eprintln!("chaos: pressure: 16 MB in a response and in a request; after {}", Held::by(&agent));
    end(&agent);
}

#[test]
fn error_responses_keep_every_byte() {
    let error = r#"{ "code":-32050,"message":"n\u006f", "data":{"n":1.50,"big":123456789012345678901234567890,"e":1e400,"":["\ud800"]},"more":null}"#;
    let result = r#"{"isError":true , "content":[{"type":"text","text":"n\u006f"}],"big":1e400}"#;
    let bench = bench(json!(["raw_error", "result"]));
    let agent = bench.agent().relisting_on_change().allowing_violations();
    agent.initialize();
    agent.open("all");
    let call = |id: &str, params: String| {
        agent.send_raw(&format!(
            r#"{{"jsonrpc":"2.0","id":"{id}","method":"tools/call","params":{params}}}"#
        ));
    };
    for (tool, member, raw) in [("raw_error", "error", error), ("result", "result", result)] {
        let arguments = json!({"raw": raw});
        call(
            "own",
            json!({"name": format!("all__srv__{tool}"), "arguments": arguments}).to_string(),
        );
        let path = json!({"toolbox": "all", "server": "srv", "tool": tool});
        let arguments = json!({"tool": path, "arguments": arguments});
        call("used", json!({"name": "use_tool", "arguments": arguments}).to_string());
        for id in ["own", "used"] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":"{id}","{member}":{raw}}}"#);
            agent.wait_line(&line);
        }
    }
}

#[test]
fn a_thousand_calls_can_be_in_flight() {
    let bench = bench(json!(["gather"]));
    let agent = bench.agent().relisting_on_change();
    agent.initialize();
    agent.open("all");
    let before = Held::by(&agent);
    let mut calls = Calls::of(&agent);
    let began = Instant::now();
    let count = 1000;
    let sent: Vec<_> =
        (0..count).map(|_| calls.send("srv", "gather", &json!({"count": count}))).collect();
    for id in &sent {
        assert_eq!(calls.wait(id).text(), "all are here");
    }
    calls.check();
    let took = began.elapsed();
    let after = Held::once(&agent, "leaked files", |held| held.files <= before.files);
    eprintln!("chaos: pressure: {calls} concurrently, {took:.0?}; before {before}; after {after}");
    end(&agent);
}

#[test]
fn agent_that_reads_only_after_sending_everything_is_answered() {
    let bench = bench(json!(["echo"]));
    let mut command = bench.serve();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let (pid, mut stdin) = (child.id(), child.stdin.take().unwrap());
    let stdout = child.stdout.take().unwrap();
    let mut lines = vec![
        json!({"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "test-agent", "version": "1.0.0"},
        }}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
    ];
    let blob = "m".repeat(10_000);
    let calls = (0..200).map(|n| {
        let name = if n % 2 == 0 { "all__srv__echo" } else { "all__lean__echo" };
        let params = json!({"name": name, "arguments": {"n": n, "blob": blob}});
        json!({"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": params})
    });
    lines.extend(calls);
    let (done, finished) = channel();
    thread::spawn(move || {
        for line in lines {
            stdin.write_all(format!("{line}\n").as_bytes()).unwrap();
        }
        // Start to read only now.
        let mut answered = 0;
        for line in BufReader::new(stdout).lines() {
            let message: Value = serde_json::from_str(&line.unwrap()).unwrap();
            let Some(id) = message["id"].as_u64() else { continue };
            assert_eq!(message["result"]["structuredContent"]["n"], id);
            answered += 1;
            if answered == 200 {
                break;
            }
        }
        drop(stdin);
        done.send(answered).unwrap();
    });
    let answered = finished.recv_timeout(DEADLINE);
    if answered.is_err() {
        signal(pid, Signal::KILL);
    }
    child.wait().unwrap();
    assert_eq!(answered, Ok(200));
}
