//! `top`, and the admin socket that it connects to.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use pretty_assertions::assert_eq;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::process::{StartedProcesses, alive, signal, wait_until_exited};
use crate::support::{Agent, DEADLINE, TestEnvironment, command, fake, wait};

fn bench() -> TestEnvironment {
    let bench = TestEnvironment::new();
    let pids = bench.path_text("pids");
    let said = fake(json!({
        "tools": ["echo"], "pidFile": pids, "noise": {"stderr": ["ready\u{1b}[2J"]},
    }));
    bench.server("box", "fake", said)
}

fn pids(bench: &TestEnvironment) -> Vec<u32> {
    StartedProcesses::read(bench.path("pids")).servers
}

fn socket(bench: &TestEnvironment) -> PathBuf {
    wait("no admin socket", || {
        let folder = fs::read_dir(bench.path("home/.cache/mcp-workbench/running")).ok()?;
        let mut paths = folder.flatten().map(|entry| entry.path());
        paths.find(|path| path.extension().is_some_and(|found| found == "sock"))
    })
}

pub(crate) struct Desk(BufReader<UnixStream>);

impl Desk {
    pub(crate) fn new(bench: &TestEnvironment) -> Self {
        let stream = UnixStream::connect(socket(bench)).expect("a listening socket");
        stream.set_read_timeout(Some(DEADLINE)).expect("a limit");
        Self(BufReader::new(stream))
    }

    fn answer(&mut self) -> Value {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("a line");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    pub(crate) fn ask(&mut self, ask: &Value) -> Value {
        writeln!(self.0.get_mut(), "{ask}").expect("a request is accepted");
        self.answer()
    }

    fn act(&mut self, act: &str) -> Value {
        self.ask(&json!({"ask": "act", "act": act, "toolbox": "box", "server": "fake"}))
    }

    fn server(&mut self) -> Value {
        self.ask(&json!({"ask": "view"}))["toolboxes"][0]["servers"][0].clone()
    }
}

/// `top` on a terminal of 80 columns and 24 lines.
struct Top {
    child: Child,
    keys: ChildStdin,
    shown: Arc<Mutex<String>>,
    pid: PathBuf,
}

impl Top {
    fn new(bench: &TestEnvironment) -> Self {
        let top = bench.command(&["top"]);
        let pid = bench.path("top.pid");
        let args: Vec<_> =
            top.get_args().map(|arg| format!("'{}'", arg.to_string_lossy())).collect();
        let line = format!(
            "stty rows 24 cols 80; echo $$ > '{}'; exec '{}' {}",
            pid.display(),
            top.get_program().to_string_lossy(),
            args.join(" ")
        );
        let mut script = command("script");
        script.args(["-qec", &line, "/dev/null"]).env_clear();
        for (name, value) in top.get_envs() {
            if let Some(value) = value {
                script.env(name, value);
            }
        }
        script.current_dir(bench.dir()).env("TERM", "xterm").env("SHELL", "/bin/sh");
        script.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = script.spawn().expect("`script` of util-linux");
        let shown = Arc::<Mutex<String>>::default();
        let (mut output, text) = (child.stdout.take().expect("a stream"), Arc::clone(&shown));
        std::thread::spawn(move || {
            let mut some = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut some) {
                text.lock().unwrap().push_str(&String::from_utf8_lossy(&some[..count]));
            }
        });
        Self { keys: child.stdin.take().expect("a stream"), child, shown, pid }
    }

    #[track_caller]
    fn shows(&self, text: &str) {
        let end = Instant::now() + DEADLINE;
        loop {
            let shown = screen(&self.shown.lock().unwrap());
            if shown.contains(text) {
                return;
            }
            assert!(Instant::now() < end, "no {text:?} in\n{shown}");
            std::thread::yield_now();
        }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("a key");
        self.keys.flush().expect("a key");
    }

    /// Waits until it has exited and restored the terminal.
    #[track_caller]
    fn ends(mut self) {
        let status = wait("`top` has not exited", || self.child.try_wait().expect("a child"));
        assert!(status.success(), "{status}");
        let is_as_before = |text: &str| {
            let place = |sequence| text.rfind(sequence);
            place("\u{1b}[?1049l") > place("\u{1b}[?1049h")
                && place("\u{1b}[?25h") > place("\u{1b}[?25l")
        };
        wait("the terminal was not restored", || {
            is_as_before(&self.shown.lock().unwrap()).then_some(())
        });
    }
}

/// Renders terminal output to the lines of the screen.
fn screen(text: &str) -> String {
    let mut cells = vec![vec![' '; 80]; 24];
    let (mut line, mut column) = (0, 0);
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if c != '\u{1b}' {
            if let Some(cell) =
                cells.get_mut(line).and_then(|cells: &mut Vec<char>| cells.get_mut(column))
            {
                *cell = c;
            }
            column += 1;
            continue;
        }
        let mut sequence: String = String::new();
        for c in rest.by_ref().skip(1) {
            sequence.push(c);
            if c.is_ascii_alphabetic() {
                break;
            }
        }
        // Only a cursor position ends with `H`.
        let place = sequence.strip_suffix('H').and_then(|place| place.split_once(';'));
        if let Some((to, at)) = place {
            (line, column) = (to.parse::<usize>().unwrap() - 1, at.parse::<usize>().unwrap() - 1);
        }
    }
    cells.into_iter().map(|cells| cells.into_iter().collect::<String>() + "\n").collect()
}

