use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;

fn read(text: &str) -> Message {
    Message::read(Bytes::copy_from_slice(text.as_bytes())).unwrap()
}

fn refused(text: &str) -> (u16, i64) {
    let Err(refusal) = Message::read(Bytes::copy_from_slice(text.as_bytes())) else {
        panic!("{text} is taken");
    };
    let error: serde_json::Value = refusal.error.parse().unwrap();
    (refusal.status.as_u16(), error["code"].as_i64().unwrap())
}

#[test]
fn kinds_of_messages() {
    for (text, kind, id) in [
        (r#"{"id":"a","method":"m"}"#, Kind::Request, Some(r#""a""#)),
        (r#"{"method":"m"}"#, Kind::Notification, None),
        (r#"{"id":1,"result":{}}"#, Kind::Answer, None),
    ] {
        let message = read(text);
        assert_eq!(
            (message.kind, message.id.map(|id| id.as_str().into_owned())),
            (kind, id.map(str::to_owned))
        );
    }
}

#[test]
fn what_is_no_message() {
    assert_eq!(refused("hello"), (400, PARSE_ERROR));
    assert_eq!(refused(""), (400, PARSE_ERROR));
    assert_eq!(refused("{\"id\":1,\"method\":\"a\nb\"}"), (400, PARSE_ERROR));
    assert_eq!(refused("{\"id\":1,\"params\":{\"a\":\"a\nb\"}}"), (400, PARSE_ERROR));
    assert_eq!(refused(r#"[{"id":1,"method":"m"}]"#), (400, INVALID_REQUEST));
    assert_eq!(refused(" []"), (400, INVALID_REQUEST));
}

#[test]
fn the_text_becomes_one_line_and_is_else_left_alone() {
    let message = read("{\r\n  \"id\": 1,\n\"method\": \"m\", \"params\": {\"a\":\n1.0}}\n");
    assert_eq!(message.text, "{    \"id\": 1, \"method\": \"m\", \"params\": {\"a\": 1.0}} ");
}

#[test]
fn the_era_is_that_of_the_body_first() {
    let is_modern = |method: &str, version: Option<&str>, header: Option<&'static str>| {
        let meta = version.map(|v| json!({"io.modelcontextprotocol/protocolVersion": v}));
        let text = json!({"id": 1, "method": method, "params": {"_meta": meta}}).to_string();
        let mut headers = HeaderMap::new();
        if let Some(header) = header {
            headers.insert(PROTOCOL_VERSION, header.parse().unwrap());
        }
        read(&text).is_modern(&headers)
    };
    assert!(is_modern("tools/list", Some("2026-07-28"), None));
    assert!(is_modern("tools/list", Some("v999.0.0"), Some("v999.0.0")));
    assert!(is_modern("initialize", Some("2026-07-28"), None));
    assert!(is_modern("tools/list", None, Some("2026-07-28")));
    assert!(is_modern("server/discover", None, None));
    assert!(!is_modern("tools/list", None, None));
    assert!(!is_modern("tools/list", None, Some("2025-11-25")));
    assert!(!is_modern("tools/list", Some("2025-11-25"), Some("2025-11-25")));
    assert!(!is_modern("initialize", None, Some("2026-07-28")));
}

#[test]
fn odd_parameters_are_for_others_to_judge() {
    for params in ["null", "7", "[]", r#"{"_meta":3,"name":{}}"#, r#"{"name":"a","name":"b"}"#] {
        let message = read(&format!(r#"{{"id":1,"method":"tools/call","params":{params}}}"#));
        assert_eq!((message.name, message.version), (None, None), "{params}");
    }
}
