//! Validation of a macro's `inputSchema`, and of references to its inputs.

use serde_json::Value;

use crate::syntax::document::SourceLocation;
use crate::syntax::reader::{ConfigReader, Located, did_you_mean, quoted_list};

const NONE: &str = r#"{"type":"object","properties":{},"additionalProperties":false}"#;

pub(super) struct MacroInputs {
    /// The schema as JSON text, as written in the file.
    pub(super) text: String,
    /// The names of the inputs, or `None` if the schema allows others.
    names: Option<Vec<String>>,
}

/// Checks the schema; a missing one means no arguments.
pub(super) fn check(schema: Option<Located<String>>, reader: &mut ConfigReader<'_>) -> MacroInputs {
    let Some(Located { value: text, location: spot }) = schema else {
        return MacroInputs { text: NONE.to_owned(), names: Some(Vec::new()) };
    };
    // The text was rendered from a parsed document, so it is valid JSON.
    let schema: Value = serde_json::from_str(&text).unwrap_or_default();
    if schema["type"] != "object" {
        let hint = "arguments are an object: add `\"type\": \"object\"`".to_owned();
        reader.report_error(&spot, "expected the schema of an object", Some(hint));
    } else if let Err(error) = jsonschema::validator_for(&schema) {
        reader.report_error(&spot, format!("invalid JSON Schema: {error}"), None);
    }
    MacroInputs { names: names(&schema), text }
}

/// Returns the property names if the schema is closed: no composition, and no further properties.
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

impl MacroInputs {
    pub(super) fn check(
        &self,
        input: &str,
        location: &SourceLocation,
        reader: &mut ConfigReader<'_>,
    ) {
        let Some(names) = &self.names else { return };
        if names.iter().any(|name| name == input) {
            return;
        }
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let hint = match names.as_slice() {
            [] => "add it to an `inputSchema`".to_owned(),
            names => did_you_mean(input, names)
                .unwrap_or_else(|| format!("`inputSchema` has {}", quoted_list(names, "and"))),
        };
        reader.report_error(location, format!("no input `{input}`"), Some(hint));
    }
}
