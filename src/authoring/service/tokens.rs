//! The tokens of agents in a configuration: their digests, under `auth.tokens`.

use jsonc_parser::common::Ranged;
use serde_json::{Value, json};

use crate::authoring::setup::insert_json;
use crate::authoring::setup::journal::digest;
use crate::config::syntax::document::{self, Node};

/// The text of a configuration that knows these tokens, by the names of their agents. Those that it has
/// stay. Fails with the reason where the text cannot be changed.
///
/// # Errors
///
/// Why the text stays as it is.
pub fn with_tokens<'a>(
    text: &str,
    tokens: impl Iterator<Item = (&'a String, &'a String)>,
) -> Result<String, String> {
    let mut text = text.to_owned();
    for (agent, token) in tokens {
        let entry = json!({ "agent": agent, "sha256": digest(token) });
        if there(&text)?.contains(&entry) {
            continue;
        }
        text = with(&text, &entry).ok_or(ODD)?;
        if !there(&text)?.contains(&entry) {
            return Err(ODD.to_owned());
        }
    }
    Ok(text)
}

/// Returns `true` if a configuration encrypts what goes over HTTP (`http.tls`).
pub fn has_tls(text: &str) -> bool {
    let tree = document::parse(text).ok();
    tree.is_some_and(|tree| Value::from(tree).pointer("/http/tls").is_some_and(Value::is_object))
}

const ODD: &str = "its `auth.tokens` cannot be added to";

fn there(text: &str) -> Result<Vec<Value>, String> {
    let tree = document::parse(text).map_err(|_| "it cannot be read".to_owned())?;
    let value = Value::from(tree);
    let tokens = value.get("auth").and_then(|auth| auth.get("tokens"));
    Ok(tokens.and_then(Value::as_array).cloned().unwrap_or_default())
}

fn with(text: &str, entry: &Value) -> Option<String> {
    let tree = document::parse(text).ok()?;
    let root = Node::root(&tree);
    let Some(tokens) = root.get("auth").and_then(|auth| auth.get("tokens")) else {
        return insert_json(text, "auth", "tokens", &json!([entry]));
    };
    let array = tokens.value.as_array()?;
    let at = array.elements.last().map_or(array.start() + 1, Ranged::end);
    let comma = if array.elements.is_empty() { "" } else { ", " };
    Some(format!("{}{comma}{entry}{}", text.get(..at)?, text.get(at..)?))
}
