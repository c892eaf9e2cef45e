//! `import` into new and existing configurations.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::{TestEnvironment, fake};

const CLIENT: &str = r#"{
  "mcpServers": {
    "files": { "command": "npx", "args": ["-y", "files"], "env": { "TOKEN": "secret" } },
    "web": { "type": "http", "url": "https://example.org/mcp" },
    "old": { "type": "sse", "url": "https://example.org/sse" }
  }
}
"#;

const EXISTING: &str = r#"{
  // Mine.
  "toolboxes": {
    "dev": {
      "description": "Development",
      "mcpServers": { "git": { "command": "uvx" } }
    }
  }
}
"#;

fn mode(bench: &TestEnvironment, file: &str) -> u32 {
    fs::metadata(bench.path(file)).unwrap().permissions().mode() & 0o777
}

fn text(bench: &TestEnvironment, file: &str) -> String {
    fs::read_to_string(bench.path(file)).unwrap()
}

#[test]
fn writes_a_new_configuration() {
    let bench = TestEnvironment::new().file(".claude.json", CLIENT);
    fs::set_permissions(bench.path(".claude.json"), Permissions::from_mode(0o600)).unwrap();
    let output = bench.run_bare(["import", ".claude.json", "--no-start"]);
    assert_eq!(mode(&bench, "workbench-config.json"), 0o600, "the file contains the same secrets");
    let written = text(&bench, "workbench-config.json");
    insta::assert_snapshot!(format!("{output}\n--- workbench-config.json\n{written}"));
    assert_eq!(bench.run_bare(["check"]).code, Some(0));
}

