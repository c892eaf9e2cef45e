//! No process that the workbench started outlives it, however it ends.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::process::{
    StartedProcesses, alive, descendants, signal, signal_group, wait_until_exited,
};
use crate::support::{Agent, TestEnvironment, fake};

/// The documented upper bound.
const GONE: Duration = Duration::from_secs(2);

/// Five servers with one grandchild each. Two servers ignore SIGTERM and EOF, one grandchild is as
/// stubborn, one holds the output open, and one is a `daemon`.
fn bench(daemon: &str) -> TestEnvironment {
    let mut bench = TestEnvironment::new();
    let pids = bench.path_text("pids");
    for (name, stubborn, grandchild) in [
        ("good", false, json!(true)),
        ("bad", true, json!(true)),
        ("worse", true, json!("stubborn")),
        ("sly", false, json!("holding")),
        ("gone", false, json!(daemon)),
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

fn busy(bench: &TestEnvironment) -> (Agent, Vec<u32>) {
    let agent = bench.agent_with(["--shutdown-timeout", "200ms"]).relisting_on_change();
    agent.initialize();
    assert_eq!(agent.open("box").structured()["servers_connected"], 5);
    agent.send_call("box__good__never", json!({}));
    let started = StartedProcesses::read(bench.path("pids"));
    assert_eq!((started.servers.len(), started.grandchildren.len()), (5, 5));
    let pids = started.all();
    assert!(pids.iter().all(|pid| alive(*pid)));
    (agent, pids)
}

fn ends_in_time(agent: &Agent, pids: &[u32], began: Instant) {
    let status = agent.wait_exit(GONE);
    assert_eq!(status.code(), Some(0));
    wait_until_exited(pids, GONE.saturating_sub(began.elapsed()));
}

// invariant: shutdown-is-complete
#[test]
fn exits_when_stdin_closes() {
    let bench = bench("astray");
    let (agent, pids) = busy(&bench);
    let began = Instant::now();
    agent.close_stdin();
    ends_in_time(&agent, &pids, began);
}

// invariant: shutdown-is-complete
#[test]
fn exits_on_sigterm() {
    let bench = bench("unmarked");
    let (agent, pids) = busy(&bench);
    let began = Instant::now();
    agent.signal(Signal::TERM);
    ends_in_time(&agent, &pids, began);
}

#[test]
fn exits_on_sigint() {
    let bench = bench("astray");
    let (agent, pids) = busy(&bench);
    let began = Instant::now();
    agent.signal(Signal::INT);
    ends_in_time(&agent, &pids, began);
}

#[test]
#[cfg(target_os = "linux")]
fn sigkill_leaves_no_process() {
    let bench = bench("astray");
    let (agent, pids) = busy(&bench);
    agent.kill();
    wait_until_exited(&pids, GONE);
}

/// The guard is the only child of the workbench that isn't a server.
fn guard(agent: &Agent, servers: &[u32]) -> Option<u32> {
    let is_guard = |pid: &u32| {
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        !servers.contains(pid) && command.ends_with(b"\0guard\0")
    };
    descendants(agent.pid()).into_iter().find(is_guard)
}

// invariant: shutdown-is-complete
#[test]
#[cfg(target_os = "linux")]
fn sigkill_after_the_guard_was_restarted() {
    let bench = bench("astray");
    let (agent, pids) = busy(&bench);
    let first = guard(&agent, &pids).expect("a guard");
    signal(first, Signal::KILL);
    let second = loop {
        if let Some(second) = guard(&agent, &pids).filter(|guard| *guard != first) {
            break second;
        }
        std::thread::yield_now();
    };
    agent.kill();
    wait_until_exited(&pids, GONE);
    wait_until_exited(&[second], GONE);
}

// invariant: shutdown-is-complete
#[test]
#[cfg(target_os = "linux")]
fn guard_survives_signals_of_terminals_and_service_managers() {
    let bench = bench("astray");
    let (agent, pids) = busy(&bench);
    let guard = guard(&agent, &pids).expect("a guard");
    // A stopped workbench can't replace the guard.
    agent.signal(Signal::STOP);
    for which in [
        Signal::HUP,
        Signal::INT,
        Signal::QUIT,
        Signal::TERM,
        Signal::PIPE,
        Signal::ALARM,
        Signal::USR1,
        Signal::USR2,
        Signal::TSTP,
        Signal::TTIN,
        Signal::TTOU,
    ] {
        signal(guard, which);
    }
    signal_group(guard, Signal::HUP);
    let session = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let (_, fields) = stat.rsplit_once(") ").unwrap();
        fields.split(' ').nth(3).unwrap().parse::<u32>().unwrap()
    };
    assert_eq!(session(guard), guard, "it has no terminal");
    agent.kill();
    wait_until_exited(&pids, GONE);
    wait_until_exited(&[guard], GONE);
}

// invariant: shutdown-is-complete
#[test]
#[cfg(target_os = "linux")]
fn server_exit_kills_only_its_own_descendants() {
    for kind in ["detached", "astray", "unmarked"] {
        let bench = TestEnvironment::new();
        let [dying, lasting] = ["dying", "lasting"].map(|name| {
            let pids = bench.path_text(name);
            fake(json!({ "tools": ["crash", "echo"], "grandchild": kind, "pidFile": pids }))
        });
        let bench = bench.server("box", "dying", dying).server("other", "lasting", lasting);
        let agent = bench.agent().relisting_on_change();
        agent.initialize();
        agent.open("box");
        assert!(agent.call("box__dying__crash", json!({})).is_tool_error());
        wait_until_exited(&StartedProcesses::read(bench.path("dying")).all(), GONE);
        agent.open("other");
        // The call restarts the server, which crashes again.
        assert!(agent.call("box__dying__crash", json!({})).is_tool_error());
        let lasting = StartedProcesses::read(bench.path("lasting")).all();
        assert!(lasting.iter().all(|pid| alive(*pid)), "{kind}");
        assert_eq!(agent.call("other__lasting__echo", json!({"a": 1})).text(), r#"{"a":1}"#);
        agent.close_stdin();
        wait_until_exited(&StartedProcesses::read(bench.path("dying")).all(), GONE);
        wait_until_exited(&lasting, GONE);
    }
}

#[test]
fn exits_while_servers_are_starting() {
    let bench = TestEnvironment::new();
    let pids = bench.path_text("pids");
    let script =
        json!({"hangOnInitialize": true, "stubborn": true, "grandchild": true, "pidFile": pids});
    let bench = bench.server("box", "endless", fake(script));
    let agent = bench.agent_with(["--shutdown-timeout", "200ms"]);
    agent.initialize();
    agent.send_call("open_toolbox", json!({"toolbox": "box"}));
    let started = loop {
        let started = StartedProcesses::read(bench.path("pids"));
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
fn exits_without_any_message() {
    let bench = bench("astray");
    let agent = bench.agent();
    agent.close_stdin();
    assert_eq!(agent.wait_exit(GONE).code(), Some(0));
}

/// The messages of a client that calls the tool `name`.
fn messages(name: &str, arguments: Value) -> [Value; 3] {
    [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"},
        }}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}),
        json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": name, "arguments": arguments}}),
    ]
}

