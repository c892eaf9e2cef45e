//! Servers in JSON, with comments and trailing commas where the client allows them.

use jsonc_parser::ast::Object;
use jsonc_parser::common::Ranged;
use serde_json::{Value, json};

use crate::authoring::edit::splice::Layout;
use crate::config::syntax::document::{self, Node};

/// An object without anything in it, for a file that is not there or empty.
const EMPTY: &str = "{\n}\n";

/// The object that gets a member more.
enum At<'a> {
    /// The object of the servers.
    Servers(&'a Object<'a>),
    /// There is none yet: the whole.
    Root(&'a Object<'a>),
}

pub(super) fn insert(text: &str, key: &str, name: &str, entry: &Value) -> Option<String> {
    changed(text, key, |text, at| match at {
        At::Servers(servers) => Layout::of(text, servers).append(name, entry),
        At::Root(root) => Layout::of(text, root).append(key, &json!({ name: entry })),
    })
}

pub(super) fn put_back(text: &str, key: &str, name: &str, entry: &str) -> Option<String> {
    changed(text, key, |text, at| match at {
        At::Servers(servers) => Layout::of(text, servers).append_text(name, entry),
        At::Root(root) => {
            let name = Value::from(name);
            Layout::of(text, root).append_text(key, &format!("{{ {name}: {entry} }}"))
        }
    })
}

pub(super) fn take(text: &str, key: &str, name: &str) -> Option<(String, String)> {
    let tree = document::parse(text).ok()?;
    let servers = Node::root(&tree).get(key)?;
    let servers = servers.value.as_object()?;
    let mut named =
        servers.properties.iter().enumerate().filter(|(_, own)| own.name.as_str() == name);
    let (index, property) = named.next()?;
    if named.next().is_some() {
        return None;
    }
    let entry = text.get(property.value.start()..property.value.end())?.to_owned();
    Some((Layout::of(text, servers).without(index), entry))
}

fn changed(text: &str, key: &str, change: impl Fn(&str, At<'_>) -> String) -> Option<String> {
    let text = if text.trim().is_empty() { EMPTY } else { text };
    let tree = document::parse(text).ok()?;
    let root = Node::root(&tree);
    Some(match root.get(key) {
        Some(servers) => change(text, At::Servers(servers.value.as_object()?)),
        None => change(text, At::Root(root.value.as_object()?)),
    })
}
