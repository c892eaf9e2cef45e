use std::path::Path;
use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;
use crate::telemetry::Telemetry;

#[test]
fn writes_one_line_per_request_for_every_outcome() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("audit.jsonl");
    let text = json!({
        "audit": {"file": file},
        "mcpServers": {"clock": {"command": "clock", "env": {"API_TOKEN": "hunter2hunter2"}}},
    });
    let env = std::collections::BTreeMap::<String, String>::new();
    let loaded =
        mcp_workbench_config::parse(&text.to_string(), Path::new("x.json"), Path::new("/"), &env);
    let observer = Telemetry::default();
    observer.open_audit(&loaded.unwrap().config).unwrap();
    let listeners = observer.bus();
    let agent = AgentName::new("claude");
    let asked = LlmRequestInfo { agent: Some(&agent), session: 3, model: "small", purpose: "tool" };
    let mut answered = LlmRequestGuard::begin(&listeners, asked);
    answered.context.tokens = [120, 9];
    answered.context.attempts = 3;
    answered.end(LlmOutcome::Ok);
    let mut named =
        LlmRequestGuard::begin(&listeners, LlmRequestInfo { model: "sampling", ..asked });
    named.context.reported_model = Some("opus-hunter2hunter2".to_owned());
    named.end(LlmOutcome::InvalidResponse);
    drop(LlmRequestGuard::begin(&listeners, LlmRequestInfo { agent: None, ..asked }));
    observer.begin_shutdown();
    drop(LlmRequestGuard::begin(&listeners, asked));
    observer.close(Duration::from_secs(20));
    let lines = std::fs::read_to_string(&file).unwrap();
    let mut lines: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for line in &mut lines {
        assert!(line["ms"].as_f64().is_some_and(|ms| ms >= 0.0), "{line}");
        let run = line["request"].as_str().unwrap().split_once('-').unwrap().0.to_owned();
        let line = line.as_object_mut().unwrap();
        for key in ["time", "ms"] {
            line.remove(key).unwrap();
        }
        for key in ["request", "session"] {
            let told = line[key].as_str().unwrap().replace(&run, "run");
            line[key] = told.into();
        }
    }
    let line = |number: u32, model: &str, outcome: &str| {
        json!({
            "kind": "llm", "request": format!("run-{number}"), "agent": "claude",
            "session": "run-3", "model": model, "purpose": "tool", "outcome": outcome,
            "tokensRead": 0, "tokensWritten": 0,
        })
    };
    let mut first = line(0, "small", "ok");
    first["tokensRead"] = json!(120);
    first["tokensWritten"] = json!(9);
    first["attempts"] = json!(3);
    let mut third = line(2, "small", "cancelled");
    third.as_object_mut().unwrap().remove("agent");
    assert_eq!(
        lines,
        [first, line(1, "opus-***", "invalid_response"), third, line(3, "small", "shutting_down")]
    );
    let metrics = observer.render();
    assert!(
        metrics.contains("llm_requests_total{model=\"sampling\",outcome=\"invalid_response\"} 1")
    );
    assert!(!metrics.contains("opus"), "{metrics}");
}