#[test]
fn slow_calls_are_answered_after_the_end_of_input() {
    let server = fake(json!({"tools": ["sleep"], "startDelayMs": 300}));
    let bench = TestEnvironment::new().server("box", "srv", server);
    let lines = messages("box__srv__sleep", json!({"ms": 700}));
    for separator in ["\n", "\r\n\r\n"] {
        // The last line has no end.
        let input = lines.iter().map(Value::to_string).collect::<Vec<_>>().join(separator);
        let output = bench.run_with_input([], &input);
        let answers = output.json_lines();
        let answer = answers.iter().find(|line| line["id"] == 3).expect("a response");
        assert!(answer["result"]["content"].is_array(), "{answer}");
        assert_eq!(output.code, Some(0), "{output}");
    }
}

#[test]
fn client_that_closes_both_pipes_is_not_waited_for() {
    let server = fake(json!({"tools": ["never"]}));
    let bench = TestEnvironment::new().server("box", "srv", server);
    let mut command = bench.serve();
    command.args(["--shutdown-timeout", "1h"]);
    let mut program =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut input = program.stdin.take().unwrap();
    for line in messages("box__srv__never", json!({})) {
        writeln!(input, "{line}").unwrap();
    }
    let mut output = BufReader::new(program.stdout.take().unwrap());
    output.read_line(&mut String::new()).unwrap();
    drop((input, output));
    assert_eq!(program.wait().unwrap().code(), Some(0));
}

#[test]
fn answers_pending_requests_before_exit() {
    let bench = TestEnvironment::new().server("box", "srv", fake(json!({"tools": ["echo"]})));
    let lines = messages("box__srv__echo", json!({}));
    let output = bench.run_with_input(["serve"], &lines.map(|line| format!("{line}\n")).concat());
    let mut ids: Vec<_> =
        output.json_lines().iter().filter_map(|line| line["id"].as_u64()).collect();
    ids.sort_unstable();
    assert_eq!(ids, [1, 2, 3]);
}
