//! The arguments of a tool one by one, as its schema describes them.

use serde_json::Value;

use crate::catalog::schema::type_of;
use crate::raw::Raw;

/// One argument of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// What it is called.
    pub name: String,
    /// Its type, as in a signature.
    pub kind: String,
    /// What it is for, if the schema says so.
    pub description: Option<String>,
    /// Whether every call must have it.
    pub is_required: bool,
}

/// The arguments that a schema has, in its order.
pub fn parameters(schema: &Raw) -> Vec<Parameter> {
    let Ok(schema) = schema.parse::<Value>() else { return Vec::new() };
    let required = schema.get("required").and_then(Value::as_array);
    let is_required =
        |name: &str| required.is_some_and(|names| names.iter().any(|n| n.as_str() == Some(name)));
    let described = |(name, schema): (&String, &Value)| Parameter {
        name: name.clone(),
        kind: type_of(schema, 0),
        description: schema.get("description").and_then(Value::as_str).map(str::to_owned),
        is_required: is_required(name),
    };
    let properties = schema.get("properties").and_then(Value::as_object);
    let mut parameters: Vec<_> = properties.into_iter().flatten().map(described).collect();
    // What is required need not be described.
    for name in required.into_iter().flatten().filter_map(Value::as_str) {
        if parameters.iter().all(|parameter| parameter.name != name) {
            parameters.push(Parameter {
                name: name.to_owned(),
                kind: "any".to_owned(),
                description: None,
                is_required: true,
            });
        }
    }
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
            "required": ["to", "text"],
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
