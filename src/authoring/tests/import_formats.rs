//! Tests of clients whose files aren't plain `mcpServers`, and of importing policies.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::{env, read};
use crate::authoring::import::{
    Grade, ImportOptions, ImportPlan, NoExtraction, ProposedToolbox, SourceFile, TrialOutcome,
    collect_candidates, has_servers, plan_import,
};

fn source(file: &str, text: &str) -> SourceFile {
    SourceFile { file: file.to_owned(), text: text.to_owned() }
}

pub(super) fn import(file: &str, text: &str) -> ImportPlan {
    plan_import(None, &[source(file, text)], &ImportOptions::default()).unwrap()
}

pub(super) fn servers(plan: &ImportPlan) -> Value {
    let whole =
        Value::from(mcp_workbench_config::syntax::document::parse_jsonc(&plan.text).unwrap());
    let toolbox = whole["toolboxes"].as_object().unwrap().values().next().unwrap();
    toolbox["mcpServers"].clone()
}

fn said(plan: &ImportPlan) -> Vec<String> {
    let findings = plan
        .findings
        .iter()
        .filter(|finding| !finding.message.contains("has a generated description"));
    findings.map(|finding| format!("{}: {}", finding.grade, finding.message)).collect()
}

#[test]
fn codex_toml_tables_are_imported() {
    let plan = import(
        "~/.codex/config.toml",
        r#"
model = "gpt-5"
[mcp_servers.files]
command = "npx"
args = ["-y", "server-filesystem"]
env = { MODE = "ro" }
env_vars = ["API_KEY"]
startup_timeout_sec = 20.5
tool_timeout_sec = 60
enabled_tools = ["read_file"]
disabled_tools = ["write_file"]
[mcp_servers.remote]
url = "https://example.com/mcp"
bearer_token_env_var = "REMOTE_TOKEN"
http_headers = { "X-Team" = "a" }
env_http_headers = { "X-Key" = "REMOTE_KEY" }
enabled = false
"#,
    );
    assert_eq!(said(&plan), [""; 0]);
    assert_eq!(
        servers(&plan),
        json!({
            "files": {
                "command": "npx",
                "args": ["-y", "server-filesystem"],
                "env": { "MODE": "ro", "API_KEY": "${API_KEY}" },
                "toolFilters": ["read_file", "!write_file"],
                "startupTimeoutMs": 20500,
                "callTimeoutMs": 60000,
            },
            "remote": {
                "url": "https://example.com/mcp",
                "headers": {
                    "Authorization": "Bearer ${REMOTE_TOKEN}",
                    "X-Team": "a",
                    "X-Key": "${REMOTE_KEY}",
                },
                "disabled": true,
            },
        })
    );
    assert_eq!(plan.added[0].toolbox, "codex");
}

#[test]
fn goose_yaml_extensions_are_imported() {
    let plan = import(
        "~/.config/goose/config.yaml",
        r#"
GOOSE_PROVIDER: openai
extensions:
  developer:
    type: builtin
    name: developer
    enabled: true
    bundled: true
  github:
    type: stdio
    name: GitHub
    description: Issues and pull requests
    cmd: npx
    args: ["-y", "server-github"]
    envs: { MODE: "rw" }
    env_keys: [GITHUB_TOKEN]
    timeout: 300
    enabled: true
  docs:
    type: streamable_http
    uri: https://example.com/mcp
    headers: { Authorization: "Bearer ${TOKEN}" }
    available_tools: []
    enabled: false
  old:
    type: sse
    uri: https://example.com/sse
    enabled: true
"#,
    );
    assert_eq!(
        said(&plan),
        [
            "unsupported: not imported: `developer` (a built-in extension of Goose)",
            "approximate: may require a sign-in",
        ]
    );
    assert_eq!(
        servers(&plan),
        json!({
            "github": {
                "command": "npx",
                "args": ["-y", "server-github"],
                "env": { "MODE": "rw", "GITHUB_TOKEN": "${GITHUB_TOKEN}" },
                "description": "Issues and pull requests",
                "callTimeoutMs": 300_000,
            },
            "docs": {
                "url": "https://example.com/mcp",
                "headers": { "Authorization": "Bearer ${TOKEN}" },
                "disabled": true,
            },
            "old": { "type": "sse", "url": "https://example.com/sse" },
        })
    );
}

