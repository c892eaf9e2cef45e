use std::collections::BTreeMap;
use std::path::Path;

use pretty_assertions::assert_eq;
use serde_json::json;
use tokio_util::task::TaskTracker;

use super::*;
use crate::backend::PoolOptions;
use crate::config;
use crate::observe::Observer;

pub(super) fn desk(config: &serde_json::Value) -> Desk {
    let env = BTreeMap::<String, String>::new();
    let loaded = config::parse(&config.to_string(), Path::new("x.json"), Path::new("/"), &env);
    let observer = Arc::new(Observer::default());
    let options = PoolOptions { observer, ..PoolOptions::default() };
    let config = Arc::new(loaded.unwrap().config);
    let gateways = Arc::new(Gateways::new(config, options, &TaskTracker::new()));
    let papers = Papers { config: "x\u{1b}.json".to_owned(), ..Papers::default() };
    Desk::new(gateways, Caller::NOBODY, papers)
}

fn two() -> serde_json::Value {
    json!({"toolboxes": {"dev": {"description": "a\n\u{1b}[2Jb", "mcpServers": {
        "gone": {"command": "/no/such/program"},
        "other": {"command": "/no/such/program", "args": ["2"]},
    }}}})
}

async fn ask(desk: &Desk, ask: serde_json::Value) -> serde_json::Value {
    let ask = serde_json::from_str(&ask.to_string()).unwrap();
    serde_json::to_value(desk.answer(ask).await).unwrap()
}

#[test]
fn arguments_stay_as_they_are_written_and_what_is_missing_is_named() {
    let text = r#"{"arguments": {"n":1.50,"big":123456789012345678901}, "ask": "call",
        "toolbox": "a", "server": "b", "tool": "c"}"#;
    let Ok(Ask::Call { arguments: Some(arguments), is_confirmed: false, .. }) =
        serde_json::from_str(text)
    else {
        panic!("not a call")
    };
    assert_eq!(arguments.get(), r#"{"n":1.50,"big":123456789012345678901}"#);
    for (text, says) in [
        (r#"{"ask":"tools","toolbox":"a"}"#, "`tools` needs `server`"),
        (r#"{"ask":"dance"}"#, "none of view, act"),
        (r#"{"ask":"view","x":1}"#, "unknown field `x`"),
        ("[]", "expected struct"),
    ] {
        let error = serde_json::from_str::<Ask>(text).unwrap_err().to_string();
        assert!(error.contains(says), "{text}: {error}");
    }
    let act = Ask::Act { act: Act::Stop, toolbox: "a".to_owned(), server: None };
    let text = serde_json::to_string(&act).unwrap();
    assert!(matches!(
        serde_json::from_str(&text),
        Ok(Ask::Act { act: Act::Stop, server: None, .. })
    ));
}

#[tokio::test]
async fn a_view_has_what_is_configured_whether_or_not_it_runs() {
    let desk = desk(&two());
    let view = desk.view();
    assert_eq!(view.pid, std::process::id());
    assert_eq!((&*view.reached, &*view.config), ("stdio", r"x\u{1b}.json"));
    let [toolbox] = &view.toolboxes[..] else { panic!("{view:?}") };
    assert_eq!(toolbox.description, "a [2Jb");
    let states: Vec<_> =
        toolbox.servers.iter().map(|server| (&*server.name, server.state, server.tools)).collect();
    let stopped = ServerState::Stopped;
    assert_eq!(states, [("gone", stopped, None), ("other", stopped, None)]);
    let again: View = serde_json::from_value(serde_json::to_value(&view).unwrap()).unwrap();
    assert_eq!(again, view);
}

#[tokio::test]
async fn a_server_that_cannot_be_started_says_why_and_a_muted_one_is_not_tried() {
    let desk = desk(&two());
    let act = |act: &str, server: &str| json!({"ask": "act", "act": act, "toolbox": "dev", "server": server});
    let opened = ask(&desk, act("open", "gone")).await;
    assert_eq!(opened["answer"], "refused");
    assert_eq!(opened["why"], "failed");
    let server = |at: usize| desk.view().toolboxes[0].servers[at].clone();
    let failed = server(0);
    assert_eq!(failed.state, ServerState::Failed);
    assert!(failed.reason.unwrap().contains("/no/such/program"));
    assert_eq!(ask(&desk, act("mute", "other")).await, json!({"answer": "done"}));
    assert!(server(1).is_muted);
    let opened = ask(&desk, act("open", "other")).await;
    let message = opened["message"].as_str().unwrap();
    assert!(message.contains("switched it off") && message.contains("unmute"), "{message}");
    assert_eq!(server(1).state, ServerState::Stopped, "it was not tried");
    assert_eq!(ask(&desk, act("unmute", "other")).await, json!({"answer": "done"}));
    assert!(!server(1).is_muted);
}

#[tokio::test]
async fn what_there_is_not_is_refused() {
    let desk = desk(&two());
    for (asked, why) in [
        (json!({"ask": "act", "act": "stop", "toolbox": "x", "server": null}), "unknown"),
        (json!({"ask": "act", "act": "stop", "toolbox": "dev", "server": "x"}), "unknown"),
        (json!({"ask": "tools", "toolbox": "dev", "server": "x"}), "unknown"),
        (json!({"ask": "search", "query": "x".repeat(10_000)}), "malformed"),
        (
            json!({"ask": "call", "toolbox": "dev", "server": "x", "tool": "\u{1b}", "arguments": null,
                "isConfirmed": true}),
            "unknown",
        ),
        (
            json!({"ask": "call", "toolbox": "dev", "server": "gone", "tool": "t", "arguments": {},
                "isConfirmed": false}),
            "failed",
        ),
        (json!({"ask": "findings"}), "failed"),
    ] {
        let answer = ask(&desk, asked.clone()).await;
        assert_eq!(
            (&answer["answer"], &answer["why"]),
            (&json!("refused"), &json!(why)),
            "{asked}"
        );
        let message = answer["message"].as_str().unwrap();
        assert!(!message.contains(|c: char| c.is_control() && c != '\n'), "{message:?}");
    }
}
