use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;

fn read(meta: &Value) -> Result<RequestMeta, RawJson> {
    RequestMeta::read(Some(&RawJson::encode(meta)))
}

#[test]
fn a_request_without_meta_is_legacy() {
    let meta = RequestMeta::read(None).unwrap();
    assert_eq!(meta.list_mutability(), ListMutability::Mutable);
    assert!(meta.forwarded.is_empty());
}

#[test]
fn forwards_only_members_for_the_server() {
    let meta = read(&json!({
        "progressToken": 7,
        "traceparent": "00-1",
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "x"},
        "com.example/x": 1.5,
    }))
    .unwrap();
    assert_eq!(meta.list_mutability(), ListMutability::Fixed);
    assert_eq!(meta.progress_token, Some(RawJson::encode(&7)));
    assert_eq!(
        meta.forwarded,
        [
            ("traceparent".into(), RawJson::encode(&"00-1")),
            ("com.example/x".into(), RawJson::encode(&1.5)),
        ]
    );
}

#[test]
fn rejects_incomplete_or_unknown_modern_requests() {
    let error = read(&json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28"}));
    assert!(error.unwrap_err().as_str().contains("-32602"));
    let error = read(&json!({"io.modelcontextprotocol/protocolVersion": "2031-01-01"}));
    let error = error.unwrap_err().parse::<Value>().unwrap();
    assert_eq!(error["code"], -32022);
    assert_eq!(error["data"]["requested"], "2031-01-01");
    assert!(RequestMeta::read(Some(&RawJson::encode(&3))).is_err());
}

#[test]
fn adapts_the_result_type_and_nothing_else() {
    let plain = RawJson::encode(&json!({"content": [], "x": 1.0}));
    let typed = RawJson::encode(&json!({"resultType": "complete", "content": [], "x": 1.0}));
    assert_eq!(adapt_result(plain.clone(), false), Ok(plain.clone()));
    assert_eq!(adapt_result(plain.clone(), true), Ok(typed.clone()));
    assert_eq!(adapt_result(typed.clone(), true), Ok(typed.clone()));
    assert_eq!(adapt_result(typed, false), Ok(plain));
    let inside = RawJson::encode(&json!({"content": [{"text": "resultType"}]}));
    assert_eq!(adapt_result(inside.clone(), false), Ok(inside.clone()));
    let text = adapt_result(inside, true).unwrap();
    assert!(text.as_str().starts_with(r#"{"resultType":"complete","content""#), "{text:?}");
    let escaped: RawJson =
        serde_json::from_str(r#"{"result\u0054ype":"complete","resultType":"x","n":1.0}"#).unwrap();
    assert_eq!(adapt_result(escaped.clone(), true), Ok(escaped.clone()));
    let bare: RawJson = serde_json::from_str(r#"{"n":1.0}"#).unwrap();
    assert_eq!(adapt_result(escaped, false), Ok(bare));
    let odd = RawJson::encode(&json!(["resultType"]));
    assert_eq!(adapt_result(odd.clone(), true), Ok(odd), "only objects have a type");
}

#[test]
fn wraps_connection_level_error_codes() {
    let fitted = |code: i64, is_modern: bool| {
        let error = RawJson::encode(&json!({"code": code, "message": "m", "data": {"n": 1.0}}));
        let RpcOutcome::Error(fitted) =
            sanitize_outcome(RpcOutcome::Error(error.clone()), is_modern)
        else {
            panic!("an error stays one")
        };
        let is_wrapped = fitted.member("data").and_then(|data| data.member("error"));
        assert!(is_wrapped.is_none_or(|wrapped| wrapped == error));
        fitted.member("code").expect("a code").as_str().parse::<i64>().expect("a number")
    };
    for (code, to_older, to_newer) in [
        (-32601, -32603, -32603),
        (-32020, -32603, -32603),
        (-32021, -32603, -32021),
        (-32022, -32603, -32603),
        (-32042, -32042, -32603),
        (-32002, -32002, -32602),
        (-32000, -32000, -32000),
    ] {
        assert_eq!((fitted(code, false), fitted(code, true)), (to_older, to_newer), "{code}");
    }
    let odd = RawJson::encode(&json!({"message": "no code"}));
    assert_eq!(sanitize_outcome(RpcOutcome::Error(odd.clone()), true), RpcOutcome::Error(odd));
}
