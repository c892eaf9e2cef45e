//! Headers of a modern request: its method, the name that it refers to, and arguments that the
//! tool's schema marks (2026-07-28, basic/transports/streamable-http, request metadata).

use std::collections::HashMap;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::json::{self, EditError, RawJson};

/// Schema keyword that copies an argument to a header.
const ANNOTATION: &str = "x-mcp-header";

/// The arguments of each tool that are sent as headers.
#[derive(Default)]
pub(super) struct ToolHeaderParams(HashMap<String, Vec<HeaderParam>>);

#[derive(Debug, PartialEq, Eq)]
struct HeaderParam {
    /// Keys from the root of the arguments to the value.
    path: Vec<String>,
    header: HeaderName,
}

impl ToolHeaderParams {
    /// Records the annotations of a `tools/list` result. If some tools have invalid annotations,
    /// returns the result without them.
    ///
    /// # Errors
    ///
    /// Returns an error if these tools can't be removed.
    pub(super) fn learn(
        &mut self,
        list: &RawJson,
        server: &str,
    ) -> Result<Option<RawJson>, EditError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Tool {
            name: String,
            #[serde(default)]
            input_schema: Value,
        }

        // The reader of the list reports a missing list and malformed entries.
        let Some(tools) = list.member("tools").and_then(|tools| tools.items()) else {
            return Ok(None);
        };
        let count = tools.len();
        let kept: Vec<_> = tools
            .into_iter()
            .filter(|tool| {
                let Ok(Tool { name, input_schema }) = tool.parse() else {
                    return true;
                };
                match mirrored(&input_schema) {
                    Ok(arguments) => {
                        self.0.insert(name, arguments);
                        true
                    }
                    Err(why) => {
                        tracing::warn!(server, "skipped tool `{name}`: {why}");
                        self.0.remove(&name);
                        false
                    }
                }
            })
            .collect();
        let is_same = kept.len() == count;
        (!is_same).then(|| list.with_member("tools", &json::array(&kept))).transpose()
    }

    pub(super) fn headers(&self, method: &str, params: Option<&RawJson>) -> HeaderMap {
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
        for HeaderParam { path, header } in mirrored.into_iter().flatten() {
            let argument = path.iter().try_fold(arguments.clone(), |at, key| {
                // Stop at the first key that is missing.
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

/// Encodes a header value: unchanged if it is printable ASCII, otherwise as Base64 between
/// `=?base64?` and `?=`.
fn encode(value: &str) -> Option<HeaderValue> {
    let is_plain = value.bytes().all(|byte| (0x20..=0x7e).contains(&byte))
        && value.trim_ascii().len() == value.len()
        && !(value.starts_with("=?base64?") && value.ends_with("?="));
    if is_plain {
        return HeaderValue::from_str(value).ok();
    }
    HeaderValue::try_from(format!("=?base64?{}?=", BASE64_STANDARD.encode(value))).ok()
}

/// Returns the text of an argument for a header. `None` for null, arrays and objects.
fn primitive(argument: &RawJson) -> Option<String> {
    match argument.parse().ok()? {
        Value::String(text) => Some(text),
        Value::Bool(is) => Some(is.to_string()),
        Value::Number(number) => Some(match number.as_f64() {
            // JSON Schema treats 42.0 as an integer, so it is written as one.
            Some(float) if number.is_f64() && float.fract() == 0.0 => format!("{float:.0}"),
            _ => number.to_string(),
        }),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn member(object: &RawJson, key: &str) -> Option<RawJson> {
    object.members()?.into_iter().find(|(name, _)| name == key).map(|(_, value)| value)
}

/// Returns the arguments that a tool wants as headers, or why its annotations are invalid.
fn mirrored(schema: &Value) -> Result<Vec<HeaderParam>, String> {
    let mut found = Vec::new();
    if let Value::Object(schema) = schema {
        walk(schema, Some(&mut Vec::new()), &mut found)?;
    }
    Ok(found)
}

/// Collects annotations in `schema`. `path` is its position below the arguments, through
/// `properties` only. Without a path, an annotation is an error.
fn walk(
    schema: &Map<String, Value>,
    mut path: Option<&mut Vec<String>>,
    found: &mut Vec<HeaderParam>,
) -> Result<(), String> {
    for (key, value) in schema {
        match (key.as_str(), value) {
            (ANNOTATION, name) => {
                let path = path.as_deref().filter(|path| !path.is_empty());
                let path = path.ok_or("an `x-mcp-header` is not on an argument")?;
                let header = header(name, schema.get("type"))
                    .map_err(|why| format!("the `x-mcp-header` of `{}` {why}", path.join(".")))?;
                if found.iter().any(|other| other.header == header) {
                    return Err(format!("two arguments use the header `{header}`"));
                }
                found.push(HeaderParam { path: path.clone(), header });
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
            // Their contents are values, not schemas.
            ("default" | "const" | "enum" | "examples", _) => {}
            // Their members are named schemas.
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

fn walk_inside(value: &Value, found: &mut Vec<HeaderParam>) -> Result<(), String> {
    match value {
        Value::Object(schema) => walk(schema, None, found),
        Value::Array(items) => items.iter().try_for_each(|item| walk_inside(item, found)),
        _ => Ok(()),
    }
}

fn header(name: &Value, kind: Option<&Value>) -> Result<HeaderName, String> {
    let name = name.as_str().filter(|name| !name.is_empty()).ok_or("is empty or not a string")?;
    match kind.and_then(Value::as_str) {
        Some("string" | "integer" | "boolean") => {}
        _ => return Err("is not on a string, an integer or a boolean".to_owned()),
    }
    HeaderName::try_from(format!("mcp-param-{name}"))
        .map_err(|_| "is not a valid header name".to_owned())
}

#[cfg(test)]
mod tests;
