//! How a value is put together: what is written, with values of inputs and steps in some places.
//!
//! `{"$from": "/steps/now/time"}` stands for what that JSON pointer (RFC 6901) leads to,
//! `{"$from": …, "default": …}` has something where that is nothing, and `{"$join": [ … ]}` is one
//! text of several values. Everything else means itself.

use serde_json::Value;

use crate::config::syntax::document::Node;
use crate::config::syntax::reader::{Fields, Located, Reader};
use crate::settings::{Pointer, Template};

const FROM: &str = "$from";
const JOIN: &str = "$join";
const DEFAULT: &str = "default";

/// A template as it is read, and the pointers in it. In place of what is wrong stands `null`.
pub(crate) struct RawTemplate {
    pub(crate) template: Template,
    pub(crate) pointers: Vec<Located<Pointer>>,
}

impl RawTemplate {
    pub(crate) fn read(node: &Node<'_>, reader: &mut Reader<'_>) -> Self {
        let mut pointers = Vec::new();
        let template = read(node, &mut pointers, reader);
        Self { template, pointers }
    }

    /// Reads the template of what has to be an object in the end.
    pub(crate) fn read_object(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        if node.value.as_object().is_none() {
            reader.mismatch(node, "an object", None);
            return None;
        }
        let read = Self::read(node, reader);
        if matches!(read.template, Template::Join(_)) {
            reader.error(&node.spot, "expected an object, found a text", None);
        }
        Some(read)
    }
}

/// The JSON text of a value that means itself, numbers as they are spelled.
pub(crate) fn json_text(node: &Node<'_>, reader: &mut Reader<'_>) -> String {
    if let Some(scalar) = reader.scalar(node) {
        return scalar;
    }
    if node.value.as_array().is_some() {
        let items = node.elements().into_iter().map(|node| json_text(&node, reader));
        return array_text(&items.collect::<Vec<_>>());
    }
    let Some(mut fields) = reader.fields(node) else { return null() };
    let members = fields.take_all(|_| true).into_iter();
    object_text(members.map(|entry| (entry.key.value, json_text(&entry.node, reader))))
}

fn read(
    node: &Node<'_>,
    pointers: &mut Vec<Located<Pointer>>,
    reader: &mut Reader<'_>,
) -> Template {
    if let Some(scalar) = reader.scalar(node) {
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
    let Some(mut fields) = reader.fields(node) else { return Template::Value(null()) };
    // Here `null` is as wrong as any other value that is none of these.
    let mut take = |wanted: &str| fields.take_all(|key| key == wanted).pop();
    if let Some(pointer) = take(FROM) {
        return from(&pointer.node, fields, pointers, reader);
    }
    if let Some(parts) = take(JOIN) {
        return join(&parts.node, fields, pointers, reader);
    }
    let members = fields.take_all(|_| true).into_iter();
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

fn from(
    node: &Node<'_>,
    mut fields: Fields<'_>,
    pointers: &mut Vec<Located<Pointer>>,
    reader: &mut Reader<'_>,
) -> Template {
    // `null` is a default like any other.
    let default = fields.take_all(|key| key == DEFAULT).pop();
    let default = default.map(|default| Box::new(read(&default.node, pointers, reader)));
    fields.refuse_unknown(reader, |_| Some("`$from` goes with `default` alone".to_owned()));
    let Some(text) = reader.string(node) else { return Template::Value(null()) };
    match Pointer::parse(&text.value) {
        Ok(pointer) => {
            pointers.push(Located { value: pointer.clone(), spot: text.spot });
            Template::From(pointer, default)
        }
        Err(problem) => {
            let hint =
                "write `/inputs/<name>` or `/steps/<name>`, and where wanted the way into it";
            reader.error(&text.spot, problem, Some(hint.to_owned()));
            Template::Value(null())
        }
    }
}

fn join(
    node: &Node<'_>,
    fields: Fields<'_>,
    pointers: &mut Vec<Located<Pointer>>,
    reader: &mut Reader<'_>,
) -> Template {
    fields.refuse_unknown(reader, |_| Some("`$join` stands alone".to_owned()));
    if node.value.as_array().is_none() {
        reader.mismatch(node, "an array", None);
        return Template::Value(null());
    }
    let parts = node.elements().into_iter().map(|node| read(&node, pointers, reader));
    Template::Join(parts.collect())
}

fn null() -> String {
    "null".to_owned()
}

/// The texts of templates that all mean themselves.
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
