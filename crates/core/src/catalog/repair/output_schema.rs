//! Output schemas that clients can't compile. The official TypeScript SDK 1 compiles each output
//! schema when it lists tools, and rejects the whole list if one fails.

use std::sync::LazyLock;

use jsonschema::Draft;
use regex::Regex;
use serde_json::{Map, Value};

use crate::catalog::repair::notes::RepairNotes;
use mcp_workbench_wire::json::RawJson;

/// Longer schemas, in bytes, aren't checked.
const MAX_CHECKED: usize = 64 * 1024;
/// Keywords whose value is a schema or an array of schemas.
const NESTED: [&str; 13] = [
    "items",
    "additionalItems",
    "prefixItems",
    "contains",
    "additionalProperties",
    "propertyNames",
    "anyOf",
    "allOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
];
/// Keywords whose value is an object of schemas.
const NAMED: [&str; 5] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];

/// Removes a tool's `outputSchema` if clients can't compile it.
pub(in crate::catalog) fn without_broken_output_schema(
    tool: RawJson,
    notes: &mut RepairNotes,
) -> RawJson {
    let is_broken = tool.member("outputSchema").is_some_and(|schema| !is_compilable(&schema));
    match tool.without_member("outputSchema") {
        Ok(bare) if is_broken => {
            notes.push("removed `outputSchema`, which does not compile".to_owned());
            bare
        }
        _ => tool,
    }
}

fn is_compilable(schema: &RawJson) -> bool {
    if schema.len() > MAX_CHECKED {
        return true;
    }
    let Ok(mut schema) = schema.parse::<Value>() else { return false };
    // Clients ignore dialects that they don't know.
    if let Value::Object(members) = &mut schema
        && members.get("$schema").is_some_and(|dialect| !is_known_dialect(dialect))
    {
        members.remove("$schema");
    }
    is_supported(&schema) && jsonschema::validator_for(&schema).is_ok()
}

fn is_known_dialect(dialect: &Value) -> bool {
    let schema = Value::Object(Map::from_iter([("$schema".to_owned(), dialect.clone())]));
    Draft::default().detect(&schema) != Draft::Unknown
}

/// Returns `false` for valid schemas that Ajv, the validator of the TypeScript SDK, rejects.
fn is_supported(schema: &Value) -> bool {
    let Value::Object(members) = schema else { return true };
    let is_rejected = members.get("id").is_some_and(Value::is_string)
        || (members.get("nullable") == Some(&Value::Bool(true)) && !members.contains_key("type"))
        || members.get("enum").and_then(Value::as_array).is_some_and(Vec::is_empty)
        || members.get("pattern").and_then(Value::as_str).is_some_and(|it| !is_js_pattern(it));
    let is_supported_all = |value: &Value| match value {
        Value::Array(schemas) => schemas.iter().all(is_supported),
        schema => is_supported(schema),
    };
    let named = |key: &str| members.get(key).and_then(Value::as_object);
    !is_rejected
        && NESTED.iter().all(|key| members.get(*key).is_none_or(is_supported_all))
        && NAMED.iter().all(|key| named(key).is_none_or(|all| all.values().all(is_supported)))
        && named("patternProperties").is_none_or(|all| all.keys().all(|it| is_js_pattern(it)))
}

/// Returns `false` for regular expressions of other languages, such as `(?i)`, `(?P<name>…)` and
/// `\Z`, and for escapes that JavaScript rejects in Unicode mode.
fn is_js_pattern(pattern: &str) -> bool {
    static FOREIGN: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(
            r"^(?:[^\\]|\\.)*?(?:\\[^bBdDsSwWfnrtvcxukpP0-9^$\\.*+?()\[\]{}|/-]|\(\?[^:=!<])",
        )
        .ok()
    });
    FOREIGN.as_ref().is_none_or(|foreign| !foreign.is_match(pattern))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn schemas_that_no_client_compiles_are_recognized() {
        for broken in [
            json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/Missing"}}}),
            json!({"type": "object", "properties": {"a": {"$ref": "https://example.com/a.json"}}}),
            json!({"type": "object", "properties": {"a": {"type": "date"}}}),
            json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}),
            json!({"type": "object", "properties": {"a": {"pattern": "(?i)abc"}}}),
            json!({"type": "object", "properties": {"a": {"pattern": r"^a\Z"}}}),
            json!({"type": "object", "properties": {"a": {"nullable": true, "anyOf": [{}]}}}),
            json!({"type": "object", "properties": {"a": {"enum": []}}}),
            json!({"type": "object", "required": "a"}),
            json!({"type": "object", "id": "https://example.com/schema"}),
            json!({"type": "object", "anyOf": {"type": "string"}}),
        ] {
            assert!(!is_compilable(&RawJson::encode(&broken)), "{broken}");
        }
    }

    #[test]
    fn usual_schemas_compile() {
        for usual in [
            json!({"type": "object"}),
            json!({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}),
            json!({"$schema": "https://example.com/our-dialect", "type": "object"}),
            json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
                "properties": {"id": {"type": "string", "pattern": r"^[\w\-./]+\.\d{2,}(?:a|b)(?=c)$"}},
                "additionalProperties": false}),
            json!({"type": "object", "$defs": {"A": {"type": "object",
                "properties": {"a": {"$ref": "#/$defs/A"}}}}, "properties": {"a": {"$ref": "#/$defs/A"}}}),
            json!({"type": "object", "properties": {"nullable": {"type": "boolean"},
                "at": {"type": "string", "format": "no-such-format", "nullable": true}}}),
            json!({"type": ["object", "null"], "x-unknown": {"type": "date"}}),
            json!({"type": "array", "items": {"type": "string"}}),
        ] {
            assert!(is_compilable(&RawJson::encode(&usual)), "{usual}");
        }
    }
}
