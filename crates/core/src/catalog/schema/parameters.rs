//! The arguments of a tool, as its schema describes them.

use serde_json::Value;

use crate::catalog::schema::{required, type_of};
use mcp_workbench_wire::json::RawJson;

/// One argument of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    pub name: String,
    /// The type, formatted as in a signature.
    pub kind: String,
    pub description: Option<String>,
    /// `true` if the argument is required and has no default.
    pub is_required: bool,
}

/// Returns the arguments of a schema in its order, then required ones that it doesn't describe.
pub fn parameters(schema: &RawJson) -> Vec<Parameter> {
    let Ok(schema) = schema.parse::<Value>() else { return Vec::new() };
    let mut missing = required(&schema);
    let properties = schema.get("properties").and_then(Value::as_object);
    let described = properties.into_iter().flatten().map(|(name, schema)| Parameter {
        name: name.clone(),
        kind: type_of(schema, 0),
        description: schema.get("description").and_then(Value::as_str).map(str::to_owned),
        is_required: missing.remove(name.as_str()),
    });
    let mut parameters: Vec<_> = described.collect();
    // A required argument need not be described.
    let names = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    let names = names.filter_map(Value::as_str).filter(|name| missing.remove(name));
    parameters.extend(names.map(|name| Parameter {
        name: name.to_owned(),
        kind: "any".to_owned(),
        description: None,
        is_required: true,
    }));
    parameters
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn required_arguments_need_no_description() {
        let schema = json!({
            "properties": {
                "to": {"type": "string", "description": "Whom"},
                "tags": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["to", "text", "text"],
        });
        let told: Vec<_> = parameters(&RawJson::encode(&schema))
            .into_iter()
            .map(|Parameter { name, kind, description, is_required }| {
                format!("{name}: {kind}, {description:?}, {is_required}")
            })
            .collect();
        assert_eq!(
            told,
            [
                "to: string, Some(\"Whom\"), true",
                "tags: string[], None, false",
                "text: any, None, true"
            ]
        );
        assert_eq!(parameters(&RawJson::encode(&json!({"type": "object"}))), []);
    }
}