#[test]
fn continue_yaml_list_is_imported() {
    let plan = import(
        "~/.continue/config.yaml",
        r#"
name: Local
mcpServers:
  - name: SQLite
    command: uvx
    args: [mcp-server-sqlite, "${{ inputs.DB_PATH }}"]
    env: { KEY: "${{ secrets.sqlite-key }}" }
  - name: Remote
    type: streamable-http
    url: https://example.com/mcp
    requestOptions: { headers: { Authorization: "Bearer ${{ secrets.TOKEN }}" } }
"#,
    );
    assert_eq!(
        servers(&plan),
        json!({
            "SQLite": {
                "command": "uvx",
                "args": ["mcp-server-sqlite", "${DB_PATH}"],
                "env": { "KEY": "${SQLITE_KEY}" },
            },
            "Remote": {
                "url": "https://example.com/mcp",
                "headers": { "Authorization": "Bearer ${TOKEN}" },
            },
        })
    );
    assert!(plan.findings.iter().all(|finding| finding.grade == Grade::Manual));
}

#[test]
fn legacy_continue_transports_are_imported() {
    let plan = import(
        "~/.continue/config.json",
        r#"{"models": [], "experimental": {"modelContextProtocolServers": [
            {"transport": {"type": "stdio", "command": "uvx", "args": ["x"]}}]}}"#,
    );
    assert_eq!(servers(&plan), json!({ "server-1": { "command": "uvx", "args": ["x"] } }));
}

#[test]
fn quarantined_mcpproxy_servers_stay_disabled() {
    let plan = import(
        "~/.mcpproxy/mcp_config.json",
        r#"{"listen": ":8080", "mcpServers": [
            {"name": "a", "protocol": "stdio", "command": "uvx", "args": ["a"], "enabled": true,
             "quarantined": false, "created": "2025-06-20T00:00:00Z", "updated": "2025-06-20T00:00:00Z"},
            {"name": "b", "protocol": "stdio", "command": "uvx", "args": ["b"], "quarantined": true},
            {"name": "c", "protocol": "stdio", "command": "uvx", "args": ["c"], "enabled": false}]}"#,
    );
    let expected = json!({
        "a": { "command": "uvx", "args": ["a"], "protocol": "stdio" },
        "b": { "command": "uvx", "args": ["b"], "protocol": "stdio", "disabled": true },
        "c": { "command": "uvx", "args": ["c"], "protocol": "stdio", "disabled": true },
    });
    assert_eq!(servers(&plan), expected);
    assert_eq!(said(&plan), [""; 0]);
}

#[test]
fn entries_of_other_clients_are_converted() {
    for (file, text, expected) in [
        (
            "~/.codeium/windsurf/mcp_config.json",
            r#"{"mcpServers": {"a": {"serverUrl": "http://localhost:1/mcp", "disabledTools": ["x"]}}}"#,
            json!({ "url": "http://localhost:1/mcp", "toolFilters": ["!x"] }),
        ),
        (
            "~/.gemini/settings.json",
            r#"{"mcpServers": {"a": {"httpUrl": "http://localhost:1/mcp", "timeout": 500}}}"#,
            json!({ "url": "http://localhost:1/mcp", "callTimeoutMs": 500 }),
        ),
        (
            "~/.copilot/mcp-config.json",
            r#"{"mcpServers": {"a": {"type": "local", "command": "a", "args": [], "tools": ["*"]}}}"#,
            json!({ "command": "a" }),
        ),
        (
            "x/cline_mcp_settings.json",
            r#"{"mcpServers": {"a": {"command": "a", "timeout": 60, "disabled": true}}}"#,
            json!({ "command": "a", "disabled": true, "callTimeoutMs": 60_000 }),
        ),
        (
            "~/.kiro/settings/mcp.json",
            r#"{"mcpServers": {"a": {"command": "a", "timeout": 60000}}}"#,
            json!({ "command": "a", "callTimeoutMs": 60_000 }),
        ),
        (
            "~/.config/opencode/opencode.json",
            r#"{"mcp": {"a": {"type": "local", "command": ["a", "b"], "timeout": 9000}}}"#,
            json!({ "command": "a", "args": ["b"], "startupTimeoutMs": 9000 }),
        ),
        (
            "~/.config/amp/settings.json",
            r#"{"amp.mcpServers": {"a": {"command": "a"}}, "amp.showCosts": true}"#,
            json!({ "command": "a" }),
        ),
        (
            "~/.config/crush/crush.json",
            r#"{"mcp": {"a": {"type": "stdio", "command": "a", "env": {"K": "$KEY"}}}}"#,
            json!({ "command": "a", "env": { "K": "${KEY}" } }),
        ),
        (
            "~/.lmstudio/mcp.json",
            r#"{"mcpServers": {"a": {"command": "a"}}}"#,
            json!({ "command": "a" }),
        ),
    ] {
        let plan = import(file, text);
        assert_eq!(servers(&plan), json!({ "a": expected }), "{file}");
        assert_eq!(said(&plan), [""; 0], "{file}");
        read(&plan.text, &env(&[("KEY", "k")])).unwrap();
    }
}

