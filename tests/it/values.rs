//! Values that the configuration refers to: in files, and in what commands print.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

use pretty_assertions::assert_eq;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::process::{Output, fake_path, signal, wait_gone};
use crate::support::{Agent, Bench, DEADLINE, fake};

const HELD: &str = "and waits: `mcp-workbench reload`, SIGHUP or a restart takes it over";
const READ: &str = "the configuration was read anew: ";

/// A server that writes a variable of its environment into the file `<name>.seen`, says it on its
/// standard error, and serves.
fn curious(bench: &Bench, name: &str, value: Value) -> Value {
    let look = r#"printf %s "$VALUE" > "$1"; echo "connecting with $VALUE" >&2; exec "$2" "$3""#;
    let script = json!({ "tools": ["echo", "pid"] }).to_string();
    json!({
        "command": "sh",
        "args": ["-c", look, "sh", bench.path_text(&format!("{name}.seen")), fake_path(), script],
        "env": { "VALUE": value },
    })
}

/// Adds a server `curious` to a toolbox `box`.
fn with(bench: Bench, name: &str, value: Value) -> Bench {
    let entry = curious(&bench, name, value);
    bench.server("box", name, entry)
}

fn seen(bench: &Bench, name: &str) -> String {
    fs::read_to_string(bench.path(&format!("{name}.seen"))).expect("it was started")
}

/// A script that counts its runs and then does this.
fn counting(bench: &Bench, name: &str, then: &str) -> Value {
    bench.write(name, &format!("#!/bin/sh\necho run >> {}\n{then}\n", bench.path_text("runs")));
    fs::set_permissions(bench.path(name), Permissions::from_mode(0o700)).expect("ours");
    json!({ "command": [format!("./{name}"), "--for", "${WHOM:-us}"] })
}

fn runs(bench: &Bench) -> usize {
    fs::read_to_string(bench.path("runs")).map_or(0, |runs| runs.lines().count())
}

fn said(output: &Output) -> String {
    format!("{}{}", output.stdout, output.stderr)
}

