//! Server blocks: paths, defaults, and what clients write beside.

use std::path::Path;
use std::time::Duration;

use pretty_assertions::assert_eq;

use crate::config::tests::{config, env, findings, read};
use crate::settings::{
    AccountOf, CacheConfig, Grant, HttpLaunch, HttpTransport, Isolation, Launch, Limits, OAuth,
    Protocol, Rates, Resource, Sandbox, ServerConfig, StdioLaunch, ToolMode,
};

/// The one server of a block, with `/project` as the folder of the file.
fn server(block: &str) -> ServerConfig {
    let text = format!("{{\"mcpServers\": {{\"s\": {block}}}}}");
    config(&text).toolboxes.remove(0).servers.remove(0)
}

fn launch(block: &str) -> StdioLaunch {
    match server(block).launch {
        Launch::Stdio(launch) => launch,
        other => panic!("{other:?}"),
    }
}

#[test]
fn defaults_are_as_documented() {
    let config = config(r#"{"mcpServers": {"files": {"command": "npx"}}}"#);
    assert_eq!(config.mode, ToolMode::Auto);
    assert_eq!(config.max_tool_name_length, 48);
    assert_eq!(config.limits, Limits::default());
    let toolbox = config.toolbox("files").unwrap();
    assert_eq!(toolbox.description, "Tools of the server `files`");
    assert_eq!(
        toolbox.servers,
        [ServerConfig {
            name: crate::name::ServerName::new("files"),
            description: None,
            launch: Launch::Stdio(StdioLaunch {
                command: "npx".to_owned(),
                args: Vec::new(),
                env: [].into(),
                cwd: "/project".into(),
                inherit_env: false,
                referred: [].into(),
                withheld: [].into(),
                has_own_folder: false,
                sandbox: Some(Sandbox::Off),
            }),
            resource_filters: Vec::new(),
            prompt_filters: Vec::new(),
            tool_filters: Vec::new(),
            include: None,
            overrides: std::collections::BTreeMap::new(),
            startup_timeout: Duration::from_mins(1),
            call_timeout: Duration::from_mins(5),
            total_call_timeout: Duration::from_hours(1),
            idle_timeout: None,
            shared: true,
            eager: false,
            isolation: Isolation::Shared,
            protocol: Protocol::Auto,
            roots: false,
            limits: Rates::default(),
            cache: CacheConfig::default(),
            definitions: None,
            locked: None,
        }]
    );
}

#[test]
fn toolboxes_keep_the_order_of_the_file() {
    let names = |text: &str| -> Vec<String> {
        let config = config(text);
        config.toolboxes.iter().map(|t| t.name.to_string()).collect()
    };
    let dev =
        r#""toolboxes": {"dev": {"description": "d", "mcpServers": {"x": {"command": "x"}}}}"#;
    let own = r#""mcpServers": {"z": {"command": "z"}, "a": {"command": "a"}}"#;
    assert_eq!(names(&format!("{{{dev}, {own}}}")), ["dev", "z", "a"]);
    assert_eq!(names(&format!("{{{own}, {dev}}}")), ["z", "a", "dev"]);
}

#[test]
fn a_command_is_found_from_the_file() {
    let command = |written: &str| launch(&format!("{{\"command\": \"{written}\"}}")).command;
    assert_eq!(command("npx"), "npx");
    assert_eq!(command("./run.sh"), "/project/run.sh");
    assert_eq!(command("bin/run"), "/project/bin/run");
    assert_eq!(command("../run"), "/project/../run");
    assert_eq!(command("/usr/bin/run"), "/usr/bin/run");
    assert_eq!(command("~/bin/run"), "/home/me/bin/run");
    assert_eq!(command("~other/run"), "/project/~other/run");
}

#[test]
fn a_folder_is_found_from_the_file() {
    let cwd =
        |written: &str| launch(&format!("{{\"command\": \"x\", \"cwd\": \"{written}\"}}")).cwd;
    assert_eq!(cwd(""), Path::new("/project"));
    assert_eq!(cwd("."), Path::new("/project"));
    assert_eq!(cwd("sub"), Path::new("/project/sub"));
    assert_eq!(cwd("/else"), Path::new("/else"));
    assert_eq!(cwd("~"), Path::new("/home/me"));
    assert_eq!(cwd("~/sub"), Path::new("/home/me/sub"));
}

#[test]
fn a_home_is_not_put_into_arguments() {
    let launch = launch(r#"{"command": "x", "args": ["~/a", "./b"], "env": {"C": "~"}}"#);
    assert_eq!(launch.args, ["~/a", "./b"]);
    assert_eq!(launch.env["C"], "~");
}

#[test]
fn an_opencode_block_is_understood() {
    let launch = launch(
        r#"{"type": "local", "command": ["npx", "-y"], "args": ["z"],
            "environment": {"A": "1", "B": "1"}, "env": {"B": "2"}}"#,
    );
    assert_eq!(launch.command, "npx");
    assert_eq!(launch.args, ["-y", "z"]);
    assert_eq!(launch.env, [("A".into(), "1".into()), ("B".into(), "2".into())].into());
}

#[test]
fn numbers_and_booleans_in_the_environment_become_strings() {
    let launch = launch(r#"{"command": "x", "env": {"A": 8080, "B": true, "C": null, "D": 1e3}}"#);
    let env: Vec<(&str, &str)> = launch.env.iter().map(|(k, v)| (&**k, &**v)).collect();
    assert_eq!(env, [("A", "8080"), ("B", "true"), ("D", "1e3")]);
}

#[test]
fn nulls_are_as_good_as_absent() {
    let all = server(
        r#"{"command": "x", "args": null, "env": null, "cwd": null, "toolFilters": null, "url": null,
            "disabled": null, "idleTimeoutMs": null, "shared": null, "transport": null}"#,
    );
    assert_eq!(all, server(r#"{"command": "x"}"#));
}

#[test]
fn an_idle_timeout_of_zero_means_never() {
    assert_eq!(server(r#"{"command": "x", "idleTimeoutMs": 0}"#).idle_timeout, None);
    let some = server(r#"{"command": "x", "idleTimeoutMs": 5}"#).idle_timeout;
    assert_eq!(some, Some(Duration::from_millis(5)));
}

#[test]
fn a_timeout_of_another_client_is_read_by_its_size() {
    let timeout = |block: &str| server(&format!("{{\"command\": \"x\", {block}}}")).call_timeout;
    assert_eq!(timeout(r#""timeout": 60"#), Duration::from_mins(1));
    assert_eq!(timeout(r#""timeout": 30000"#), Duration::from_secs(30));
    assert_eq!(timeout(r#""timeout": 0"#), Duration::from_mins(5));
    assert_eq!(timeout(r#""timeout": 60, "callTimeoutMs": 7"#), Duration::from_millis(7));
}

#[test]
fn filters_of_other_clients_are_put_in_our_words() {
    let filters = |block: &str| server(&format!("{{\"command\": \"x\", {block}}}")).tool_filters;
    assert_eq!(filters(r#""includeTools": ["a", "b"]"#), ["a", "b"]);
    assert_eq!(filters(r#""excludeTools": ["a"]"#), ["!a"]);
    assert_eq!(filters(r#""enabled_tools": ["a"], "disabled_tools": ["b"]"#), ["a", "!b"]);
    assert_eq!(filters(r#""tools": ["*"]"#), ["*"]);
    assert_eq!(filters(r#""enabled_tools": []"#), ["!*"]);
    assert_eq!(
        filters(r#""toolFilters": ["c"], "tools": ["a"], "disabledTools": ["b"]"#),
        ["c", "!b"]
    );
}

#[test]
fn servers_over_http_are_known_by_their_address() {
    for block in [
        r#"{"type": "http", "url": "https://example.com/mcp"}"#,
        r#"{"transport": "streamable-http", "url": "https://example.com/mcp"}"#,
        r#"{"type": "streamableHttp", "url": " https://example.com/mcp "}"#,
        r#"{"type": "remote", "url": "https://example.com/mcp"}"#,
        r#"{"url": "https://example.com/mcp"}"#,
        r#"{"serverUrl": "https://example.com/mcp"}"#,
        r#"{"httpUrl": "https://example.com/mcp", "headers": {}}"#,
    ] {
        let Launch::Http(HttpLaunch { url, headers, .. }) = server(block).launch else {
            panic!("{block}");
        };
        assert_eq!((url.as_str(), headers), ("https://example.com/mcp", Vec::new()), "{block}");
    }
}

#[test]
fn headers_are_kept_secret() {
    let block = r#"{"url": "https://example.com", "headers": {"X-Key": "hunter2", "A": " b "}}"#;
    let launch = server(block).launch;
    let Launch::Http(HttpLaunch { headers, .. }) = &launch else { panic!("{launch:?}") };
    let headers: Vec<_> =
        headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
    assert_eq!(headers, [("x-key", "hunter2"), ("a", "b")]);
    assert!(!format!("{launch:?}").contains("hunter2"), "{launch:?}");
}

#[test]
fn how_to_sign_in_is_taken_over() {
    let oauth = |block: &str| match server(block).launch {
        Launch::Http(launch) => launch.oauth,
        other => panic!("{other:?}"),
    };
    assert_eq!(oauth(r#"{"url": "http://x"}"#), OAuth::default());
    assert!(oauth(r#"{"url": "http://x", "oauth": false}"#).is_off);
    assert!(oauth(r#"{"url": "http://x", "headers": {"authorization": "t"}, "oauth": {}}"#).is_off);
    let said = oauth(
        r#"{"url": "http://x", "oauth": {"clientId": "me", "clientSecret": "${SET}", "scope": "a b",
            "callback_port": 3118, "pkce": "lax", "resource": "off", "account": "agent",
            "authServerMetadataUrl": "https://as/x", "authorizationParameters": {"prompt": "login"},
            "issuer": "https://as"}}"#,
    );
    assert!(!format!("{said:?}").contains("value"), "{said:?}");
    let expected = OAuth {
        client_id: Some("me".to_owned()),
        client_secret: Some("value".to_owned()),
        scopes: Some(vec!["a".to_owned(), "b".to_owned()]),
        callback_port: Some(3118),
        metadata_url: Some("https://as/x".parse().unwrap()),
        resource: Resource::Off,
        account: AccountOf::Agent,
        authorization_parameters: vec![("prompt".to_owned(), "login".to_owned())],
        allows_no_pkce: true,
        ..OAuth::default()
    };
    assert!(said == expected, "{said:?}");
    let said = oauth(
        r#"{"url": "http://x", "oauth": {"grant": "client_credentials", "clientId": "me",
            "privateKey": "-----BEGIN PRIVATE KEY-----", "algorithm": "RS256"}}"#,
    );
    assert!(matches!(said.grant, Grant::SignedClient { algorithm, .. } if algorithm == "RS256"));
    let said =
        oauth(r#"{"url": "http://x", "oauth": {"grant": "jwt_bearer", "tokenFile": "run/token"}}"#);
    assert!(said.grant == Grant::Workload { token_file: "/project/run/token".into() });
}

#[test]
fn wrong_addresses_and_headers_are_reported_without_them() {
    for block in [
        r#"{"url": "hunter2"}"#,
        r#"{"url": "ftp://hunter2"}"#,
        r#"{"url": "http:"}"#,
        r#"{"url": ""}"#,
        r#"{"url": "http://x", "headers": {"a b": "hunter2"}}"#,
        r#"{"url": "http://x", "headers": {"a": "hunter2\nb: c"}}"#,
        r#"{"type": "http", "headers": {"a": "hunter2"}}"#,
    ] {
        let shown = findings(&format!("{{\"mcpServers\": {{\"s\": {block}}}}}"));
        assert!(shown.starts_with("error: 1 problem "), "{shown}");
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}

#[test]
fn the_transport_of_a_server_is_found_out_unless_it_is_the_old_one() {
    for (block, transport) in [
        (r#"{"url": "https://example.com/sse"}"#, HttpTransport::Auto),
        (r#"{"type": "http", "url": "https://example.com"}"#, HttpTransport::Auto),
        (r#"{"type": "sse", "url": "https://example.com"}"#, HttpTransport::Sse),
        (r#"{"transport": "sse", "serverUrl": "https://example.com"}"#, HttpTransport::Sse),
    ] {
        let Launch::Http(launch) = server(block).launch else { panic!("{block}") };
        assert_eq!(launch.transport, transport, "{block}");
    }
    let shown = findings(r#"{"mcpServers": {"s": {"type": "sse", "command": "x"}}}"#);
    assert!(shown.contains("expected a `url`"), "{shown}");
}

/// Why each server is not used that an entry has made unusable.
fn troubles(text: &str) -> Vec<String> {
    let config = config(text);
    let servers = config.toolboxes.iter().flat_map(|toolbox| &toolbox.servers);
    let troubles = servers.filter_map(|server| match &server.launch {
        Launch::Broken { reason, hint } => Some(format!("{}: {reason} ({hint})", server.name)),
        _ => None,
    });
    troubles.collect()
}

#[test]
fn a_wrong_entry_says_where_and_what_to_do() {
    let wrong = "its entry in the configuration is wrong";
    let text = r#"{"mcpServers": {"a": {"command": "a"}, "b": {"command": "b", "env": {"T": "${NONE}"}},
        "c.d": {"args": 1}, "e": "npx"}}"#;
    assert_eq!(
        troubles(text),
        [
            format!(
                "b: {wrong}: `env.T`: environment variable `NONE` is not set (run `export \
                 NONE=value` before the start, or write `${{NONE:-default}}`)"
            ),
            format!(
                "c.d: {wrong}: `args`: expected an array of strings, found a number, and one more \
                 problem (correct its entry; `mcp-workbench check` says where it stands)"
            ),
            format!(
                "e: {wrong}: expected an object, found a string (correct its entry; \
                 `mcp-workbench check` says where it stands)"
            ),
        ]
    );
}

#[test]
fn what_is_written_twice_in_an_entry_costs_that_server() {
    let text = r#"{"mcpServers": {"a": {"command": "a", "command": "b"}, "b": {"command": "b"}}}"#;
    assert_eq!(troubles(text).len(), 1);
    let names = r#"{"mcpServers": {"a": {"command": "a"}, "a": {"command": "b"}}}"#;
    assert!(read(names, &env(&[])).is_err(), "which of two is meant nobody knows");
}

#[test]
fn what_says_who_may_do_what_refuses_the_whole_file() {
    let server = r#""mcpServers": {"a": {"command": "a"}}"#;
    for rule in [
        r#""agentPolicies": {"x": {"allowedServers": ["${NONE}"]}}"#,
        r#""exposedTools": {"a": ["${NONE}"]}"#,
        r#""dangerousTools": ["${NONE}"]"#,
        r#""auth": {"tokens": [{"agent": "x", "env": "NONE"}]}"#,
        r#""agent_policies": {"x": {"allowed_serverz": []}}"#,
        r#""agentPolicie": {}"#,
    ] {
        assert!(read(&format!("{{{server}, {rule}}}"), &env(&[])).is_err(), "{rule}");
    }
}
