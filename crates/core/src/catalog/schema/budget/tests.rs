use serde_json::{Map, json};

use super::*;
use crate::catalog::schema::ArgumentValidator;
use mcp_workbench_wire::json::RawJson;

fn is_valid(schema: &Value, arguments: &Value) -> bool {
    let schema = RawJson::encode(schema);
    ArgumentValidator::new(&schema).validate(&schema, Some(&RawJson::encode(arguments))).is_ok()
}

/// A schema whose argument `p` is the last of `count` definitions, each made from the one before.
fn chain(count: usize, first: Value, next: impl Fn(Value) -> Value) -> Value {
    let reference = |number: usize| json!({"$ref": format!("#/$defs/d{number}")});
    let mut defs = Map::from_iter([("d0".to_owned(), first)]);
    for number in 1..count {
        defs.insert(format!("d{number}"), next(reference(number - 1)));
    }
    json!({"type": "object", "$defs": defs, "properties": {"p": reference(count - 1)}})
}

fn nested(depth: usize, value: Value) -> Value {
    (0..depth).fold(value, |inner, _| json!({"p": inner}))
}

#[test]
fn validation_that_takes_exponential_time_is_left_to_the_server() {
    for keyword in ["anyOf", "oneOf", "allOf"] {
        let twice = |before: Value| json!({keyword: [before, before]});
        let schema = chain(40, json!({"type": "integer"}), twice);
        assert!(is_valid(&schema, &json!({"p": "text"})), "{keyword}");
    }
    // Through conditions, unknown members of objects, and items of arrays.
    let condition = |before: Value| json!({"if": before, "then": before, "else": before});
    assert!(is_valid(&chain(40, json!({"type": "integer"}), condition), &json!({"p": "text"})));
    let members = |before: Value| json!({"anyOf": [{"additionalProperties": before}, {"patternProperties": {"p": before}}]});
    let deep = nested(50, json!("text"));
    assert!(is_valid(&chain(50, json!({"type": "integer"}), members), &deep));
    let items = |before: Value| json!({"items": {"items": {"anyOf": [before, {"not": before}]}}});
    let lists = (0..60).fold(json!("text"), |inner, _| json!([inner]));
    assert!(is_valid(&chain(30, json!({"type": "integer"}), items), &json!({ "p": lists })));
}

#[test]
fn recursive_schemas_that_branch_are_left_to_the_server() {
    let branch = json!({"properties": {"p": {"$ref": "#"}}});
    let schema = json!({"allOf": [branch, branch], "maxProperties": 1});
    assert!(is_valid(&schema, &nested(60, json!({"q": 1, "r": 2}))));
    let schema = json!({"$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]}},
        "properties": {"p": {"$ref": "#/$defs/a"}}});
    assert!(is_valid(&schema, &json!({"p": 1})));
    let schema = json!({"$dynamicAnchor": "x", "allOf": [
        {"properties": {"p": {"$dynamicRef": "#x"}}}, {"properties": {"p": {"$dynamicRef": "#x"}}}]});
    assert!(is_valid(&schema, &nested(60, json!({}))));
}

#[test]
fn nested_unevaluated_properties_are_left_to_the_server() {
    let schema = (0..30).fold(
        json!({"properties": {"q": {}}}),
        |inner, _| json!({"anyOf": [inner], "unevaluatedProperties": false}),
    );
    assert!(is_valid(&schema, &json!({"p": 1})));
    let one = json!({"anyOf": [{"properties": {"q": {}}}], "unevaluatedProperties": false});
    assert!(!is_valid(&one, &json!({"p": 1})));
}

#[test]
fn long_chains_of_references_do_not_overflow_the_stack() {
    let schema = chain(900, json!({"type": "integer"}), |before| before);
    assert!(is_valid(&schema, &json!({"p": "text"})));
    let schema = chain(10_000, json!({"type": "integer"}), |before| before);
    assert!(is_valid(&schema, &json!({"p": "text"})));
    let schema = chain(MAX_DEPTH - 5, json!({"type": "integer"}), |before| before);
    assert!(!is_valid(&schema, &json!({"p": "text"})));
}

#[test]
fn references_with_another_base_are_left_to_the_server() {
    // Within `a`, `#/$defs/b` is another schema than from the root.
    let harmless = json!({"type": "integer"});
    let real = chain(40, harmless.clone(), |before| json!({"anyOf": [before, before]}));
    for key in ["$id", "id"] {
        let mut inner = real["$defs"].clone();
        inner["b"] = json!({"$ref": "#/$defs/d39"});
        let schema = json!({
            "$schema": "http://json-schema.org/draft-04/schema#",
            "$defs": {"a": {key: "http://x.invalid/", "$defs": inner}, "d39": harmless},
            "properties": {"p": {"$ref": "#/$defs/a/$defs/b"}},
        });
        assert!(!can_validate(&schema, &json!({"p": "text"})), "{key}");
    }
    let escaped =
        json!({"$defs": {"a%62": harmless}, "properties": {"p": {"$ref": "#/$defs/a%62"}}});
    assert!(!can_validate(&escaped, &json!({"p": "text"})));
}

