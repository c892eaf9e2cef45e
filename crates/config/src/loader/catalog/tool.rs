//! Tool files of a catalog: a description, and a schema of the arguments.

use serde_json::{Map, Value as Json, json};

use crate::loader::catalog::read_text;
use crate::syntax::document::{Node, truncate_for_message};
use crate::syntax::finding::{Finding, Severity};
use crate::syntax::reader::{ConfigReader, ObjectFields, did_you_mean, quoted_list};
use mcp_workbench_settings::CatalogTool;

/// Parses the file of the tool `name`. Returns no tool if there are errors.
pub fn parse_tool_file(file: &str, text: &str, name: &str) -> (Option<CatalogTool>, Vec<Finding>) {
    let read = read_text(file, text, None, |root, reader| read(root, name, reader));
    let is_wrong = read.findings.iter().any(|finding| finding.severity == Severity::Error);
    (read.value.filter(|_| !is_wrong), read.findings)
}

fn read(root: &Node<'_>, name: &str, reader: &mut ConfigReader<'_>) -> Option<CatalogTool> {
    let mut description = String::new();
    let mut schema = None;
    if !root.is_null() {
        let mut fields = reader.read_fields(root)?;
        let said = fields.take("description").and_then(|node| reader.read_string(&node));
        description = said.map(|text| text.value.trim().to_owned()).unwrap_or_default();
        schema = arguments(&mut fields, reader);
        fields.report_unknown_keys(reader, |_| None);
    }
    if description.is_empty() && !reader.has_error_under(&root.location, "description") {
        let hint = "add `description: …`: tools are selected by it";
        reader.report_warning(&root.location, "expected a `description`", Some(hint.to_owned()));
    }
    let schema = schema.unwrap_or_else(|| json!({ "type": "object", "properties": {} }));
    Some(CatalogTool { name: name.to_owned(), description, schema })
}

/// Returns the schema from `inputSchema` or `parameters`.
fn arguments(fields: &mut ObjectFields<'_>, reader: &mut ConfigReader<'_>) -> Option<Json> {
    let whole = fields.take("inputSchema");
    let parameters = fields.take("parameters");
    if let (Some(whole), Some(_)) = (&whole, &parameters) {
        let message = "expected `inputSchema` or `parameters`, found both";
        reader.report_error(&whole.location, message, Some("remove one of them".to_owned()));
    }
    let node = whole.as_ref().or(parameters.as_ref())?;
    let schema = if let Some(whole) = &whole {
        let schema = reader.read_json(whole);
        if schema.get("type") != Some(&json!("object")) {
            let hint = "add `type: object`, and put the arguments under `properties`";
            let message = "expected a JSON Schema of an object";
            reader.report_error(&whole.location, message, Some(hint.to_owned()));
            return None;
        }
        schema
    } else {
        let mut object = Map::from_iter([("type".to_owned(), json!("object"))]);
        properties(node, &mut object, reader)?;
        Json::Object(object)
    };
    if let Err(error) = jsonschema::validator_for(&schema) {
        let place = error.instance_path().to_string();
        let place = if place.is_empty() { String::new() } else { format!(" at `{place}`") };
        let message = format!("invalid JSON Schema{place}: {error}");
        if !reader.has_error_in(&node.location) {
            reader.report_error(&node.location, message, None);
        }
    }
    Some(schema)
}

/// Adds `properties`, and the `required` names among them, to an object schema.
fn properties(
    node: &Node<'_>,
    schema: &mut Map<String, Json>,
    reader: &mut ConfigReader<'_>,
) -> Option<()> {
    let mut all = Map::new();
    let mut required = Vec::new();
    for entry in reader.read_fields(node)?.take_keys_if(|_| true) {
        let (property, is_required) = property(&entry.node, reader);
        if is_required {
            required.push(json!(entry.key.value));
        }
        all.insert(entry.key.value, property);
    }
    schema.insert("properties".to_owned(), Json::Object(all));
    if !required.is_empty() {
        schema.insert("required".to_owned(), Json::Array(required));
    }
    Some(())
}

/// Returns a parameter's schema, and whether it is required.
fn property(node: &Node<'_>, reader: &mut ConfigReader<'_>) -> (Json, bool) {
    let mut schema = Map::new();
    let mut is_required = false;
    if node.is_null() {
        return (Json::Object(schema), is_required);
    }
    let Some(mut fields) = reader.read_fields(node) else { return (Json::Null, is_required) };
    for entry in fields.take_keys_if(|_| true) {
        let (key, node) = (entry.key.value, entry.node);
        match key.as_str() {
            // A boolean is the catalog's shorthand; an array is JSON Schema's list of required
            // members.
            "required" if node.value.as_array().is_none() => {
                is_required = reader.read_bool(&node).is_some_and(|flag| flag.value);
            }
            "required" => {
                let named = reader.read_json(&node).as_array().cloned().unwrap_or_default();
                let all = schema.entry("required").or_insert_with(|| json!([]));
                all.as_array_mut().into_iter().for_each(|all| all.extend(named.iter().cloned()));
            }
            "properties" if node.value.as_object().is_some() => {
                let before = schema.remove("required");
                _ = properties(&node, &mut schema, reader);
                if let Some(Json::Array(before)) = before {
                    let all = schema.entry("required").or_insert_with(|| json!([]));
                    all.as_array_mut().into_iter().for_each(|all| all.extend(before.clone()));
                }
            }
            "items" if node.value.as_object().is_some() => {
                schema.insert(key, property(&node, reader).0);
            }
            "type" => {
                check_type(&node, reader);
                schema.insert(key, word_for_null(reader.read_json(&node)));
            }
            _ => {
                schema.insert(key, reader.read_json(&node));
            }
        }
    }
    (Json::Object(schema), is_required)
}

/// Restores the type name `null`, because YAML parses an unquoted `null` as a null value.
fn word_for_null(kind: Json) -> Json {
    match kind {
        Json::Null => json!("null"),
        Json::Array(kinds) => kinds.into_iter().map(word_for_null).collect(),
        other => other,
    }
}

const TYPES: [&str; 7] = ["string", "number", "integer", "boolean", "array", "object", "null"];

fn check_type(node: &Node<'_>, reader: &mut ConfigReader<'_>) {
    if node.value.as_array().is_some() {
        for element in node.elements() {
            check_type(&element, reader);
        }
        return;
    }
    // An unquoted `null` is a valid type.
    let Some(word) = (!node.is_null()).then(|| reader.read_string(node)).flatten() else { return };
    if !TYPES.contains(&word.value.as_str()) {
        let meant = match word.value.to_lowercase().as_str() {
            "str" | "text" => Some("string"),
            "int" => Some("integer"),
            "float" | "double" => Some("number"),
            "bool" => Some("boolean"),
            "list" => Some("array"),
            "dict" | "map" => Some("object"),
            _ => None,
        };
        let hint = meant.map(|meant| format!("did you mean `{meant}`?"));
        let hint = hint.or_else(|| did_you_mean(&word.value, &TYPES));
        let found = truncate_for_message(&word.value);
        let message = format!("expected {}, found `{found}`", quoted_list(&TYPES, "or"));
        reader.report_error(&word.location, message, hint);
    }
}
