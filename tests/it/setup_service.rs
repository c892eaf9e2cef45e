//! `setup --service`: one workbench for all clients, started by a fake `systemctl`.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;

use pretty_assertions::assert_eq;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::setup::{CLAUDE, CODEX, CONFIG, CURSOR, agent, clients, home, mode, put, text};
use crate::support::http::{HttpClient, request};
use crate::support::process::{signal, wait_until_exited};
use crate::support::{Agent, DEADLINE, TestEnvironment, command};

const SERVICE: &str = "home/.config/mcp-workbench/config.service.json";
const UNIT: &str = "home/.config/systemd/user/mcp-workbench.service";
const DESKTOP: &str = "home/.config/Claude/claude_desktop_config.json";

/// A fake `systemctl` that runs the `ExecStart` of the unit, with only `HOME` and the variables of
/// the unit, and stops it by its pid.
pub(crate) const SYSTEMCTL: &str = r#"#!/bin/sh
echo "$@" >> "$HOME/../said"
unit="$HOME/.config/systemd/user/mcp-workbench.service"
pid="$HOME/../pid"
case "$2" in
  enable | start)
    kill -0 "$(cat "$pid" 2>/dev/null)" 2>/dev/null && exit 0
    variables="$(sed -n 's/^Environment=//p' "$unit" | tr '\n' ' ')"
    eval "env -i HOME=\"$HOME\" $variables setsid $(sed -n 's/^ExecStart=//p' "$unit") </dev/null >/dev/null 2>&1 &"
    echo $! > "$pid"
    until [ "$(cut -d' ' -f5 /proc/$!/stat)" = $! ]; do :; done
    ;;
  disable) kill "$(cat "$pid")" ;;
esac
"#;

/// Several clients, one of them without HTTP support, and a `systemctl` on the `PATH`.
fn bench(systemctl: &str) -> Running {
    let bench = clients();
    put(&bench, DESKTOP, "{}");
    Running(with_systemctl(bench, systemctl))
}