#[test]
fn schemas_that_take_long_to_compile_are_left_to_the_server() {
    let patterns: Map<_, _> = (0..1000)
        .map(|number| {
            (number.to_string(), json!({"pattern": format!("((a{{90}}){{90}}){{{number}}}")}))
        })
        .collect();
    assert!(is_valid(&json!({"properties": patterns, "required": ["q"]}), &json!({})));
    let large = json!({"pattern": "((a{100}){100}){100}"});
    assert!(is_valid(&json!({"properties": {"p": large}, "required": ["q"]}), &json!({})));
    let text = "x".repeat(300_000);
    assert!(is_valid(&json!({"required": ["q"], "description": text}), &json!({})));
}

#[test]
fn expansion_that_takes_exponential_time_to_compile_is_left_to_the_server() {
    // The compiler looks for a constant that selects one of three alternatives.
    let many = |before: Value| json!({"allOf": vec![before; 12]});
    let mut schema = chain(16, json!({"required": ["k"]}), many);
    let last = schema["properties"]["p"].clone();
    schema["properties"] = json!({"p": {"oneOf": [last, last, last]}});
    schema["required"] = json!(["q"]);
    assert!(is_valid(&schema, &json!({})));
    // It expands schemas to find evaluated properties.
    let mut schema = chain(
        40,
        json!({"properties": {"k": {}}}),
        |before| json!({"allOf": [before, before], "unevaluatedProperties": false}),
    );
    schema["required"] = json!(["q"]);
    assert!(is_valid(&schema, &json!({})));
}

#[test]
fn work_that_grows_with_the_arguments_is_bounded() {
    let numbers: Value = (0..60_000).collect();
    let schema = json!({"properties": {"p": {"items": {"type": "integer"}}}, "required": ["q"]});
    assert!(is_valid(&schema, &json!({ "p": numbers })));
    let text = "a".repeat(10_000);
    let schema = json!({"properties": {"p": {"pattern": "^(?=(a+)+$)b"}}, "required": ["q"]});
    assert!(is_valid(&schema, &json!({ "p": text })));
    assert!(!is_valid(&schema, &json!({"p": "b"})));
    let choices: Value = (0..3000).collect();
    let items: Value = (0..100).collect();
    let schema = json!({"properties": {"p": {"items": {"enum": choices}}}, "required": ["q"]});
    assert!(is_valid(&schema, &json!({ "p": items })));
}

#[test]
fn regular_schemas_are_validated() {
    // A filter that refers to itself, as in many APIs.
    let schema = json!({
        "type": "object",
        "$id": "https://example.com/query",
        "properties": {
            "filter": {"$ref": "#/definitions/filter"},
            "id": {"type": "string", "format": "uuid"},
            "default": {"type": "string", "pattern": "^[\\w.-]+@[\\w-]+$"},
        },
        "definitions": {"filter": {"anyOf": [
            {"properties": {"and": {"type": "array", "items": {"$ref": "#/definitions/filter"}}},
                "required": ["and"]},
            {"properties": {"or": {"type": "array", "items": {"$ref": "#/definitions/filter"}}},
                "required": ["or"]},
            {"properties": {"field": {"type": "string"}, "is": {"enum": ["a", "b"]}},
                "required": ["field", "is"], "additionalProperties": false},
        ]}},
        "additionalProperties": false,
    });
    let leaf = json!({"field": "x", "is": "a"});
    let filter = |leaf: &Value| json!({"and": [leaf, {"or": [leaf, {"and": [leaf, leaf]}]}]});
    assert!(is_valid(&schema, &json!({"filter": filter(&leaf), "id": "x", "default": "a@b"})));
    assert!(!is_valid(&schema, &json!({"filter": filter(&json!({"field": 1}))})));
    assert!(!is_valid(&schema, &json!({"default": "not an address"})));
    assert!(!is_valid(&schema, &json!({"other": 1})));
}

#[test]
fn schemas_of_the_user_have_no_bounds() {
    let schema = json!({"$defs": {"a": {"$anchor": "x", "type": "integer"}},
        "properties": {"p": {"$ref": "#x"}}});
    let raw = RawJson::encode(&schema);
    let arguments = RawJson::encode(&json!({"p": "text"}));
    assert!(ArgumentValidator::unbounded(&raw).validate(&raw, Some(&arguments)).is_err());
    assert!(ArgumentValidator::new(&raw).validate(&raw, Some(&arguments)).is_ok());
}
