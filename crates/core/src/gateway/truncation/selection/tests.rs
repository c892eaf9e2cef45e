use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;

/// Selects from a result. Returns the answer with its missing fields, and the whole result.
fn select(result: &Value, pointers: &[&str], by: SelectedBy) -> Option<(Value, String, String)> {
    let selection = Selection::parse(pointers.iter().copied()).unwrap();
    let FieldsOfResult { result, missing, whole } =
        select_fields(&RawJson::encode(result), &selection, by).unwrap()?;
    Some((result.parse().unwrap(), missing.unwrap_or_default(), whole))
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

#[test]
fn fields_of_structured_content_replace_all_text() {
    let image = json!({"type": "image", "data": "aaaa"});
    let result = json!({
        "content": [text("{\n \"b\": [1, 2],\n \"a\": 1 }"), image],
        "structuredContent": {"a": 1, "b": [1, 2]},
        "isError": false,
        "_meta": {"x": 1},
    });
    let (answer, missing, whole) = select(&result, &["/b/1"], SelectedBy::Call).unwrap();
    let expected =
        json!({"content": [text(r#"{"b":[2]}"#), image], "isError": false, "_meta": {"x": 1}});
    assert_eq!((answer, missing.as_str()), (expected, ""));
    // A text that repeats the structured content is stored once.
    assert_eq!(whole, "{\n \"b\": [1, 2],\n \"a\": 1 }");
    let summary = json!({"content": [text("2 rows")], "structuredContent": {"a": 1}});
    let (answer, _, whole) = select(&summary, &["/a"], SelectedBy::Call).unwrap();
    assert_eq!(answer, json!({"content": [text(r#"{"a":1}"#)]}));
    assert_eq!(whole, "2 rows\nstructuredContent: {\"a\":1}");
}

#[test]
fn fields_are_also_selected_from_each_text_that_is_json() {
    let rows = [text("Found:"), text(r#"{"id": 1, "x": 0}"#), text(r#"{"id": 2}"#), text("[]")];
    // Some servers wrap a text in `structuredContent`.
    let result = json!({"content": rows, "structuredContent": {"result": "Found: …"}});
    let (answer, missing, whole) = select(&result, &["/id", "/y"], SelectedBy::Call).unwrap();
    let expected = [text("Found:"), text(r#"{"id":1}"#), text(r#"{"id":2}"#)];
    assert_eq!(answer, json!({"content": expected}));
    assert_eq!(missing, r#"No match: `/y` (the result has "id", "x")."#);
    assert!(whole.starts_with("Found:\n{\"id\": 1, \"x\": 0}\n{\"id\": 2}\n[]\n"), "{whole}");
}

#[test]
fn result_without_the_fields_is_reported_to_the_agent_only() {
    let result = json!({"content": [text(r#"{"a":1}"#)]});
    let (answer, missing, whole) = select(&result, &["/b"], SelectedBy::Call).unwrap();
    assert_eq!(answer, json!({"content": []}));
    assert_eq!((&*missing, &*whole), (r#"No match: `/b` (the result has "a")."#, r#"{"a":1}"#));
    assert_eq!(select(&result, &["/b"], SelectedBy::Config), None);
    let partial = select(&result, &["/a", "/b"], SelectedBy::Config).unwrap();
    assert_eq!((partial.0, &*partial.1), (result, ""));
    let plain = json!({"content": [text("no rows"), text("42")], "structuredContent": "x"});
    let (answer, missing, whole) = select(&plain, &["/a"], SelectedBy::Call).unwrap();
    assert_eq!((answer, &*whole), (plain.clone(), ""));
    assert_eq!(missing, "`select` had no effect: the result is not JSON.");
    assert_eq!(select(&plain, &["/a"], SelectedBy::Config), None);
}

#[test]
fn errors_and_incomplete_results_are_passed_on_whole() {
    let content = json!([text(r#"{"a":1,"b":2}"#)]);
    for other in [
        json!({"content": content, "isError": true}),
        json!({"content": content, "resultType": "input_required"}),
        json!({"task": {"taskId": "1"}, "a": 1}),
        json!({"resultType": "task", "structuredContent": {"a": 1}}),
    ] {
        assert_eq!(select(&other, &["/a"], SelectedBy::Call), None, "{other}");
    }
    assert_eq!(select(&json!({"content": content}), &[""], SelectedBy::Call), None);
    let complete = json!({"content": content, "resultType": "complete"});
    assert!(select(&complete, &["/a"], SelectedBy::Call).is_some());
    // A client could use the second of repeated members.
    let twice: RawJson = serde_json::from_str(
        r#"{"content":[],"structuredContent":{"a":1},"structuredContent":{"a":2},"content":[]}"#,
    )
    .unwrap();
    let selection = Selection::parse(["/a"]).unwrap();
    let fields = select_fields(&twice, &selection, SelectedBy::Call).unwrap().unwrap();
    assert_eq!(fields.result.as_str(), r#"{"content":[{"type":"text","text":"{\"a\":1}"}]}"#);
    let failed: RawJson =
        serde_json::from_str(r#"{"isError":false,"content":[],"isError" : true}"#).unwrap();
    assert_eq!(select_fields(&failed, &selection, SelectedBy::Call), Ok(None));
}

#[test]
fn malformed_blocks_stay() {
    let blocks = json!([{"type": "text"}, 1, {"type": "text", "text": 2}, text(r#"{"a":1}"#)]);
    let (answer, ..) = select(&json!({"content": blocks}), &["/a"], SelectedBy::Call).unwrap();
    assert_eq!(answer["content"], blocks);
    let (answer, ..) = select(
        &json!({"content": "odd", "structuredContent": {"a": 1e300}}),
        &["/a"],
        SelectedBy::Call,
    )
    .unwrap();
    assert_eq!(answer["content"][0]["text"], r#"{"a":1e+300}"#);
}