#[test]
fn extends_an_existing_configuration() {
    let bench = TestEnvironment::new().file(".claude.json", CLIENT).file("my.json", EXISTING);
    fs::set_permissions(bench.path("my.json"), Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::symlink("my.json", bench.path("link.json")).unwrap();
    let args =
        ["import", ".claude.json", "--toolbox", "dev", "--no-start", "--config", "link.json"];
    let output = bench.run_bare(args);
    assert_eq!(mode(&bench, "my.json"), 0o640);
    assert!(bench.path("link.json").is_symlink());
    let written = text(&bench, "my.json");
    insta::assert_snapshot!(format!("{output}\n--- my.json\n{written}"));
    let again = bench.run_bare(args);
    assert_eq!(again.code, Some(0), "already imported: {again}");
    assert_eq!(text(&bench, "my.json"), written);
    let drafts = fs::read_dir(bench.dir()).unwrap();
    let names = drafts.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(names.filter(|name| name.contains("json.")).count(), 0);
}

#[test]
fn configuration_of_the_user_is_extended_if_there_is_no_other() {
    const USER: &str = "home/.config/mcp-workbench/config.json";
    let bench = TestEnvironment::new().file(".claude.json", CLIENT);
    fs::create_dir_all(bench.path(USER).parent().unwrap()).unwrap();
    let bench = bench.file(USER, EXISTING);
    let output = bench.run_bare(["import", ".claude.json", "--no-start"]);
    assert_eq!(output.code, Some(0), "{output}");
    let written = text(&bench, USER);
    assert!(written.contains("// Mine.") && written.contains("\"files\""), "{written}");
    assert!(!bench.path("workbench-config.json").exists(), "{output}");
}

#[test]
fn dry_run_writes_nothing() {
    let bench = TestEnvironment::new().file(".claude.json", CLIENT);
    let output =
        bench.run_bare(["import", ".claude.json", "--per-server", "--no-start", "--dry-run"]);
    assert!(!bench.path("workbench-config.json").exists());
    insta::assert_snapshot!(output);
}

#[test]
fn rejects_unreadable_files() {
    let bench = TestEnvironment::new().file(".claude.json", CLIENT).file("empty.json", "{}");
    bench.write("workbench-config.json", "{ \"toolboxes\": ");
    let runs: [&[&str]; 3] = [
        &["import", ".claude.json", "missing.json"],
        &["import", ".claude.json"],
        &["import", "empty.json", "--config", "new.json"],
    ];
    let outputs = runs.map(|args| bench.run_bare(args.iter().copied()).to_string());
    assert_eq!(text(&bench, "workbench-config.json"), "{ \"toolboxes\": ");
    assert!(!bench.path("new.json").exists());
    insta::assert_snapshot!(outputs.join("\n"));
}

#[test]
fn imported_servers_are_served() {
    let servers = json!({ "calc": fake(json!({ "tools": ["add"] })) });
    let bench =
        TestEnvironment::new().file("mcp.json", &json!({ "mcpServers": servers }).to_string());
    let output = bench.run_bare(["import", "mcp.json", "--toolbox", "math"]);
    assert_eq!(output.code, Some(0), "{output}");
    let output = bench.run_bare(["call", "math", "calc", "add", "{}"]);
    assert_eq!(output.stdout, "{}\n");
}

#[test]
fn servers_stop_once_their_tools_are_listed() {
    let bench = TestEnvironment::new();
    let pids = bench.path_text("pids");
    let second = |server: &Value| {
        let words = [&server["command"], &server["args"][0]].map(|word| word.as_str().unwrap());
        // Starts only after the first server has exited.
        let wait = format!(
            "until read -r _ pid < '{pids}' && ! kill -0 $pid; do sleep 0.02; done 2> /dev/null; exec \"$@\""
        );
        json!({"command": "sh", "args": ["-c", wait, "sh", words[0], words[1]], "startupTimeoutMs": 10_000})
    };
    let first = fake(json!({"tools": ["add"], "pidFile": pids}));
    let servers = json!({"first": first, "second": second(&server(&["sub"]))});
    bench.write("mcp.json", &json!({ "mcpServers": servers }).to_string());
    let output = bench.run_bare(["import", "mcp.json", "--one", "--json"]);
    let told: Value = serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{output}"));
    assert!(!output.stdout.contains("could not be started"), "{told}");
    assert!(!output.stdout.contains("failed to start"), "{told}");
    assert_eq!(told["added"].as_array().map(Vec::len), Some(2), "{told}");
}

#[test]
fn prints_the_import_as_json() {
    let bench = TestEnvironment::new().file(".claude.json", CLIENT);
    let output = bench.run_bare(["import", ".claude.json", "--no-start", "--json"]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
    assert!(bench.path("workbench-config.json").exists());
    insta::assert_snapshot!(output.stdout);
}

fn server(tools: &[&str]) -> Value {
    fake(json!({ "tools": tools }))
}

fn clients() -> TestEnvironment {
    let bench = TestEnvironment::new();
    // `broken` comes first, so that its reported position doesn't depend on the length of temporary
    // paths.
    let claude = json!({ "mcpServers": {
        "broken": { "command": "no-such-program-here" },
        "git": server(&["git_status", "git_commit", "git_diff", "git_log"]),
        "filesystem": server(&["read_file", "write_file", "list_directory", "search_files"]),
        "playwright": server(&["browser_navigate", "browser_click", "browser_take_screenshot"]),
        "fetch": server(&["fetch"]),
    } });
    let cursor = json!({ "mcpServers": {
        "git": server(&["git_status", "git_commit", "git_diff", "git_log"]),
        "slack": server(&["post_message", "list_channels"]),
        "gmail": server(&["send_email", "search_emails"]),
    } });
    for folder in ["home/.codex", "home/.cursor"] {
        fs::create_dir_all(bench.path(folder)).unwrap();
    }
    let sqlite = server(&["read_query", "write_query", "list_tables"]);
    let codex = format!(
        "[mcp_servers.sqlite]\ncommand = {}\nargs = [{}, \"--api-key=hunter2-hunter2\"]\n",
        sqlite["command"],
        Value::from(sqlite["args"][0].as_str().unwrap()),
    );
    let files = [
        ("home/.claude.json", claude.to_string()),
        ("home/.cursor/mcp.json", cursor.to_string()),
        ("home/.codex/config.toml", codex),
        ("home/.gemini/settings.json", "{}".to_owned()),
    ];
    fs::create_dir_all(bench.path("home/.gemini")).unwrap();
    for (file, text) in files {
        bench.write(file, &text);
    }
    bench
}

#[test]
fn groups_the_servers_of_all_clients_by_function() {
    let bench = clients();
    let output = bench.run_bare(["import"]);
    assert_eq!(output.code, Some(0), "{output}");
    let written = text(&bench, "workbench-config.json");
    assert!(!output.to_string().contains("hunter2"), "{output}");
    assert!(!written.contains("hunter2"), "{written}");
    bench.settings().bind(|| insta::assert_snapshot!(output));
    let again = bench.run_bare(["import"]);
    assert_eq!(again.code, Some(0), "{again}");
    assert_eq!(text(&bench, "workbench-config.json"), written);

    let bench = bench.env("SQLITE_API_KEY", "hunter2-hunter2");
    let output = bench.run_bare(["list", "--json"]);
    assert_eq!(output.code, Some(0), "the imported configuration works: {output}");
}

#[test]
fn each_server_gets_a_described_toolbox_of_its_own() {
    let bench = TestEnvironment::new();
    let said = json!({
        "tools": ["a", "b"],
        "instructions": "This server provides access to the archive of the city.",
    });
    let mut written = server(&["c", "d"]);
    written["description"] = json!("Mine");
    let file = json!({ "mcpServers": {
        "archive": fake(said),
        "tickets": server(&["create_issue", "list_issues", "update_issue"]),
        "known": { "command": "no-such-program", "args": ["@modelcontextprotocol/server-memory"] },
        "written": written,
    } });
    bench.write(".claude.json", &file.to_string());
    let output = bench.run_bare(["import", ".claude.json", "--per-server"]);
    assert_eq!(output.code, Some(0), "{output}");
    let config: Value = serde_json::from_str(&text(&bench, "workbench-config.json")).unwrap();
    let description = |name: &str| config["mcpServers"][name]["description"].clone();
    assert_eq!(description("archive"), "The archive of the city");
    assert_eq!(description("tickets"), "List, create and update issues");
    assert_eq!(description("written"), "Mine");
}

#[test]
fn does_not_start_servers_of_unnamed_project_files() {
    let bench = TestEnvironment::new();
    let marked = json!({ "command": "touch", "args": [bench.path_text("was-run")] });
    bench.write(".mcp.json", &json!({ "mcpServers": { "evil": marked } }).to_string());
    let output = bench.run_bare(["import"]);
    assert_eq!(output.code, Some(0), "{output}");
    assert!(!bench.path("was-run").exists(), "a server of an unnamed file was started");
    fs::remove_file(bench.path("workbench-config.json")).unwrap();
    bench.run_bare(["import", ".mcp.json"]);
    assert!(bench.path("was-run").exists(), "the server of the named file was not started");
}

#[test]
fn asks_for_a_file_when_no_client_is_installed() {
    let output = TestEnvironment::new().run_bare(["import"]);
    assert_eq!(output.code, Some(2), "{output}");
    assert!(output.stderr.contains("run `mcp-workbench import FILE`"), "{output}");
}

#[test]
fn flags_select_the_toolbox_grouping() {
    let bench = clients();
    for (flags, toolboxes) in [
        (&["--one"][..], &["tools"][..]),
        (&["--per-client"], &["cursor", "codex", "claude-code"]),
        (&["--toolbox", "mine"], &["mine"]),
    ] {
        let args = ["import", "--no-start", "--json", "--dry-run"].into_iter();
        let output = bench.run_bare(args.chain(flags.iter().copied()));
        let report: Value = serde_json::from_str(&output.stdout).unwrap();
        let added = report["added"].as_array().unwrap().iter();
        let mut found: Vec<_> = added.map(|added| added["toolbox"].as_str().unwrap()).collect();
        found.dedup();
        assert_eq!(found, toolboxes, "{flags:?}");
        assert!(!output.stdout.contains("Servers imported from"), "{output}");
    }
    let output = bench.run_bare(["import", "--one", "--per-server"]);
    assert_eq!(output.code, Some(2), "{output}");
}

#[test]
fn imports_access_rules_or_nothing() {
    let ruled = json!({
        "servers": { "calc": server(&["add", "remove"]) },
        "agent_policies": { "reader": { "tool_overrides": { "calc": ["add"] } } },
        "default_policy": { "allow_unknown_tools": false },
    });
    let bench = TestEnvironment::new().file("filter.json", &ruled.to_string());
    let output = bench.run_bare(["import", "filter.json", "--config", "new.json"]);
    assert_eq!(output.code, Some(0), "{output}");
    let explain = |tool: &str| {
        bench.run_bare(["explain", "reader", "calc", tool, "--config", "new.json"]).stdout
    };
    assert_ne!(explain("add").replace("add", "remove"), explain("remove"));
    let bench = bench.file("other.json", EXISTING);
    let output = bench.run_bare(["import", "filter.json", "--config", "other.json"]);
    assert_eq!(output.code, Some(1), "{output}");
    assert_eq!(text(&bench, "other.json"), EXISTING);
    insta::assert_snapshot!(output);
}

#[test]
fn dry_run_hides_secrets_and_proposes_separate_variables() {
    let servers = json!({
        "github": {"url": "https://a.example/mcp", "headers": {"Authorization": "Bearer ghp_0123456789"}},
        "linear": {"url": "https://b.example/mcp", "headers": {"Authorization": "Bearer lin_0123456789"}},
        "one": {"command": "x", "env": {"API_KEY": "key-of-one"}},
        "two": {"command": "y", "env": {"API_KEY": "key-of-two"}, "disabled": true},
    });
    let text = json!({"mcpServers": servers}).to_string();
    let bench = TestEnvironment::new().file("mcp.json", &text);
    let text = bench.run_bare(["import", "mcp.json", "--no-start", "--dry-run"]);
    let as_json = bench.run_bare(["import", "mcp.json", "--no-start", "--dry-run", "--json"]);
    for output in [&text, &as_json] {
        for secret in ["ghp_0123456789", "lin_0123456789", "key-of-one", "key-of-two"] {
            assert!(!output.to_string().contains(secret), "{secret}: {output}");
        }
        for variable in
            ["${GITHUB_AUTHORIZATION}", "${LINEAR_AUTHORIZATION}", "${API_KEY}", "${TWO_API_KEY}"]
        {
            assert!(output.to_string().contains(variable), "{variable}: {output}");
        }
    }
    assert!(text.stdout.contains("\"Bearer ***\""), "{text}");
    let written = bench.run_bare(["import", "mcp.json", "--no-start"]);
    assert_eq!(written.code, Some(0), "{written}");
    assert!(self::text(&bench, "workbench-config.json").contains("Bearer ghp_0123456789"));
}
