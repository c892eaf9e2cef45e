//! `setup` repeated, with servers that require a sign-in, and with an audit log.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::setup::{CODEX, CONFIG, CURSOR, home, put, text};
use crate::setup_service::{Running, SYSTEMCTL, with_systemctl};
use crate::sign_in::authority::Authority;
use crate::support::process::Output;
use crate::support::{Agent, TestEnvironment, fake};

const GEMINI: &str = "home/.gemini/settings.json";

fn servers(servers: Value) -> String {
    json!({ "mcpServers": servers }).to_string()
}

/// A server with options after its script.
fn timed(options: &[&str]) -> Value {
    let mut entry = fake(json!({ "tools": ["now", "convert"] }));
    let args = entry["args"].as_array_mut().unwrap();
    args.extend(options.iter().map(|option| Value::from(*option)));
    entry
}

fn setup(bench: &TestEnvironment) -> Output {
    let output = bench.run_bare(["setup", "--yes"]);
    assert_eq!(output.code, Some(0), "{output}");
    output
}

#[test]
fn second_setup_plans_nothing() {
    let limited = |options: &[&str], tools: &[&str]| {
        let mut entry = timed(options);
        entry["includeTools"] = json!(tools);
        entry
    };
    for (cursor, gemini, moves) in [
        (timed(&["--tz=UTC"]), timed(&["--tz=GMT"]), false),
        (timed(&["--tz=Europe/Berlin"]), timed(&["--tz=Asia/Tokyo"]), false),
        (timed(&["--tz", "Europe/Berlin"]), timed(&["--tz", "Asia/Tokyo"]), false),
        (timed(&["--tz", "UTC"]), limited(&["--tz", "GMT"], &["now"]), false),
        (timed(&["-v"]), timed(&[]), false),
        (timed(&["/srv/a"]), timed(&["/srv/b"]), true),
        (timed(&["--tz=UTC"]), timed(&["--tz=UTC"]), true),
    ] {
        let bench = TestEnvironment::new();
        put(&bench, CURSOR, &servers(json!({ "time": cursor })));
        put(&bench, GEMINI, &servers(json!({ "time": gemini })));
        let first = setup(&bench);
        let stays = "`time` (Gemini CLI): differs from `time` only in its options";
        assert_eq!(first.stdout.contains(stays), !moves, "{gemini} {first}");
        let after = home(&bench);
        let second = setup(&bench);
        assert!(second.stdout.contains("nothing to do"), "{gemini} {second}");
        assert_eq!(second.stdout.contains(stays), !moves, "{gemini} {second}");
        assert_eq!(home(&bench), after);
    }
}

#[test]
fn tools_of_known_servers_count_before_setup() {
    let bench = TestEnvironment::new();
    let entry = fake(json!({ "tools": ["read_file", "write_file", "list_directory"] }));
    put(&bench, CURSOR, &servers(json!({ "files": entry })));
    let before = |client: &str, output: &Output| {
        let report: Value = serde_json::from_str(&output.stdout).unwrap();
        let clients = report["clients"].as_array().unwrap().iter();
        let client = clients.into_iter().find(|own| own["id"] == client).unwrap().clone();
        client["size_before"].clone()
    };
    let first = bench.run_bare(["setup", "--yes", "--json"]);
    put(&bench, GEMINI, &servers(json!({ "mine": entry })));
    let second = bench.run_bare(["setup", "--yes", "--json"]);
    assert_eq!(before("gemini", &second), before("cursor", &first), "{second}");
    assert_ne!(before("gemini", &second)["bytes"], 0, "{second}");
}

/// Runs `auth login` for the configuration of `setup`.
fn sign_in(authority: &Authority, bench: &TestEnvironment) {
    let output = authority.sign_in_with(bench, &["hub", "--config", &bench.path_text(CONFIG)]);
    assert_eq!(output.code, Some(0), "{output}");
}

#[test]
fn server_that_requires_a_sign_in_stays_until_the_workbench_has_a_login() {
    let authority = Authority::start();
    let bench = TestEnvironment::new();
    let files = fake(json!({ "tools": ["read_file"] }));
    let hub = json!({ "url": authority.mcp });
    put(&bench, CURSOR, &servers(json!({ "hub": hub, "files": files })));
    let output = setup(&bench);
    let add = format!("`mcp-workbench add --user hub {}`", authority.mcp);
    assert!(output.stdout.contains(&add), "{output}");
    assert!(output.stdout.contains("`mcp-workbench auth login hub`"), "{output}");
    assert!(text(&bench, CURSOR).contains(&authority.mcp));
    assert!(!text(&bench, CONFIG).contains(&authority.mcp));

    // The configuration has the server, but no login yet.
    let added = bench.run_bare(["add", "--user", "hub", &authority.mcp]);
    assert_eq!(added.code, Some(0), "{added}");
    let waits = setup(&bench);
    assert!(waits.stdout.contains("`hub` (Cursor): requires a sign-in"), "{waits}");
    assert!(text(&bench, CURSOR).contains(&authority.mcp));
    sign_in(&authority, &bench);
    let moved = setup(&bench);
    assert!(!text(&bench, CURSOR).contains(&authority.mcp), "{moved}");
    assert_eq!(bench.run_bare(["setup", "undo"]).code, Some(0));
}

