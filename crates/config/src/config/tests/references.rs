//! Values that stand elsewhere than in the file.

use std::path::Path;

use pretty_assertions::assert_eq;

use crate::config::tests::env;
use crate::config::values::{Failure, Unasked, Value, ValueSource, Values};
use crate::config::{Loaded, Report, parse_with};
use crate::settings::{Launch, Reference, ServerConfig, token_digest};

/// A token that is long enough for one.
const TOKEN: &str = "s3cret-token-of-an-agent";

fn file(path: &str) -> Reference {
    Reference::File(path.into())
}

fn command(words: &[&str]) -> Reference {
    let words = words.iter().map(|word| (*word).to_owned()).collect();
    Reference::Command { words, folder: "/project".into() }
}

fn source(values: &[(Reference, &str)]) -> Values {
    let value = |reference: &Reference, text: &str| match text {
        "" => {
            let (reason, hint) = ("it cannot be had".to_owned(), "look".to_owned());
            Err(Failure { reason, hint })
        }
        text => Value::of_bytes(reference, text.as_bytes().to_vec()),
    };
    Values(values.iter().map(|(place, text)| (place.clone(), value(place, text))).collect())
}

fn read(text: &str, source: &dyn ValueSource) -> Result<Loaded, Report> {
    let env = env(&[("HOME", "/home/me"), ("SET", "value")]);
    parse_with(text, Path::new("test.json"), Path::new("/project"), &env, source)
}

fn server<'a>(loaded: &'a Loaded, name: &str) -> &'a ServerConfig {
    loaded.config.toolbox(name).unwrap().server(name).unwrap()
}

#[test]
fn paths_and_programs_are_found_as_elsewhere() {
    for (written, wanted) in [
        (r#"{"file": "token"}"#, file("/project/token")),
        (r#"{"file": "~/token"}"#, file("/home/me/token")),
        (r#"{"file": "/run/${SET}/token"}"#, file("/run/value/token")),
        (r#"{"command": ["pass", "show", "${SET}"]}"#, command(&["pass", "show", "value"])),
        (r#"{"command": ["./get.sh"]}"#, command(&["/project/get.sh"])),
        (r#"{"command": ["~/get.sh", "~"]}"#, command(&["/home/me/get.sh", "~"])),
        (
            r#"{"keyring": "github/me/too"}"#,
            Reference::Keyring { service: "github".to_owned(), account: "me/too".to_owned() },
        ),
    ] {
        let text =
            format!(r#"{{"mcpServers": {{"a": {{"command": "a", "env": {{"T": {written}}}}}}}}}"#);
        let loaded = read(&text, &Unasked).unwrap();
        assert_eq!(loaded.unasked, [wanted.clone()].into(), "{written}");
        let loaded = read(&text, &source(&[(wanted.clone(), "s3cret")])).unwrap();
        assert!(loaded.unasked.is_empty());
        let Launch::Stdio(launch) = &server(&loaded, "a").launch else { panic!("{written}") };
        assert_eq!(launch.env["T"], "s3cret");
        assert_eq!(launch.referred["T"], wanted);
        assert!(!format!("{:?}", loaded.config).contains("s3cret"));
    }
}

#[test]
fn a_value_is_taken_wherever_a_secret_belongs() {
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
    let key = |llm: &Option<crate::settings::LlmConfig>| llm.as_ref().unwrap().api_key.clone();
    assert_eq!(key(&config.navigator.llm).as_deref(), Some("one"));
    assert_eq!(key(&config.search.embeddings).as_deref(), Some("two"));
    assert_eq!(config.auth.as_ref().unwrap().tokens[0].digest, token_digest(TOKEN));
    let Launch::Http(launch) = &server(&loaded, "a").launch else { panic!("no address") };
    let headers: Vec<_> = launch.headers.iter().map(|(_, value)| value.to_str().unwrap()).collect();
    assert_eq!(headers, [&format!("Bearer {TOKEN}"), "two"]);
    let shown = format!("{config:?}");
    assert!(!shown.contains(TOKEN), "{shown}");
    // Nobody is admitted by a token that nobody asked for.
    let unasked = read(text, &Unasked).unwrap();
    assert_eq!(unasked.unasked.len(), 3);
    assert_eq!(unasked.config.auth.unwrap().tokens[0].digest, [0; 32]);
}

#[test]
fn a_value_that_cannot_be_had_costs_what_it_is_for() {
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
    assert_eq!(loaded.broken(), ["a/a"]);
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
    let paths: Vec<_> = loaded.warnings.iter().map(|finding| finding.path.as_str()).collect();
    assert_eq!(
        paths,
        ["navigator.llm.apiKey", "auth.tokens[0].token", "mcpServers.a.env.T"],
        "{}",
        loaded.report().unwrap()
    );
}

#[test]
fn what_is_switched_off_wants_nothing() {
    let text = r#"{"mcpServers": {"a": {"command": "a"},
        "b": {"command": "b", "disabled": true, "env": {"T": {"command": ["pass"]}}}}}"#;
    let loaded = read(text, &Unasked).unwrap();
    assert!(loaded.unasked.is_empty(), "{:?}", loaded.unasked);
}

#[test]
fn a_command_of_a_server_is_no_reference() {
    let text = r#"{"mcpServers": {"a": {"command": ["npx", "-y", "x"], "args": []}}}"#;
    let loaded = read(text, &Unasked).unwrap();
    assert!(loaded.unasked.is_empty() && loaded.report().is_none());
}

#[test]
fn another_reference_is_another_launch_whatever_it_leads_to() {
    let read = |key: &str| {
        let text = format!(
            r#"{{"mcpServers": {{"a": {{"command": "a", "env": {{"T": {{"file": "{key}"}}}}}}}}}}"#
        );
        let values = ["/project/one", "/project/two"].map(|path| (file(path), "s3cret"));
        read(&text, &source(&values)).unwrap().config
    };
    assert!(read("one").may_be_followed_by(&read("one")));
    assert!(!read("one").may_be_followed_by(&read("two")));
}
