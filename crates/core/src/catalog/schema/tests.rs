use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;

fn schema() -> RawJson {
    RawJson::encode(&json!({
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Where"},
            "head": {"type": "number"},
            "mode": {"enum": ["text", "binary"]},
            "edits": {"type": "array", "items": {"type": "object", "properties": {"old": {"type": "string"}}, "required": ["old"]}}
        },
        "required": ["path"],
        "additionalProperties": false
    }))
}

fn check(arguments: &Value) -> String {
    let schema = schema();
    match ArgumentValidator::new(&schema).validate(&schema, Some(&RawJson::encode(arguments))) {
        Ok(()) => "fits".to_owned(),
        Err(mismatches) => {
            mismatches.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
        }
    }
}

#[test]
fn violation_names_the_property_and_its_schema() {
    assert_eq!(check(&json!({"path": "a", "mode": "text"})), "fits");
    assert_eq!(
        check(&json!({})),
        r#"`path` is required but missing; schema: {"type":"string","description":"Where"}"#
    );
    assert_eq!(
        check(&json!({"path": 1, "head": "x"})),
        "`path` is a number; schema: {\"type\":\"string\",\"description\":\"Where\"}\n\
         `head` is a string; schema: {\"type\":\"number\"}"
    );
    assert_eq!(
        check(&json!({"path": "a", "pth": 1})),
        "`pth` is not a property of this tool; schema: one of `path`, `head`, `mode`, `edits`"
    );
    assert_eq!(
        check(&json!({"path": "a", "edits": [{}]})),
        r#"`edits.0.old` is required but missing; schema: {"type":"string"}"#
    );
    assert_eq!(
        check(&json!({"path": "a", "mode": "x"})),
        r#"`mode` is not one of "text" or "binary"; schema: {"enum":["text","binary"]}"#
    );
    assert!(check(&json!("text")).starts_with("the value is a string; schema: {"));
}

#[test]
fn properties_with_a_default_are_optional() {
    // Written as zod does for `.default()`, at the top level and nested.
    let schema = RawJson::encode(&json!({
        "type": "object",
        "properties": {
            "type": {"type": "string", "enum": ["png", "jpeg"], "default": "png"},
            "required": {"type": "boolean", "default": false},
            "clip": {
                "type": "object",
                "properties": {"scale": {"default": null}, "width": {"type": "number"}},
                "required": ["scale", "width"],
            },
        },
        "required": ["type", "required", "clip"],
        "additionalProperties": false,
    }));
    let check = |arguments: Value| {
        let checked =
            ArgumentValidator::new(&schema).validate(&schema, Some(&RawJson::encode(&arguments)));
        checked.map_err(|mismatches| format_violations(&mismatches))
    };
    assert_eq!(check(json!({"clip": {"width": 1}})), Ok(()));
    let lacking = check(json!({"type": "gif"})).unwrap_err();
    assert_eq!(
        lacking.lines().map(|line| line.split(';').next().unwrap()).collect::<Vec<_>>(),
        ["- `type` is not one of \"png\" or \"jpeg\"", "- `clip` is required but missing"]
    );
    assert!(check(json!({"clip": {}})).unwrap_err().starts_with("- `clip.width` is required"));
    assert_eq!(
        signature("shoot", &schema),
        r#"shoot(clip: {width: number, scale?: any}, type?: "png" | "jpeg", required?: boolean)"#
    );
    let asked_for: Vec<_> = parameters(&schema).into_iter().filter(|p| p.is_required).collect();
    assert_eq!(asked_for.iter().map(|p| &*p.name).collect::<Vec<_>>(), ["clip"]);
}

#[test]
fn invented_property_names_are_truncated() {
    let long = "ö".repeat(10_000);
    let told = check(&json!({"path": "a", long: 1}));
    assert!(told.len() < 400 && told.contains("ö…` is not a property"), "{told}");
    let told = check(&json!({"path": "a", "mode": "x".repeat(10_000)}));
    assert!(told.len() < 400, "{told}");
}

#[test]
fn violation_quotes_the_referenced_schema() {
    let schema = RawJson::encode(&json!({
        "type": "object",
        "properties": {"to": {"type": "array", "items": {"$ref": "#/$defs/a~1b"}}},
        "$defs": {"a/b": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 3}}}},
    }));
    let check = |arguments: Value| {
        let checked =
            ArgumentValidator::new(&schema).validate(&schema, Some(&RawJson::encode(&arguments)));
        checked.unwrap_err().iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(
        check(json!({"to": [{"name": 7}]})),
        r#"`to.0.name` is a number; schema: {"type":"string","maxLength":3}"#
    );
}

#[test]
fn no_arguments_count_as_an_empty_object() {
    let schema = schema();
    assert!(ArgumentValidator::new(&schema).validate(&schema, None).is_err());
}

#[test]
fn invalid_schema_accepts_all_arguments() {
    for bad in [json!({"type": 7}), json!({"$ref": "http://example.invalid/x.json"}), json!(3)] {
        let bad = RawJson::encode(&bad);
        assert_eq!(ArgumentValidator::new(&bad).validate(&bad, None), Ok(()));
    }
}

#[test]
fn unrepresentable_numbers_are_left_to_the_server() {
    let schema = RawJson::encode(&json!({"properties": {"n": {"type": "integer"}}}));
    let check = ArgumentValidator::new(&schema);
    for text in [r#"{"n":1e999}"#, r#"{"n":123456789012345678901234567890}"#, r#"{"n":1.0}"#] {
        let arguments =
            RawJson::encode(&serde_json::value::RawValue::from_string(text.to_owned()).unwrap());
        assert_eq!(check.validate(&schema, Some(&arguments)), Ok(()), "{text}");
    }
}

#[test]
fn signature_summarizes_the_schema() {
    assert_eq!(
        signature("read", &schema()),
        r#"read(path: string, head?: number, mode?: "text" | "binary", edits?: {old: string}[])"#
    );
    assert_eq!(signature("now", &RawJson::encode(&json!({"type": "object"}))), "now()");
    assert_eq!(
        signature(
            "x",
            &RawJson::encode(
                &json!({"properties": {"a": {"type": ["string", "null"]}, "b": {"anyOf": [{"type": "integer"}, {"type": "null"}]}, "c": {}}})
            )
        ),
        "x(a?: string | null, b?: integer | null, c?: any)"
    );
}

#[test]
fn large_schema_quickly_gives_a_short_signature() {
    // Scanning `required` once per property would take minutes.
    let names: Vec<_> = (0..100_000).map(|n| format!("property_{n}")).collect();
    let properties: Map<_, _> = names.iter().map(|name| (name.clone(), Value::Null)).collect();
    let schema = RawJson::encode(&json!({"properties": properties, "required": names}));
    let signature = signature("x", &schema);
    assert!(signature.starts_with("x(property_0: any, "), "{signature}");
    assert!(signature.ends_with(": any, …)") && signature.len() < MAX_LISTED + 100, "{signature}");
    assert!(parameters(&schema).iter().all(|parameter| parameter.is_required));
}

#[test]
fn header_params_are_found_in_nested_properties() {
    let schema = RawJson::encode(&json!({"properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "a/b": {"properties": {"~": {"type": "integer", "x-mcp-header": "Deep"}}},
        "x-mcp-header": {"type": "string"},
        "list": {"items": {"x-mcp-header": "Item"}},
    }}));
    let expected = [("Mcp-Param-Region", "/region"), ("Mcp-Param-Deep", "/a~1b/~0")];
    assert_eq!(header_params(&schema), expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
    assert_eq!(header_params(&RawJson::encode(&json!({"type": "object"}))), []);
}
