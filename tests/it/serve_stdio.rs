//! Unusual standard streams, an unread log, and cancellation reasons.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::Duration;

use pretty_assertions::assert_eq;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;
use serde_json::json;

use crate::support::{Agent, TestEnvironment, command, fake};

const PROGRAM: &str = env!("CARGO_BIN_EXE_mcp-workbench");

#[test]
fn socket_stdin_and_pipe_stdout_work() {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let mut child = command(PROGRAM)
        .args(["serve", "--embedded-config"])
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for id in 1..=2 {
        writeln!(ours, "{}", json!({"jsonrpc": "2.0", "id": id, "method": "tools/list"})).unwrap();
        let line = lines.next().expect("an answer").unwrap();
        assert!(line.starts_with(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result""#)), "{line}");
    }
    drop(ours);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

// invariant: telemetry-never-blocks
#[test]
fn unread_stderr_blocks_neither_calls_nor_shutdown() {
    let bench = TestEnvironment::new();
    // More than a pipe buffer holds.
    let noise: Vec<_> = (0..2000).map(|n| format!("this is line {n} of a long log")).collect();
    let script = json!({"tools": ["echo"], "noise": {"stderr": noise}});
    let bench = bench.server("box", "noisy", fake(script));
    bench.write_config();
    let log = bench.path("log");
    mknodat(CWD, &log, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let _unread = OpenOptions::new().read(true).write(true).open(&log).unwrap();
    let mut shell = command("sh");
    shell.args(["-c", r#"exec "$@" 2>log"#, "sh", PROGRAM, "serve", "--config"]);
    shell.arg(bench.config_path()).current_dir(bench.dir());
    let agent = Agent::start(shell);
    agent.initialize();
    let answer = agent.call("box__noisy__echo", json!({"text": "hello"}));
    assert!(!answer.is_tool_error());
    agent.signal(Signal::TERM);
    assert_eq!(agent.wait_exit(Duration::from_secs(2)).code(), Some(0));
}

#[test]
fn cancellation_reason_reaches_the_server() {
    let agent = TestEnvironment::new()
        .server("box", "srv", fake(json!({"tools": ["sleep", "count"]})))
        .agent();
    agent.initialize();
    let slow = json!({"ms": 60_000, "progressEveryMs": 10});
    let slow = agent.send_call("box__srv__sleep", slow);
    agent.wait_progress(&slow, 1);
    let reason = "the user pressed \"Esc\"";
    agent.notify("notifications/cancelled", json!({"requestId": slow.0, "reason": reason}));
    // The cancellation can reach the server after the next call, so poll.
    let counts = || agent.call("box__srv__count", json!({})).structured();
    while counts()["cancelled"].as_array().is_none_or(Vec::is_empty) {}
    assert_eq!(counts()["reasons"], json!([reason]));
}
