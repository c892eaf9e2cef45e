use pretty_assertions::assert_eq;

use super::*;

fn parse(text: &'static str) -> String {
    match JsonRpcMessage::parse(&Bytes::from_static(text.as_bytes())) {
        Ok(message) => format!("{message:?}"),
        Err(malformed) => format!("{malformed:?}"),
    }
}

#[test]
fn message_kinds_are_distinguished() {
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
        r#"Response { id: 7, outcome: Result({"n":1e400}) }"#
    );
    assert_eq!(parse(r#"{"id":7,"result":null}"#), "Response { id: 7, outcome: Result(null) }");
    assert_eq!(parse(r#"{"id":7,"error":{}}"#), "Response { id: 7, outcome: Error({}) }");
}

#[test]
fn non_messages_are_rejected() {
    assert_eq!(parse(r#"{"jsonrpc":"2.0"}"#), "NoMessage");
    assert_eq!(parse(r#"{"id":1}"#), "NoMessage");
    assert!(parse("starting server...").starts_with("NotJson"));
    assert_eq!(parse("[]"), "NoMessage");
    assert_eq!(parse(r#"[{"id":1,"method":"ping"}]"#), "NoMessage");
    assert!(parse("{\"id\":1,\"result\":\"\u{1}").starts_with("NotJson"));
}

#[test]
fn id_is_recovered_from_either_end() {
    let id = |head: &str, tail: &str| recover_id(head.as_bytes(), tail.as_bytes());
    assert_eq!(id(r#"{"jsonrpc":"2.0","id":17,"result":"aaa"#, "aaa"), Some(RawJson::encode(&17)));
    assert_eq!(
        id(r#"{"result":"aaa"#, r#"aaa"},"jsonrpc":"2.0","id": "x7"}"#),
        Some(RawJson::encode(&"x7"))
    );
    assert_eq!(id(r#"{"result":"aaa"#, r#"aaa","id":"#), None);
    assert_eq!(id("rubbish", "rubbish"), None);
}

#[test]
fn nested_ids_are_ignored() {
    let id = |head: &str, tail: &str| recover_id(head.as_bytes(), tail.as_bytes());
    assert_eq!(
        id(r#"{"params":{"id":1,"text":"}}\"id\":2"#, r#"aaa"}},"jsonrpc":"2.0","id":9}"#),
        Some(RawJson::encode(&9))
    );
    assert_eq!(
        id(r#"{"params":[{"id":1}],"id":9,"result":"aaa"#, r#"aaa","id":1}"#),
        Some(RawJson::encode(&9))
    );
    assert_eq!(id(r#"{"result":{"text":"aaa"#, r#"aaa","id":1}}"#), None);
    assert_eq!(id(r#"{"result":{"text":"aaa"#, r#"aaa","id":1},"jsonrpc":"2.0"}"#), None);
    assert_eq!(
        id(r#"{"result":{"text":"aaa"#, r#"aaa"},"id":9,"jsonrpc":"2.0"} "#),
        Some(RawJson::encode(&9))
    );
}

#[test]
fn ids_in_params_and_strings_are_ignored() {
    let id = |head: &str, tail: &str| recover_id(head.as_bytes(), tail.as_bytes());
    let (head, tail) = (r#"{"params":{"id":"doc"},"x":"{\"id\":1","y":["#, r#"1]},"id":12}"#);
    assert_eq!(id(head, tail), Some(RawJson::encode(&12)));
    assert_eq!(id(head, r#"},"id":12,"jsonrpc":"2.0"} "#), Some(RawJson::encode(&12)));
    assert_eq!(id(head, r#"{"id":5}],"method":"m"}"#), None);
    assert_eq!(id(head, r#"{"a":{"id":5}}"#), None);
    assert_eq!(id(r#"{"params":{"id":5},"id":"a\"b","#, ""), Some(RawJson::encode(&"a\"b")));
    assert_eq!(id(r#"{"jsonrpc":"2.0","id":12"#, ""), None);
}

#[test]
fn recovered_id_keeps_its_text() {
    let long = "123456789012345678901234567890";
    for id in [long, "1.0", "1e3", "-0", r#""\u0061\ud800""#] {
        let found = recover_id(format!(r#"{{"id":{id},"params":"aaa"#).as_bytes(), b"");
        assert_eq!(found.map(|id| id.as_str().into_owned()).as_deref(), Some(id));
        let found = recover_id(b"", format!(r#"aaa","id":{id}}}"#).as_bytes());
        assert_eq!(found.map(|id| id.as_str().into_owned()).as_deref(), Some(id));
    }
}

#[test]
fn keys_ending_in_id_are_ignored() {
    assert_eq!(recover_id(b"", br#"aaa","\"id":1}"#), None);
    assert_eq!(recover_id(b"", br#""id":1}"#), None, "the text before it was truncated");
}

#[test]
fn deeply_nested_messages_are_parsed() {
    let deep = |open: &str, close: &str| open.repeat(100_000) + "1" + &close.repeat(100_000);
    for inside in [deep("[", "]"), deep("{\"id\":", "}"), deep("[{\"\":", "}]")] {
        let line = Bytes::from(format!(r#"{{"method":"m","id":1,"params":{inside}}}"#));
        let Ok(JsonRpcMessage::Request { params: Some(params), .. }) = JsonRpcMessage::parse(&line)
        else {
            panic!("no request");
        };
        assert_eq!(params.as_bytes(), inside.as_bytes());
        assert!(params.parse::<serde_json::Value>().is_err());
        let (head, tail) = (&inside[..512], &inside[inside.len() - 512..]);
        assert_eq!(recover_id(head.as_bytes(), tail.as_bytes()), None);
        // Also in unknown members, and when the message is truncated.
        let line = Bytes::from(format!(r#"{{"x":{inside},"id":1,"result":{inside}}}"#));
        assert!(matches!(JsonRpcMessage::parse(&line), Ok(JsonRpcMessage::Response { .. })));
        assert!(JsonRpcMessage::parse(&line.slice(..line.len() - 2)).is_err());
        assert!(JsonRpcMessage::parse(&Bytes::from(inside)).is_err());
    }
}

#[test]
fn repeated_envelope_members_are_rejected() {
    for text in [
        r#"{"id":1,"id":2,"method":"m"}"#,
        r#"{"id":1,"\u0069d":2,"method":"m"}"#,
        r#"{"id":1,"result":1,"result":2}"#,
    ] {
        assert!(parse(text).starts_with("NotJson"), "{text}");
    }
    // Repeated keys inside params and in unknown members are passed through.
    assert_eq!(
        parse(r#"{"method":"m","params":{"a":1,"a":2},"x":1,"x":2}"#),
        r#"Notification { method: "m", params: Some({"a":1,"a":2}) }"#
    );
}

#[test]
fn unusable_request_is_rejected_with_its_id() {
    let id = |text: &[u8]| {
        let malformed = JsonRpcMessage::parse(&Bytes::copy_from_slice(text)).unwrap_err();
        assert_eq!(malformed.to_rpc_error("x").0, PARSE_ERROR);
        malformed.request_id().map(|id| id.as_str().into_owned())
    };
    for (text, expected) in [
        (&br#"{"id":1,"method":"m","method":"n"}"#[..], Some("1")),
        (br#"{"params":{},"params":{},"method":"m","id":"a"}"#, Some(r#""a""#)),
        (b"{\"id\":-2,\"method\":\"m\",\"params\":{\"a\":\"\xff\"}}", Some("-2")),
        // Which id is meant is unclear, or whether it is an id of a request.
        (br#"{"id":1,"id":1,"method":"m"}"#, None),
        (br#"{"id":1,"id":2,"id":3,"method":"m"}"#, None),
        (br#"{"id":1,"result":1,"result":2}"#, None),
        (br#"{"method":"m","method":"n"}"#, None),
        (br#"{"id":{},"method":"m","method":"n"}"#, None),
        (br#"{"id":null,"method":"m","method":"n"}"#, None),
        (b"{\"id\":\"\xff\",\"method\":\"m\"}", None),
        (b"{\"id\":1,\"method\":\"m\",\"params\":\"\xff\"", None),
    ] {
        assert_eq!(id(text).as_deref(), expected, "{}", String::from_utf8_lossy(text));
    }
}

#[test]
fn invalid_unicode_and_odd_numbers_pass_through() {
    let inside = r#"["\ud800","\udc00\ud800\u0000",-0,1e400,-1.0E-400]"#;
    assert_eq!(
        parse(r#"{"id":7,"result":["\ud800","\udc00\ud800\u0000",-0,1e400,-1.0E-400]}"#),
        format!("Response {{ id: 7, outcome: Result({inside}) }}")
    );
    // JSON contains no raw NUL or invalid UTF-8.
    assert!(parse("{\"id\":7,\"result\":\"\0\"}").starts_with("NotJson"));
    assert!(parse("\0").starts_with("NotJson"));
    let line = Bytes::from_static(b"{\"id\":7,\"result\":\"\xff\"}");
    assert!(matches!(JsonRpcMessage::parse(&line), Err(MessageParseError::NotJson(_))));
}

#[test]
fn messages_with_unreadable_names_are_rejected_with_their_id() {
    for text in [
        r#"{"id":7,"method":"m","params":{"\ud800":1}}"#,
        r#"{"id":7,"method":"m","params":{"a":[{"b":{"x\uDFFF":1}}]}}"#,
        r#"{"\ud800":1,"id":7,"method":"m"}"#,
        r#"{"id":7,"method":"\ud800"}"#,
    ] {
        let malformed = JsonRpcMessage::parse(&Bytes::from_static(text.as_bytes())).unwrap_err();
        assert_eq!(malformed.request_id(), Some(&RawJson::encode(&7)), "{text}");
        let (code, message) = malformed.to_rpc_error("expected a message");
        assert!(code == INVALID_REQUEST && message.contains("unpaired surrogate"), "{message}");
    }
    for text in [
        r#"{"method":"m","params":{"\ud800":1}}"#,
        r#"{"id":7,"result":{"\ud800":1}}"#,
        r#"{"id":7,"error":{"code":1,"data":{"\ud800":1}}}"#,
    ] {
        let malformed = JsonRpcMessage::parse(&Bytes::from_static(text.as_bytes())).unwrap_err();
        assert!(matches!(malformed, MessageParseError::UnreadableName(_)), "{text}");
        assert_eq!(malformed.request_id(), None, "{text}");
    }
    assert!(parse(r#"{"method":"\ud800"}"#).starts_with("NotJson"));
}
