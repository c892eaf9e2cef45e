use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use pretty_assertions::assert_eq;
use serde_json::json;
use tokio_util::task::TaskTracker;

use super::*;
use mcp_workbench_core::backend::PoolOptions;
use mcp_workbench_core::gateway::{Caller, GatewayRegistry};
use mcp_workbench_core::telemetry::Telemetry;

pub(super) fn desk(config: &serde_json::Value) -> AdminApi {
    let env = BTreeMap::<String, String>::new();
    let loaded =
        mcp_workbench_config::parse(&config.to_string(), Path::new("x.json"), Path::new("/"), &env);
    let observer = Arc::new(Telemetry::default());
    let options = PoolOptions { observer, ..PoolOptions::default() };
    let config = Arc::new(loaded.unwrap().config);
    let gateways = Arc::new(GatewayRegistry::new(config, options, &TaskTracker::new()));
    let config_source =
        ConfigSource { config: "x\u{1b}.json".to_owned(), ..ConfigSource::default() };
    AdminApi::new(gateways, Caller::ANONYMOUS, config_source)
}

fn two() -> serde_json::Value {
    json!({"toolboxes": {"dev": {"description": "a\n\u{1b}[2Jb", "mcpServers": {
        "gone": {"command": "/no/such/program"},
        "other": {"command": "/no/such/program", "args": ["2"]},
    }}}})
}

async fn ask(admin: &AdminApi, ask: serde_json::Value) -> serde_json::Value {
    let ask = serde_json::from_str(&ask.to_string()).unwrap();
    serde_json::to_value(admin.handle(ask, &AdminOrigin::Socket).await).unwrap()
}

#[test]
fn preserves_arguments_and_names_missing_fields() {
    let text = r#"{"arguments": {"n":1.50,"big":123456789012345678901}, "ask": "call",
        "toolbox": "a", "server": "b", "tool": "c"}"#;
    let Ok(AdminRequest::Call { arguments: Some(arguments), confirmed: None, .. }) =
        serde_json::from_str(text)
    else {
        panic!("not a call")
    };
    assert_eq!(arguments.get(), r#"{"n":1.50,"big":123456789012345678901}"#);
    for (text, says) in [
        (r#"{"ask":"tools","toolbox":"a"}"#, "`tools` needs `server`"),
        (r#"{"ask":"dance"}"#, "`ask` must be view, act"),
        (r#"{"ask":"view","x":1}"#, "unknown field `x`"),
        ("[]", "expected struct"),
    ] {
        let error = serde_json::from_str::<AdminRequest>(text).unwrap_err().to_string();
        assert!(error.contains(says), "{text}: {error}");
    }
    let act = AdminRequest::Act { act: ServerAction::Stop, toolbox: "a".to_owned(), server: None };
    let text = serde_json::to_string(&act).unwrap();
    assert!(matches!(
        serde_json::from_str(&text),
        Ok(AdminRequest::Act { act: ServerAction::Stop, server: None, .. })
    ));
}

#[tokio::test]
async fn status_lists_configured_servers_running_or_not() {
    let admin = desk(&two());
    let view = admin.status();
    assert_eq!(view.pid, std::process::id());
    assert_eq!((&*view.endpoint, &*view.config), ("stdio", r"x\u{1b}.json"));
    let [toolbox] = &view.toolboxes[..] else { panic!("{view:?}") };
    assert_eq!(toolbox.description, "a [2Jb");
    let states: Vec<_> =
        toolbox.servers.iter().map(|server| (&*server.name, server.state, server.tools)).collect();
    let stopped = ServerState::Stopped;
    assert_eq!(states, [("gone", stopped, None), ("other", stopped, None)]);
    let again: WorkbenchStatus =
        serde_json::from_value(serde_json::to_value(&view).unwrap()).unwrap();
    assert_eq!(again, view);
}

#[tokio::test]
async fn failed_start_reports_the_reason_and_paused_servers_stay_down() {
    let admin = desk(&two());
    let act = |act: &str, server: &str| json!({"ask": "act", "act": act, "toolbox": "dev", "server": server});
    let opened = ask(&admin, act("start", "gone")).await;
    assert_eq!(opened["answer"], "error");
    assert_eq!(opened["kind"], "failed");
    let server = |at: usize| admin.status().toolboxes[0].servers[at].clone();
    let failed = server(0);
    assert_eq!(failed.state, ServerState::Failed);
    assert!(failed.reason.unwrap().contains("/no/such/program"));
    assert_eq!(ask(&admin, act("pause", "other")).await, json!({"answer": "done"}));
    assert!(server(1).is_paused);
    let opened = ask(&admin, act("start", "other")).await;
    let message = opened["message"].as_str().unwrap();
    assert!(message.contains("paused") && message.contains("resume"), "{message}");
    assert_eq!(server(1).state, ServerState::Stopped, "must not be started");
    assert_eq!(ask(&admin, act("resume", "other")).await, json!({"answer": "done"}));
    assert!(!server(1).is_paused);
}

#[tokio::test]
async fn rejects_unknown_targets_and_malformed_requests() {
    let admin = desk(&two());
    for (asked, kind) in [
        (json!({"ask": "act", "act": "stop", "toolbox": "x", "server": null}), "unknown"),
        (json!({"ask": "act", "act": "stop", "toolbox": "dev", "server": "x"}), "unknown"),
        (json!({"ask": "tools", "toolbox": "dev", "server": "x"}), "unknown"),
        (json!({"ask": "search", "query": "x".repeat(10_000)}), "malformed"),
        (
            json!({"ask": "call", "toolbox": "dev", "server": "x", "tool": "\u{1b}", "arguments": null}),
            "unknown",
        ),
        (
            json!({"ask": "call", "toolbox": "dev", "server": "gone", "tool": "t", "arguments": {}}),
            "failed",
        ),
        (json!({"ask": "findings"}), "failed"),
    ] {
        let answer = ask(&admin, asked.clone()).await;
        assert_eq!(
            (&answer["answer"], &answer["kind"]),
            (&json!("error"), &json!(kind)),
            "{asked}"
        );
        let message = answer["message"].as_str().unwrap();
        assert!(!message.contains(|c: char| c.is_control() && c != '\n'), "{message:?}");
    }
}
