//! Configuration values from files, commands and the keyring.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use pretty_assertions::assert_eq;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::process::{Output, fake_path, signal, wait_until_exited};
use crate::support::{DEADLINE, TestEnvironment, fake};

const HELD: &str = "apply it with `mcp-workbench reload`, SIGHUP or a restart";
const READ: &str = "configuration reloaded: ";

/// A server that writes `$VALUE` to the file `<name>.seen`, prints it to stderr, and serves.
fn curious(bench: &TestEnvironment, name: &str, value: Value) -> Value {
    let look = r#"printf %s "$VALUE" > "$1"; echo "connecting with $VALUE" >&2; exec "$2" "$3""#;
    let script = json!({ "tools": ["echo", "pid"] }).to_string();
    json!({
        "command": "sh",
        "args": ["-c", look, "sh", bench.path_text(&format!("{name}.seen")), fake_path(), script],
        "env": { "VALUE": value },
    })
}

fn with(bench: TestEnvironment, name: &str, value: Value) -> TestEnvironment {
    let entry = curious(&bench, name, value);
    bench.server("box", name, entry)
}

fn seen(bench: &TestEnvironment, name: &str) -> String {
    fs::read_to_string(bench.path(&format!("{name}.seen"))).expect("a file that the server wrote")
}

/// A script that counts its runs in the file `runs`, then runs `then`.
fn counting(bench: &TestEnvironment, name: &str, then: &str) -> Value {
    bench.write(name, &format!("#!/bin/sh\necho run >> {}\n{then}\n", bench.path_text("runs")));
    fs::set_permissions(bench.path(name), Permissions::from_mode(0o700)).expect("permissions");
    json!({ "command": [format!("./{name}"), "--for", "${WHOM:-us}"] })
}

fn runs(bench: &TestEnvironment) -> usize {
    fs::read_to_string(bench.path("runs")).map_or(0, |runs| runs.lines().count())
}

fn said(output: &Output) -> String {
    format!("{}{}", output.stdout, output.stderr)
}

#[test]
fn values_reach_only_their_server() {
    const OF_FILE: &str = "s3cret-of-a-file";
    const OF_COMMAND: &str = "s3cret-of-a-command";

    let bench =
        TestEnvironment::new().set("audit", json!({ "file": "audit.jsonl", "arguments": "whole" }));
    let bench = bench.file("token", &format!("{OF_FILE}\n"));
    fs::set_permissions(bench.path("token"), Permissions::from_mode(0o600)).expect("permissions");
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
            // The agent sends the value itself. Arguments aren't redacted on the way to the server.
            agent.call(&tool, json!({ "text": value })).ok();
        }
        assert_eq!(runs(&bench), 1, "the command must run once for both servers");
        secret.push_str(&agent.wait_stderr("connecting with ***"));
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
fn failing_value_command_affects_only_its_server() {
    let bench = TestEnvironment::new();
    let fails = counting(&bench, "fails.sh", "echo s3cret-of-a-failure; echo 'locked' >&2; exit 3");
    let slow = counting(&bench, "slow.sh", "sleep 600 & echo $! > slow.pid; wait");
    let bench = with(with(bench, "fails", fails), "slow", slow);
    let bench = with(bench, "missing", json!({ "file": "no-such-file" }));
    let bench = bench.server("box", "good", fake(json!({ "tools": ["echo"] })));
    let agent = bench.agent();
    agent.initialize();
    let opened = agent.open("box").text();
    for reason in [
        "fails.sh` failed with exit code 3: locked",
        "slow.sh` timed out after 10 s",
        "no-such-file` does not exist",
    ] {
        assert!(opened.contains(reason), "{reason}: {opened}");
        agent.wait_stderr(reason);
    }
    agent.call("box__good__echo", json!({})).ok();
    let slept = fs::read_to_string(bench.path("slow.pid")).expect("a file that the command wrote");
    wait_until_exited(&[slept.trim().parse().expect("a pid")], DEADLINE);
    assert!(!format!("{opened}{}", agent.stderr()).contains("s3cret-of-a-failure"));
}

#[test]
fn value_commands_run_only_when_needed() {
    let bench = TestEnvironment::new();
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
    assert_eq!(did(&["list"]), 1, "the first `list` starts the server");
    assert_eq!(seen(&bench, "one"), "a-value");
    assert_eq!(did(&["list"]), 0, "`list` uses the cached tool list");
    assert_eq!(did(&["list", "--refresh"]), 1);
    assert_eq!(did(&["call", "box", "one", "echo"]), 1);
    assert_eq!(did(&["check", "--connect"]), 1);
    fs::remove_file(bench.path("get.sh")).expect("a file");
    let output = said(&bench.run(["check"]));
    assert!(output.contains("` not found"), "{output}");
}

#[test]
fn file_changes_never_run_value_commands() {
    let bench = TestEnvironment::new();
    let first = counting(&bench, "get.sh", "cat value");
    bench.write("value", "first-value");
    let before = with(bench.clone(), "one", first.clone());
    let agent = before.agent();
    agent.initialize();
    agent.open("box").ok();
    assert_eq!((runs(&bench), seen(&bench, "one").as_str()), (1, "first-value"));
    // Changes that an agent with a file tool could make.
    bench.write("value", "other-value");
    let evil = json!({ "command": ["sh", "-c", "echo run >> runs; echo x"] });
    with(before.clone(), "two", evil).write_config();
    agent.wait_stderr(HELD);
    assert_eq!(runs(&bench), 1);
    // A changed description doesn't fetch values again.
    before.clone().toolbox("box", "Another description").write_config();
    agent.wait_stderr(READ);
    assert_eq!((runs(&bench), seen(&bench, "one").as_str()), (1, "first-value"));
    signal(agent.pid(), Signal::HUP);
    agent.wait_stderr_times(READ, 2);
    assert_eq!(runs(&bench), 2);
    agent.call("box__one__pid", json!({})).ok();
    assert_eq!(seen(&bench, "one"), "other-value");
}

#[test]
fn token_from_a_file_authenticates_its_agent() {
    const TOKEN: &str = "a-token-for-claude-of-a-file";

    let lost = json!({ "agent": "codex", "token": { "command": ["false"] } });
    let entry = json!({ "agent": "claude", "token": { "file": "token" } });
    let bench = TestEnvironment::new()
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
    let log = program.0.wait_stderr("`false` failed with exit code 1");
    assert!(!log.contains(TOKEN), "{log}");
}

#[test]
fn keyring_values_come_from_secret_tool() {
    let bench = TestEnvironment::new();
    let bench = with(bench, "one", json!({ "keyring": "github/me" }));
    let missing = said(&bench.run(["check"]));
    let bin = bench.path("bin");
    fs::create_dir(&bin).expect("a folder");
    bench.write("bin/secret-tool", "#!/bin/sh\nprintf %s \"of $*\"\n");
    fs::set_permissions(bin.join("secret-tool"), Permissions::from_mode(0o755))
        .expect("permissions");
    let path = format!("{}:/bin:/usr/bin", bin.display());
    let bench = bench.env("PATH", &path);
    if missing.contains("`secret-tool` not found on PATH") {
        assert!(missing.contains("failed to read `github/me` in the keyring"), "{missing}");
    }
    let output = bench.run(["call", "box", "one", "echo"]);
    assert_eq!(output.code, Some(0), "{}", said(&output));
    assert_eq!(seen(&bench, "one"), "of lookup service github username me");
}
