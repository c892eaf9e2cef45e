#![allow(
    clippy::needless_pass_by_value,
    reason = "a JSON literal as an argument reads best without `&`"
)]

use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;

fn list(tools: Value) -> RawJson {
    RawJson::encode(&json!({"tools": tools, "ttlMs": 1}))
}

fn headers(tools: &ToolHeaderParams, method: &str, params: Value) -> Vec<(String, String)> {
    let headers = tools.headers(method, Some(&RawJson::encode(&params)));
    let text = |value: &HeaderValue| value.to_str().unwrap().to_owned();
    headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect()
}

fn pairs<const N: usize>(pairs: [(&str, &str); N]) -> Vec<(String, String)> {
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

#[test]
fn headers_name_the_method_and_the_target() {
    let tools = ToolHeaderParams::default();
    assert_eq!(headers(&tools, "tools/list", json!({})), pairs([("mcp-method", "tools/list")]));
    assert_eq!(
        headers(&tools, "resources/read", json!({"uri": "file:///a%20b"})),
        pairs([("mcp-method", "resources/read"), ("mcp-name", "file:///a%20b")])
    );
    assert_eq!(
        headers(&tools, "tasks/get", json!({"taskId": "ü"})),
        pairs([("mcp-method", "tasks/get"), ("mcp-name", "=?base64?w7w=?=")])
    );
}

#[test]
fn annotated_arguments_become_headers() {
    let mut tools = ToolHeaderParams::default();
    let string = |name: &str| json!({"type": "string", "x-mcp-header": name});
    let schema = json!({"type": "object", "properties": {
        "region": string("Region"),
        "padded": string("Padded"),
        "lines": string("Lines"),
        "empty": string("Empty"),
        "literal": string("Literal"),
        "count": {"type": "integer", "x-mcp-header": "Count"},
        "whole": {"type": "integer", "x-mcp-header": "Whole"},
        "sure": {"type": "boolean", "x-mcp-header": "Sure"},
        "null": string("Null"),
        "absent": string("Absent"),
        "query": {"type": "string"},
        "deep": {"type": "object", "properties": {"x-mcp-header": string("Deep")}},
    }});
    assert_eq!(tools.learn(&list(json!([{"name": "t", "inputSchema": schema}])), "test"), Ok(None));
    let arguments = json!({
        "region": "us west", "padded": " x ", "lines": "line1\nline2", "empty": "",
        "literal": "=?base64?literal?=", "count": -42, "whole": 42.0, "sure": false,
        "null": null, "query": "SELECT", "deep": {"x-mcp-header": "Hello, 世界"},
    });
    assert_eq!(
        headers(&tools, "tools/call", json!({"name": "t", "arguments": arguments})),
        pairs([
            ("mcp-method", "tools/call"),
            ("mcp-name", "t"),
            ("mcp-param-region", "us west"),
            ("mcp-param-padded", "=?base64?IHgg?="),
            ("mcp-param-lines", "=?base64?bGluZTEKbGluZTI=?="),
            ("mcp-param-empty", ""),
            ("mcp-param-literal", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
            ("mcp-param-count", "-42"),
            ("mcp-param-whole", "42"),
            ("mcp-param-sure", "false"),
            ("mcp-param-deep", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        ])
    );
    assert_eq!(
        headers(&tools, "tools/call", json!({"name": "t"})),
        pairs([("mcp-method", "tools/call"), ("mcp-name", "t")])
    );
}

#[test]
fn tools_with_invalid_annotations_are_omitted() {
    let at = |schema: Value| json!({"type": "object", "properties": {"a": schema}});
    let wrong = [
        at(json!({"type": "string", "x-mcp-header": ""})),
        at(json!({"type": "string", "x-mcp-header": 1})),
        at(json!({"type": "string", "x-mcp-header": "two words"})),
        at(json!({"type": "string", "x-mcp-header": "a:b"})),
        at(json!({"type": "string", "x-mcp-header": "ä"})),
        at(json!({"type": "string", "x-mcp-header": "a\r\nb"})),
        at(json!({"type": "number", "x-mcp-header": "A"})),
        at(json!({"type": "object", "x-mcp-header": "A"})),
        at(json!({"type": "null", "x-mcp-header": "A"})),
        at(json!({"x-mcp-header": "A"})),
        at(json!({"type": "array", "items": {"type": "string", "x-mcp-header": "A"}})),
        at(json!({"anyOf": [{"type": "string", "x-mcp-header": "A"}]})),
        json!({"x-mcp-header": "A", "type": "object"}),
        json!({"$defs": {"x": {"type": "string", "x-mcp-header": "A"}}}),
        json!({"properties": {
            "a": {"type": "string", "x-mcp-header": "Same"},
            "b": {"type": "string", "x-mcp-header": "same"},
        }}),
    ];
    for schema in wrong {
        let good = json!({"name": "good", "inputSchema": at(json!({"type": "string"}))});
        let bad = json!({"name": "bad", "inputSchema": schema});
        let left = ToolHeaderParams::default().learn(&list(json!([bad, good])), "test");
        assert_eq!(left, Ok(Some(list(json!([good])))), "{schema}");
    }
}

#[test]
fn annotation_lookalikes_are_ignored() {
    let schema = json!({"properties": {
        "a": {"type": "object", "default": {"x-mcp-header": "A"}},
        "x-mcp-header": {"type": "string"},
    }});
    let tools = list(json!([{"name": "t", "inputSchema": schema}, 7]));
    assert_eq!(ToolHeaderParams::default().learn(&tools, "test"), Ok(None));
}
