//! The headers of a modern request: its method, the name in it, and the arguments that a tool wants
//! to see there (2026-07-28, basic/transports/streamable-http, request metadata).

use std::collections::HashMap;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::raw::{self, Raw};

/// The key by which a tool's schema says that an argument goes into a header.
const ANNOTATION: &str = "x-mcp-header";

/// Which arguments of which tools go into headers.
#[derive(Default)]
pub(super) struct Tools(HashMap<String, Vec<Mirrored>>);

/// An argument that goes into a header.
#[derive(Debug, PartialEq, Eq)]
struct Mirrored {
    /// The keys that lead to it.
    path: Vec<String>,
    header: HeaderName,
}

impl Tools {
    /// Learns from the result of a `tools/list`. Tools that cannot be called over HTTP are left
    /// out: then the result comes back without them.
    pub(super) fn learn(&mut self, list: &Raw, server: &str) -> Option<Raw> {
        #[derive(Deserialize)]
        struct List<'a> {
            #[serde(borrow)]
            tools: Vec<&'a RawValue>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Tool {
            name: String,
            #[serde(default)]
            input_schema: Value,
        }

        let text: Bytes = list.clone().into_bytes();
        let List { tools } = serde_json::from_slice(&text).ok()?;
        let count = tools.len();
        let kept: Vec<_> = tools
            .into_iter()
            .filter(|tool| {
                // What is no tool is reported by whoever reads the list.
                let Ok(Tool { name, input_schema }) = serde_json::from_str(tool.get()) else {
                    return true;
                };
                match mirrored(&input_schema) {
                    Ok(arguments) => {
                        self.0.insert(name, arguments);
                        true
                    }
                    Err(why) => {
                        tracing::warn!(server, "tool `{name}` was left out: {why}");
                        self.0.remove(&name);
                        false
                    }
                }
            })
            .map(|tool| Raw::slice_of(&text, tool))
            .collect();
        if kept.len() == count { None } else { list.with_member("tools", &raw::array(&kept)) }
    }

    /// The headers of a modern request.
    pub(super) fn headers(&self, method: &str, params: Option<&Raw>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        add(&mut headers, HeaderName::from_static("mcp-method"), method);
        let key = match method {
            "tools/call" | "prompts/get" => "name",
            "resources/read" => "uri",
            "tasks/get" | "tasks/update" | "tasks/cancel" => "taskId",
            _ => return headers,
        };
        let name = params.and_then(|params| member(params, key)?.parse::<String>().ok());
        let Some(name) = name else { return headers };
        add(&mut headers, HeaderName::from_static("mcp-name"), &name);
        let mirrored = self.0.get(&name).filter(|_| method == "tools/call");
        let arguments = mirrored.and_then(|_| member(params?, "arguments"));
        for Mirrored { path, header } in mirrored.into_iter().flatten() {
            let argument = path.iter().try_fold(arguments.clone(), |at, key| {
                // A step that leads nowhere ends the search.
                at.and_then(|at| member(&at, key)).map(Some)
            });
            if let Some(text) = argument.flatten().and_then(|argument| primitive(&argument)) {
                add(&mut headers, header.clone(), &text);
            }
        }
        headers
    }
}

fn add(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Some(value) = encode(value) {
        headers.insert(name, value);
    }
}

/// A value as a header can hold it: plain where it is plain, else in Base64 with marks around it.
fn encode(value: &str) -> Option<HeaderValue> {
    let is_plain = value.bytes().all(|byte| (0x20..=0x7e).contains(&byte))
        && value.trim_ascii().len() == value.len()
        && !(value.starts_with("=?base64?") && value.ends_with("?="));
    if is_plain {
        return HeaderValue::from_str(value).ok();
    }
    HeaderValue::try_from(format!("=?base64?{}?=", BASE64_STANDARD.encode(value))).ok()
}

/// The text of an argument that goes into a header; none where there is nothing to say.
fn primitive(argument: &Raw) -> Option<String> {
    match argument.parse().ok()? {
        Value::String(text) => Some(text),
        Value::Bool(is) => Some(is.to_string()),
        Value::Number(number) => Some(match number.as_f64() {
            // 42.0 is an integer to JSON Schema, and is written as one.
            Some(float) if number.is_f64() && float.fract() == 0.0 => format!("{float:.0}"),
            _ => number.to_string(),
        }),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn member(object: &Raw, key: &str) -> Option<Raw> {
    object.members()?.into_iter().find(|(name, _)| name == key).map(|(_, value)| value)
}

/// The arguments that a tool wants in headers, or why it cannot be called over HTTP.
fn mirrored(schema: &Value) -> Result<Vec<Mirrored>, String> {
    let mut found = Vec::new();
    if let Value::Object(schema) = schema {
        walk(schema, Some(&mut Vec::new()), &mut found)?;
    }
    Ok(found)
}

/// Looks for annotations in `schema`. `path` leads to it by `properties` alone; where there is no
/// such path, an annotation is wrong.
fn walk(
    schema: &Map<String, Value>,
    mut path: Option<&mut Vec<String>>,
    found: &mut Vec<Mirrored>,
) -> Result<(), String> {
    for (key, value) in schema {
        match (key.as_str(), value) {
            (ANNOTATION, name) => {
                let path = path.as_deref().filter(|path| !path.is_empty());
                let path = path.ok_or("an `x-mcp-header` does not stand at an argument")?;
                let header = header(name, schema.get("type"))
                    .map_err(|why| format!("the `x-mcp-header` of `{}` {why}", path.join(".")))?;
                if found.iter().any(|other| other.header == header) {
                    return Err(format!("two arguments want to be the header `{header}`"));
                }
                found.push(Mirrored { path: path.clone(), header });
            }
            ("properties", Value::Object(properties)) => {
                for (name, property) in properties {
                    let Value::Object(property) = property else { continue };
                    if let Some(path) = path.as_deref_mut() {
                        path.push(name.clone());
                        walk(property, Some(path), found)?;
                        path.pop();
                    } else {
                        walk(property, None, found)?;
                    }
                }
            }
            // These hold values, not schemas.
            ("default" | "const" | "enum" | "examples", _) => {}
            // These hold schemas under names of their own.
            ("$defs" | "definitions" | "patternProperties" | "dependentSchemas", _) => {
                for schema in value.as_object().into_iter().flat_map(Map::values) {
                    walk_inside(schema, found)?;
                }
            }
            (_, value) => walk_inside(value, found)?,
        }
    }
    Ok(())
}

fn walk_inside(value: &Value, found: &mut Vec<Mirrored>) -> Result<(), String> {
    match value {
        Value::Object(schema) => walk(schema, None, found),
        Value::Array(items) => items.iter().try_for_each(|item| walk_inside(item, found)),
        _ => Ok(()),
    }
}

fn header(name: &Value, kind: Option<&Value>) -> Result<HeaderName, String> {
    let name = name.as_str().filter(|name| !name.is_empty()).ok_or("is not a name")?;
    match kind.and_then(Value::as_str) {
        Some("string" | "integer" | "boolean") => {}
        _ => return Err("is not at a string, an integer or a boolean".to_owned()),
    }
    HeaderName::try_from(format!("mcp-param-{name}"))
        .map_err(|_| "is not the name of a header".to_owned())
}

#[cfg(test)]
mod tests;
