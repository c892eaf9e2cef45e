//! Attributes elicitations to their servers. They reach the user in the same way as the gateway's
//! own confirmations of calls, so a server could imitate one. If the configuration requires
//! confirmations, a line before the server's message says that it is from a server.

use std::sync::Arc;

use bytes::Bytes;

use mcp_workbench_core::backend::RpcOutcome;
use mcp_workbench_core::gateway::{AgentEvent, ServerRequest, may_require_input};
use mcp_workbench_settings::Config;
use mcp_workbench_wire::code::INTERNAL_ERROR;
use mcp_workbench_wire::incoming::error_object;
use mcp_workbench_wire::json::{self, Member, RawJson};

const ELICIT: &str = "elicitation/create";
/// The line before a server's message, as JSON text.
const FIRST: &str = r"A server asks this, not MCP Workbench:\n\n";
const UNREADABLE: &str = "the server's request for input could not be parsed";

pub(crate) fn attribute_event(
    config: impl FnOnce() -> Arc<Config>,
    event: AgentEvent,
) -> AgentEvent {
    match event {
        AgentEvent::Request(request) => attribute_server_request(&config(), *request).into(),
        event => event,
    }
}

/// Attributes `request` to its server if it is an elicitation of a server and calls are confirmed.
pub(crate) fn attribute_server_request(
    config: &Config,
    mut request: ServerRequest,
) -> ServerRequest {
    if request.is_of_server && request.method == ELICIT && config.policy.has_confirmations() {
        // If the parameters can't be parsed, drop them: the client then refuses the elicitation.
        request.params = request.params.take().and_then(|params| marked(&params));
    }
    request
}

/// Attributes the elicitations in a server's result (MCP 2026-07-28, `inputRequests`) if
/// `has_confirmations`. A result that can't be parsed becomes an error.
///
/// Some parsers use the first of repeated members and some the last, so all of them are changed.
pub(crate) fn attribute_result(
    has_confirmations: impl FnOnce() -> bool,
    outcome: RpcOutcome,
) -> RpcOutcome {
    match outcome {
        RpcOutcome::Result(result) if may_require_input(&result) && has_confirmations() => {
            let requests = |requests: &RawJson| map_members(requests, |_| true, marked_request);
            match map_members(&result, |key| key == "inputRequests", requests) {
                Some(marked) => RpcOutcome::Result(marked),
                None => RpcOutcome::Error(error_object(INTERNAL_ERROR, UNREADABLE, None)),
            }
        }
        outcome => outcome,
    }
}

fn marked_request(request: &RawJson) -> Option<RawJson> {
    // Only objects are input requests.
    let Some(members) = request.members() else { return unless_object(request) };
    let mut methods = members.iter().filter(|(key, _)| key == "method");
    let asks_user =
        |method: &RawJson| method.parse::<String>().map_or(true, |method| method == ELICIT);
    if !methods.any(|(_, method)| asks_user(method)) {
        return Some(request.clone());
    }
    map_members(request, |key| key == "params", marked)
}

/// Puts the line before each message that is a string. Returns `None` if `params` can't be parsed.
fn marked(params: &RawJson) -> Option<RawJson> {
    map_members(
        params,
        |key| key == "message",
        |message| {
            let Some(rest) = message.as_bytes().strip_prefix(b"\"") else {
                return Some(message.clone());
            };
            // Keep the server's own escapes.
            let text = Bytes::from([b"\"", FIRST.as_bytes(), rest].concat());
            Some(RawJson::from_range(&text, 0..text.len()))
        },
    )
}

/// Changes the selected members of an object. Other values are returned unchanged, an object that
/// can't be parsed as `None`.
fn map_members(
    object: &RawJson,
    is_meant: impl Fn(&str) -> bool,
    change: impl Fn(&RawJson) -> Option<RawJson>,
) -> Option<RawJson> {
    let Some(members) = object.members() else { return unless_object(object) };
    if !members.iter().any(|(key, _)| is_meant(key)) {
        return Some(object.clone());
    }
    let changed = members.into_iter().map(|(key, value)| {
        let value = if is_meant(&key) { change(&value)? } else { value };
        Some((key, value))
    });
    let changed: Vec<Member> = changed.collect::<Option<_>>()?;
    Some(json::object(changed.iter().map(|(key, value)| (&**key, value))))
}

