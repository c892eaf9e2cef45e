//! `ps` and `logs` while a workbench serves.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use pretty_assertions::assert_eq;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::process::{StartedProcesses, wait_until_exited};
use crate::support::{DEADLINE, TestEnvironment, fake};

fn bench() -> TestEnvironment {
    let bench = TestEnvironment::new();
    let pids = bench.path_text("pids");
    let mut chatty = fake(json!({
        "tools": ["echo"], "pidFile": pids, "noise": {"stderr": ["hello, the token is hunter2hunter2"]},
    }));
    chatty["env"] = json!({"API_TOKEN": "hunter2hunter2"});
    bench.server("box", "chatty", chatty).server(
        "box",
        "broken",
        json!({"command": "no-such-program"}),
    )
}

fn ps(bench: &TestEnvironment, is_it: impl Fn(&Value) -> bool) -> Value {
    let end = std::time::Instant::now() + DEADLINE;
    loop {
        let output = bench.run(["ps", "--json"]);
        assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
        let all: Value = serde_json::from_str(&output.stdout).expect("JSON");
        if is_it(&all) {
            return all;
        }
        assert!(std::time::Instant::now() < end, "{all:#}");
    }
}

fn is_settled(all: &Value) -> bool {
    let servers = all[0]["servers"].as_array().into_iter().flatten();
    let states: Vec<_> = servers.filter_map(|server| server["state"].as_str()).collect();
    states.len() == 2 && states.contains(&"running") && states.contains(&"failed")
}

/// The run files of the workbench, without its socket.
fn files(bench: &TestEnvironment) -> Vec<String> {
    let mut files = places(bench);
    files.retain(|name| Path::new(name).extension().is_none_or(|ending| ending != "sock"));
    files
}

fn places(bench: &TestEnvironment) -> Vec<String> {
    let folder = fs::read_dir(bench.path("home/.cache/mcp-workbench/running"));
    let names = folder.into_iter().flatten().flatten();
    names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

// invariant: every-call-recorded
#[test]
fn ps_lists_servers_and_agents_until_the_workbench_exits() {
    let bench = bench();
    assert!(bench.run(["ps"]).stderr.contains("no running workbench"), "{}", bench.run(["ps"]));
    let agent = bench.agent_with(["--agent", "ann"]).begin(false, json!({}));
    let _ = agent.open("box");
    let all = ps(&bench, is_settled);
    let workbench = &all[0];
    assert_eq!(workbench["endpoint"], "stdio");
    assert_eq!(workbench["agents"][0]["name"], "ann");
    let servers = workbench["servers"].as_array().expect("a list");
    let of = |name: &str| servers.iter().find(|server| server["server"] == name).expect("a server");
    let pids = StartedProcesses::read(bench.path("pids")).servers;
    assert_eq!(of("box/chatty")["pid"], pids[0]);
    assert_eq!(of("box/chatty")["state"], "running");
    assert!(of("box/chatty")["memory_bytes"].as_u64().is_some_and(|bytes| bytes > 100_000));
    assert_eq!(of("box/broken")["state"], "failed");
    assert!(
        of("box/broken")["reason"].as_str().is_some_and(|text| text.contains("not found on PATH"))
    );
    let shown = bench.run(["ps"]);
    for word in ["workbench", "box/chatty", "running", "failed", "`ann`", "stdio"] {
        assert!(shown.stdout.contains(word), "{word}\n{shown}");
    }
    let files = files(&bench);
    assert_eq!(files.len(), 2, "{files:?}");
    for file in &files {
        let path = bench.path(&format!("home/.cache/mcp-workbench/running/{file}"));
        let text = fs::read_to_string(path).expect("a readable file");
        assert!(!text.contains("hunter2"), "{text}");
    }
    agent.close_stdin();
    agent.wait_end();
    assert_eq!(places(&bench), [""; 0]);
    assert_eq!(bench.run(["ps", "--json"]).stdout, "[]\n");
}

#[test]
fn logs_show_redacted_server_stderr() {
    let bench = bench();
    let nothing = bench.run(["logs"]);
    assert_eq!(nothing.code, Some(1), "{nothing}");
    let agent = bench.agent().begin(false, json!({}));
    let _ = agent.open("box");
    let line = |output: &str| output.contains("box/chatty | hello, the token is ***");
    let end = std::time::Instant::now() + DEADLINE;
    while !line(&bench.run(["logs", "chatty"]).stdout) {
        assert!(std::time::Instant::now() < end, "{}", bench.run(["logs"]));
    }
    let all = bench.run(["logs"]).stdout;
    assert!(all.contains("WARN box/broken: server failed to start"), "{all}");
    assert!(!bench.run(["logs", "box/chatty"]).stdout.contains("broken"));
    assert_eq!(bench.run(["logs", "-n", "1"]).stdout.lines().count(), 1);
    let none = bench.run(["logs", "nobody"]);
    assert_eq!(none.code, Some(1), "{none}");
    agent.close_stdin();
    agent.wait_end();
}

#[test]
fn logs_follow_prints_new_lines() {
    let bench = bench();
    let mut follow = bench.command(&["logs", "--follow", "--json"]);
    let mut follow = follow.stdout(Stdio::piped()).spawn().expect("the program");
    let agent = bench.agent().begin(false, json!({}));
    let _ = agent.open("box");
    let mut lines = BufReader::new(follow.stdout.take().expect("a stream")).lines();
    let found =
        lines.find(|line| line.as_ref().is_ok_and(|line| line.contains("hello, the token")));
    let line: Value = serde_json::from_str(&found.expect("a line").expect("text")).expect("JSON");
    assert_eq!(
        (line["server"].as_str(), line["is_stderr"].as_bool()),
        (Some("box/chatty"), Some(true))
    );
    follow.kill().expect("a running process");
    follow.wait().expect("an exit status");
    agent.close_stdin();
    agent.wait_end();
}

#[test]
fn killed_workbench_is_not_listed_but_its_log_is() {
    let bench = bench();
    let agent = bench.agent().begin(false, json!({}));
    let _ = agent.open("box");
    ps(&bench, is_settled);
    let pids = StartedProcesses::read(bench.path("pids")).servers;
    agent.signal(Signal::KILL);
    agent.wait_end();
    wait_until_exited(&pids, DEADLINE);
    assert_eq!(bench.run(["ps", "--json"]).stdout, "[]\n");
    assert!(bench.run(["logs"]).stdout.contains("hello, the token is ***"));
}

#[test]
fn unlisted_workbench_writes_no_run_files() {
    let bench = bench();
    let agent = bench.agent_with(["--unlisted"]).begin(false, json!({}));
    let _ = agent.open("box");
    assert_eq!(places(&bench), [""; 0]);
    assert_eq!(bench.run(["ps", "--json"]).stdout, "[]\n");
    agent.close_stdin();
    agent.wait_end();
}
