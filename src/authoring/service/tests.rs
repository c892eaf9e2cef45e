use std::path::Path;

use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;
use crate::authoring::client_files::programs;
use crate::authoring::service::definition::disabling;
use crate::authoring::service::tokens::{has_tls, with_tokens};
use crate::authoring::setup::entry::{is_ours, is_same_launch, remote_entry};

fn service(manager: Manager, name: &str) -> Service {
    Service {
        version: VERSION,
        address: "127.0.0.1:8642".parse().unwrap(),
        tls: false,
        program: "/opt/A & B/100% $x/mcp-workbench".to_owned(),
        manager,
        name: name.to_owned(),
        tokens: [("cursor".to_owned(), "mcpw_x".to_owned())].into(),
    }
}

#[test]
fn each_platform_has_its_definition() {
    let config = Path::new("/home/ann/.config/mcp-workbench/config.json");
    let mut all = Vec::new();
    for (manager, name) in [
        (Manager::Systemd, "mcp-workbench.service"),
        (Manager::Launchd, "gui/501/mcp-workbench"),
        (Manager::Tasks, "MCP Workbench"),
    ] {
        let service = service(manager, name);
        let (home, own) = (Path::new("/home/ann"), Path::new("/home/ann/.config"));
        let file = service.definition_file(home, own).unwrap();
        let text = service.definition(config, "/home/ann/bin:/usr/bin").unwrap();
        all.extend([format!("=== {}\n{text}", file.display())]);
        for words in service.enabling(&file).into_iter().chain(disabling(manager, name)) {
            all.extend([format!("$ {}\n", words.join(" "))]);
        }
    }
    insta::assert_snapshot!(all.concat());
    let alone = service(Manager::Nobody, "mcp-workbench");
    assert_eq!(alone.definition(config, ""), None);
    assert_eq!(Service::read(&serde_json::to_string(&alone).unwrap()), Ok(alone));
    assert!(Service::read("{}").is_err() && Service::read("x").is_err());
}

#[test]
fn each_client_has_an_entry_of_its_own_form() {
    let url = "http://127.0.0.1:8642/mcp";
    let mut all = Vec::new();
    for program in programs() {
        let Some(form) = program.remote else {
            all.extend([format!("{}: by a command\n", program.id)]);
            continue;
        };
        let entry = remote_entry(form, url, "mcpw_x");
        all.extend([format!("{}: {entry}\n", program.id)]);
        assert!(is_ours(&entry, &entry) && is_same_launch(&entry, &entry));
        let other = remote_entry(form, url, "mcpw_y");
        assert!(is_ours(&other, &entry) && !is_same_launch(&other, &entry));
        let other = remote_entry(form, "http://127.0.0.1:1/mcp", "mcpw_x");
        assert!(!is_ours(&other, &entry) && !is_same_launch(&other, &entry));
        assert!(!is_ours(&json!({ "command": "x" }), &entry));
    }
    insta::assert_snapshot!(all.concat());
}

#[test]
fn tokens_are_added_to_whatever_is_there() {
    let tokens = service(Manager::Nobody, "x").tokens;
    let entry =
        json!({ "agent": "cursor", "sha256": crate::authoring::setup::journal::digest("mcpw_x") });
    for (before, after) in [
        ("{}", format!("{{\"auth\":{{\"tokens\":[{entry}]}}}}")),
        (
            "{ \"auth\": { \"anonymous\": true } }",
            format!("{{\"auth\":{{\"anonymous\":true,\"tokens\":[{entry}]}}}}"),
        ),
        (
            "{ \"auth\": { \"tokens\": [ {\"agent\": \"a\", \"env\": \"A\"} /* a */ ] } }",
            format!("{{\"auth\":{{\"tokens\":[{{\"agent\":\"a\",\"env\":\"A\"}},{entry}]}}}}"),
        ),
        ("{ \"auth\": { \"tokens\": [] } }", format!("{{\"auth\":{{\"tokens\":[{entry}]}}}}")),
    ] {
        let text = with_tokens(before, tokens.iter()).unwrap();
        let tree = crate::config::syntax::document::parse(&text).unwrap();
        let after: serde_json::Value = serde_json::from_str(&after).unwrap();
        assert_eq!(serde_json::Value::from(tree), after, "{text}");
        assert_eq!(with_tokens(&text, tokens.iter()).unwrap(), text);
    }
    for odd in ["{", "{ \"auth\": 5 }", "{ \"auth\": { \"tokens\": {} } }", "[]"] {
        assert!(with_tokens(odd, tokens.iter()).is_err(), "{odd}");
    }
}

#[test]
fn a_service_that_encrypts_is_asked_by_https() {
    let plain = service(Manager::Nobody, "mcp-workbench");
    assert_eq!(plain.url(), "http://127.0.0.1:8642/mcp");
    let text = serde_json::to_string(&plain).unwrap();
    assert!(!text.contains("tls"), "{text}");
    assert_eq!(Service::read(&text), Ok(plain.clone()));
    let secured = Service { tls: true, ..plain };
    assert_eq!(secured.url(), "https://127.0.0.1:8642/mcp");
    for (text, is_so) in [
        (r#"{"http": {"tls": {"cert": "a", "key": "b"}}}"#, true),
        (r#"{"http": {"maxSessions": 5}}"#, false),
        ("{}", false),
        ("{", false),
    ] {
        assert_eq!(has_tls(text), is_so, "{text}");
    }
}
