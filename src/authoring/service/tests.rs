use std::path::Path;

use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;
use crate::authoring::client_files::client_apps;
use crate::authoring::service::definition::disable_commands;
use crate::authoring::service::tokens::{add_tokens, has_tls};
use crate::authoring::setup::entry::{is_same_launch, is_workbench_entry, remote_entry};

fn service(manager: ServiceManager, name: &str) -> UserService {
    UserService {
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
fn service_definitions_for_systemd_launchd_and_windows() {
    let config = Path::new("/home/ann/.config/mcp-workbench/config.json");
    let environment = [("PATH", "/home/ann/bin:/usr/bin"), ("XDG_STATE_HOME", "/data/A & B/$x")];
    let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let mut all = Vec::new();
    for (manager, name) in [
        (ServiceManager::Systemd, "mcp-workbench.service"),
        (ServiceManager::Launchd, "gui/501/mcp-workbench"),
        (ServiceManager::TaskScheduler, "MCP Workbench"),
    ] {
        let service = service(manager, name);
        let (home, own) = (Path::new("/home/ann"), Path::new("/home/ann/.config"));
        let file = service.definition_file(home, own).unwrap();
        let text = service.definition(config, &environment).unwrap();
        all.extend([format!("=== {}\n{text}", file.display())]);
        for words in
            service.enable_commands(&file).into_iter().chain(disable_commands(manager, name))
        {
            all.extend([format!("$ {}\n", words.join(" "))]);
        }
    }
    insta::assert_snapshot!(all.concat());
    let alone = service(ServiceManager::Unmanaged, "mcp-workbench");
    assert_eq!(alone.definition(config, &[]), None);
    assert_eq!(UserService::parse(&serde_json::to_string(&alone).unwrap()), Ok(alone));
    assert!(UserService::parse("{}").is_err() && UserService::parse("x").is_err());
}

#[test]
fn remote_entry_matches_each_client() {
    let url = "http://127.0.0.1:8642/mcp";
    let mut all = Vec::new();
    for program in client_apps() {
        let Some(form) = program.remote else {
            all.extend([format!("{}: command only\n", program.id)]);
            continue;
        };
        let entry = remote_entry(form, url, "mcpw_x");
        all.extend([format!("{}: {entry}\n", program.id)]);
        assert!(is_workbench_entry(&entry, &entry) && is_same_launch(&entry, &entry));
        let other = remote_entry(form, url, "mcpw_y");
        assert!(is_workbench_entry(&other, &entry) && !is_same_launch(&other, &entry));
        let other = remote_entry(form, "http://127.0.0.1:1/mcp", "mcpw_x");
        assert!(!is_workbench_entry(&other, &entry) && !is_same_launch(&other, &entry));
        assert!(!is_workbench_entry(&json!({ "command": "x" }), &entry));
    }
    insta::assert_snapshot!(all.concat());
}

#[test]
fn tokens_are_added_to_existing_auth_settings() {
    let tokens = service(ServiceManager::Unmanaged, "x").tokens;
    let entry = json!({ "agent": "cursor", "sha256": crate::authoring::setup::journal::sha256_hex("mcpw_x") });
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
        let text = add_tokens(before, tokens.iter()).unwrap();
        let tree = mcp_workbench_config::syntax::document::parse_jsonc(&text).unwrap();
        let after: serde_json::Value = serde_json::from_str(&after).unwrap();
        assert_eq!(serde_json::Value::from(tree), after, "{text}");
        assert_eq!(add_tokens(&text, tokens.iter()).unwrap(), text);
    }
    for odd in ["{", "{ \"auth\": 5 }", "{ \"auth\": { \"tokens\": {} } }", "[]"] {
        assert!(add_tokens(odd, tokens.iter()).is_err(), "{odd}");
    }
}

#[test]
fn tls_service_has_an_https_url() {
    let plain = service(ServiceManager::Unmanaged, "mcp-workbench");
    assert_eq!(plain.url(), "http://127.0.0.1:8642/mcp");
    let text = serde_json::to_string(&plain).unwrap();
    assert!(!text.contains("tls"), "{text}");
    assert_eq!(UserService::parse(&text), Ok(plain.clone()));
    let secured = UserService { tls: true, ..plain };
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
