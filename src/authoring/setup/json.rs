//! Edits servers in JSON files, which can have comments and trailing commas.

use jsonc_parser::ast::Object;
use jsonc_parser::common::Ranged;
use serde_json::{Value, json};

use crate::authoring::edit::object_editor::ObjectEditor;
use mcp_workbench_config::syntax::document::{self, Node};

/// The text to start from if the file is missing or empty.
const EMPTY: &str = "{\n}\n";

enum InsertionPoint<'a> {
    Servers(&'a Object<'a>),
    /// The top-level object, because the servers object doesn't exist yet.
    Root(&'a Object<'a>),
}

pub(super) fn insert(text: &str, key: &str, name: &str, entry: &Value) -> Option<String> {
    changed(text, key, |text, at| match at {
        InsertionPoint::Servers(servers) => ObjectEditor::of(text, servers).append(name, entry),
        InsertionPoint::Root(root) => {
            ObjectEditor::of(text, root).append(key, &json!({ name: entry }))
        }
    })
}

pub(super) fn restore_entry(text: &str, key: &str, name: &str, entry: &str) -> Option<String> {
    changed(text, key, |text, at| match at {
        InsertionPoint::Servers(servers) => {
            ObjectEditor::of(text, servers).append_text(name, entry)
        }
        InsertionPoint::Root(root) => {
            let name = Value::from(name);
            ObjectEditor::of(text, root).append_text(key, &format!("{{ {name}: {entry} }}"))
        }
    })
}

pub(super) fn remove_entry(text: &str, key: &str, name: &str) -> Option<(String, String)> {
    let tree = document::parse_jsonc(text).ok()?;
    let servers = Node::root(&tree).get(key)?;
    let servers = servers.value.as_object()?;
    let mut named =
        servers.properties.iter().enumerate().filter(|(_, own)| own.name.as_str() == name);
    let (index, property) = named.next()?;
    if named.next().is_some() {
        return None;
    }
    let entry = text.get(property.value.start()..property.value.end())?.to_owned();
    Some((ObjectEditor::of(text, servers).remove(index), entry))
}

/// Returns `true` if the object under `key` has several members of this name.
pub(super) fn has_duplicate(text: &str, key: &str, name: &str) -> bool {
    let Ok(tree) = document::parse_jsonc(document::strip_bom(text)) else { return false };
    let servers = Node::root(&tree).get(key);
    let servers = servers.as_ref().and_then(|servers| servers.value.as_object());
    let members = servers.into_iter().flat_map(|servers| &servers.properties);
    members.filter(|member| member.name.as_str() == name).count() > 1
}

fn changed(
    text: &str,
    key: &str,
    change: impl Fn(&str, InsertionPoint<'_>) -> String,
) -> Option<String> {
    let text = if text.trim().is_empty() { EMPTY } else { text };
    let tree = document::parse_jsonc(text).ok()?;
    let root = Node::root(&tree);
    Some(match root.get(key) {
        Some(servers) => change(text, InsertionPoint::Servers(servers.value.as_object()?)),
        None => change(text, InsertionPoint::Root(root.value.as_object()?)),
    })
}
