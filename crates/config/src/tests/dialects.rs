//! Tests of other programs' files: detecting the dialect, and reading each one.

use std::path::Path;

use pretty_assertions::assert_eq;

use crate::env::EnvSource;
use crate::secret_values::NoSecrets;
use crate::tests::{env, repository};
use crate::{ConfigLocation, ConfigOrigin, Dialect, LoadedConfig, discover, load, parse};
use mcp_workbench_settings::{Config, ConfirmationPolicy, Launch, StdioLaunch, ToolMode};

use mcp_workbench_names::AgentName;

fn loaded(name: &str, text: &str) -> LoadedConfig {
    let env = env(&[("HOME", "/home/me"), ("SET", "value")]);
    parse(text, Path::new(name), Path::new("/project"), &env)
        .unwrap_or_else(|report| panic!("{report}"))
}

fn launch(config: &Config, toolbox: &str) -> StdioLaunch {
    match &config.toolbox(toolbox).unwrap().servers[0].launch {
        Launch::Stdio(launch) => launch.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn dialect_is_detected_from_top_level_keys() {
    let servers = r#""mcpServers": {"a": {"command": "a"}}"#;
    let described = r#""mcpServers": {"a": {"command": "a", "description": "d"},
        "b": {"type": "http", "url": "https://example.org/mcp", "headers": {}, "description": "e"}}"#;
    let modular = r#""$schema": "https://example.org/modular-mcp/config-schema.json""#;
    let ours = r#""$schema": "./workbench-config.schema.json""#;
    for (name, text, dialect, mode) in [
        ("x.toml", String::new(), Dialect::Toolman, ToolMode::Activate),
        ("X.TOML", String::new(), Dialect::Toolman, ToolMode::Activate),
        ("x.json", format!("{{{servers}}}"), Dialect::Client, ToolMode::Auto),
        (
            "x.json",
            format!(r#"{{"$schema": "https://x", {servers}}}"#),
            Dialect::Client,
            ToolMode::Auto,
        ),
        ("x.json", format!("{{{described}}}"), Dialect::Modular, ToolMode::Modular),
        ("modular-mcp.json", format!("{{{servers}}}"), Dialect::Modular, ToolMode::Modular),
        ("x.json", format!("{{{modular}, {servers}}}"), Dialect::Modular, ToolMode::Modular),
        (
            "x.json",
            format!(r#"{{{servers}, "categories": {{}}}}"#),
            Dialect::Modular,
            ToolMode::Modular,
        ),
        (
            "modular-mcp.json",
            format!(r#"{{{modular}, {servers}, "categories": {{}}, "toolMode": "proxy"}}"#),
            Dialect::Native,
            ToolMode::Proxy,
        ),
        (
            "modular-mcp.json",
            format!(r#"{{{ours}, {servers}, "categories": {{}}}}"#),
            Dialect::Native,
            ToolMode::Auto,
        ),
        (
            "x.json",
            r#"{"servers": {"a": {"command": "a"}}, "exposed_tools": {}}"#.to_owned(),
            Dialect::ToolmanServer,
            ToolMode::Direct,
        ),
        (
            "x.json",
            r#"{"servers": {"a": {"command": "a"}}, "exposed_tools": {}, "limits": {}, "http": {}}"#
                .to_owned(),
            Dialect::ToolmanServer,
            ToolMode::Direct,
        ),
        (
            "x.json",
            format!(r#"{{{servers}, "agent_policies": {{}}}}"#),
            Dialect::Native,
            ToolMode::Auto,
        ),
    ] {
        let loaded = loaded(name, &text);
        assert_eq!((loaded.dialect, loaded.config.mode), (dialect, mode), "{name}: {text}");
    }
}

#[test]
fn partly_described_servers_stay_a_client_file() {
    let a = r#""a": {"command": "a", "description": "d"}"#;
    for (others, top) in [
        (r#", "b": {"command": "b"}"#, ""),
        (r#", "b": {"command": "b", "description": " "}"#, ""),
        (r#", "b": {"command": "b", "description": "e", "toolFilters": ["x"]}"#, ""),
        (r#", "b": {"command": "b", "description": "e", "trust": true}"#, ""),
        ("", r#""$schema": "https://x", "#),
    ] {
        let text = format!(r#"{{{top}"mcpServers": {{{a}{others}}}}}"#);
        let loaded = loaded("x.json", &text);
        assert_eq!(
            (loaded.dialect, loaded.config.mode),
            (Dialect::Client, ToolMode::Auto),
            "{text}"
        );
    }
    let ours = format!(r#"{{"toolMode": "dynamic", "mcpServers": {{{a}}}}}"#);
    assert_eq!(loaded("x.json", &ours).dialect, Dialect::Native);
}

#[test]
fn guessed_modular_mcp_file_is_warned_about() {
    let text = r#"{"mcpServers": {"a": {"command": "a", "description": "d"}}}"#;
    let shape = loaded("x.json", text);
    let [warning] = &shape.findings[..] else { panic!("{:?}", shape.findings) };
    assert!(warning.message.starts_with("read as a Modular MCP file"), "{warning:?}");
    assert!(warning.hint.as_ref().unwrap().contains("\"toolMode\": \"auto\""), "{warning:?}");
    assert_eq!(loaded("modular-mcp.json", text).findings, []);
}

#[test]
fn only_modular_mcp_variables_can_have_any_case() {
    let text = r#"{"mcpServers": {"a": {"command": "${lower}", "description": "${Mixed_1}${lower:-x}",
        "args": ["${unset}", "${unset:-default}", "$lower", "${cwd}"]}}}"#;
    let env = env(&[("lower", "value"), ("Mixed_1", "d")]);
    let read = |name: &str, text: &str| {
        parse(text, Path::new(name), Path::new("/project"), &env)
            .unwrap_or_else(|report| panic!("{report}"))
    };
    let modular = read("modular-mcp.json", text);
    let launch_of_a = launch(&modular.config, "a");
    assert_eq!(launch_of_a.command, "value");
    assert_eq!(launch_of_a.args, ["${unset}", "default", "$lower", "${cwd}"]);
    assert_eq!(modular.config.toolboxes[0].description, "dvalue");
    let said: Vec<_> = modular.findings.iter().map(|warning| warning.message.as_str()).collect();
    assert_eq!(
        said,
        [
            "environment variable `unset` is not set; left unchanged",
            "`${cwd}` is not supported and left unchanged",
        ]
    );
    let ours = read("x.json", &text.replacen('{', "{\"toolMode\": \"modular\", ", 1));
    assert_eq!(launch(&ours.config, "a").command, "${lower}");
}

#[test]
fn empty_toolboxes_object_is_served_with_a_warning() {
    let empty = loaded("x.json", r#"{"toolboxes": {}}"#);
    assert_eq!(empty.config.toolboxes, []);
    assert!(empty.findings[0].message.starts_with("no toolboxes"), "{:?}", empty.findings);
    for text in ["{}", r#"{"mcpServers": {}}"#] {
        let place = Path::new("/project");
        assert!(parse(text, Path::new("x.json"), place, &env(&[])).is_err(), "{text}");
    }
}

#[test]
fn toolman_server_file_has_servers_and_policy() {
    let text =
        std::fs::read_to_string(repository().join("tests/configs/valid/toolman-server.json"));
    let config = loaded("toolman-server.json", &text.unwrap()).config;
    let names: Vec<_> = config.toolboxes.iter().map(|toolbox| toolbox.name.as_str()).collect();
    assert_eq!(names, ["filesystem", "github"], "one is disabled");
    let filesystem = &config.toolboxes[0];
    assert_eq!(filesystem.description, "Official filesystem MCP server");
    assert_eq!(filesystem.servers[0].call_timeout, std::time::Duration::from_secs(30));
    let policy = &config.policy;
    assert_eq!(policy.exposed_tools["github"], ["get_file", "create_issue"]);
    assert_eq!(policy.dangerous_tools, ["filesystem:delete_file", "github:delete_repository"]);
    let confirmed = vec!["github:create_pull_request".to_owned()];
    assert_eq!(policy.confirmation, ConfirmationPolicy::Dangerous(confirmed));
    assert!(!policy.default.allow_unknown_tools);
    let agents: Vec<_> = policy.agents.keys().map(AgentName::as_str).collect();
    assert_eq!(agents, ["claude-developer", "claude-readonly"]);
}

#[test]
fn audit_log_of_all_calls_is_in_the_state_folder() {
    let text = r#"{"servers": {"a": {"command": "a"}},
        "security_settings": {"audit_all_calls": true}}"#;
    for (state, wanted) in [
        (None, "/h/.local/state/mcp-workbench/audit.jsonl"),
        (Some("/state"), "/state/mcp-workbench/audit.jsonl"),
        (Some("not/absolute"), "/h/.local/state/mcp-workbench/audit.jsonl"),
        (Some(""), "/h/.local/state/mcp-workbench/audit.jsonl"),
    ] {
        let named = state.map(|folder| ("XDG_STATE_HOME", folder));
        let vars: Vec<_> = [("HOME", "/h")].into_iter().chain(named).collect();
        let parsed = parse(text, Path::new("x.json"), Path::new("/project"), &env(&vars));
        let audit = parsed.expect("a configuration").config.audit.expect("an audit log");
        assert_eq!(audit.file, Path::new(wanted), "{state:?}");
    }
}

#[test]
fn native_keys_override_toolman_server_keys() {
    let text = r#"{"servers": {"a": {"command": "a"}}, "agent_policies": {"x": {}},
        "toolMode": "proxy", "limits": {"maxResultBytes": 5000}, "resultCache": {"ttlMs": 7000},
        "http": {"maxSessions": 3}, "agentPolicies": null,
        "performance_settings": {"max_concurrent_calls": 4, "cache_tool_responses": true,
            "cache_duration_seconds": 9},
        "security_settings": {"dangerous_tools": ["a:x"], "audit_all_calls": true}}"#;
    let LoadedConfig { config, dialect, .. } = loaded("x.json", text);
    assert_eq!((dialect, config.mode), (Dialect::ToolmanServer, ToolMode::Proxy));
    assert_eq!(config.limits.max_result_bytes, Some(5000));
    assert_eq!(config.result_cache.ttl(), Some(std::time::Duration::from_secs(7)));
    assert_eq!(config.policy.dangerous_tools, ["a:x"]);
    assert!(config.audit.is_some());
    let both = text.replace(r#""toolMode": "proxy""#, r#""dangerousTools": ["a:y"]"#);
    let report = parse(&both, Path::new("x.json"), Path::new("/project"), &env(&[("HOME", "/h")]));
    let report = report.expect_err("two lists").to_string();
    assert!(report.contains("`dangerousTools` is also set at the top level"), "{report}");
    let wrong = text.replace(r#""http": {"maxSessions": 3}"#, r#""http": {"maxSesions": 3}"#);
    let report = parse(&wrong, Path::new("x.json"), Path::new("/project"), &env(&[("HOME", "/h")]));
    assert!(report.expect_err("a key that is misspelt").to_string().contains("maxSessions"));
}

#[test]
fn tools_toml_makes_one_toolbox_per_server() {
    let text = std::fs::read_to_string(repository().join("tests/configs/valid/toolman.toml"));
    let LoadedConfig { config, .. } = loaded("tools.toml", &text.unwrap());
    assert_eq!(config.active_toolsets, ["pjpd*", "vec_search"]);
    let toolboxes = config.toolboxes.iter();
    let names: Vec<_> = toolboxes.map(|t| (t.name.as_str(), t.namespace.as_str())).collect();
    assert_eq!(names, [("pjpd", "pjpd"), ("vec", "vec"), ("standalone-tool", "")]);
    let first = launch(&config, "pjpd");
    assert_eq!((first.command.as_str(), first.cwd.as_path()), ("node", Path::new("/project")));
    assert_eq!(first.args, ["/path/to/pjpd/build/index.js"]);
}

#[test]
fn toolman_command_is_split_or_run_by_a_shell() {
    let text = r#"
        [[servers]]
        namespace = "plain"
        command = "./bin/server 'a b' \"c d\" ~/e ~f"
        [[servers]]
        namespace = "shell"
        command = "cd sub && node \"${SET}/x.js\" $HOME | tee ~/log"
    "#;
    let LoadedConfig { config, findings: warnings, .. } = loaded("tools.toml", text);
    assert_eq!(warnings, []);
    let plain = launch(&config, "plain");
    assert_eq!(plain.command, "/project/bin/server");
    assert_eq!(plain.args, ["a b", "c d", "/home/me/e", "~f"]);
    let shell = launch(&config, "shell");
    assert_eq!(shell.command, "sh");
    assert_eq!(shell.args, ["-c", "cd sub && node \"${SET}/x.js\" $HOME | tee ~/log"]);
    assert_eq!(shell.env, env(&[("HOME", "/home/me"), ("SET", "value")]));
}

#[test]
fn category_overrides_its_server() {
    let text = r#"{
        "mcpServers": {
            "s": {"command": "s", "namespace": "n", "description": "S", "overrides": {
                "mcp__s__a": {"description": "below", "arguments": {"x": 1, "y": 1}, "select": ["/a"]},
                "b": {"enabled": false}}},
            "t": {"command": "t", "showServer": true}},
        "categories": {
            "c": {"description": "C", "server": "s", "tools": {"includeNames": ["a"], "overrides": {
                "a": {"description": "above", "arguments": {"x": 2}}}}},
            "d": {"description": "D", "server": "t", "tools": {"includeNames": ["a"]}}}
    }"#;
    let LoadedConfig { config, .. } = loaded("x.json", text);
    let names: Vec<_> = config.toolboxes.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(names, ["t", "c", "d"]);
    let category = config.toolbox("c").unwrap();
    assert_eq!((category.description.as_str(), category.namespace.as_str()), ("C", "n"));
    let server = &category.servers[0];
    assert_eq!(
        (server.name.as_str(), server.include.as_deref()),
        ("s", Some(&["a".to_owned()][..]))
    );
    let a = server.tool_override("a", false).unwrap();
    assert_eq!(a.description.as_deref(), Some("above"));
    assert_eq!(serde_json::json!(a.arguments), serde_json::json!({"x": 2, "y": 1}));
    assert_eq!(a.select.as_deref(), Some(&["/a".to_owned()][..]));
    assert_eq!(server.tool_override("b", false).unwrap().enabled, Some(false));
    assert_eq!(config.toolbox("d").unwrap().namespace, "d");
}

#[test]
fn foreign_default_files_are_the_fallback() {
    let folder = tempfile::tempdir().unwrap();
    let shown = |env: &dyn EnvSource| {
        let location = discover(None, env, folder.path());
        (location.display_path.display().to_string(), location.chosen_by)
    };
    let none = env(&[]);
    let default = |file: &str| (file.to_owned(), ConfigOrigin::Default);
    assert_eq!(shown(&none), default("./workbench-config.json"));
    for file in ["modular-mcp.json", "tools.toml", "workbench-config.json"] {
        std::fs::write(folder.path().join(file), "").unwrap();
        assert_eq!(shown(&none), default(&format!("./{file}")));
    }
    std::fs::remove_file(folder.path().join("workbench-config.json")).unwrap();
    assert_eq!(
        load(&discover(None, &none, folder.path()), &none, &NoSecrets).unwrap().file,
        "./tools.toml"
    );
    let named = env(&[("WORKBENCH_CONFIG", "w.json")]);
    assert_eq!(shown(&named), ("w.json".to_owned(), ConfigOrigin::EnvVar));
}

#[test]
fn user_config_is_the_last_fallback() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    let own = home.join(".config/mcp-workbench");
    std::fs::create_dir_all(&own).unwrap();
    let home = home.to_str().unwrap();
    let shown = |env: &dyn EnvSource| {
        let ConfigLocation { display_path: shown, chosen_by, .. } =
            discover(None, env, folder.path());
        (shown.display().to_string(), chosen_by)
    };
    let ours = ("./workbench-config.json".to_owned(), ConfigOrigin::Default);
    assert_eq!(shown(&env(&[("HOME", home)])), ours);
    std::fs::write(own.join("config.json"), "").unwrap();
    let users = "~/.config/mcp-workbench/config.json".to_owned();
    assert_eq!(shown(&env(&[("HOME", home)])), (users, ConfigOrigin::User));
    assert_eq!(shown(&env(&[("HOME", home), ("XDG_CONFIG_HOME", "/nowhere")])), ours);
    std::fs::write(folder.path().join("tools.toml"), "").unwrap();
    assert_eq!(shown(&env(&[("HOME", home)])).0, "./tools.toml");
}

#[test]
fn malformed_toml_does_not_panic() {
    let whole = "active_toolsets = [\"a\"]\na.b.c = 1\n[[servers]]\nnamespace = 'é'\ncommand = \"\"\"x\n$y\"\"\"\n";
    let try_it = |text: &str| _ = parse(text, Path::new("t.toml"), Path::new("/"), &env(&[]));
    for (end, was) in whole.char_indices() {
        try_it(&whole[..end]);
        for now in ["", "[", "=", "\"", "\n", "é", "."] {
            try_it(&[&whole[..end], now, &whole[end + was.len_utf8()..]].concat());
        }
    }
    for part in ["[", "a.", "{a=", "[[", "[a.", "a=[", "a={b=", "[a]\nb.", "'a'.", "a . "] {
        try_it(&part.repeat(2_000));
        try_it(&format!("{}x = 1", part.repeat(2_000)));
        try_it(&format!("x = {}", part.repeat(2_000)));
        try_it(&format!("x = {{{}y = 1}}", part.repeat(2_000)));
        try_it(&format!("[{}x]", part.repeat(2_000)));
    }
}

#[test]
fn client_file_ignores_unrelated_keys() {
    let server = r#"{"a": {"command": "a", "env": {"T": "${SET}"}}}"#;
    let keys = (0..30).map(|n| format!(r#""key{n}": {{"x": "${{NONE}}", "x": 1}}, "#));
    let many = keys.collect::<Vec<_>>().concat();
    for text in [
        // Claude Desktop
        format!(r#"{{"globalShortcut": "", "preferences": {{}}, "mcpServers": {server}}}"#),
        // Claude Code
        format!(
            r#"{{{many} "mcpServers": {server}, "projects": {{"/x": {{"mcpServers": {{}}}}}}}}"#
        ),
        // Gemini CLI
        format!(
            r#"{{"theme": "x", "telemetry": {{"enabled": true, "target": "local"}},
                "mcp": {{"allowed": ["a"]}}, "mcpServers": {server}}}"#
        ),
        // VS Code
        format!(r#"{{"editor.fontSize": 12, "mcp": {{"servers": {server}, "inputs": []}}}}"#),
        format!(r#"{{"inputs": [], "servers": {server}}}"#),
        // Zed
        format!(r#"{{"search": {{"regex": true}}, "agent": {{}}, "context_servers": {server}}}"#),
        // opencode
        format!(r#"{{"$schema": "https://x", "model": "m", "mcp": {server}}}"#),
    ] {
        let loaded = loaded("x.json", &text);
        assert_eq!(loaded.dialect, Dialect::Client, "{text}");
        assert_eq!(launch(&loaded.config, "a").env["T"], "value", "{text}");
        let remarks: Vec<_> = loaded.findings.iter().map(|one| one.message.as_str()).collect();
        assert!(remarks.len() <= 1 && !loaded.has_errors(), "{remarks:?}");
    }
    let text = format!(r#"{{{many} "mcpServers": {server}}}"#);
    assert_eq!(
        loaded("x.json", &text).report().unwrap().to_string(),
        "warning: 1 warning in `x.json`\n\n  x.json:1:2: ignored: `key0`, `key1`, `key2`, `key3` and 26 \
         more (for the client)"
    );
}

// invariant: bad-entry-fails-alone
#[test]
fn misspelt_native_key_is_reported_in_a_client_file() {
    for key in
        ["tooolboxes", "toolmode", "agentPolicy", "agent-policies", "allowedServers", "limit"]
    {
        let text = format!(r#"{{"mcpServers": {{"a": {{"command": "a"}}}}, "{key}": {{}}}}"#);
        let report = parse(&text, Path::new("x.json"), Path::new("/"), &env(&[])).unwrap_err();
        assert!(report.to_string().contains(&format!("{key}: unknown key")), "{report}");
    }
}
