//! The schema of a macro's arguments: that it is one, and which of them there may be.

use serde_json::Value;

use crate::config::syntax::document::Spot;
use crate::config::syntax::reader::{Located, Reader, did_you_mean, listed};

/// The schema of a macro that takes none.
const NONE: &str = r#"{"type":"object","properties":{},"additionalProperties":false}"#;

/// The arguments that there may be.
pub(super) struct Inputs {
    /// The schema, as it is written.
    pub(super) text: String,
    /// Their names; `None`: they cannot be told from the schema.
    names: Option<Vec<String>>,
}

/// Checks the schema, or takes that of no arguments.
pub(super) fn check(schema: Option<Located<String>>, reader: &mut Reader<'_>) -> Inputs {
    let Some(Located { value: text, spot }) = schema else {
        return Inputs { text: NONE.to_owned(), names: Some(Vec::new()) };
    };
    // It has been written from a tree, so that it is JSON.
    let schema: Value = serde_json::from_str(&text).unwrap_or_default();
    if schema["type"] != "object" {
        let hint = "arguments are an object: write `\"type\": \"object\"`".to_owned();
        reader.error(&spot, "expected the schema of an object", Some(hint));
    } else if let Err(error) = jsonschema::validator_for(&schema) {
        reader.error(&spot, format!("this is no JSON Schema: {error}"), None);
    }
    Inputs { names: names(&schema), text }
}

/// The names of the arguments, if the schema says them all.
fn names(schema: &Value) -> Option<Vec<String>> {
    const OPEN: [&str; 8] = [
        "$ref",
        "$dynamicRef",
        "allOf",
        "anyOf",
        "oneOf",
        "if",
        "patternProperties",
        "dependentSchemas",
    ];
    let is_open = OPEN.iter().any(|key| schema.get(key).is_some())
        || schema.get("additionalProperties").is_some_and(|more| *more != Value::Bool(false));
    let properties = schema.get("properties").and_then(Value::as_object);
    (!is_open).then(|| properties.into_iter().flatten().map(|(name, _)| name.clone()).collect())
}

impl Inputs {
    /// Notes an argument that the schema does not speak of.
    pub(super) fn check(&self, input: &str, spot: &Spot, reader: &mut Reader<'_>) {
        let Some(names) = &self.names else { return };
        if names.iter().any(|name| name == input) {
            return;
        }
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let hint = match names.as_slice() {
            [] => "write an `inputSchema` with it".to_owned(),
            names => did_you_mean(input, names)
                .unwrap_or_else(|| format!("`inputSchema` has {}", listed(names, "and"))),
        };
        reader.error(spot, format!("there is no input `{input}`"), Some(hint));
    }
}