/// The command and environment of the unit, without any other variable but those of systemd.
fn service_environment(bench: &TestEnvironment) -> Vec<(String, String)> {
    let unit = text(bench, "home/.config/systemd/user/mcp-workbench.service");
    let lines =
        unit.lines().filter_map(|line| line.strip_prefix("Environment=\"")?.strip_suffix('"'));
    let pairs = lines.filter_map(|line| line.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[test]
fn service_uses_an_earlier_login() {
    let authority = Authority::start();
    let bench = TestEnvironment::new();
    // A state folder of the shell, which a service manager doesn't know.
    let state = bench.path_text("state");
    let running = Running(with_systemctl(bench.env("XDG_STATE_HOME", &state), SYSTEMCTL));
    let bench = &running.0;
    let hub = json!({ "description": "Hub", "mcpServers": { "hub": { "url": authority.mcp } } });
    let config = json!({ "toolMode": "proxy", "toolboxes": { "dev": hub } });
    put(bench, CONFIG, &config.to_string());
    put(bench, "home/.config/Claude/claude_desktop_config.json", "{}");
    sign_in(&authority, bench);
    let output = bench.run_bare(["setup", "--service", "--yes"]);
    assert_eq!(output.code, Some(0), "{output}");
    let environment = service_environment(bench);
    assert!(environment.contains(&("XDG_STATE_HOME".to_owned(), state)), "{environment:?}");
    let unit = text(bench, "home/.config/systemd/user/mcp-workbench.service");
    assert!(unit.contains("\"--shared-logins\""), "{unit}");

    let mut command = bench.command(&["connect", "--agent", "claude-desktop", "--config"]);
    command.arg(bench.path(CONFIG));
    let agent = Agent::start(command).begin(false, json!({}));
    let called = format!("{:?}", agent.use_tool(["dev", "hub", "read"], json!({})));
    assert!(called.contains("read by ann"), "{called}");
    agent.close_stdin();
    agent.wait_end();
    assert_eq!(bench.run_bare(["setup", "undo"]).code, Some(0));
}

#[test]
fn code_mode_is_turned_off_for_a_model_that_codex_does_not_know() {
    let set_up = |model: &str| {
        let bench = TestEnvironment::new();
        put(&bench, CURSOR, &servers(json!({ "files": fake(json!({ "tools": ["read_file"] })) })));
        put(&bench, CODEX, &format!("model = \"{model}\"\n"));
        let before = home(&bench);
        let shown = bench.run_bare(["setup", "--dry-run"]).stdout;
        setup(&bench);
        let config: Value = serde_json::from_str(&text(&bench, CONFIG)).unwrap();
        let again = bench.run_bare(["setup", "--yes"]);
        assert!(again.stdout.contains("nothing to do"), "{again}");
        assert_eq!(bench.run_bare(["setup", "undo"]).code, Some(0));
        assert_eq!(home(&bench), before);
        (shown, config["clients"].clone())
    };
    let (shown, clients) = set_up("llama3.3:70b");
    assert!(shown.contains("Codex uses the model `llama3.3:70b`"), "{shown}");
    assert_eq!(clients, json!({"codex-mcp-client": {"hasCodeMode": false}}));
    let (shown, clients) = set_up("gpt-6.2-sol");
    assert!(!shown.contains("Codex uses the model"), "{shown}");
    assert_eq!(clients, Value::Null);
}

#[test]
fn audit_log_is_turned_on_and_undone() {
    let bench = TestEnvironment::new();
    put(&bench, CURSOR, &servers(json!({ "files": fake(json!({ "tools": ["read_file"] })) })));
    put(&bench, CODEX, "model = \"x\"\n");
    let before = home(&bench);
    let file = "~/.local/state/mcp-workbench/audit.jsonl";
    let shown = bench.run_bare(["setup", "--dry-run", "--audit"]);
    assert!(shown.stdout.contains(&format!("Calls are recorded in `{file}`")), "{shown}");
    setup(&bench);
    let off = bench.run_bare(["stats", "--config", &bench.path_text(CONFIG)]);
    assert!(off.stderr.contains("`mcp-workbench setup --audit`"), "{off}");

    // It can be turned on later, too, and only once.
    let on = bench.run_bare(["setup", "--yes", "--audit"]);
    assert_eq!(on.code, Some(0), "{on}");
    let config: Value = serde_json::from_str(&text(&bench, CONFIG)).unwrap();
    assert_eq!(config["audit"], json!({ "file": file }));
    let again = bench.run_bare(["setup", "--yes", "--audit"]);
    assert!(again.stdout.contains("nothing to do"), "{again}");
    let stats = bench.run_bare(["stats", "--config", &bench.path_text(CONFIG)]);
    assert!(!stats.stderr.contains("audit logging is off"), "{stats}");
    assert_eq!(bench.run_bare(["setup", "undo"]).code, Some(0));
    assert_eq!(home(&bench), before);
}
