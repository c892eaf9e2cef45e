use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn said_of(answer: &Value) -> Result<String, String> {
    read(&RawJson::encode(answer)).text.map_err(|failure| failure.to_string())
}

fn message(message: &Value) -> Value {
    json!({"choices": [{"message": message, "finish_reason": "stop"}]})
}

#[test]
fn reads_text_from_strings_parts_objects_and_after_reasoning() {
    for content in [
        json!("yes"),
        json!(" yes\n"),
        json!("<think>\nno? {\"choice\": \"no\"}\n</think>\n\nyes"),
        json!("Is it {\"choice\": \"no\"}?\n</think>\n\nyes"),
        json!("<think>a</think>b</think>yes"),
        json!(["y", "es"]),
        json!([{"type": "text", "text": "y"}, {"type": "image"}, {"type": "text", "text": "es"}]),
    ] {
        let answer = message(&json!({"content": content, "reasoning": "no"}));
        assert_eq!(said_of(&answer).as_deref(), Ok("yes"), "{answer}");
    }
    let with_a_mark = json!({"content": "{\"a\": \"</think>b\"}"});
    assert_eq!(said_of(&message(&with_a_mark)).as_deref(), Ok("{\"a\": \"</think>b\"}"));
    let read_as_json = message(&json!({"content": {"choice": "1"}}));
    assert_eq!(said_of(&read_as_json).as_deref(), Ok(r#"{"choice":"1"}"#));
}

#[test]
fn explains_responses_without_text() {
    let ended =
        |why: &str| json!({"choices": [{"message": {"content": ""}, "finish_reason": why}]});
    let long = "x\n".repeat(1000);
    let told: Vec<_> = [
        ended("length"),
        ended("content_filter"),
        ended("stop"),
        message(&json!({"content": null, "refusal": "I will\n not\u{1b}"})),
        message(&json!({"content": null, "tool_calls": [{"function": {"name": "rm"}}]})),
        message(&json!({"content": "<think>for ever"})),
        message(&json!(7)),
        json!({"choices": []}),
        json!({"choices": "none"}),
        json!({"error": {"message": long}}),
        json!({"error": null}),
        json!([1]),
        json!("<html>"),
        json!(null),
    ]
    .iter()
    .map(|answer| said_of(answer).unwrap_err())
    .collect();
    let why = |why: &str| format!("invalid response: {why}");
    let nothing = why("the model returned no text");
    let no_choices = why("no `choices`");
    let wrong = format!("the endpoint reported an error: {}…", "x ".repeat(100));
    assert_eq!(
        told,
        [
            why("the model reached its token limit before any output"),
            why("a content filter removed the output"),
            nothing.clone(),
            why("the model refused: I will not�"),
            nothing.clone(),
            nothing.clone(),
            nothing,
            no_choices.clone(),
            no_choices.clone(),
            why(&wrong),
            no_choices.clone(),
            no_choices.clone(),
            no_choices.clone(),
            no_choices,
        ]
    );
}

#[test]
fn ignores_implausible_token_counts() {
    let of = |usage: Value| {
        let ChatResponse { read, written, .. } = read(&RawJson::encode(&json!({ "usage": usage })));
        (read, written)
    };
    assert_eq!(of(json!({"prompt_tokens": 7, "completion_tokens": 2})), (Some(7), Some(2)));
    assert_eq!(of(json!({"prompt_tokens": -7, "completion_tokens": "2"})), (None, None));
    assert_eq!(of(json!({"prompt_tokens": u64::MAX, "completion_tokens": 1.5})), (None, None));
    assert_eq!(of(json!(null)), (None, None));
}

#[test]
fn rejects_deeply_nested_responses() {
    let deep = format!("{}1{}", "[".repeat(20_000), "]".repeat(20_000));
    let deep: Box<RawValue> = serde_json::from_str(&deep).unwrap();
    assert!(read(&RawJson::encode(&deep)).text.is_err());
    let deep = r#"{"a":"#.repeat(20_000);
    assert_eq!(json_objects(&deep).count(), 0);
    let deep = format!("{deep}1{}", "}".repeat(20_000));
    assert_eq!(json_objects(&deep).count(), 0);
}

#[test]
fn finds_objects_in_prose_and_keeps_their_spelling() {
    let found = |text: &str| -> Vec<String> {
        json_objects(text).map(|(raw, _)| raw.as_str().into_owned()).collect()
    };
    assert_eq!(found(r#"{"a": 1.50}"#), [r#"{"a": 1.50}"#]);
    assert_eq!(
        found("Sure!\n```json\n{\"a\": 12345678901234567890123}\n```\nDone."),
        [r#"{"a": 12345678901234567890123}"#]
    );
    assert_eq!(found(r#"of the set {a, b} I take {"choice": "a"}."#), [r#"{"choice": "a"}"#]);
    assert_eq!(found(r#"{"a": {"b": {}}} and {"c": 1}"#), [r#"{"a": {"b": {}}}"#, r#"{"c": 1}"#]);
    assert_eq!(found(r#"{"a": "}{", "b": "\"{"}{}"#), [r#"{"a": "}{", "b": "\"{"}"#, "{}"]);
    assert_eq!(found("{{{ no"), Vec::<String>::new());
}

#[test]
fn skips_objects_nested_in_truncated_or_malformed_ones() {
    for text in [
        r#"{"filter": {"status": "open"}, "note": "a long"#,
        r#"{"filter": {"status": "open"}, "note": "a \"}"#,
        r#"{"filter": {"status": "open"},}"#,
        r#"{"filter": {"status": "open"}, note: "x"}"#,
        r#"{filter: {"status": "open"}}"#,
    ] {
        assert_eq!(json_objects(text).count(), 0, "{text}");
    }
}

/// Any JSON, with the keys of responses among its own.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(|value| json!(value)),
        any::<f64>().prop_map(|value| json!(value)),
        any::<u64>().prop_map(|value| json!(value)),
        ".{0,20}".prop_map(|value| json!(value)),
        Just(json!("{\"choice\": \"1\"}")),
        Just(json!("<think>{")),
    ];
    let key = prop_oneof![
        4 => prop::sample::select(vec![
            "choices", "message", "content", "text", "refusal", "finish_reason", "error", "usage",
            "prompt_tokens", "completion_tokens", "reasoning",
        ])
        .prop_map(str::to_owned),
        1 => ".{0,8}",
    ];
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::vec((key.clone(), inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn every_response_yields_text_or_an_error(answer in any_json(), text in ".{0,80}") {
        for answer in [answer.clone(), message(&answer), message(&json!({"content": answer}))] {
            match read(&RawJson::encode(&answer)).text {
                Ok(text) => prop_assert!(!text.is_empty()),
                Err(failure) => prop_assert!(matches!(failure, LlmError::Unusable(_))),
            }
        }
        prop_assert!(json_objects(&text).all(|(raw, _)| raw.parse::<Map<String, Value>>().is_ok()));
    }
}
