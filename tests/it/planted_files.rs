//! Files that an attacker replaced: pipes, links, and records of other processes.

use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Stdio;

use pretty_assertions::assert_eq;
use rustix::fs::{CWD, Mode, mkfifoat};
use rustix::process::geteuid;
use serde_json::{Value, json};

use crate::setup::CLAUDE;
use crate::support::process::{Output, alive, run_to_exit};
use crate::support::tls::Ca;
use crate::support::{TestEnvironment, command, fake};

const STATE: &str = "home/.local/state/mcp-workbench";
const RUNNING: &str = "home/.cache/mcp-workbench/running";

fn bench() -> TestEnvironment {
    TestEnvironment::new().server("box", "fake", fake(json!({ "tools": ["echo"] })))
}

/// Puts a FIFO at a path. Opening it for reading or writing waits forever.
fn plant_pipe(bench: &TestEnvironment, path: &str) {
    let path = bench.path(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let _ = fs::remove_file(&path);
    mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR).unwrap();
}

/// Checks that a command fails, and names the FIFO.
#[track_caller]
fn reports_pipe(output: &Output) {
    assert!(output.code.is_some_and(|code| code != 0), "{output}");
    assert!(output.stderr.contains(" is a FIFO, not a regular file"), "{output}");
}

#[test]
fn pipe_in_place_of_a_login_fails_commands_and_keeps_no_one_waiting() {
    let url = json!({ "url": "http://127.0.0.1:9/mcp" });
    let bench = bench().server("box", "remote", url);
    plant_pipe(&bench, &format!("{STATE}/credentials/0123.json"));
    for folder in [STATE, &format!("{STATE}/credentials")] {
        fs::set_permissions(bench.path(folder), Permissions::from_mode(0o700)).unwrap();
    }
    reports_pipe(&bench.run(["auth", "status"]));
    let agent = bench.agent();
    agent.initialize();
    assert!(!agent.call("box__fake__echo", json!({})).is_tool_error());
}

#[test]
fn pipe_in_place_of_the_lock_is_an_invalid_lock() {
    let bench = bench();
    plant_pipe(&bench, "workbench.lock");
    for command in [&["check"][..], &["serve"], &["list"], &["lock", "--check"]] {
        reports_pipe(&bench.run(command.iter().copied()));
    }
}

#[test]
fn pipe_in_place_of_a_configuration_is_reported() {
    let bench = bench();
    plant_pipe(&bench, "pipe.json");
    for command in
        [&["check"][..], &["serve"], &["reload"], &["remove", "fake"], &["catalog", "init", "new"]]
    {
        let args = command.iter().copied().chain(["--config", "pipe.json"]);
        reports_pipe(&bench.run(args));
    }
    for command in [
        &["import", "pipe.json"][..],
        &["tailor", "--full", "pipe.json", "--allow", "box/fake/echo"],
    ] {
        let output = bench.run(command.iter().copied());
        assert!(output.code != Some(0), "{output}");
    }
    plant_pipe(&bench, "workbench.secrets.env");
    reports_pipe(&bench.run(["check"]));
}

#[test]
fn pipe_in_a_catalog_folder_fails_alone() {
    let bench = bench();
    let tool = "name: echo\ndescription: x\nserver: fake\ninputSchema: {type: object}\n";
    fs::create_dir_all(bench.path("catalog/talk")).unwrap();
    bench.write("catalog/_config.yaml", "mcpServers: {}\n");
    bench.write("catalog/talk/echo.yaml", tool);
    plant_pipe(&bench, "catalog/talk/pipe.yaml");
    let output = bench.run(["check", "--config", "catalog"]);
    assert!(output.stderr.contains("pipe.yaml"), "{output}");
    plant_pipe(&bench, "catalog/_config.yaml");
    let output = bench.run(["check", "--config", "catalog"]);
    assert!(output.code != Some(0), "{output}");
}

#[test]
fn pipe_in_place_of_a_client_file_is_skipped_by_setup() {
    let bench = bench();
    plant_pipe(&bench, CLAUDE);
    let output = bench.run_bare(["setup", "--dry-run", "--yes"]);
    assert!(output.code.is_some(), "{output}");
    let all = format!("{}{}", output.stdout, output.stderr);
    assert!(all.contains("is a FIFO, not a regular file"), "{output}");
    let status = bench.run_bare(["setup", "status"]);
    assert!(status.code.is_some(), "{status}");
    assert!(bench.run_bare(["import", "--dry-run"]).code.is_some_and(|code| code != 0));
    plant_pipe(&bench, &format!("{STATE}/setup/journal.json"));
    reports_pipe(&bench.run_bare(["setup", "undo"]));
}

