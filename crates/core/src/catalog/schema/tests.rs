use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;

fn schema() -> Raw {
    Raw::encode(&json!({
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
    match ArgumentCheck::new(&schema).check(&schema, Some(&Raw::encode(arguments))) {
        Ok(()) => "fits".to_owned(),
        Err(mismatches) => {
            mismatches.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
        }
    }
}

#[test]
fn a_mismatch_says_which_property_and_what_it_should_be() {
    assert_eq!(check(&json!({"path": "a", "mode": "text"})), "fits");
    assert_eq!(
        check(&json!({})),
        r#"`path` is required and missing; schema: {"type":"string","description":"Where"}"#
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
        r#"`edits.0.old` is required and missing; schema: {"type":"string"}"#
    );
    assert_eq!(
        check(&json!({"path": "a", "mode": "x"})),
        r#"`mode` it is not one of "text" or "binary"; schema: {"enum":["text","binary"]}"#
    );
    assert!(check(&json!("text")).starts_with("the whole of it is a string; schema: {"));
}

#[test]
fn what_has_a_default_need_not_be_there() {
    // As zod writes `.default()`, at the top and within.
    let schema = Raw::encode(&json!({
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
        let checked = ArgumentCheck::new(&schema).check(&schema, Some(&Raw::encode(&arguments)));
        checked.map_err(|mismatches| list_mismatches(&mismatches))
    };
    assert_eq!(check(json!({"clip": {"width": 1}})), Ok(()));
    let lacking = check(json!({"type": "gif"})).unwrap_err();
    assert_eq!(
        lacking.lines().map(|line| line.split(';').next().unwrap()).collect::<Vec<_>>(),
        ["- `type` it is not one of \"png\" or \"jpeg\"", "- `clip` is required and missing"]
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
fn names_that_an_agent_makes_up_are_cut() {
    let long = "ö".repeat(10_000);
    let told = check(&json!({"path": "a", long: 1}));
    assert!(told.len() < 400 && told.contains("ö…` is not a property"), "{told}");
    let told = check(&json!({"path": "a", "mode": "x".repeat(10_000)}));
    assert!(told.len() < 400, "{told}");
}

#[test]
fn what_a_reference_leads_to_is_what_is_quoted() {
    let schema = Raw::encode(&json!({
        "type": "object",
        "properties": {"to": {"type": "array", "items": {"$ref": "#/$defs/a~1b"}}},
        "$defs": {"a/b": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 3}}}},
    }));
    let check = |arguments: Value| {
        let checked = ArgumentCheck::new(&schema).check(&schema, Some(&Raw::encode(&arguments)));
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
    assert!(ArgumentCheck::new(&schema).check(&schema, None).is_err());
}

#[test]
fn a_schema_that_is_not_valid_checks_nothing() {
    for bad in [json!({"type": 7}), json!({"$ref": "http://example.invalid/x.json"}), json!(3)] {
        let bad = Raw::encode(&bad);
        assert_eq!(ArgumentCheck::new(&bad).check(&bad, None), Ok(()));
    }
}

#[test]
fn numbers_we_cannot_hold_are_for_the_server_to_judge() {
    let schema = Raw::encode(&json!({"properties": {"n": {"type": "integer"}}}));
    let check = ArgumentCheck::new(&schema);
    for text in [r#"{"n":1e999}"#, r#"{"n":123456789012345678901234567890}"#, r#"{"n":1.0}"#] {
        let arguments =
            Raw::encode(&serde_json::value::RawValue::from_string(text.to_owned()).unwrap());
        assert_eq!(check.check(&schema, Some(&arguments)), Ok(()), "{text}");
    }
}

#[test]
fn a_signature_says_in_a_line_what_the_schema_does() {
    assert_eq!(
        signature("read", &schema()),
        r#"read(path: string, head?: number, mode?: "text" | "binary", edits?: {old: string}[])"#
    );
    assert_eq!(signature("now", &Raw::encode(&json!({"type": "object"}))), "now()");
    assert_eq!(
        signature(
            "x",
            &Raw::encode(
                &json!({"properties": {"a": {"type": ["string", "null"]}, "b": {"anyOf": [{"type": "integer"}, {"type": "null"}]}, "c": {}}})
            )
        ),
        "x(a?: string | null, b?: integer | null, c?: any)"
    );
}

#[test]
fn a_schema_of_any_size_is_a_short_signature_soon() {
    // A scan of `required` for each of them would take minutes.
    let names: Vec<_> = (0..100_000).map(|n| format!("property_{n}")).collect();
    let properties: Map<_, _> = names.iter().map(|name| (name.clone(), Value::Null)).collect();
    let schema = Raw::encode(&json!({"properties": properties, "required": names}));
    let signature = signature("x", &schema);
    assert!(signature.starts_with("x(property_0: any, "), "{signature}");
    assert!(signature.ends_with(": any, …)") && signature.len() < MAX_LISTED + 100, "{signature}");
    assert!(parameters(&schema).iter().all(|parameter| parameter.is_required));
}

#[test]
fn arguments_that_headers_repeat_are_found_where_they_can_be_reached() {
    let schema = Raw::encode(&json!({"properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "a/b": {"properties": {"~": {"type": "integer", "x-mcp-header": "Deep"}}},
        "x-mcp-header": {"type": "string"},
        "list": {"items": {"x-mcp-header": "Item"}},
    }}));
    let expected = [("Mcp-Param-Region", "/region"), ("Mcp-Param-Deep", "/a~1b/~0")];
    assert_eq!(mirrored(&schema), expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
    assert_eq!(mirrored(&Raw::encode(&json!({"type": "object"}))), []);
}
