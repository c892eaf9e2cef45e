//! Renders catalog files from the tool definitions of servers.

use serde_json::{Map, Value, json};

use mcp_workbench_config::loader::catalog::tool::parse_tool_file;
use mcp_workbench_config::loader::catalog_fs::MAX_CATALOG_FILE_BYTES;
use mcp_workbench_settings::CatalogTool;

/// Renders the YAML file of a tool. Returns `None` if no file could be read back as the same tool,
/// or if it would exceed `MAX_CATALOG_FILE_BYTES`.
pub fn render_tool_file(tool: &CatalogTool) -> Option<String> {
    text(tool).filter(|text| text.len() <= MAX_CATALOG_FILE_BYTES)
}

fn text(tool: &CatalogTool) -> Option<String> {
    let said = |key: &str, schema: Option<Value>| {
        let mut file = Map::new();
        if !tool.description.is_empty() {
            file.insert("description".to_owned(), tool.description.as_str().into());
        }
        file.extend(schema.map(|schema| (key.to_owned(), schema)));
        to_yaml(&Value::Object(file))
    };
    if let Some((parameters, schema)) = parameters(&tool.schema) {
        let has_any = parameters.as_object().is_some_and(|all| !all.is_empty());
        let text = said("parameters", has_any.then_some(parameters));
        if parse_tool_file("", &text, &tool.name)
            .0
            .is_some_and(|read| sort_required(read.schema) == sort_required(schema))
        {
            return Some(text);
        }
    }
    let text = said("input_schema", Some(tool.schema.clone()));
    parse_tool_file("", &text, &tool.name)
        .0
        .is_some_and(|read| read.schema == tool.schema)
        .then_some(text)
}

/// Converts a JSON schema to the shorter `parameters` form, together with the schema that this form
/// means. Returns `None` if `schema` doesn't fit the form.
fn parameters(schema: &Value) -> Option<(Value, Value)> {
    let schema = schema.as_object()?;
    let is_sayable = |(key, value): (&String, &Value)| match key.as_str() {
        "type" => *value == json!("object"),
        "properties" | "required" | "$schema" | "title" => true,
        _ => false,
    };
    if !schema.iter().all(is_sayable) {
        return None;
    }
    let empty = Map::new();
    let properties = match schema.get("properties") {
        Some(properties) => properties.as_object()?,
        None => &empty,
    };
    let required: Vec<&str> = match schema.get("required") {
        Some(names) => names.as_array()?.iter().map(Value::as_str).collect::<Option<_>>()?,
        None => Vec::new(),
    };
    if !required.iter().all(|name| properties.contains_key(*name)) {
        return None;
    }
    let mut parameters = Map::new();
    for (name, property) in properties {
        let mut parameter = Map::new();
        let property = property.as_object()?;
        parameter.extend(property.get("type").map(|kind| ("type".to_owned(), kind.clone())));
        if required.contains(&name.as_str()) {
            if property.contains_key("required") {
                return None;
            }
            parameter.insert("required".to_owned(), true.into());
        }
        parameter.extend(property.iter().map(|(key, value)| (key.clone(), value.clone())));
        parameters.insert(name.clone(), Value::Object(parameter));
    }
    let mut meant = json!({ "type": "object", "properties": properties });
    if !required.is_empty() {
        meant["required"] = json!(required);
    }
    Some((Value::Object(parameters), meant))
}

/// Sorts `required`, whose order has no meaning.
fn sort_required(mut schema: Value) -> Value {
    if let Some(names) = schema.get_mut("required").and_then(Value::as_array_mut) {
        names.sort_by(|a, b| a.as_str().cmp(&b.as_str()));
    }
    schema
}

/// Renders a JSON value as YAML.
pub fn to_yaml(value: &Value) -> String {
    let mut text = String::new();
    match value {
        Value::Object(_) => nested(value, 0, &mut text),
        Value::Array(values) if !values.is_empty() => nested(value, 0, &mut text),
        scalar => {
            inline(scalar, &mut text);
            text.push('\n');
        }
    }
    text
}

fn nested(value: &Value, indent: usize, text: &mut String) {
    let margin = " ".repeat(indent);
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                text.push_str(&margin);
                text.push_str(&if is_word(key) { key.clone() } else { quoted(key) });
                text.push(':');
                write_after_key(value, indent, text);
            }
        }
        Value::Array(values) => {
            for value in values {
                text.push_str(&margin);
                text.push('-');
                match value {
                    Value::Object(members) if !members.is_empty() => {
                        let start = text.len();
                        nested(value, indent + 2, text);
                        // The first member continues on the line of the dash.
                        text.replace_range(start..start + indent + 2, " ");
                    }
                    value => write_after_key(value, indent, text),
                }
            }
        }
        _ => {}
    }
}

fn write_after_key(value: &Value, indent: usize, text: &mut String) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            text.push('\n');
            nested(value, indent + 2, text);
        }
        Value::Array(values)
            if values.iter().any(|value| value.is_object() || value.is_array()) =>
        {
            text.push('\n');
            nested(value, indent + 2, text);
        }
        Value::String(string) if is_block(string) => {
            text.push_str(if string.ends_with('\n') { " |\n" } else { " |-\n" });
            for line in string.lines() {
                if !line.is_empty() {
                    text.push_str(&" ".repeat(indent + 2));
                    text.push_str(line);
                }
                text.push('\n');
            }
        }
        Value::String(string) if is_phrase(string) => {
            text.push(' ');
            text.push_str(string);
            text.push('\n');
        }
        value => {
            text.push(' ');
            inline(value, text);
            text.push('\n');
        }
    }
}

