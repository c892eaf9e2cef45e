//! The arguments of a tool one by one, as its schema describes them.

use serde_json::Value;

use crate::catalog::schema::{required, type_of};
use crate::raw::Raw;

/// One argument of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Its type, as in a signature.
    pub kind: String,
    /// Its purpose, if the schema names one.
    pub description: Option<String>,
    /// `true` if every call must have it.
    pub is_required: bool,
}

/// The arguments that a schema has, in its order.
pub fn parameters(schema: &Raw) -> Vec<Parameter> {
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
    // What is required need not be described.
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
    fn every_argument_is_told_with_its_type_whether_or_not_it_is_described() {
        let schema = json!({
            "properties": {
                "to": {"type": "string", "description": "Whom"},
                "tags": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["to", "text", "text"],
        });
        let told: Vec<_> = parameters(&Raw::encode(&schema))
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
        assert_eq!(parameters(&Raw::encode(&json!({"type": "object"}))), []);
    }
}