fn call(agent: &Agent) -> String {
    agent.call("box__fake__echo", json!({})).text()
}

#[test]
fn shows_calls_and_controls_servers_by_key() {
    let bench = bench();
    let agent = bench.agent().begin(false, json!({}));
    let _ = agent.open("box");
    let first = pids(&bench);
    let mut top = Top::new(&bench);
    top.shows("running");
    top.shows("ready");
    call(&agent);
    top.shows("box/fake/echo");
    top.press("s");
    wait_until_exited(&first, DEADLINE);
    top.shows("stopped");
    top.press("m");
    top.shows("paused");
    let refused = agent.call("box__fake__echo", json!({})).text();
    assert!(refused.contains("paused by an operator"), "{refused}");
    assert_eq!(pids(&bench).len(), 1, "a paused server was started");
    top.press("m");
    top.shows("resumed");
    call(&agent);
    assert_eq!(pids(&bench).len(), 2, "the resumed server was not started");
    top.press("?");
    top.shows("restart it");
    top.press("xq");
    top.ends();
    agent.close_stdin();
    agent.wait_end();
}

#[test]
fn restores_the_terminal_on_a_signal_and_requires_one() {
    let bench = bench();
    let nothing = bench.run(["top"]);
    assert_eq!(nothing.code, Some(1), "{nothing}");
    assert!(nothing.stderr.contains("`mcp-workbench ps`"), "{nothing}");
    let top = Top::new(&bench);
    top.shows("No running workbench");
    let pid = fs::read_to_string(&top.pid).expect("a pid file").trim().parse().expect("a number");
    assert!(alive(pid));
    signal(pid, Signal::TERM);
    top.ends();
}

#[test]
fn socket_is_private_and_answers_any_input() {
    let bench = bench();
    let agent = bench.agent().begin(false, json!({}));
    let path = socket(&bench);
    let mode =
        |path: &std::path::Path| fs::metadata(path).expect("a file").permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(path.parent().expect("a folder"))), (0o600, 0o700));
    let mut admin = Desk::new(&bench);
    assert_eq!(admin.ask(&json!("garbage"))["kind"], "malformed");
    assert_eq!(admin.server()["state"], "stopped");
    assert_eq!(admin.act("start"), json!({"answer": "done"}));
    let server = admin.server();
    assert_eq!((&server["state"], &server["pid"]), (&json!("running"), &json!(pids(&bench)[0])));
    assert!(server["memoryBytes"].as_u64().is_some_and(|bytes| bytes > 100_000), "{server}");
    let called = admin.ask(&json!({
        "ask": "call", "toolbox": "box", "server": "fake", "tool": "echo",
        "arguments": {"n": 1},
    }));
    assert_eq!(called["answer"], "called", "{called}");
    let found = admin.ask(&json!({"ask": "findings"}));
    assert_eq!(found["answer"], "findings", "{found}");
    let unused = admin.ask(&json!({"ask": "unused"}));
    assert_eq!((&unused["answer"], &unused["tools"]), (&json!("unused"), &json!([])), "{unused}");
    // A client that doesn't read blocks neither of the others.
    let mut mute = Desk::new(&bench);
    writeln!(mute.0.get_mut(), "{{\"watch\":true}}").expect("a request is accepted");
    let mut watchers = [Desk::new(&bench), Desk::new(&bench)];
    for watcher in &mut watchers {
        let view = watcher.ask(&json!({"watch": true}));
        assert_eq!(view["calls"][0]["tool"], "echo", "{view}");
    }
    // Connections beyond the limit get an error.
    let crowd: Vec<_> = (0..12).map(|_| Desk::new(&bench)).collect();
    let told = Desk::new(&bench).answer();
    assert!(told["message"].as_str().is_some_and(|text| text.contains("16 connections")), "{told}");
    drop((crowd, mute, watchers));
    agent.close_stdin();
    agent.wait_end();
    assert!(!path.exists());
}

#[test]
fn status_counts_the_agents_that_opened_a_toolbox() {
    let bench = bench();
    let agent = Agent::over_http(bench.http()).begin(false, json!({}));
    let beside = agent.beside().begin(false, json!({}));
    let mut admin = Desk::new(&bench);
    let mut opened = || admin.ask(&json!({"ask": "view"}))["toolboxes"][0]["opened"].clone();
    assert_eq!(opened(), 0);
    let _ = agent.open("box");
    assert_eq!(opened(), 1);
    let _ = beside.open("box");
    assert_eq!(opened(), 2);
    agent.leave();
    beside.leave();
}