#[test]
fn pipe_or_link_in_place_of_the_audit_log_stops_the_start() {
    let audit = || bench().set("audit", json!({ "file": "audit.jsonl" }));
    for file in ["audit.jsonl", "audit.jsonl.key"] {
        let bench = audit();
        plant_pipe(&bench, file);
        reports_pipe(&bench.run(["serve"]));
    }
    let bench = audit();
    plant_pipe(&bench, "audit.jsonl");
    reports_pipe(&bench.run(["stats"]));
    fs::remove_file(bench.path("audit.jsonl")).unwrap();
    bench.write("victim", "precious");
    symlink(bench.path("victim"), bench.path("audit.jsonl")).unwrap();
    let output = bench.run(["serve"]);
    assert!(output.stderr.contains(" is a symbolic link, not a regular file"), "{output}");
    assert_eq!(fs::read_to_string(bench.path("victim")).unwrap(), "precious");
    // The calls of an ended process are not taken from a pipe.
    fs::remove_file(bench.path("audit.jsonl")).unwrap();
    plant_pipe(&bench, "audit.jsonl.dead-1.open");
    let agent = bench.agent();
    agent.initialize();
    assert!(!agent.call("box__fake__echo", json!({})).is_tool_error());
    agent.close_stdin();
    agent.wait_end();
    assert!(bench.path("audit.jsonl.dead-1.open").exists());
    assert_eq!(bench.run(["stats"]).code, Some(0));
}

#[test]
fn log_file_is_private_and_waits_for_no_reader() {
    let bench = bench();
    let checked = bench.run(["check", "--log-file", "log"]);
    assert_eq!(checked.code, Some(0), "{checked}");
    assert_eq!(bench.path("log").metadata().unwrap().permissions().mode() & 0o777, 0o600);
    plant_pipe(&bench, "pipe");
    let output = bench.run(["check", "--log-file", "pipe"]);
    assert!(output.stderr.contains("it is a FIFO that no process reads"), "{output}");
    assert_eq!(bench.run(["check", "--log-file", "/dev/null"]).code, Some(0));
    let stderr = bench.run(["check", "--log-file", "/dev/stderr", "--log-level", "debug"]);
    assert_eq!(stderr.code, Some(0), "{stderr}");
}

#[test]
fn pipe_in_place_of_a_key_or_secret_is_reported() {
    let good = Ca::new("Test CA").issue("good");
    for file in ["tls.key", "tls.crt"] {
        let bench = bench().with_tls(&good, json!({}));
        plant_pipe(&bench, file);
        reports_pipe(&bench.run(["check"]));
        reports_pipe(&bench.run(["serve", "--http", "127.0.0.1:0"]));
    }
    let mut server = fake(json!({ "tools": ["echo"] }));
    server["env"] = json!({ "TOKEN": { "file": "token" } });
    let bench = TestEnvironment::new().server("box", "fake", server);
    plant_pipe(&bench, "token");
    let output = bench.run(["check"]);
    assert!(format!("{output}").contains("is a FIFO, not a regular file"), "{output}");
}

#[test]
fn configuration_can_come_from_a_descriptor() {
    let bench = bench();
    bench.write_config();
    let text = fs::read_to_string(bench.config_path()).unwrap();
    let checked = run_to_exit(bench.command(&["check", "--config", "/dev/stdin"]), &text);
    assert_eq!(checked.code, Some(0), "{checked}");
    let script = r#"exec "$0" list --config <(cat workbench.json)"#;
    let mut shell = bench.command(&[]);
    let program = shell.get_program().to_owned();
    let mut bash = command("bash");
    bash.args(["-c", script]).arg(program).current_dir(bench.dir()).env("HOME", bench.path("home"));
    shell.stdin(Stdio::null());
    let listed = run_to_exit(bash, "");
    assert!(listed.code == Some(0) && listed.stdout.contains("box"), "{listed}");
}

