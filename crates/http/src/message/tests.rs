use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;
use mcp_workbench_wire::code::PARSE_ERROR;

fn read(text: &str) -> PostedMessage {
    PostedMessage::read(&Bytes::copy_from_slice(text.as_bytes())).unwrap()
}

fn refused(text: &str) -> (u16, i64) {
    let Err(refusal) = PostedMessage::read(&Bytes::copy_from_slice(text.as_bytes())) else {
        panic!("{text} is taken");
    };
    let error: serde_json::Value = refusal.error.parse().unwrap();
    (refusal.status.as_u16(), error["code"].as_i64().unwrap())
}

#[test]
fn kinds_of_messages() {
    let of = |text: &str| {
        let message = read(text);
        let [id, answered] = [message.id(), message.answered_id()];
        let said = |id: Option<&RawJson>| id.map(|id| id.as_str().into_owned());
        (message.method().to_owned(), said(id), said(answered))
    };
    let id = |text: &str| Some(text.to_owned());
    assert_eq!(of(r#"{"id":"a","method":"m"}"#), ("m".to_owned(), id(r#""a""#), None));
    assert_eq!(of(r#"{"method":"m"}"#), ("m".to_owned(), None, None));
    assert_eq!(of(r#"{"id":1,"result":{}}"#), (String::new(), None, id("1")));
}

#[test]
fn rejects_malformed_messages_and_batches() {
    assert_eq!(refused("hello"), (400, PARSE_ERROR));
    assert_eq!(refused(""), (400, PARSE_ERROR));
    assert_eq!(refused("{\"id\":1,\"method\":\"a\nb\"}"), (400, PARSE_ERROR));
    assert_eq!(refused("{\"id\":1,\"params\":{\"a\":\"a\nb\"}}"), (400, PARSE_ERROR));
    assert_eq!(refused(r#"[{"id":1,"method":"m"}]"#), (400, INVALID_REQUEST));
    assert_eq!(refused(" []"), (400, INVALID_REQUEST));
    assert_eq!(refused("{}"), (400, INVALID_REQUEST));
    assert_eq!(refused(r#"{"id":1,"id":2,"method":"m"}"#), (400, PARSE_ERROR));
}

#[test]
fn extracted_members_are_joined_to_one_line() {
    let message = read(
        "{\r\n  \"id\": 1,\n\"method\": \"m\", \"params\": {\"a\":\n1.0,\r\n\"_meta\":\n{}}}\n",
    );
    let params = message.params().map(|params| params.as_str().into_owned());
    assert_eq!(params.unwrap(), r#"{"a": 1.0,  "_meta": {}}"#);
    assert_eq!(message.meta(), Some(json::object([])));
}

#[test]
fn the_body_decides_the_era_before_the_header() {
    let is_modern = |method: &str, version: Option<&str>, header: Option<&'static str>| {
        let meta = version.map(|v| json!({"io.modelcontextprotocol/protocolVersion": v}));
        let text = json!({"id": 1, "method": method, "params": {"_meta": meta}}).to_string();
        let mut headers = HeaderMap::new();
        if let Some(header) = header {
            headers.insert(&PROTOCOL_VERSION, header.parse().unwrap());
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
fn tolerates_odd_parameters() {
    let read =
        |params: &str| read(&format!(r#"{{"id":1,"method":"tools/call","params":{params}}}"#));
    for params in ["null", "7", "[]", r#"{"_meta":3,"name":{}}"#] {
        let message = read(params);
        assert_eq!((message.name(), message.version), (None, None), "{params}");
    }
    // The first of two duplicate keys wins, as in dispatch.
    assert_eq!(read(r#"{"name":"a","name":"b"}"#).name().as_deref(), Some("a"));
}