// invariant: no-secrets-in-records
#[test]
fn failed_calls_show_their_client_and_their_reason_without_secrets() {
    let bench = TestEnvironment::new();
    let mut entry = fake(json!({"tools": ["tool_error", "error"]}));
    entry["env"] = json!({"API_TOKEN": "hunter2-hunter2"});
    let bench = bench.server("box", "fake", entry);
    let agent = bench.agent();
    agent.initialize_with(json!({"clientInfo": {"name": "my-agent\u{1b}", "version": "7.1"}}));
    let _ = agent.open("box");
    let mut admin = Desk::new(&bench);
    let view = admin.ask(&json!({"ask": "view"}));
    let named = (&view["agents"][0]["client"], &view["agents"][0]["version"]);
    assert_eq!(named, (&json!(r"my-agent\u{1b}"), &json!("7.1")), "{view}");
    let mut top = Top::new(&bench);
    let text = "no file\u{1b}[2J of hunter2-hunter2\nfor open-sesame";
    let given = json!({"text": text, "password": "open-sesame"});
    assert!(agent.call("box__fake__tool_error", given).is_tool_error());
    let given = json!({"code": -32001, "message": "hunter2-hunter2 expired"});
    let _ = agent.call("box__fake__error", given);
    let view = admin.ask(&json!({"ask": "view"}));
    let told = |at: usize| {
        let call = &view["calls"][at];
        [&call["outcome"], &call["client"], &call["reason"]].map(|text| text.as_str().unwrap())
    };
    let client = r"my-agent\u{1b}";
    assert_eq!(told(0), ["protocol_error", client, "*** expired (code -32001)"]);
    assert_eq!(told(1), ["tool_error", client, "no file [2J of ***\nfor ***"]);
    top.shows("no file [2J of ***");
    top.shows(r"my-agent\u{1b} 7.1");
    top.press("q");
    top.ends();
    agent.close_stdin();
    agent.wait_end();
}

#[test]
fn client_of_the_modern_protocol_is_named() {
    let bench = bench();
    let agent = bench.agent().modern();
    let _ = agent.request("tools/list", json!({})).ok();
    let view = Desk::new(&bench).ask(&json!({"ask": "view"}));
    let named = (&view["agents"][0]["client"], &view["agents"][0]["version"]);
    assert_eq!(named, (&json!("test-agent"), &json!("1.0.0")), "{view}");
    agent.close_stdin();
    agent.wait_end();
}

#[test]
fn client_of_a_call_without_a_session_is_named() {
    let bench = bench().set("toolMode", json!("proxy"));
    let (_program, http) = bench.http();
    let mut admin = Desk::new(&bench);
    admin.ask(&json!({"ask": "view"}));
    let tool = json!({"toolbox": "box", "server": "fake", "tool": "echo"});
    let params = json!({
        "name": "use_tool",
        "arguments": {"tool": tool, "arguments": {}},
        "_meta": {"io.modelcontextprotocol/clientInfo": {"name": "web-agent", "version": "3"}},
    });
    let answer = http.modern("tools/call", params, &[("Mcp-Name", "use_tool")]).last();
    assert_eq!(answer["result"]["isError"], Value::Null, "{answer}");
    let view = admin.ask(&json!({"ask": "view"}));
    assert_eq!(view["calls"][0]["client"], "web-agent", "{view}");
}

#[test]
fn server_actions_affect_all_agents() {
    let bench = bench();
    let over_http = Agent::over_http(bench.http()).begin(false, json!({}));
    let beside = over_http.beside().begin(false, json!({}));
    let mut admin = Desk::new(&bench);
    for agent in [&over_http, &beside] {
        let _ = agent.open("box");
        call(agent);
    }
    let first = pids(&bench);
    assert_eq!(first.len(), 1, "both agents share one process");
    assert_eq!(admin.act("restart"), json!({"answer": "done"}));
    wait_until_exited(&first, DEADLINE);
    for agent in [&over_http, &beside] {
        call(agent);
    }
    assert_eq!(pids(&bench).len(), 2);
    assert_eq!(admin.act("pause"), json!({"answer": "done"}));
    for agent in [&over_http, &beside] {
        let refused = agent.call("box__fake__echo", json!({})).text();
        assert!(refused.contains("paused by an operator"), "{refused}");
    }
    assert_eq!(admin.server()["isPaused"], true);
    assert_eq!(admin.act("resume"), json!({"answer": "done"}));
    for agent in [&over_http, &beside] {
        call(agent);
    }
    assert_eq!(pids(&bench).len(), 3);
    over_http.leave();
    beside.leave();
}

#[test]
fn stale_socket_of_a_killed_workbench_is_removed() {
    let bench = bench();
    let agent = bench.agent().begin(false, json!({}));
    let left = socket(&bench);
    agent.signal(Signal::KILL);
    agent.wait_end();
    assert!(left.exists());
    let agent = bench.agent().begin(false, json!({}));
    assert!(!left.exists() && socket(&bench) != left);
    agent.close_stdin();
    agent.wait_end();
}
