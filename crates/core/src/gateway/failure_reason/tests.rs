use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio_util::task::TaskTracker;

use super::*;
use crate::backend::{AgentHandle, PoolOptions};
use crate::gateway::{GatewayRegistry, RequestContext};
use crate::telemetry::Telemetry;
use mcp_workbench_names::{ServerName, ToolId, ToolboxName};

const TOKEN: &str = "hunter2-hunter2";

/// Returns the reason that the live view has after a call with these arguments ended like this.
fn reason(arguments: &Value, called: &Result<RpcOutcome, CallError>) -> Option<(String, String)> {
    let text = json!({"mcpServers": {"srv": {"command": "srv", "env": {"API_TOKEN": TOKEN}}}});
    let env = BTreeMap::new();
    let loaded =
        mcp_workbench_config::parse(&text.to_string(), Path::new("x.json"), Path::new("/"), &env);
    let observer = Arc::new(Telemetry::default());
    let options = PoolOptions { observer: Arc::clone(&observer), ..PoolOptions::default() };
    let config = Arc::new(loaded.unwrap().config);
    let gateways = GatewayRegistry::new(config, options, &TaskTracker::new());
    let (gateway, agent) =
        (gateways.gateway_for(&crate::gateway::Caller::ANONYMOUS, None), AgentHandle::new(None));
    let context = RequestContext::detached(&agent);
    let (toolbox, server) = (ToolboxName::new("srv"), ServerName::new("srv"));
    let tool = ToolId { toolbox, server, tool: "t".to_owned() };
    let (meters, arguments) = (observer.meters("srv", "srv"), RawJson::encode(arguments));
    observer.live().snapshot();
    let call =
        gateway.calls().instrumentation.begin_call(&tool, Ok(&meters), Some(&arguments), &context);
    gateway.calls().end_call(call, called, &context);
    let call = observer.live().snapshot().calls.into_iter().next().unwrap();
    Some((call.outcome, call.reason?))
}

fn result(value: &Value) -> RpcOutcome {
    RpcOutcome::Result(RawJson::encode(value))
}

#[tokio::test]
async fn reason_of_a_failed_call_is_the_text_of_its_error() {
    let error = |content: Value| Ok(result(&json!({"content": content, "isError": true})));
    let text = |text: &str| json!({"type": "text", "text": text});
    let refused = CallError::Refused {
        tool: ToolId {
            toolbox: ToolboxName::new("srv"),
            server: ServerName::new("srv"),
            tool: "t".to_owned(),
        },
        reason: "the limit of 3 calls per minute is reached".to_owned(),
        hint: "retry later".to_owned(),
    };
    let structured = json!({"content": [], "structuredContent": {"why": "full"}, "isError": true});
    for (called, expected) in [
        (
            error(json!([text("no such file"), {"type": "image", "data": "AA"}, text("try ls")])),
            Some(("tool_error", "no such file\ntry ls")),
        ),
        (Ok(result(&structured)), Some(("tool_error", r#"{"why":"full"}"#))),
        (error(json!([])), Some(("tool_error", "the tool returned an error without a text"))),
        (error(json!("text")), Some(("tool_error", "the tool returned an error without a text"))),
        (
            Ok(RpcOutcome::Error(RawJson::encode(&json!({"code": -32602, "message": "bad n"})))),
            Some(("protocol_error", "bad n (code -32602)")),
        ),
        (
            Ok(RpcOutcome::Error(RawJson::encode(&json!({"message": 7})))),
            Some(("protocol_error", "the server returned an error without a message")),
        ),
        (
            Err(refused),
            Some((
                "denied",
                "`srv/srv/t` was not called: the limit of 3 calls per minute is reached\n\
                 hint: retry later",
            )),
        ),
        (Ok(result(&json!({"content": [text("isError")]}))), None),
    ] {
        let found = reason(&json!({}), &called);
        assert_eq!(found.as_ref().map(|(word, text)| (&**word, &**text)), expected, "{called:?}");
    }
}

// invariant: no-secrets-in-records
#[tokio::test]
async fn reason_has_no_secrets_of_the_server_or_the_arguments() {
    let arguments = json!({"user": "ann", "password": "correct-horse"});
    let text = format!("login of ann with correct-horse and {TOKEN} failed");
    let called = Ok(result(&json!({"content": [{"type": "text", "text": text}], "isError": true})));
    let (_, found) = reason(&arguments, &called).unwrap();
    assert_eq!(found, "login of ann with *** and *** failed");
    let error = json!({"code": -32000, "message": format!("{TOKEN} is invalid")});
    let called = Ok(RpcOutcome::Error(RawJson::encode(&error)));
    let (_, found) = reason(&arguments, &called).unwrap();
    assert_eq!(found, "*** is invalid (code -32000)");
}

// invariant: server-text-is-escaped
#[tokio::test]
async fn reason_is_bounded_and_has_no_control_characters() {
    let text = format!("\u{1b}[2Jgone\u{202e}\r\n\n{}", "é".repeat(1_000_000));
    let called = Ok(result(&json!({"content": [{"type": "text", "text": text}], "isError": true})));
    let (_, found) = reason(&json!({}), &called).unwrap();
    assert!(found.starts_with("[2Jgone\n\né"), "{found}");
    assert_eq!(found.chars().count(), MAX_REASON + 1);
}
