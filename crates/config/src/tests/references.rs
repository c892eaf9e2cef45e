//! Tests of secret references.

use std::path::Path;

use pretty_assertions::assert_eq;

use crate::secret_values::{NoSecrets, ResolvedSecrets, SecretError, SecretResolver, SecretValue};
use crate::tests::env;
use crate::{ConfigReport, LoadedConfig, parse_with};
use mcp_workbench_settings::{Launch, SecretRef, ServerConfig, can_auto_reload, token_digest};

/// Satisfies the minimum length of an agent token.
const TOKEN: &str = "s3cret-token-of-an-agent";

fn file(path: &str) -> SecretRef {
    SecretRef::File(path.into())
}

fn command(words: &[&str]) -> SecretRef {
    let words = words.iter().map(|word| (*word).to_owned()).collect();
    SecretRef::Command { words, folder: "/project".into() }
}

fn source(values: &[(SecretRef, &str)]) -> ResolvedSecrets {
    let value = |reference: &SecretRef, text: &str| match text {
        "" => {
            let (reason, hint) = ("it cannot be resolved".to_owned(), "look".to_owned());
            Err(SecretError { reason, hint })
        }
        text => SecretValue::from_bytes(reference, text.as_bytes().to_vec()),
    };
    ResolvedSecrets(
        values.iter().map(|(place, text)| (place.clone(), value(place, text))).collect(),
    )
}

fn read(text: &str, source: &dyn SecretResolver) -> Result<LoadedConfig, ConfigReport> {
    let env = env(&[("HOME", "/home/me"), ("SET", "value")]);
    parse_with(text, Path::new("test.json"), Path::new("/project"), &env, source)
}

fn server<'a>(loaded: &'a LoadedConfig, name: &str) -> &'a ServerConfig {
    loaded.config.toolbox(name).unwrap().server(name).unwrap()
}