#[expect(clippy::disallowed_methods, reason = "the test looks up programs on its own PATH")]
pub(crate) fn with_systemctl(bench: TestEnvironment, systemctl: &str) -> TestEnvironment {
    fs::create_dir(bench.path("bin")).unwrap();
    bench.write("bin/systemctl", systemctl);
    fs::set_permissions(bench.path("bin/systemctl"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", bench.path_text("bin"));
    bench.env("PATH", &path)
}

pub(crate) struct Running(pub(crate) TestEnvironment);

impl Drop for Running {
    fn drop(&mut self) {
        let pid = fs::read_to_string(self.0.path("pid")).ok();
        let pid = pid.and_then(|pid| pid.trim().parse().ok());
        self.0.services().into_iter().chain(pid).for_each(|pid| signal(pid, Signal::KILL));
    }
}

fn of_json(bench: &TestEnvironment, file: &str) -> Value {
    serde_json::from_str(&text(bench, file)).unwrap()
}

/// Sends `initialize` with the URL and token of a client's entry. Returns the status and the body.
fn asks(entry: &Value) -> String {
    let url = entry["url"].as_str().unwrap();
    let address: SocketAddr = url["http://".len()..].trim_end_matches("/mcp").parse().unwrap();
    let token = entry["headers"]["Authorization"].as_str().unwrap();
    let params = json!({
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": { "name": "test-agent", "version": "1.0.0" },
    });
    let headers = [("Authorization", token)];
    let answer = HttpClient(address).post(&headers, &request(1, "initialize", params));
    let status = answer.status;
    format!("{status} {}", answer.text())
}

/// Runs `systemd-analyze verify` on the unit if it is installed.
fn verified(bench: &TestEnvironment) {
    let unit = bench.path_text(UNIT);
    let mut analyze = command("systemd-analyze");
    analyze.args(["--user", "verify", "--man=no", &unit]).env("HOME", bench.path("home"));
    analyze.env("XDG_RUNTIME_DIR", bench.dir());
    if let Ok(said) = analyze.output() {
        let said = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(!said.contains("mcp-workbench.service:"), "{said}");
    }
}

fn initialized(agent: Agent) -> Agent {
    agent.begin(false, json!({}))
}

#[test]
fn clients_share_a_service_and_are_restored() {
    let running = bench(SYSTEMCTL);
    let bench = &running.0;
    let before = home(bench);
    let shown = bench.run_bare(["setup", "--service", "--dry-run"]);
    assert_eq!(shown.code, Some(0), "{shown}");
    assert!(shown.stdout.contains("run by systemd as `mcp-workbench.service`"), "{shown}");
    assert_eq!(home(bench), before);

    let output = bench.run_bare(["setup", "--service", "--yes"]);
    assert_eq!(output.code, Some(0), "{output}");
    for (file, expected) in [(SERVICE, 0o600), (CLAUDE, 0o600), (CURSOR, 0o600), (UNIT, 0o600)] {
        assert_eq!(mode(bench, file), expected, "{file}");
    }
    // Each client gets the URL and its own token, and a client without HTTP support the bridge.
    let claude = of_json(bench, CLAUDE)["mcpServers"]["workbench"].clone();
    assert_eq!(claude["type"], "http");
    assert!(asks(&claude).starts_with("200 "), "{}", asks(&claude));
    let codex = text(bench, CODEX);
    assert!(codex.contains("http_headers = { Authorization = \"Bearer mcpw_"), "{codex}");
    let service = of_json(bench, SERVICE);
    let tokens = service["tokens"].as_object().unwrap();
    assert!(tokens.values().all(|token| !text(bench, CONFIG).contains(token.as_str().unwrap())));
    let mut stranger = claude.clone();
    stranger["headers"]["Authorization"] = "Bearer mcpw_0123456789abcdef".into();
    assert!(asks(&stranger).starts_with("401 "), "{}", asks(&stranger));
    let desktop = of_json(bench, DESKTOP)["mcpServers"]["workbench"].clone();
    assert_eq!(desktop["args"][0], "connect");
    let window = initialized(agent(bench, &desktop));
    assert!(!window.tools().is_empty());
    running.0.service();
    window.close_stdin();
    window.wait_end();

    verified(bench);
    let status = bench.run_bare(["setup", "status"]);
    assert!(status.stdout.contains("running (systemd: "), "{status}");
    let said = text(bench, "said");
    assert!(
        said.contains("--user daemon-reload\n--user enable --now mcp-workbench.service"),
        "{said}"
    );
    let nothing = bench.run_bare(["setup", "--yes"]);
    assert!(nothing.stdout.contains("nothing to do"), "{nothing}");

    // The bridge restarts the service.
    let pid = running.0.service();
    signal(pid, Signal::TERM);
    wait_until_exited(&[pid], DEADLINE);
    let window = initialized(agent(bench, &desktop));
    assert!(!window.tools().is_empty());
    assert!(text(bench, "said").contains("--user start mcp-workbench.service"));
    window.close_stdin();
    window.wait_end();
    let pid = running.0.service();

    let undone = bench.run_bare(["setup", "undo"]);
    assert_eq!(undone.code, Some(0), "{undone}");
    assert_eq!(home(bench), before);
    wait_until_exited(&[pid], DEADLINE);
    let said = text(bench, "said");
    assert!(
        said.contains("--user disable --now mcp-workbench.service\n--user daemon-reload"),
        "{said}"
    );
    assert!(!bench.run_bare(["setup", "status"]).stdout.contains("service:"));
}

#[test]
fn clients_start_the_service_without_a_service_manager() {
    let running = bench("#!/bin/sh\nexit 1\n");
    let bench = &running.0;
    let before = home(bench);
    let output = bench.run_bare(["setup", "--service", "--yes"]);
    assert_eq!(output.code, Some(0), "{output}");
    assert!(output.stdout.contains("This system has no service manager"), "{output}");
    assert!(!bench.path(UNIT).exists());
    assert_eq!(running.0.services(), [0_u32; 0]);
    let entry = of_json(bench, CLAUDE)["mcpServers"]["workbench"].clone();
    let args: Vec<&str> =
        entry["args"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(args[..3], ["connect", "--agent", "claude-code"]);
    let window = initialized(agent(bench, &entry));
    assert!(!window.tools().is_empty());
    window.close_stdin();
    window.wait_end();
    let pid = running.0.service();
    assert_eq!(bench.run_bare(["setup", "undo"]).code, Some(0));
    wait_until_exited(&[pid], DEADLINE);
    assert_eq!(home(bench), before);
}

#[test]
fn failed_service_start_leaves_clients_unchanged() {
    let running = bench("#!/bin/sh\n[ \"$2\" = enable ] && echo 'no way' >&2 && exit 1\nexit 0\n");
    let bench = &running.0;
    let before = home(bench);
    let output = bench.run_bare(["setup", "--service", "--yes"]);
    assert_eq!(output.code, Some(1), "{output}");
    assert!(output.stderr.contains("the background service failed to start"), "{output}");
    assert!(output.stderr.contains("no way"), "{output}");
    let after = home(bench);
    assert!(before.iter().all(|(file, text)| after.get(file) == Some(text)));
    assert_eq!(bench.run_bare(["setup", "undo"]).code, Some(0));
    assert_eq!(home(bench), before);
}
