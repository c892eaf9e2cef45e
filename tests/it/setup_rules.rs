//! `setup` carries over variables of the environment, rules of clients, and secrets.

use std::fs;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::setup::{CLAUDE, CODEX, CONFIG, CURSOR, agent, home, put, text};
use crate::support::{TestEnvironment, fake};

const GEMINI: &str = "home/.gemini/settings.json";
const OPENCODE: &str = "home/.config/opencode/opencode.json";
const RULES: &str = "home/.claude/settings.json";
const SECRETS: &str = "home/.config/mcp-workbench/config.secrets.env";

fn github() -> Value {
    fake(json!({ "tools": ["create_issue", "list_issues", "merge"] }))
}

fn of_json(bench: &TestEnvironment, file: &str) -> Value {
    serde_json::from_str(&text(bench, file)).unwrap()
}

fn servers(servers: Value) -> String {
    json!({ "mcpServers": servers }).to_string()
}

/// The entry of a server in the configuration.
fn configured(bench: &TestEnvironment, server: &str) -> Value {
    let config = of_json(bench, CONFIG);
    let toolboxes = config["toolboxes"].as_object().unwrap();
    let own = toolboxes.values().find_map(|toolbox| toolbox["mcpServers"].get(server));
    own.cloned().unwrap_or_default()
}

#[test]
fn variables_of_the_environment_reach_servers_in_codex_and_gemini() {
    let mut entry = github();
    entry["env"] = json!({ "GITHUB_TOKEN": "${GITHUB_TOKEN}", "UNSET": "${NOT_SET:-x}" });
    let bench = TestEnvironment::new().env("GITHUB_TOKEN", "of-the-shell");
    put(&bench, CLAUDE, &servers(json!({ "github": entry })));
    put(&bench, CODEX, "model = \"gpt-5.5\"\n");
    put(&bench, GEMINI, "{}");
    put(&bench, CURSOR, "{}");
    let before = home(&bench);
    let output = bench.run_bare(["setup", "--yes"]);
    assert_eq!(output.code, Some(0), "{output}");
    let codex = text(&bench, CODEX);
    assert!(codex.contains("env_vars = [\"GITHUB_TOKEN\"]"), "{codex}");
    assert!(codex.contains("required = true"), "{codex}");
    let env = |file: &str| of_json(&bench, file)["mcpServers"]["workbench"]["env"].clone();
    assert_eq!(env(GEMINI), json!({ "GITHUB_TOKEN": "$GITHUB_TOKEN" }));
    assert_eq!(env(CURSOR), json!({ "GITHUB_TOKEN": "${env:GITHUB_TOKEN}" }));
    assert_eq!(env(CLAUDE), Value::Null);
    assert!(!home(&bench).values().any(|text| text.ends_with(b"of-the-shell")));

    // The entry of an earlier version is completed, and keeps what the user added.
    let old = codex.replace("env_vars = [\"GITHUB_TOKEN\"]", "env_vars = [\"MINE\"]");
    bench.write(CODEX, &old.replace("required = true", "startup_timeout_sec = 9"));
    let output = bench.run_bare(["setup", "--yes"]);
    assert_eq!(output.code, Some(0), "{output}");
    let codex = text(&bench, CODEX);
    for part in ["[\"MINE\", \"GITHUB_TOKEN\"]", "required = true", "startup_timeout_sec = 9"] {
        assert!(codex.contains(part), "{part}: {codex}");
    }
    let nothing = bench.run_bare(["setup", "--yes"]);
    assert!(nothing.stdout.contains("nothing to do"), "{nothing}");
    assert_eq!(bench.run_bare(["setup", "undo"]).code, Some(0));
    let mut after = home(&bench);
    after.insert(".codex/config.toml".to_owned(), before[".codex/config.toml"].clone());
    assert_eq!(after, before);
}