fn unless_object(value: &RawJson) -> Option<RawJson> {
    (value.as_bytes().first() != Some(&b'{')).then(|| value.clone())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};

    use super::*;

    fn marked_value(result: &Value) -> Value {
        let outcome = RpcOutcome::Result(RawJson::encode(result));
        let RpcOutcome::Result(marked) = attribute_result(|| true, outcome) else { unreachable!() };
        serde_json::from_slice(marked.as_bytes()).unwrap()
    }

    #[test]
    fn prefixes_elicitations_of_servers() {
        let asks = |message: &str| {
            json!({
                "resultType": "input_required",
                "inputRequests": {
                    "a": { "method": "elicitation/create", "params": { "message": message, "mode": "form" } },
                    "b": { "method": "sampling/createMessage", "params": { "message": "x" } },
                    "c": { "method": "elicitation/create", "params": { "message": 7 } },
                },
                "requestState": "s",
            })
        };
        let first = "A server asks this, not MCP Workbench:\n\n";
        assert_eq!(marked_value(&asks("Pay \u{202e}?")), asks(&format!("{first}Pay \u{202e}?")));
        for other in [
            json!({ "content": [{ "type": "text", "text": "elicitation/create" }] }),
            json!({ "inputRequests": "elicitation/create" }),
            json!({ "inputRequests": { "a": "elicitation/create" } }),
        ] {
            assert_eq!(marked_value(&other), other);
        }
    }

    #[test]
    fn prefixes_every_json_spelling_of_an_elicitation() {
        let marked = |text: &str| {
            let text = Bytes::from(text.to_owned());
            let outcome = RpcOutcome::Result(RawJson::from_range(&text, 0..text.len()));
            match attribute_result(|| true, outcome) {
                RpcOutcome::Result(marked) => {
                    String::from_utf8(marked.as_bytes().to_vec()).unwrap()
                }
                RpcOutcome::Error(_) => "refused".to_owned(),
            }
        };
        for (method, params) in [
            (r#""method":"elicitation\/create""#, r#""params":{"message":"Pay"}"#),
            (r#""method":"x","method":"elicitation/create""#, r#""params":{"message":"Pay"}"#),
            (r#""method":"\u0065licitation/create","method":"x""#, r#""params":{"message":"Pay"}"#),
            (r#""\u006dethod":"elicitation/create""#, r#""p\u0061rams":{"mess\u0061ge":"Pay"}"#),
            (r#""method":"elicitation/create""#, r#""params":{"message":"\ud800Pay"}"#),
        ] {
            let request = format!(r#"{{"a":{{{method},{params}}}}}"#);
            let said = marked(&format!(r#"{{"input\u0052equests":{request}}}"#));
            assert!(said.contains(r#"":"A server asks this, not MCP Workbench:\n\n"#), "{said}");
        }
        let twice = r#"{"method":"elicitation/create","params":{"message":1,"message":"Pay"},"params":{"message":"Pay"}}"#;
        let said = marked(&format!(
            r#"{{"inputRequests":{{"a":{twice}}},"inputRequests":{{"a":{twice}}}}}"#
        ));
        assert_eq!(said.matches("A server asks this").count(), 4, "{said}");
        assert!(!said.contains(r#":"Pay""#), "{said}");
    }

    #[test]
    fn results_are_unchanged_without_confirmations() {
        let asks = RawJson::encode(&json!({
            "inputRequests": { "a": { "method": "elicitation/create", "params": { "message": "?" } } },
        }));
        let RpcOutcome::Result(same) = attribute_result(|| false, RpcOutcome::Result(asks.clone()))
        else {
            unreachable!()
        };
        assert_eq!(same.as_bytes(), asks.as_bytes());
    }
}