/// A record of this process, or of `pid`, which this process keeps locked as a workbench would.
fn plant_record(bench: &TestEnvironment, name: &str, record: &Value) -> File {
    let folder = bench.path(RUNNING);
    fs::create_dir_all(&folder).unwrap();
    fs::set_permissions(&folder, Permissions::from_mode(0o700)).unwrap();
    let mut file = File::create(folder.join(format!("workbench.{name}.open"))).unwrap();
    file.write_all(record.to_string().as_bytes()).unwrap();
    file.lock().unwrap();
    file
}

fn record(pid: u32, config: &Path) -> Value {
    json!({
        "pid": pid, "version": "0", "since": 0, "config": config, "at": "stdio", "mode": "dynamic",
        "agents": [], "servers": [],
    })
}

#[test]
fn reload_signals_no_process_that_a_planted_record_names() {
    let bench = bench();
    bench.write_config();
    let mut sleeper = command("sleep");
    let mut victim = sleeper.arg("1000").spawn().unwrap();
    let held = plant_record(&bench, "1-planted", &record(victim.id(), &bench.config_path()));
    let output = bench.run(["reload"]);
    assert_eq!(output.code, Some(1), "{output}");
    assert!(output.stderr.contains("is not known to be a workbench"), "{output}");
    // SIGHUP would have ended it before `reload` ended.
    assert!(alive(victim.id()) && victim.try_wait().unwrap().is_none());
    // A real workbench gets its signal nevertheless.
    let agent = bench.agent();
    agent.initialize();
    let output = bench.run(["reload"]);
    assert_eq!(output.code, Some(1), "{output}");
    agent.wait_stderr("the configuration has not changed");
    // Records in a folder of other users count for nothing.
    let folder = bench.path(RUNNING);
    fs::set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
    for command in ["reload", "ps", "logs"] {
        let output = bench.run([command]);
        assert_eq!(output.code, Some(1), "{output}");
        assert!(output.stderr.contains("other users can write to"), "{output}");
    }
    if geteuid().is_root() {
        fs::set_permissions(&folder, Permissions::from_mode(0o700)).unwrap();
        chown(&folder, Some(12_345), None).unwrap();
        let output = bench.run(["reload"]);
        assert!(output.stderr.contains("belongs to user 12345"), "{output}");
        chown(&folder, Some(0), None).unwrap();
    }
    assert!(victim.try_wait().unwrap().is_none());
    victim.kill().unwrap();
    victim.wait().unwrap();
    drop(held);
}

#[test]
fn impossible_times_in_files_are_shown() {
    let bench = bench();
    bench.write_config();
    let own = std::process::id();
    let held = [u64::MAX, u64::MAX >> 1, 1 << 53].map(|since| {
        let mut record = record(own, &bench.config_path());
        record["since"] = json!(since);
        record["agents"] = json!([{ "name": "ann", "client": null, "since": since }]);
        record["servers"] = json!([
            { "server": "box/fake", "state": "running", "pid": u32::MAX, "since": since, "reason": null },
        ]);
        let line = json!({
            "ms": since, "level": "WARN", "server": null, "is_stderr": false, "text": "late",
        });
        let name = format!("{own}-{since}");
        let held = plant_record(&bench, &name, &record);
        bench.write(&format!("{RUNNING}/workbench.{name}.log"), &format!("{line}\n"));
        held
    });
    for args in [&["ps"][..], &["ps", "--json"], &["logs"], &["logs", "--json"]] {
        let output = bench.run(args.iter().copied());
        assert_eq!(output.code, Some(0), "{output}");
    }
    assert_eq!(bench.run(["logs"]).stdout.matches("late").count(), 3);
    drop(held);
    let bench = bench.set("audit", json!({ "file": "audit.jsonl" }));
    let lines: String = ["+262142-12-31T23:59:60Z", "9999-99-99T00:00:00Z", "-1", ""]
        .map(|time| format!("{{\"time\":\"{time}\",\"kind\":\"call\",\"ms\":1e308}}\n"))
        .concat();
    bench.write("audit.jsonl", &lines);
    for since in ["1d", "18446744073709551615w", "+262142-12-31", "1970-01-01"] {
        let output = bench.run(["stats", "--since", since]);
        assert!(output.code.is_some_and(|code| code < 3), "{output}");
    }
}