#[test]
fn tool_that_claude_code_denies_stays_denied() {
    let bench = TestEnvironment::new();
    put(&bench, CLAUDE, &servers(json!({ "github": github() })));
    put(
        &bench,
        RULES,
        r#"{"permissions": {
        "deny": ["mcp__github__merge", "mcp__github__delete_*"],
        "ask": ["mcp__github__create_issue"],
        "allow": ["mcp__github__list_issues"]}}"#,
    );
    let rules = text(&bench, RULES);
    let plan = bench.run_bare(["setup", "--dry-run"]);
    for told in [
        "`merge` of `github` is hidden in all clients: `mcp__github__merge` in `permissions.deny`",
        "`create_issue` of `github` needs a confirmation",
        "`list_issues` of `github` is no longer allowed without asking",
    ] {
        assert!(plan.stdout.contains(told), "{told}: {plan}");
    }
    let output = bench.run_bare(["setup", "--yes"]);
    assert_eq!(output.code, Some(0), "{output}");
    assert_eq!(configured(&bench, "github")["toolFilters"], json!(["!merge", "!delete_*"]));
    assert_eq!(of_json(&bench, CONFIG)["dangerousTools"], json!(["github:create_issue"]));
    assert_eq!(text(&bench, RULES), rules);

    let entry = of_json(&bench, CLAUDE)["mcpServers"]["workbench"].clone();
    let toolboxes = of_json(&bench, CONFIG)["toolboxes"].clone();
    let toolbox = toolboxes.as_object().unwrap().keys().next().unwrap().clone();
    let agent = agent(&bench, &entry).begin(false, json!({}));
    let _ = agent.open(&toolbox);
    let call = |tool: &str| {
        let answer = agent.use_tool([&toolbox, "github", tool], json!({}));
        answer.result().is_some_and(|result| result["isError"] != true)
    };
    assert_eq!([call("list_issues"), call("merge")], [true, false]);
    agent.close_stdin();
    agent.wait_end();
    let nothing = bench.run_bare(["setup", "--yes"]);
    assert!(nothing.stdout.contains("nothing to do"), "{nothing}");
}

#[test]
fn server_that_one_client_denies_stays_with_all_clients() {
    for (file, rules) in [
        (RULES, json!({ "permissions": { "deny": ["mcp__github"] } })),
        ("home/.claude/settings.local.json", json!({ "permissions": { "deny": ["mcp__git*"] } })),
        (OPENCODE, json!({ "tools": { "github_*": false } })),
        (OPENCODE, json!({ "agent": { "plan": { "tools": { "github_merge": false } } } })),
    ] {
        let bench = TestEnvironment::new();
        put(&bench, CLAUDE, &servers(json!({ "notes": fake(json!({ "tools": ["add_note"] })) })));
        put(&bench, CURSOR, &servers(json!({ "github": github() })));
        put(&bench, file, &rules.to_string());
        let output = bench.run_bare(["setup", "--yes"]);
        assert_eq!(output.code, Some(0), "{output}");
        assert!(of_json(&bench, CURSOR)["mcpServers"]["github"].is_object(), "{output}");
        assert_eq!(configured(&bench, "github"), Value::Null, "{output}");
        assert!(configured(&bench, "notes").is_object(), "{output}");
        assert!(
            output.stdout.contains("`github` (Cursor): the workbench cannot apply"),
            "{output}"
        );
    }
}