#[test]
fn a_server_gets_values_of_files_and_commands_and_nobody_else_does() {
    const OF_FILE: &str = "s3cret-of-a-file";
    const OF_COMMAND: &str = "s3cret-of-a-command";

    let bench = Bench::new().set("audit", json!({ "file": "audit.jsonl", "arguments": "whole" }));
    let bench = bench.file("token", &format!("{OF_FILE}\n"));
    fs::set_permissions(bench.path("token"), Permissions::from_mode(0o600)).expect("ours");
    let get = counting(&bench, "get.sh", &format!("echo {OF_COMMAND}; echo said >&2"));
    let bench = with(bench, "one", json!({ "file": "token" }));
    let bench = with(with(bench, "two", get.clone()), "three", get);
    let mut secret = String::new();
    {
        let agent = bench.agent_with(["--log-level", "trace"]);
        agent.initialize();
        secret.push_str(&agent.open("box").text());
        for (name, value) in [("one", OF_FILE), ("two", OF_COMMAND)] {
            let tool = format!("box__{name}__echo");
            // The agent knows it, and says it again; that stays between the agent and the server.
            agent.call(&tool, json!({ "text": value })).ok();
        }
        assert_eq!(runs(&bench), 1, "two servers have it of one run");
        secret.push_str(&agent.stderr());
        assert!(agent.stderr().contains("connecting with ***"), "{}", agent.stderr());
    }
    for (name, value) in [("one", OF_FILE), ("two", OF_COMMAND), ("three", OF_COMMAND)] {
        assert_eq!(seen(&bench, name), value);
    }
    secret.push_str(&fs::read_to_string(bench.path("audit.jsonl")).expect("an audit"));
    for args in [
        &["check"][..],
        &["check", "--json"],
        &["list", "--json"],
        &["explain", "ann", "one", "echo"],
        &["call", "box", "two", "echo", r#"{"x": "s3cret-of-a-command"}"#],
        &["check", "--connect", "--json"],
    ] {
        secret.push_str(&said(&bench.run(args.iter().copied())));
    }
    for value in [OF_FILE, OF_COMMAND] {
        assert!(!secret.contains(value), "{secret}");
    }
}

#[test]
fn a_command_that_fails_or_takes_long_spoils_its_own_server() {
    let bench = Bench::new();
    let fails = counting(&bench, "fails.sh", "echo s3cret-of-a-failure; echo 'locked' >&2; exit 3");
    let slow = counting(&bench, "slow.sh", "sleep 600 & echo $! > slow.pid; wait");
    let bench = with(with(bench, "fails", fails), "slow", slow);
    let bench = with(bench, "missing", json!({ "file": "no-such-file" }));
    let bench = bench.server("box", "good", fake(json!({ "tools": ["echo"] })));
    let agent = bench.agent();
    agent.initialize();
    let opened = agent.open("box").text();
    for reason in [
        "fails.sh` ended with exit status: 3: locked",
        "slow.sh` took longer than 10 s",
        "there is no file `",
    ] {
        assert!(opened.contains(reason), "{reason}: {opened}");
        assert!(agent.stderr().contains(reason), "{reason}: {}", agent.stderr());
    }
    agent.call("box__good__echo", json!({})).ok();
    let slept = fs::read_to_string(bench.path("slow.pid")).expect("it was run");
    wait_gone(&[slept.trim().parse().expect("a pid")], DEADLINE);
    assert!(!format!("{opened}{}", agent.stderr()).contains("s3cret-of-a-failure"));
}

#[test]
fn a_command_is_run_by_whoever_needs_what_it_prints_and_by_nobody_else() {
    let bench = Bench::new();
    let get = counting(&bench, "get.sh", "echo a-value");
    let bench = with(bench, "one", get);
    let bench = bench.server("box", "other", fake(json!({ "tools": ["echo"] })));
    let did = |args: &[&str]| {
        let before = runs(&bench);
        let output = bench.run(args.iter().copied());
        assert_eq!(output.code, Some(0), "{args:?}: {}", said(&output));
        runs(&bench) - before
    };
    assert_eq!(did(&["check"]), 0);
    assert_eq!(did(&["explain", "ann", "one", "echo"]), 0);
    assert_eq!(did(&["call", "box", "other", "echo"]), 0);
    assert_eq!(did(&["list"]), 1, "it has never been listed");
    assert_eq!(seen(&bench, "one"), "a-value");
    assert_eq!(did(&["list"]), 0, "it is kept what it listed");
    assert_eq!(did(&["list", "--refresh"]), 1);
    assert_eq!(did(&["call", "box", "one", "echo"]), 1);
    assert_eq!(did(&["check", "--connect"]), 1);
    fs::remove_file(bench.path("get.sh")).expect("ours");
    let output = said(&bench.run(["check"]));
    assert!(output.contains("there is no program `"), "{output}");
}

/// Waits until this agent's log has a text so many times.
fn wait_for(agent: &Agent, text: &str, times: usize) {
    let end = Instant::now() + DEADLINE;
    while agent.stderr().matches(text).count() < times {
        assert!(Instant::now() < end, "{text}: {}", agent.stderr());
        std::thread::yield_now();
    }
}

#[test]
fn no_command_is_run_because_a_file_has_changed() {
    let bench = Bench::new();
    let first = counting(&bench, "get.sh", "cat value");
    bench.write("value", "first-value");
    let before = with(bench.clone(), "one", first.clone());
    let agent = before.agent();
    agent.initialize();
    agent.open("box").ok();
    assert_eq!((runs(&bench), seen(&bench, "one").as_str()), (1, "first-value"));
    // What an agent could do that may write files.
    bench.write("value", "other-value");
    let evil = json!({ "command": ["sh", "-c", "echo run >> runs; echo x"] });
    with(before.clone(), "two", evil).write_config();
    agent.wait_stderr(HELD);
    assert_eq!(runs(&bench), 1);
    // Whoever changes a description needs no value again.
    before.clone().toolbox("box", "Another description").write_config();
    agent.wait_stderr(READ);
    assert_eq!((runs(&bench), seen(&bench, "one").as_str()), (1, "first-value"));
    signal(agent.pid(), Signal::HUP);
    wait_for(&agent, READ, 2);
    assert_eq!(runs(&bench), 2);
    agent.call("box__one__pid", json!({})).ok();
    assert_eq!(seen(&bench, "one"), "other-value");
}

#[test]
fn over_http_a_token_of_a_file_lets_its_agent_in() {
    const TOKEN: &str = "a-token-for-claude-of-a-file";

    let lost = json!({ "agent": "codex", "token": { "command": ["false"] } });
    let entry = json!({ "agent": "claude", "token": { "file": "token" } });
    let bench = Bench::new()
        .file("token", &format!("{TOKEN}\n"))
        .server("box", "fake", fake(json!({ "tools": ["echo"] })))
        .set("toolMode", json!("proxy"))
        .set("auth", json!({ "tokens": [entry, lost] }));
    let (program, http) = bench.http_with(["--log-level", "trace"]);
    let ask = |token: &str| {
        let bearer = format!("Bearer {token}");
        http.modern("tools/list", json!({}), &[("Authorization", &bearer)]).status
    };
    assert_eq!([TOKEN, "a-token-for-nobody-at-all"].map(ask), [200, 401]);
    let log = program.0.stderr();
    assert!(!log.contains(TOKEN), "{log}");
    assert!(log.contains("`false` ended with exit status: 1"), "{log}");
}

#[test]
fn the_keyring_is_asked_by_the_program_of_the_system() {
    let bench = Bench::new();
    let bench = with(bench, "one", json!({ "keyring": "github/me" }));
    let missing = said(&bench.run(["check"]));
    let bin = bench.path("bin");
    fs::create_dir(&bin).expect("a folder");
    bench.write("bin/secret-tool", "#!/bin/sh\nprintf %s \"of $*\"\n");
    fs::set_permissions(bin.join("secret-tool"), Permissions::from_mode(0o755)).expect("ours");
    let path = format!("{}:/bin:/usr/bin", bin.display());
    let bench = bench.env("PATH", &path);
    if missing.contains("`secret-tool` was not found on PATH") {
        assert!(missing.contains("`github/me` in the keyring cannot be read"), "{missing}");
    }
    let output = bench.run(["call", "box", "one", "echo"]);
    assert_eq!(output.code, Some(0), "{}", said(&output));
    assert_eq!(seen(&bench, "one"), "of lookup service github username me");
}
