//! Tests of server entries: paths, defaults, and the keys of other clients.

use std::path::Path;
use std::time::Duration;

use pretty_assertions::assert_eq;

use crate::tests::{config, env, findings, read};
use mcp_workbench_settings::{
    AccountScope, GrantType, HttpLaunch, HttpTransport, Isolation, Launch, Limits, OAuthConfig,
    Protocol, RateLimits, ResourceIndicator, ResultCacheConfig, Sandbox, ServerConfig, StdioLaunch,
    ToolMode,
};

/// Returns the server of the entry `block`, in a file under `/project`.
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
            name: mcp_workbench_names::ServerName::new("files"),
            description: None,
            launch: Launch::Stdio(StdioLaunch {
                command: "npx".to_owned(),
                args: Vec::new(),
                env: [].into(),
                cwd: "/project".into(),
                inherit_env: false,
                secret_refs: [].into(),
                withheld: [].into(),
                has_own_folder: false,
                sandbox: Some(Sandbox::Off),
                starts_directly: true,
            }),
            resource_filters: Vec::new(),
            prompt_filters: Vec::new(),
            extension_methods: Vec::new(),
            tool_filters: Vec::new(),
            include: None,
            overrides: std::collections::BTreeMap::new(),
            startup_timeout: Duration::from_mins(1),
            call_timeout: Duration::from_mins(5),
            total_call_timeout: Duration::from_hours(1),
            idle_timeout: None,
            shares_process: true,
            eager: false,
            isolation: Isolation::Shared,
            protocol: Protocol::Auto,
            roots: false,
            limits: RateLimits::default(),
            result_cache: ResultCacheConfig::default(),
            drift_policy: None,
            lock_entry: None,
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
fn command_paths_resolve_from_the_file() {
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
fn cwd_resolves_from_the_file() {
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
fn tilde_is_not_expanded_in_args_and_env() {
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
fn null_is_the_same_as_absent() {
    let all = server(
        r#"{"command": "x", "args": null, "env": null, "cwd": null, "toolFilters": null, "url": null,
            "disabled": null, "idleTimeoutMs": null, "shareProcess": null, "transport": null}"#,
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
fn client_timeout_below_1000_is_seconds() {
    let timeout = |block: &str| server(&format!("{{\"command\": \"x\", {block}}}")).call_timeout;
    assert_eq!(timeout(r#""timeout": 60"#), Duration::from_mins(1));
    assert_eq!(timeout(r#""timeout": 30000"#), Duration::from_secs(30));
    assert_eq!(timeout(r#""timeout": 0"#), Duration::from_mins(5));
    assert_eq!(timeout(r#""timeout": 60, "callTimeoutMs": 7"#), Duration::from_millis(7));
}

#[test]
fn filters_of_other_clients_become_tool_filters() {
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
fn command_lines_of_windows_and_in_one_text_are_split() {
    for block in [
        r#"{"command": "npx -y some-server"}"#,
        r#"{"command": "cmd", "args": ["/c", "npx", "-y", "some-server"]}"#,
    ] {
        let launch = launch(block);
        let line: Vec<_> = std::iter::once(&launch.command).chain(&launch.args).collect();
        assert_eq!(line, ["npx", "-y", "some-server"], "{block}");
    }
}

#[test]
fn url_makes_a_server_http() {
    for block in [
        r#"{"type": "http", "url": "https://example.com/mcp"}"#,
        r#"{"transport": "streamable-http", "url": "https://example.com/mcp"}"#,
        r#"{"type": "streamableHttp", "url": " https://example.com/mcp "}"#,
        r#"{"type": "streamable_http", "url": "https://example.com/mcp"}"#,
        r#"{"type": "http-stream", "url": "https://example.com/mcp"}"#,
        r#"{"transport": "httpStreamable", "url": "https://example.com/mcp"}"#,
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
fn headers_are_redacted_in_debug_output() {
    let block = r#"{"url": "https://example.com", "headers": {"X-Key": "hunter2", "A": " b "}}"#;
    let launch = server(block).launch;
    let Launch::Http(HttpLaunch { headers, .. }) = &launch else { panic!("{launch:?}") };
    let headers: Vec<_> =
        headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
    assert_eq!(headers, [("x-key", "hunter2"), ("a", "b")]);
    assert!(!format!("{launch:?}").contains("hunter2"), "{launch:?}");
}

#[test]
fn oauth_section_is_checked() {
    let oauth = |block: &str| match server(block).launch {
        Launch::Http(launch) => launch.oauth,
        other => panic!("{other:?}"),
    };
    assert_eq!(oauth(r#"{"url": "http://x"}"#), OAuthConfig::default());
    assert!(oauth(r#"{"url": "http://x", "oauth": false}"#).is_off);
    assert!(oauth(r#"{"url": "http://x", "headers": {"authorization": "t"}, "oauth": {}}"#).is_off);
    let said = oauth(
        r#"{"url": "http://x", "oauth": {"clientId": "me", "clientSecret": "${SET}", "scope": "a b",
            "callback_port": 3118, "pkce": "lax", "resource": "off", "account": "agent",
            "authServerMetadataUrl": "https://as/x", "authorizationParameters": {"prompt": "login"},
            "issuer": "https://as"}}"#,
    );
    assert!(!format!("{said:?}").contains("value"), "{said:?}");
    let expected = OAuthConfig {
        client_id: Some("me".to_owned()),
        client_secret: Some("value".to_owned()),
        scopes: Some(vec!["a".to_owned(), "b".to_owned()]),
        callback_port: Some(3118),
        metadata_url: Some("https://as/x".parse().unwrap()),
        resource: ResourceIndicator::Off,
        account: AccountScope::Agent,
        authorization_parameters: vec![("prompt".to_owned(), "login".to_owned())],
        allows_no_pkce: true,
        ..OAuthConfig::default()
    };
    assert!(said == expected, "{said:?}");
    let said = oauth(
        r#"{"url": "http://x", "oauth": {"grant": "client_credentials", "clientId": "me",
            "privateKey": "-----BEGIN PRIVATE KEY-----", "algorithm": "RS256"}}"#,
    );
    assert!(
        matches!(said.grant, GrantType::PrivateKeyJwt { algorithm, .. } if algorithm == "RS256")
    );
    let said =
        oauth(r#"{"url": "http://x", "oauth": {"grant": "jwt_bearer", "tokenFile": "run/token"}}"#);
    assert!(said.grant == GrantType::WorkloadJwt { token_file: "/project/run/token".into() });
}

#[test]
fn auth_of_a_server_is_checked() {
    let block = r#"{"url": "http://x", "auth": {"exchange": "caller", "issuer": "https://as/t",
        "clientId": "me", "privateKey": "-----BEGIN PRIVATE KEY-----", "scope": "a b",
        "audience": "x", "resource": "off", "allowedOrigins": ["https://login/"]}}"#;
    let jwt = r#""auth": {"jwt": {"issuer": "https://as", "audience": "us"}}"#;
    let text = format!(r#"{{{jwt}, "mcpServers": {{"srv": {block}}}}}"#);
    let config = config(&text);
    let Launch::Http(launch) = &config.toolboxes[0].servers[0].launch else { panic!() };
    let exchange = launch.oauth.exchange().unwrap();
    assert_eq!(exchange.issuer.as_str(), "https://as/t");
    assert_eq!(exchange.audience.as_deref(), Some("x"));
    assert_eq!(exchange.key.as_ref().unwrap().algorithm, "ES256");
    assert_eq!(launch.oauth.resource, ResourceIndicator::Off);
    assert_eq!(launch.oauth.allowed_origins, ["https://login"]);
    assert_eq!(launch.oauth.scopes.as_ref().unwrap().len(), 2);
    // Without `auth.jwt` no caller has a token.
    let Launch::Broken { reason, hint } = server(block).launch else { panic!() };
    assert!(reason.contains("the top-level `auth` has no `jwt`"), "{reason}");
    assert!(hint.contains("`auth.jwt`"), "{hint}");
    // Another program's value is ignored.
    let Launch::Http(launch) = server(r#"{"url": "http://x", "auth": "oauth"}"#).launch else {
        panic!()
    };
    assert_eq!(launch.oauth, OAuthConfig::default());
}

#[test]
fn invalid_urls_and_headers_are_not_echoed() {
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
        assert!(shown.starts_with("error: 1 error "), "{shown}");
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}

#[test]
fn http_transport_is_auto_unless_sse_is_given() {
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

/// Returns each server that its entry makes unusable, with the reason and the hint.
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
fn invalid_entry_reports_location_and_hint() {
    let wrong = "invalid configuration entry";
    let text = r#"{"mcpServers": {"a": {"command": "a"}, "b": {"command": "b", "env": {"T": "${NONE}"}},
        "c.d": {"args": 1}, "e": "npx"}}"#;
    assert_eq!(
        troubles(text),
        [
            format!(
                "b: {wrong}: `env.T`: environment variable `NONE` is not set (set it before \
                 starting the workbench, or write `${{NONE:-default}}`)"
            ),
            format!(
                "c.d: {wrong}: `args`: expected an array of strings, found a number, and one more \
                 problem (run `mcp-workbench check` for the position of the error)"
            ),
            format!(
                "e: {wrong}: expected an object, found a string (run `mcp-workbench check` for the \
                 position of the error)"
            ),
        ]
    );
}

#[test]
fn duplicate_key_in_an_entry_disables_that_server() {
    let text = r#"{"mcpServers": {"a": {"command": "a", "command": "b"}, "b": {"command": "b"}}}"#;
    assert_eq!(troubles(text).len(), 1);
    let names = r#"{"mcpServers": {"a": {"command": "a"}, "a": {"command": "b"}}}"#;
    assert!(read(names, &env(&[])).is_err(), "the name is ambiguous");
}

// invariant: bad-entry-fails-alone
#[test]
fn invalid_policy_or_auth_key_rejects_the_file() {
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
