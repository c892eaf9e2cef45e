use bytes::Bytes;
use hyper::header::HeaderName;
use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let pair = |(name, value): &(&str, &str)| {
        (HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap())
    };
    pairs.iter().map(pair).collect()
}

/// The error code for a request with these headers, if it is rejected.
fn refused(method: &str, params: Value, pairs: &[(&str, &str)]) -> Option<i64> {
    let mut params = params;
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    refused_as_is(&json!({"id": 1, "method": method, "params": params}), pairs)
}

fn refused_as_is(message: &Value, pairs: &[(&str, &str)]) -> Option<i64> {
    let message = PostedMessage::read(&Bytes::from(message.to_string())).unwrap();
    let (headers, mirrored) = (headers(pairs), [("Mcp-Param-A".to_owned(), "/a".to_owned())]);
    let checked = check_mcp_headers(&message, &headers);
    let refusal =
        checked.and_then(|()| check_param_headers(&message, &headers, &mirrored)).err()?;
    assert_eq!(refusal.status.as_u16(), 400);
    refusal.error.parse::<Value>().unwrap()["code"].as_i64()
}

const VERSION: (&str, &str) = ("MCP-Protocol-Version", MODERN);
const MISMATCH: Option<i64> = Some(HEADER_MISMATCH);

#[test]
fn parses_accept() {
    let accepts = |value| {
        let AcceptedTypes { json, events } = AcceptedTypes::read(&headers(&[("accept", value)]));
        (json, events)
    };
    assert_eq!(accepts("application/json, text/event-stream"), (true, true));
    assert_eq!(accepts("text/event-stream;q=0.5,Application/JSON"), (true, true));
    assert_eq!(accepts("*/*"), (true, true));
    assert_eq!(accepts("application/json"), (true, false));
    assert_eq!(accepts("application/json;q=0, text/*"), (false, true));
    assert_eq!(accepts("text/html"), (false, false));
    assert_eq!(AcceptedTypes::read(&HeaderMap::new()), AcceptedTypes { json: true, events: true });
}

#[test]
fn recognizes_json_content_types() {
    let is = |value| is_json(&headers(&[("content-type", value)]));
    assert!(is("application/json"));
    assert!(is("Application/JSON; charset=utf-8"));
    assert!(!is("text/plain"));
    assert!(!is("application/json-patch+json"));
    assert!(!is_json(&HeaderMap::new()));
}

#[test]
fn version_and_method_headers_must_match_the_body() {
    let list = |pairs: &[(&str, &str)]| refused("tools/list", json!({}), pairs);
    assert_eq!(list(&[VERSION, ("Mcp-Method", "tools/list")]), None);
    assert_eq!(list(&[VERSION, ("MCP-METHOD", " tools/list ")]), None);
    assert_eq!(list(&[VERSION]), MISMATCH);
    assert_eq!(list(&[VERSION, ("Mcp-Method", "TOOLS/LIST")]), MISMATCH);
    assert_eq!(list(&[("Mcp-Method", "tools/list")]), MISMATCH);
    assert_eq!(
        list(&[("MCP-Protocol-Version", "2025-11-25"), ("Mcp-Method", "tools/list")]),
        MISMATCH
    );
    let twice = [VERSION, ("Mcp-Method", "tools/list"), ("Mcp-Method", "tools/call")];
    assert_eq!(list(&twice), MISMATCH);
}

#[test]
fn modern_requests_need_version_and_capabilities() {
    let discover = |meta: Value| {
        let message = json!({"id": 1, "method": "server/discover", "params": {"_meta": meta}});
        refused_as_is(&message, &[VERSION, ("Mcp-Method", "server/discover")])
    };
    let version = "io.modelcontextprotocol/protocolVersion";
    assert_eq!(discover(Value::Null), Some(INVALID_PARAMS));
    assert_eq!(discover(json!({ version: MODERN })), Some(INVALID_PARAMS));
    assert_eq!(discover(json!({ version: "v999.0.0" })), MISMATCH);
    // The dispatcher rejects unsupported versions, with a list of the supported ones.
    let message = json!({"id": 1, "method": "m", "params": {"_meta": {version: "v999.0.0"}}});
    assert_eq!(refused_as_is(&message, &[("MCP-Protocol-Version", "v999.0.0")]), None);
}

#[test]
fn mcp_name_must_match_the_body() {
    let cases = [
        ("tools/call", json!({"name": "tool"}), "tool"),
        ("prompts/get", json!({"name": "ü b"}), "=?base64?w7wgYg==?="),
        ("resources/read", json!({"uri": "file:///a%20b"}), "file:///a%20b"),
        ("tasks/get", json!({"taskId": "t-1"}), "t-1"),
    ];
    for (method, params, name) in cases {
        let usual = [VERSION, ("Mcp-Method", method)];
        assert_eq!(refused(method, params.clone(), &usual), MISMATCH, "{method}");
        let wrong = [VERSION, ("Mcp-Method", method), ("Mcp-Name", "other")];
        assert_eq!(refused(method, params.clone(), &wrong), MISMATCH, "{method}");
        let right = [VERSION, ("Mcp-Method", method), ("Mcp-Name", name)];
        assert_eq!(refused(method, params, &right), None, "{method}");
    }
}

#[test]
fn param_headers_must_match_the_arguments() {
    let said = |argument: Value, header: Option<&str>| {
        let mut pairs = vec![VERSION, ("Mcp-Method", "tools/call"), ("Mcp-Name", "tool")];
        pairs.extend(header.map(|header| ("Mcp-Param-A", header)));
        let params = json!({"name": "tool", "arguments": {"a": argument}});
        refused("tools/call", params, &pairs)
    };
    for (argument, header) in [
        (json!("Hello"), "Hello"),
        (json!("Hello"), "=?base64?SGVsbG8=?="),
        (json!("SGVsbG8="), "SGVsbG8="),
        (json!("=?base64?SGVsbG8="), "=?base64?SGVsbG8="),
        (json!(""), ""),
        (json!(42), "42"),
        (json!(42), "42.0"),
        (json!(9_007_199_254_740_993_i64), "9007199254740993"),
        (json!(false), "false"),
    ] {
        assert_eq!(said(argument.clone(), Some(header)), None, "{argument} {header}");
    }
    for (argument, header) in [
        (json!("Hello"), "=?base64?SGVsbG8?="),
        (json!("Hello"), "=?base64?SGVs!!!bG8=?="),
        (json!("Hello"), "hello"),
        (json!(42), "43"),
        (json!(9_007_199_254_740_993_i64), "9007199254740992"),
        (json!(true), "1"),
        (Value::Null, "null"),
    ] {
        assert_eq!(said(argument.clone(), Some(header)), MISMATCH, "{argument} {header}");
    }
    assert_eq!(said(json!("Hello"), None), MISMATCH);
    assert_eq!(said(Value::Null, None), None);
    assert_eq!(said(json!([1]), None), None);
}
