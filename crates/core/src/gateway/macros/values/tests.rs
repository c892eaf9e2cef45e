use pretty_assertions::assert_eq;

use super::{MissingValueError, Values, value_of};
use mcp_workbench_settings::{Pointer, Template};
use mcp_workbench_wire::json::RawJson;

fn raw(text: &str) -> RawJson {
    serde_json::from_str(text).unwrap()
}

fn values() -> Values<'static> {
    let mut values = Values::new(Some(raw(
        r#"{"n": 1.0, "big": 12345678901234567890, "list": [[1e3, -0], "é"]}"#,
    )));
    values.add("now", raw(r#"{"a/b": {"~": null}, "": "empty", "text": "say \"hi\""}"#));
    values.add("plain", raw("\"a text\""));
    values
}

fn from(text: &str) -> Template {
    Template::From(Pointer::parse(text).unwrap(), None)
}

fn filled(template: &Template) -> Result<String, MissingValueError> {
    values().fill(template).map(|value| value.as_str().into_owned())
}

#[test]
fn pointer_preserves_the_spelling_of_values() {
    for (pointer, expected) in [
        ("/inputs/n", "1.0"),
        ("/inputs/big", "12345678901234567890"),
        ("/inputs/list/0/0", "1e3"),
        ("/inputs/list/0/1", "-0"),
        ("/inputs/list/1", "\"é\""),
        ("/inputs/list/0", "[1e3, -0]"),
        ("/steps/now/a~1b/~0", "null"),
        ("/steps/now/", "\"empty\""),
        ("/steps/plain", "\"a text\""),
    ] {
        assert_eq!(filled(&from(pointer)).as_deref(), Ok(expected), "{pointer}");
    }
}

#[test]
fn missing_value_uses_the_default() {
    for pointer in [
        "/inputs/m",
        "/inputs/list/2",
        "/inputs/list/00",
        "/inputs/list/-",
        "/inputs/list/+1",
        "/inputs/n/0",
        "/steps/plain/0",
        "/steps/later",
    ] {
        let parsed = Pointer::parse(pointer).unwrap();
        assert_eq!(filled(&from(pointer)), Err(MissingValueError(parsed.clone())));
        let template = Template::From(parsed, Some(Box::new(Template::Value("1.50".to_owned()))));
        assert_eq!(filled(&template).as_deref(), Ok("1.50"));
    }
    let there = Some(Box::new(Template::Value("1".to_owned())));
    let there = Template::From(Pointer::parse("/steps/now/a~1b/~0").unwrap(), there);
    assert_eq!(filled(&there).as_deref(), Ok("null"), "`null` is a value");
}

#[test]
fn templates_fill_objects_arrays_and_strings() {
    let text = |text: &str| Template::Value(RawJson::from_text(text).as_str().into_owned());
    let template = Template::Object(vec![
        ("k\"".to_owned(), Template::Array(vec![from("/inputs/n"), text("x")])),
        (
            "t".to_owned(),
            Template::Join(vec![text("a\""), from("/steps/now/text"), from("/inputs/n")]),
        ),
    ]);
    assert_eq!(filled(&template).as_deref(), Ok(r#"{"k\"":[1.0,"x"],"t":"a\"say \"hi\"1.0"}"#));
}

#[test]
fn result_value_is_structured_content_json_or_text() {
    for (result, expected) in [
        (r#"{"content": [], "structuredContent": {"n": 1.0}}"#, r#"{"n": 1.0}"#),
        (r#"{"content": [{"type": "text", "text": " [1e3] "}]}"#, "[1e3]"),
        (r#"{"content": [{"type": "text", "text": "hi {"}]}"#, "\"hi {\""),
        (
            r#"{"content": [{"type": "text", "text": "a"}, {"type": "image", "data": ""}, {"type": "text", "text": "b"}]}"#,
            r#""a\nb""#,
        ),
        (r#"{"content": []}"#, "\"\""),
        ("{}", "\"\""),
    ] {
        assert_eq!(value_of(&raw(result)).as_str(), expected, "{result}");
    }
}