#[test]
fn servers_excluded_by_gemini_are_disabled_and_reported() {
    let servers = r#""mcpServers": {"a": {"command": "a"}, "B": {"command": "b"}, "c": {"command": "c", "disabled": true}}"#;
    let allowed = "not listed in `mcp.allowed`";
    let excluded = "listed in `mcp.excluded`";
    for (settings, off) in [
        (r#""mcp": {"allowed": ["a"]}"#, &[("B", allowed)][..]),
        (r#""mcp": {"allowed": ["b "], "excluded": ["x"]}"#, &[("a", allowed)]),
        (r#""mcp": {"allowed": ["a", "b"], "excluded": ["B", "C"]}"#, &[("B", excluded)]),
        (r#""excludeMCPServers": ["a"], "allowMCPServers": []"#, &[("a", excluded)]),
        (r#""mcp": {"allowed": [], "serverCommand": "x"}"#, &[]),
    ] {
        let plan = import("~/.gemini/settings.json", &format!("{{{settings}, {servers}}}"));
        let written = self::servers(&plan);
        let is_off = |name: &str| written[name]["disabled"] == true;
        let said = plan.findings.iter().map(|found| format!("{}: {}\n", found.path, found.message));
        let said: String = said.collect();
        for name in ["a", "B"] {
            let why = off.iter().find(|(other, _)| *other == name).map(|(_, why)| why);
            assert_eq!(is_off(name), why.is_some(), "{settings}: {name}");
            let told = format!("mcpServers.{name}: disabled: {}", why.unwrap_or(&""));
            assert_eq!(said.contains(&told), why.is_some(), "{settings}: {said}");
        }
        assert!(is_off("c") && !said.contains("mcpServers.c"), "{said}");
    }
}

#[test]
fn crush_commands_become_variables_and_are_not_run() {
    let plan = import(
        "~/.config/crush/crush.json",
        r#"{"mcp": {
            "git-hub": {
                "type": "stdio",
                "command": "$(which gh)",
                "args": ["--pid", "`cat $HOME/pid`", "--x", "\\$(no)"],
                "env": {"TOKEN": "$(op read \"a b\")", "GIT_HUB_ID": "x-$(id)-$(id -g)", "K": "$KEY"}
            },
            "far": {"type": "http", "url": "http://localhost:1/mcp", "headers": {"Authorization": "Bearer $(vault get x)"}}
        }}"#,
    );
    assert_eq!(
        servers(&plan),
        json!({
            "git-hub": {
                "command": "${GIT_HUB_VALUE}",
                "args": ["--pid", "${GIT_HUB_VALUE_2}", "--x", "\\$(no)"],
                "env": {
                    "TOKEN": "${GIT_HUB_TOKEN}",
                    "GIT_HUB_ID": "x-${GIT_HUB_ID}-${GIT_HUB_ID_2}",
                    "K": "${KEY}",
                },
            },
            "far": {
                "url": "http://localhost:1/mcp",
                "headers": { "Authorization": "Bearer ${FAR_AUTHORIZATION}" },
            },
        })
    );
    assert!(plan.findings.iter().all(|finding| finding.grade == Grade::Manual));
    let hints: Vec<_> = plan.findings.iter().filter_map(|finding| finding.hint.clone()).collect();
    let hint = "run `export GIT_HUB_TOKEN=\"$(op read \"a b\")\"` before starting the workbench";
    assert!(hints.contains(&hint.to_owned()), "{hints:?}");
    // Other clients don't run commands, so the value stays as it is.
    let plan = import(
        "~/.claude.json",
        r#"{"mcpServers": {"a": {"command": "a", "env": {"T": "$(op read x)"}}}}"#,
    );
    assert_eq!(servers(&plan)["a"]["env"]["T"], "$(op read x)");
}

#[test]
fn settings_without_servers_have_none() {
    for (file, text) in [
        ("~/.gemini/settings.json", r#"{"mcp": {"allowed": ["a"]}, "theme": "x"}"#),
        ("~/.config/zed/settings.json", r#"{"context_servers": {}, "theme": "x"}"#),
        ("~/.codex/config.toml", "model = \"x\""),
        ("~/.config/goose/config.yaml", "GOOSE_MODEL: x"),
    ] {
        assert!(!has_servers(&source(file, text)), "{file}");
    }
    let broken = source("~/.codex/config.toml", "[mcp_servers");
    assert!(has_servers(&broken), "unreadable files are reported");
}

#[test]
fn prompt_default_is_kept_and_prompt_without_one_is_reported() {
    let plan = import(
        ".vscode/mcp.json",
        r#"{"inputs": [{"id": "key", "type": "promptString", "description": "API key", "password": true, "default": "x"},
                       {"id": "mode", "type": "promptString", "default": "ro"}],
            "servers": {"a": {"command": "a", "env": {"K": "${input:key}", "M": "${input:mode}"}}}}"#,
    );
    assert_eq!(servers(&plan)["a"]["env"], json!({ "K": "${KEY}", "M": "${MODE:-ro}" }));
    assert_eq!(said(&plan), ["manual: `${input:key}` prompts for “API key”; replaced by `${KEY}`"]);
}

#[test]
fn remote_server_is_graded_approximate_until_started() {
    let text = r#"{"mcpServers": {
        "open": {"url": "https://example.com/mcp"},
        "old": {"url": "https://example.com/sse"},
        "keyed": {"url": "https://example.com/mcp", "headers": {"X-Api-Key": "${K}"}},
        "here": {"url": "http://127.0.0.1:1/mcp"}}}"#;
    let sources = [source("x.json", text)];
    let grades = |outcomes: Vec<TrialOutcome>| {
        let options = ImportOptions { outcomes, ..ImportOptions::default() };
        let plan = plan_import(None, &sources, &options).unwrap();
        let grades: Vec<_> = plan.added.iter().map(|added| added.grade.as_str()).collect();
        (grades.join(" "), said(&plan).join("\n"))
    };
    let (before, told) = grades(Vec::new());
    assert_eq!(before, "approximate approximate exact exact");
    assert!(told.contains("may require a sign-in"), "{told}");
    assert_eq!(
        grades(vec![TrialOutcome::Started; 4]),
        ("exact exact exact exact".to_owned(), String::new())
    );
    let failed = TrialOutcome::Failed { reason: "it ended".to_owned(), hint: "look".to_owned() };
    let (after, told) = grades(vec![TrialOutcome::WantsSignIn, failed]);
    assert_eq!(after, "approximate manual exact exact");
    assert!(told.contains("requires a sign-in"), "{told}");
    assert!(told.contains("could not be started"), "{told}");
}

#[test]
fn a_token_keeps_its_scheme_in_the_hint() {
    let plan = import(
        "x.json",
        r#"{"mcpServers": {"a": {"url": "http://localhost/", "headers": {"Authorization": "Bearer hunter2"}}}}"#,
    );
    let hint = plan.findings[0].hint.as_deref().unwrap();
    assert_eq!(
        hint,
        "write `\"Authorization\": \"Bearer ${A_AUTHORIZATION}\"` and set the variable"
    );
}

#[test]
fn proposed_toolboxes_get_each_server_once() {
    let sources = [
        source(
            ".cursor/mcp.json",
            r#"{"mcpServers": {"a": {"command": "1"}, "b": {"command": "2"}}}"#,
        ),
        source(
            "~/.codex/config.toml",
            "[mcp_servers.a]\ncommand = \"1\"\n[mcp_servers.c]\ncommand = \"3\"",
        ),
    ];
    let gathered = collect_candidates(None, &sources, &mut NoExtraction).unwrap();
    let names: Vec<_> = gathered.servers().iter().map(|server| server.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    let proposal = |name: &str, servers: &[usize]| ProposedToolbox {
        name: name.to_owned(),
        description: format!("About {name}"),
        servers: servers.to_vec(),
    };
    let proposal = vec![proposal("x", &[0, 2]), proposal("y", &[1])];
    let plan = gathered.plan(&ImportOptions { proposal, ..ImportOptions::default() }).unwrap();
    let added: Vec<_> =
        plan.added.iter().map(|added| format!("{}/{}", added.toolbox, added.server)).collect();
    assert_eq!(added, ["x/a", "x/c", "y/b"]);
    assert_eq!(said(&plan), ["exact: already in toolbox `x`"]);
    let config = read(&plan.text, &env(&[])).unwrap().config;
    assert_eq!(config.toolbox("x").unwrap().description, "About x");
}

const RULED: &str = r#"{
    "servers": {"files": {"command": "npx"}, "git": {"command": "uvx", "enabled": false}},
    "agent_policies": {"reader": {"allowed_servers": ["files"], "tool_overrides": {"files": ["read_*"]}}},
    "default_policy": {"allow_unknown_tools": false},
    "security_settings": {"dangerous_tools": ["files:delete_file"], "log_level": "info"},
    "performance_settings": {"tool_call_timeout": 30000}}"#;

#[test]
fn policy_is_imported_with_its_servers() {
    let plan = import("filter.json", RULED);
    assert!(!plan.has_rejected_policy);
    let config = read(&plan.text, &env(&[])).unwrap().config;
    let original = mcp_workbench_config::parse(
        RULED,
        std::path::Path::new("filter.json"),
        std::path::Path::new("/project"),
        &env(&[]),
    );
    let original = original.unwrap().config;
    assert_eq!(config.policy, original.policy);
    assert_eq!(config.mode, original.mode);
    let timeouts = |config: &mcp_workbench_settings::Config| -> Vec<_> {
        let servers = config.toolboxes.iter().flat_map(|toolbox| &toolbox.servers);
        servers.map(|server| (server.name.to_string(), server.call_timeout)).collect()
    };
    assert_eq!(timeouts(&config), timeouts(&original));
    let left = said(&plan);
    assert_eq!(left, ["approximate: not converted: `security_settings.log_level`"]);
}

#[test]
fn native_keys_are_imported_with_the_policy() {
    let with_ours = RULED.replacen(
        '{',
        r#"{"audit": {"file": "a.jsonl"}, "limits": {"maxConcurrentCalls": 3}, "#,
        1,
    );
    let plan = import("filter.json", &with_ours);
    let config = read(&plan.text, &env(&[])).unwrap().config;
    assert!(config.policy.agents.len() == 1 && config.audit.is_some(), "{}", plan.text);
}

#[test]
fn servers_are_rejected_if_their_policy_cannot_be_imported() {
    let other = source("x.json", r#"{"mcpServers": {"a": {"command": "a"}}}"#);
    let ruled = source("filter.json", RULED);
    let beside =
        plan_import(None, &[ruled.clone(), other.clone()], &ImportOptions::default()).unwrap();
    let existing = source("w.json", r#"{"mcpServers": {"z": {"command": "z"}}}"#);
    let into =
        plan_import(Some(&existing), std::slice::from_ref(&ruled), &ImportOptions::default())
            .unwrap();
    let broken = RULED.replace(r#"["read_*"]"#, "1");
    let broken = import("filter.json", &broken);
    for (plan, added) in [(&beside, 1), (&into, 0), (&broken, 0)] {
        assert!(plan.has_rejected_policy);
        assert_eq!(plan.added.len(), added);
        let told = said(plan).join("\n");
        assert!(
            told.contains("file not imported: ") && told.contains("`agent_policies`"),
            "{told}"
        );
    }
    assert_eq!(into.text, existing.text);
    let first = import("filter.json", RULED);
    let again =
        plan_import(Some(&source("w.json", &first.text)), &[ruled], &ImportOptions::default())
            .unwrap();
    assert_eq!((again.text, again.has_rejected_policy), (first.text, false));
}

#[test]
fn native_policy_is_imported_with_its_servers() {
    let ours = r#"{"toolboxes": {"t": {"description": "d", "mcpServers": {"a": {"command": "a"}}}},
                   "agentPolicies": {"x": {"allowedServers": []}}, "dangerousTools": ["a:b"]}"#;
    let plan = import("old.json", ours);
    let config = read(&plan.text, &env(&[])).unwrap().config;
    assert_eq!(config.policy.agents.len(), 1);
    assert_eq!(config.policy.dangerous_tools, ["a:b"]);
}