#[test]
fn reference_paths_resolve_like_other_paths() {
    for (written, reference) in [
        (r#"{"file": "token"}"#, file("/project/token")),
        (r#"{"file": "~/token"}"#, file("/home/me/token")),
        (r#"{"file": "/run/${SET}/token"}"#, file("/run/value/token")),
        (r#"{"command": ["pass", "show", "${SET}"]}"#, command(&["pass", "show", "value"])),
        (r#"{"command": ["./get.sh"]}"#, command(&["/project/get.sh"])),
        (r#"{"command": ["~/get.sh", "~"]}"#, command(&["/home/me/get.sh", "~"])),
        (
            r#"{"keyring": "github/me/too"}"#,
            SecretRef::Keyring { service: "github".to_owned(), account: "me/too".to_owned() },
        ),
    ] {
        let text =
            format!(r#"{{"mcpServers": {{"a": {{"command": "a", "env": {{"T": {written}}}}}}}}}"#);
        let loaded = read(&text, &NoSecrets).unwrap();
        assert_eq!(loaded.unresolved_secrets, [reference.clone()].into(), "{written}");
        let loaded = read(&text, &source(&[(reference.clone(), "s3cret")])).unwrap();
        assert!(loaded.unresolved_secrets.is_empty());
        let Launch::Stdio(launch) = &server(&loaded, "a").launch else { panic!("{written}") };
        assert_eq!(launch.env["T"], "s3cret");
        assert_eq!(launch.secret_refs["T"], reference);
        assert!(!format!("{:?}", loaded.config).contains("s3cret"));
    }
}

#[test]
fn secret_references_work_in_keys_tokens_and_headers() {
    let text = r#"{
        "navigator": {"llm": {"baseUrl": "https://h", "model": "m", "apiKey": {"file": "key"}}},
        "search": {"embeddings": {"baseUrl": "https://h", "model": "m", "apiKey": {"command": ["key"]}}},
        "auth": {"tokens": [{"agent": "ann", "token": {"file": "token"}}]},
        "defaultPolicy": {},
        "mcpServers": {"a": {"url": "https://h/mcp", "headers": {
            "Authorization": {"file": "token", "prefix": "Bearer "}, "X-Key": {"command": ["key"]}}}}}"#;
    let values = [
        (file("/project/key"), "one"),
        (command(&["key"]), "two"),
        (file("/project/token"), TOKEN),
    ];
    let loaded = read(text, &source(&values)).unwrap();
    let config = &loaded.config;
    let key =
        |llm: &Option<mcp_workbench_settings::LlmConfig>| llm.as_ref().unwrap().api_key.clone();
    assert_eq!(key(&config.navigator.llm).as_deref(), Some("one"));
    assert_eq!(key(&config.search.embeddings).as_deref(), Some("two"));
    assert_eq!(config.auth.as_ref().unwrap().tokens[0].digest, token_digest(TOKEN));
    let Launch::Http(launch) = &server(&loaded, "a").launch else { panic!("no URL") };
    let headers: Vec<_> = launch.headers.iter().map(|(_, value)| value.to_str().unwrap()).collect();
    assert_eq!(headers, [&format!("Bearer {TOKEN}"), "two"]);
    let shown = format!("{config:?}");
    assert!(!shown.contains(TOKEN), "{shown}");
    // An unresolved token must not admit anyone: its digest is all zeros.
    let unasked = read(text, &NoSecrets).unwrap();
    assert_eq!(unasked.unresolved_secrets.len(), 3);
    assert_eq!(unasked.config.auth.unwrap().tokens[0].digest, [0; 32]);
}

#[test]
fn unresolvable_secret_disables_only_its_consumer() {
    let text = r#"{
        "navigator": {"llm": {"baseUrl": "https://h", "model": "m", "apiKey": {"file": "lost"}}},
        "search": {"embeddings": {"baseUrl": "https://h", "model": "m", "apiKey": {"file": "key"}}},
        "auth": {"tokens": [{"agent": "ann", "token": {"file": "lost"}},
                            {"agent": "bob", "token": {"file": "token"}}]},
        "defaultPolicy": {},
        "mcpServers": {"a": {"command": "a", "env": {"T": {"file": "lost"}}},
                       "b": {"command": "b", "env": {"T": {"file": "key"}}}}}"#;
    let values = [
        (file("/project/lost"), ""),
        (file("/project/key"), "s3cret"),
        (file("/project/token"), TOKEN),
    ];
    let loaded = read(text, &source(&values)).unwrap();
    assert_eq!(loaded.broken_servers(), ["a/a"]);
    assert!(loaded.has_errors());
    assert_eq!(loaded.config.navigator.llm, None);
    assert!(loaded.config.search.embeddings.is_some());
    let agents: Vec<_> = loaded
        .config
        .auth
        .iter()
        .flat_map(|auth| &auth.tokens)
        .map(|token| token.agent.as_str())
        .collect();
    assert_eq!(agents, ["bob"]);
    let paths: Vec<_> = loaded.findings.iter().map(|finding| finding.path.as_str()).collect();
    assert_eq!(
        paths,
        ["navigator.llm.apiKey", "auth.tokens[0].token", "mcpServers.a.env.T"],
        "{}",
        loaded.report().unwrap()
    );
}

#[test]
fn disabled_server_requests_no_secrets() {
    let text = r#"{"mcpServers": {"a": {"command": "a"},
        "b": {"command": "b", "disabled": true, "env": {"T": {"command": ["pass"]}}}}}"#;
    let loaded = read(text, &NoSecrets).unwrap();
    assert!(loaded.unresolved_secrets.is_empty(), "{:?}", loaded.unresolved_secrets);
}

#[test]
fn command_array_of_a_server_is_not_a_secret_reference() {
    let text = r#"{"mcpServers": {"a": {"command": ["npx", "-y", "x"], "args": []}}}"#;
    let loaded = read(text, &NoSecrets).unwrap();
    assert!(loaded.unresolved_secrets.is_empty() && loaded.report().is_none());
}

#[test]
fn changed_reference_restarts_even_if_the_value_is_equal() {
    let read = |key: &str| {
        let text = format!(
            r#"{{"mcpServers": {{"a": {{"command": "a", "env": {{"T": {{"file": "{key}"}}}}}}}}}}"#
        );
        let values = ["/project/one", "/project/two"].map(|path| (file(path), "s3cret"));
        read(&text, &source(&values)).unwrap().config
    };
    assert!(can_auto_reload(&read("one"), &read("one")));
    assert!(!can_auto_reload(&read("one"), &read("two")));
}
