use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;

fn read(meta: &Value) -> Result<RequestMeta, Raw> {
    RequestMeta::read(Some(&Raw::encode(meta)))
}

#[test]
fn a_request_without_meta_is_legacy() {
    let meta = RequestMeta::read(None).unwrap();
    assert_eq!(meta.surface(), Surface::Changing);
    assert!(meta.passed_on.is_empty());
}

#[test]
fn what_is_for_the_server_is_passed_on_and_nothing_else() {
    let meta = read(&json!({
        "progressToken": 7,
        "traceparent": "00-1",
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "x"},
        "com.example/x": 1.5,
    }))
    .unwrap();
    assert_eq!(meta.surface(), Surface::Constant);
    assert_eq!(meta.progress_token, Some(Raw::encode(&7)));
    assert_eq!(
        meta.passed_on,
        [("traceparent".into(), Raw::encode(&"00-1")), ("com.example/x".into(), Raw::encode(&1.5)),]
    );
}

#[test]
fn a_modern_request_must_be_complete_and_of_a_known_revision() {
    let error = read(&json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28"}));
    assert!(error.unwrap_err().as_str().contains("-32602"));
    let error = read(&json!({"io.modelcontextprotocol/protocolVersion": "2031-01-01"}));
    let error = error.unwrap_err().parse::<Value>().unwrap();
    assert_eq!(error["code"], -32022);
    assert_eq!(error["data"]["requested"], "2031-01-01");
    assert!(RequestMeta::read(Some(&Raw::encode(&3))).is_err());
}

#[test]
fn a_result_gets_the_form_of_the_era_and_keeps_the_rest() {
    let plain = Raw::encode(&json!({"content": [], "x": 1.0}));
    let typed = Raw::encode(&json!({"resultType": "complete", "content": [], "x": 1.0}));
    assert_eq!(fit_result(plain.clone(), false), plain);
    assert_eq!(fit_result(plain.clone(), true), typed);
    assert_eq!(fit_result(typed.clone(), true), typed);
    assert_eq!(fit_result(typed, false), plain);
    let inside = Raw::encode(&json!({"content": [{"text": "resultType"}]}));
    assert_eq!(fit_result(inside.clone(), false), inside);
    let text = fit_result(inside, true);
    assert!(text.as_str().starts_with(r#"{"resultType":"complete","content""#), "{text:?}");
}

#[test]
fn a_code_that_speaks_of_the_connection_is_wrapped() {
    let fitted = |code: i64, is_modern: bool| {
        let error = Raw::encode(&json!({"code": code, "message": "m", "data": {"n": 1.0}}));
        let Outcome::Error(fitted) = harmless(Outcome::Error(error.clone()), is_modern) else {
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
    let odd = Raw::encode(&json!({"message": "no code"}));
    assert_eq!(harmless(Outcome::Error(odd.clone()), true), Outcome::Error(odd));
}