#[test]
fn rule_of_a_client_spares_another_server_of_the_same_name() {
    let bench = TestEnvironment::new();
    let notes = fake(json!({ "tools": ["add_note", "merge"] }));
    put(&bench, CLAUDE, &servers(json!({ "github": notes })));
    put(&bench, CURSOR, &servers(json!({ "github": github() })));
    put(&bench, RULES, r#"{"permissions": {"deny": ["mcp__github__merge"]}}"#);
    let output = bench.run_bare(["setup", "--dry-run"]);
    let hidden = output.stdout.matches("is hidden in all clients").count();
    assert_eq!(hidden, 1, "{output}");
    assert!(output.stdout.contains("`merge` of `github-claude-code` is hidden"), "{output}");
}

#[test]
fn client_with_a_rule_that_the_configuration_lacks_is_left_unchanged() {
    for (rules, why) in [
        (
            r#"{"permissions": {"deny": ["mcp__github__merge"]}}"#,
            "add `!merge` to the `toolFilters`",
        ),
        (
            r#"{"permissions": {"ask": ["mcp__github__merge"]}}"#,
            "add `github:merge` to the `danger",
        ),
        (r#"{"permissions": {"#, "cannot be read"),
    ] {
        let bench = TestEnvironment::new();
        let all = servers(json!({ "github": github() }));
        put(&bench, CLAUDE, &all);
        put(&bench, CURSOR, &all);
        assert_eq!(bench.run_bare(["setup", "--yes", "--client", "cursor"]).code, Some(0));
        put(&bench, RULES, rules);
        let output = bench.run_bare(["setup", "--yes"]);
        assert_eq!(text(&bench, CLAUDE), all, "{output}");
        assert!(output.stdout.contains(why), "{output}");
    }
}

#[test]
fn server_of_two_clients_is_limited_as_in_both() {
    let bench = TestEnvironment::new();
    let mut own = github();
    own["excludeTools"] = json!(["merge"]);
    put(&bench, GEMINI, &servers(json!({ "github": own })));
    own = github();
    own["disabledTools"] = json!(["create_issue"]);
    put(&bench, CURSOR, &servers(json!({ "github": own })));
    assert_eq!(bench.run_bare(["setup", "--yes"]).code, Some(0));
    let mut filters: Vec<String> =
        serde_json::from_value(configured(&bench, "github")["toolFilters"].clone()).unwrap();
    filters.sort();
    assert_eq!(filters, ["!create_issue", "!merge"]);
}

#[test]
fn plan_names_the_limits_of_entries() {
    let bench = TestEnvironment::new();
    let mut own = github();
    own["excludeTools"] = json!(["merge"]);
    put(&bench, GEMINI, &servers(json!({ "github": own })));
    let program = |key: &str| Value::from(own[key].as_str().unwrap()).to_string();
    let (command, argument) = (program("command"), own["args"].to_string());
    let codex = format!(
        "[mcp_servers.github]\ncommand = {command}\nargs = {argument}\n\
         enabled_tools = [\"merge\", \"list_issues\"]\n"
    );
    put(&bench, CODEX, &codex);
    let plan = bench.run_bare(["setup", "--dry-run"]);
    for told in [
        "only `merge`, `list_issues` of `github` are available in all clients: its entry in Codex \
         (`~/.codex/config.toml`)",
        "`merge` of `github` is hidden in all clients: its entry in Gemini CLI \
         (`~/.gemini/settings.json`)",
    ] {
        assert!(plan.stdout.contains(told), "{told}: {plan}");
    }
    let rules = plan.stdout.split("Rules of your clients").nth(1).unwrap_or_default();
    assert!(rules.contains("its entry in Codex"), "{plan}");
}

#[test]
fn approval_modes_of_codex_are_carried_over() {
    let (github, notes) = (github(), fake(json!({ "tools": ["add_note", "list_notes"] })));
    let table = |name: &str, entry: &Value, rules: &str| {
        let (command, args) = (entry["command"].to_string(), entry["args"].to_string());
        format!("[mcp_servers.{name}]\ncommand = {command}\nargs = {args}\n{rules}\n")
    };
    let tools = "[mcp_servers.github.tools.merge]\napproval_mode = \"prompt\"\n\
         [mcp_servers.github.tools.list_issues]\napproval_mode = \"approve\"\n";
    let exception = "default_tools_approval_mode = \"prompt\"\n\
         [mcp_servers.notes.tools.list_notes]\napproval_mode = \"approve\"\n";
    let bench = TestEnvironment::new();
    let codex = table("github", &github, tools) + &table("notes", &notes, exception);
    put(&bench, CODEX, &codex);
    put(&bench, CURSOR, &servers(json!({ "github": github })));
    let plan = bench.run_bare(["setup", "--dry-run"]);
    for told in [
        "`merge` of `github` needs a confirmation",
        "`list_issues` of `github` is no longer allowed without asking",
        "`notes` (Codex): the workbench cannot apply `prompt` in \
         `mcp_servers.notes.default_tools_approval_mode`",
    ] {
        assert!(plan.stdout.contains(told), "{told}: {plan}");
    }
    assert!(!plan.stdout.contains("not supported"), "{plan}");
    assert_eq!(text(&bench, CODEX), codex);
    let output = bench.run_bare(["setup", "--yes"]);
    assert_eq!(output.code, Some(0), "{output}");
    assert_eq!(of_json(&bench, CONFIG)["dangerousTools"], json!(["github:merge"]));
    assert_eq!(configured(&bench, "notes"), Value::Null);
    let codex = text(&bench, CODEX);
    assert!(codex.contains("[mcp_servers.notes.tools.list_notes]"), "{codex}");
    assert!(!codex.contains("mcp_servers.github"), "{codex}");
    let nothing = bench.run_bare(["setup", "--yes"]);
    assert!(nothing.stdout.contains("nothing to do"), "{nothing}");
}

#[test]
fn policies_of_gemini_are_carried_over() {
    let bench = TestEnvironment::new();
    let notes = fake(json!({ "tools": ["add_note"] }));
    let files = fake(json!({ "tools": ["read", "write"] }));
    put(&bench, GEMINI, &servers(json!({ "github": github(), "notes": notes, "files": files })));
    let rule = |rule: &str| format!("[[rule]]\n{rule}\npriority = 100\n");
    let own = rule("toolName = \"mcp_github_merge\"\ndecision = \"deny\"")
        + &rule("mcpName = \"notes\"\ndecision = \"ask_user\"")
        + &rule("mcpName = \"files\"\ndecision = \"deny\"\nargsPattern = \"etc\"");
    put(&bench, "home/.gemini/policies/own.toml", &own);
    let project = bench.path("project").display().to_string();
    put(&bench, "home/.gemini/projects.json", &json!({ "projects": { project: "p" } }).to_string());
    let of_project = rule("mcpName = \"github\"\ntoolName = \"create_*\"\ndecision = \"deny\"")
        + &rule("mcpName = \"*\"\ndecision = \"ask_user\"");
    put(&bench, "project/.gemini/policies/team.toml", &of_project);
    let output = bench.run_bare(["setup", "--yes"]);
    assert_eq!(output.code, Some(0), "{output}");
    let hidden = &configured(&bench, "github")["toolFilters"];
    assert_eq!(hidden, &json!(["!merge", "!create_*"]), "{output}");
    assert_eq!(of_json(&bench, CONFIG)["dangerousTools"], json!(["notes:*"]));
    assert_eq!(configured(&bench, "files"), Value::Null);
    let told = "`files` (Gemini CLI): the workbench cannot apply `files: *` in `rule`";
    assert!(output.stdout.contains(told), "{output}");
    assert_eq!(text(&bench, "home/.gemini/policies/own.toml"), own);

    // A file that Gemini CLI ignores may have been meant as a rule.
    put(&bench, "home/.gemini/policies/bad.toml", "[[rule");
    let output = bench.run_bare(["setup", "--dry-run"]);
    assert!(
        output.stdout.contains("its rules in `~/.gemini/policies/bad.toml` cannot"),
        "{output}"
    );
}

#[test]
fn undo_keeps_the_secrets_of_a_configuration_that_stays() {
    let secret =
        |server: &mut Value, name: &str, value: &str| server["env"] = json!({ name: value });
    let mut first = github();
    secret(&mut first, "FIRST_TOKEN", "ghp_0123456789abcdefghij");
    let mut second = fake(json!({ "tools": ["add_note"] }));
    secret(&mut second, "SECOND_TOKEN", "ghp_abcdefghij0123456789");
    for is_second_secret in [false, true] {
        let bench = TestEnvironment::new();
        put(&bench, CURSOR, &servers(json!({ "github": first })));
        assert_eq!(bench.run_bare(["setup", "--yes"]).code, Some(0));
        bench.write(CONFIG, &text(&bench, CONFIG).replacen('{', "{\n  // Mine now.", 1));
        let mut entries = of_json(&bench, CURSOR);
        entries["mcpServers"]["notes"] =
            if is_second_secret { second.clone() } else { fake(json!({ "tools": ["add_note"] })) };
        bench.write(CURSOR, &entries.to_string());
        let output = bench.run_bare(["setup", "--yes"]);
        assert_eq!(output.code, Some(0), "{output}");
        let output = bench.run_bare(["setup", "undo"]);
        assert_eq!(output.code, Some(0), "{output}");
        assert!(text(&bench, CONFIG).contains("// Mine now."), "{output}");
        let secrets = text(&bench, SECRETS);
        assert!(secrets.contains("FIRST_TOKEN=ghp_0123456789abcdefghij"), "{secrets}");
        let cursor = of_json(&bench, CURSOR);
        for (name, entry) in [("github", &first), ("notes", &entries["mcpServers"]["notes"])] {
            assert_eq!(&cursor["mcpServers"][name], entry, "{cursor}");
        }
        assert_eq!(cursor["mcpServers"].as_object().unwrap().len(), 2, "{cursor}");
    }
    // Without the user's edit, nothing stays.
    let bench = TestEnvironment::new();
    put(&bench, CURSOR, &servers(json!({ "github": first })));
    assert_eq!(bench.run_bare(["setup", "--yes"]).code, Some(0));
    assert_eq!(bench.run_bare(["setup", "undo"]).code, Some(0));
    assert!(fs::metadata(bench.path(SECRETS)).is_err());
}

#[test]
fn servers_that_differ_in_arguments_are_told_apart() {
    let with = |words: &[&str]| {
        let mut entry = github();
        entry["args"].as_array_mut().unwrap().extend(words.iter().map(|word| json!(word)));
        entry
    };
    let bench = TestEnvironment::new();
    let (utc, tokyo) = (&["--zone", "UTC"], &["--zone", "Asia/Tokyo"]);
    let servers_of = |zone: &[&str], folder: &str| {
        servers(json!({ "time": with(zone), "files": with(&[folder]) }))
    };
    put(&bench, CURSOR, &servers_of(utc, "/srv/a"));
    put(&bench, CLAUDE, &servers_of(tokyo, "/srv/my notes/"));
    let output = bench.run_bare(["setup", "--yes"]);
    assert_eq!(output.code, Some(0), "{output}");
    assert!(output.stdout.contains("differs from `time` only in its options"), "{output}");
    assert!(configured(&bench, "files").is_object(), "{output}");
    let config = text(&bench, CONFIG);
    assert_eq!(config.matches("\"time\": {").count(), 1, "{config}");
    let named = ["files-my-notes", "files-a"].map(|name| configured(&bench, name).is_object());
    assert_eq!(named.into_iter().filter(|is_there| *is_there).count(), 1, "{config}");
    let left = [CURSOR, CLAUDE].map(|file| of_json(&bench, file)["mcpServers"]["time"].is_object());
    assert_eq!(left.into_iter().filter(|is_there| *is_there).count(), 1, "{output}");
}