fn inline(value: &Value, text: &mut String) {
    match value {
        Value::String(string) if is_word(string) => text.push_str(string),
        Value::String(string) => text.push_str(&quoted(string)),
        Value::Array(values) => {
            text.push('[');
            for (at, value) in values.iter().enumerate() {
                text.push_str(if at > 0 { ", " } else { "" });
                inline(value, text);
            }
            text.push(']');
        }
        Value::Object(_) => text.push_str("{}"),
        Value::Null | Value::Bool(_) | Value::Number(_) => text.push_str(&value.to_string()),
    }
}

fn quoted(string: &str) -> String {
    let mut text = String::from("\"");
    for c in string.chars() {
        match c {
            '"' | '\\' => text.extend(['\\', c]),
            '\n' => text.push_str("\\n"),
            '\t' => text.push_str("\\t"),
            '\r' => text.push_str("\\r"),
            c if is_printed(c) => text.push(c),
            c => text.extend([format!("\\U{:08X}", u32::from(c))]),
        }
    }
    text.push('"');
    text
}

fn is_printed(c: char) -> bool {
    !c.is_control() && !matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

/// Returns `true` if `text` is a valid plain scalar in every context.
fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/'))
        && !is_reserved(text)
}

/// Returns `true` if `text` is a valid plain scalar after a key.
fn is_phrase(text: &str) -> bool {
    text.starts_with(char::is_alphabetic)
        && !text.ends_with(' ')
        && text.chars().all(|c| {
            c.is_alphanumeric() || matches!(c, ' ' | '_' | '-' | '.' | '/' | ',' | '(' | ')' | ';')
        })
        && !is_reserved(text)
}

/// Returns `true` if some YAML version doesn't read `text` as a string.
fn is_reserved(text: &str) -> bool {
    let words = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    words.iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// Returns `true` if `text` can be written as a block scalar.
fn is_block(text: &str) -> bool {
    text.contains('\n')
        && !text.starts_with([' ', '\n'])
        && !text.ends_with("\n\n")
        && text.chars().all(|c| c == '\n' || is_printed(c))
        && text.lines().all(|line| line.is_empty() || !line.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;
    use mcp_workbench_config::syntax::document;
    use mcp_workbench_config::syntax::document::Node;
    use mcp_workbench_config::syntax::reader::ConfigReader;

    fn read(text: &str) -> Value {
        let tree = document::yaml::parse(text).unwrap_or_else(|found| panic!("{found:?}: {text}"));
        ConfigReader::new(None).read_json(&Node::root(&tree))
    }

    fn values() -> impl Strategy<Value = Value> {
        let text = prop_oneof!["\\PC{0,12}", "[a-z:#&*!|> \\n\\t\"'%@`{}\\[\\],-]{0,10}", ".{0,5}"];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            text.clone().prop_filter("NUL", |text| !text.contains('\0')).prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((text.clone(), inner), 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn yaml_round_trips(value in values()) {
            let wanted = if value == json!({}) { Value::Null } else { value.clone() };
            prop_assert_eq!(read(&to_yaml(&value)), wanted);
        }
    }

    fn tool(schema: Value) -> CatalogTool {
        CatalogTool { name: "x".to_owned(), description: "Does it.\n\nWell.".to_owned(), schema }
    }

    #[test]
    fn simple_schema_becomes_readable_parameters() {
        let schema = json!({
            "type": "object",
            "properties": {
                "to": { "description": "Whom: a name", "type": "string" },
                "kinds": { "type": "array", "items": { "type": "string", "enum": ["a", "no"] } },
            },
            "required": ["to"],
            "$schema": "http://json-schema.org/draft-07/schema#",
        });
        let wanted = "\
description: |-
  Does it.

  Well.
parameters:
  to:
    type: string
    required: true
    description: \"Whom: a name\"
  kinds:
    type: array
    items:
      type: string
      enum: [a, \"no\"]
";
        assert_eq!(render_tool_file(&tool(schema)).unwrap(), wanted);
        let none = render_tool_file(&tool(json!({ "type": "object" }))).unwrap();
        assert!(!none.contains("parameters"), "{none}");
    }

    #[test]
    fn tool_that_does_not_round_trip_is_not_written() {
        let mut nested = json!({});
        for _ in 0..60 {
            nested = json!({ "properties": { "a": nested } });
        }
        for property in [json!({ "enum": ["x".repeat(MAX_CATALOG_FILE_BYTES)] }), nested] {
            let schema = json!({ "type": "object", "properties": { "a": property } });
            assert_eq!(render_tool_file(&tool(schema)), None);
        }
    }

    #[test]
    fn other_schemas_are_written_as_input_schema() {
        for schema in [
            json!({ "type": "object", "oneOf": [{ "required": ["a"] }, { "required": ["b"] }] }),
            json!({ "type": "object", "properties": { "a": true } }),
            json!({ "type": "object", "properties": {}, "required": ["a"] }),
            json!({ "type": "object", "additionalProperties": { "type": "string" } }),
            json!({ "type": "object", "properties": { "a": {} }, "additionalProperties": false }),
        ] {
            let text = render_tool_file(&tool(schema.clone())).unwrap();
            assert!(text.contains("\ninput_schema:\n"), "{text}");
            assert_eq!(parse_tool_file("", &text, "x").0.unwrap().schema, schema);
        }
    }
}
