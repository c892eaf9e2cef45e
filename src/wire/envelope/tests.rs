use pretty_assertions::assert_eq;

use super::*;

fn parse(text: &'static str) -> String {
    match Message::parse(&Bytes::from_static(text.as_bytes())) {
        Ok(message) => format!("{message:?}"),
        Err(malformed) => format!("{malformed:?}"),
    }
}

#[test]
fn each_kind_of_message_is_told_apart() {
    assert_eq!(
        parse(r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"x":1.0}}"#),
        r#"Request { id: "a", method: "tools/call", params: Some({"x":1.0}) }"#
    );
    assert_eq!(
        parse(r#"{"method":"notifications/\u0063ancelled"}"#),
        r#"Notification { method: "notifications/cancelled", params: None }"#
    );
    assert_eq!(
        parse(r#"{"result": {"n":1e400},"id":7}"#),
        r#"Answer { id: 7, outcome: Result({"n":1e400}) }"#
    );
    assert_eq!(parse(r#"{"id":7,"result":null}"#), "Answer { id: 7, outcome: Result(null) }");
    assert_eq!(parse(r#"{"id":7,"error":{}}"#), "Answer { id: 7, outcome: Error({}) }");
}

#[test]
fn what_is_no_message_is_refused() {
    assert_eq!(parse(r#"{"jsonrpc":"2.0"}"#), "NoMessage");
    assert_eq!(parse(r#"{"id":1}"#), "NoMessage");
    assert!(parse("starting server...").starts_with("NotJson"));
    assert_eq!(parse("[]"), "NoMessage");
    assert_eq!(parse(r#"[{"id":1,"method":"ping"}]"#), "NoMessage");
    assert!(parse("{\"id\":1,\"result\":\"\u{1}").starts_with("NotJson"));
}

#[test]
fn an_id_is_found_at_either_edge() {
    let id = |head: &str, tail: &str| id_at_edges(head.as_bytes(), tail.as_bytes());
    assert_eq!(id(r#"{"jsonrpc":"2.0","id":17,"result":"aaa"#, "aaa"), Some(Raw::encode(&17)));
    assert_eq!(
        id(r#"{"result":"aaa"#, r#"aaa"},"jsonrpc":"2.0","id": "x7"}"#),
        Some(Raw::encode(&"x7"))
    );
    assert_eq!(id(r#"{"result":"aaa"#, r#"aaa","id":"#), None);
    assert_eq!(id("rubbish", "rubbish"), None);
}

#[test]
fn an_id_inside_is_not_the_one_of_the_message() {
    let id = |head: &str, tail: &str| id_at_edges(head.as_bytes(), tail.as_bytes());
    assert_eq!(
        id(r#"{"params":{"id":1,"text":"}}\"id\":2"#, r#"aaa"}},"jsonrpc":"2.0","id":9}"#),
        Some(Raw::encode(&9))
    );
    assert_eq!(
        id(r#"{"params":[{"id":1}],"id":9,"result":"aaa"#, r#"aaa","id":1}"#),
        Some(Raw::encode(&9))
    );
    assert_eq!(id(r#"{"result":{"text":"aaa"#, r#"aaa","id":1}}"#), None);
    assert_eq!(id(r#"{"result":{"text":"aaa"#, r#"aaa","id":1},"jsonrpc":"2.0"}"#), None);
    assert_eq!(
        id(r#"{"result":{"text":"aaa"#, r#"aaa"},"id":9,"jsonrpc":"2.0"} "#),
        Some(Raw::encode(&9))
    );
}

#[test]
fn an_id_within_what_a_message_carries_is_not_its_own() {
    let id = |head: &str, tail: &str| id_at_edges(head.as_bytes(), tail.as_bytes());
    let (head, tail) = (r#"{"params":{"id":"doc"},"x":"{\"id\":1","y":["#, r#"1]},"id":12}"#);
    assert_eq!(id(head, tail), Some(Raw::encode(&12)));
    assert_eq!(id(head, r#"},"id":12,"jsonrpc":"2.0"} "#), Some(Raw::encode(&12)));
    assert_eq!(id(head, r#"{"id":5}],"method":"m"}"#), None);
    assert_eq!(id(head, r#"{"a":{"id":5}}"#), None);
    assert_eq!(id(r#"{"params":{"id":5},"id":"a\"b","#, ""), Some(Raw::encode(&"a\"b")));
    assert_eq!(id(r#"{"jsonrpc":"2.0","id":12"#, ""), None);
}
