//! Templates: JSON values with references to inputs and step results.
//!
//! `{"$from": "/steps/now/time"}` is replaced by the value at that JSON pointer (RFC 6901);
//! `{"$from": …, "default": …}` falls back to the default if the value is missing; `{"$join":[…]}`
//! concatenates values to a string. Everything else is literal.

use serde_json::Value;

use crate::syntax::document::Node;
use crate::syntax::reader::{ConfigReader, Located, ObjectFields};
use mcp_workbench_settings::{Pointer, Template};

const FROM: &str = "$from";
const JOIN: &str = "$join";
const DEFAULT: &str = "default";

/// A parsed template and the pointers in it. Invalid parts are replaced by `null`.
pub(crate) struct RawTemplate {
    pub(crate) template: Template,
    pub(crate) pointers: Vec<Located<Pointer>>,
}

impl RawTemplate {
    pub(crate) fn read(node: &Node<'_>, reader: &mut ConfigReader<'_>) -> Self {
        let mut pointers = Vec::new();
        let template = read(node, &mut pointers, reader);
        Self { template, pointers }
    }

    pub(crate) fn read_object(node: &Node<'_>, reader: &mut ConfigReader<'_>) -> Option<Self> {
        if node.value.as_object().is_none() {
            reader.report_type_mismatch(node, "an object", None);
            return None;
        }
        let read = Self::read(node, reader);
        if matches!(read.template, Template::Join(_)) {
            reader.report_error(&node.location, "expected an object, found a string", None);
        }
        Some(read)
    }
}

/// Renders a literal as JSON text. Numbers keep their spelling.
pub(crate) fn json_text(node: &Node<'_>, reader: &mut ConfigReader<'_>) -> String {
    if let Some(scalar) = reader.read_scalar_text(node) {
        return scalar;
    }
    if node.value.as_array().is_some() {
        let items = node.elements().into_iter().map(|node| json_text(&node, reader));
        return array_text(&items.collect::<Vec<_>>());
    }
    let Some(mut fields) = reader.read_fields(node) else { return null() };
    let members = fields.take_keys_if(|_| true).into_iter();
    object_text(members.map(|entry| (entry.key.value, json_text(&entry.node, reader))))
}

fn read(
    node: &Node<'_>,
    pointers: &mut Vec<Located<Pointer>>,
    reader: &mut ConfigReader<'_>,
) -> Template {
    if let Some(scalar) = reader.read_scalar_text(node) {
        return Template::Value(scalar);
    }
    if node.value.as_array().is_some() {
        let items = node.elements().into_iter().map(|node| read(&node, pointers, reader));
        let items: Vec<_> = items.collect();
        return match texts(&items) {
            Some(texts) => Template::Value(array_text(&texts)),
            None => Template::Array(items),
        };
    }
    let Some(mut fields) = reader.read_fields(node) else { return Template::Value(null()) };
    // `take_keys_if` also returns `null` members, so that a `null` `$from` or `$join` is rejected.
    let mut take = |wanted: &str| fields.take_keys_if(|key| key == wanted).pop();
    if let Some(pointer) = take(FROM) {
        return read_from(&pointer.node, fields, pointers, reader);
    }
    if let Some(parts) = take(JOIN) {
        return join(&parts.node, fields, pointers, reader);
    }
    let members = fields.take_keys_if(|_| true).into_iter();
    let members = members.map(|entry| (entry.key.value, read(&entry.node, pointers, reader)));
    let members: Vec<_> = members.collect();
    match texts(members.iter().map(|(_, value)| value)) {
        Some(texts) => {
            let keys = members.into_iter().map(|(key, _)| key);
            Template::Value(object_text(keys.zip(texts)))
        }
        None => Template::Object(members),
    }
}

fn read_from(
    node: &Node<'_>,
    mut fields: ObjectFields<'_>,
    pointers: &mut Vec<Located<Pointer>>,
    reader: &mut ConfigReader<'_>,
) -> Template {
    // Not `take`, which skips `null`: `null` is a valid default.
    let default = fields.take_keys_if(|key| key == DEFAULT).pop();
    let default = default.map(|default| Box::new(read(&default.node, pointers, reader)));
    fields.report_unknown_keys(reader, |_| {
        Some("`$from` allows only `default` next to it".to_owned())
    });
    let Some(text) = reader.read_string(node) else { return Template::Value(null()) };
    match Pointer::parse(&text.value) {
        Ok(pointer) => {
            pointers.push(Located { value: pointer.clone(), location: text.location });
            Template::From(pointer, default)
        }
        Err(problem) => {
            let hint = "write `/inputs/<name>` or `/steps/<name>`, optionally with a path into the \
                        value";
            reader.report_error(&text.location, problem, Some(hint.to_owned()));
            Template::Value(null())
        }
    }
}

fn join(
    node: &Node<'_>,
    fields: ObjectFields<'_>,
    pointers: &mut Vec<Located<Pointer>>,
    reader: &mut ConfigReader<'_>,
) -> Template {
    fields.report_unknown_keys(reader, |_| Some("`$join` allows no other keys".to_owned()));
    if node.value.as_array().is_none() {
        reader.report_type_mismatch(node, "an array", None);
        return Template::Value(null());
    }
    let parts = node.elements().into_iter().map(|node| read(&node, pointers, reader));
    Template::Join(parts.collect())
}

fn null() -> String {
    "null".to_owned()
}

/// Returns the JSON texts if all templates are literal.
fn texts<'a>(templates: impl IntoIterator<Item = &'a Template>) -> Option<Vec<String>> {
    let texts = templates.into_iter().map(|template| match template {
        Template::Value(text) => Some(text.clone()),
        _ => None,
    });
    texts.collect()
}

fn array_text(items: &[String]) -> String {
    format!("[{}]", items.join(","))
}

fn object_text(members: impl Iterator<Item = (String, String)>) -> String {
    let members = members.map(|(key, value)| format!("{}:{value}", Value::from(key)));
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests;
