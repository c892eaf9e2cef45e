//! Adds the digests of agents' tokens to `auth.tokens` in a configuration.

use jsonc_parser::common::Ranged;
use serde_json::{Value, json};

use crate::authoring::setup::insert_json;
use crate::authoring::setup::journal::sha256_hex;
use mcp_workbench_config::syntax::document::{self, Node};

/// Adds `tokens`, pairs of agent name and token, to a configuration. Existing entries stay as they
/// are.
///
/// # Errors
///
/// Returns an error if the text is invalid or `auth.tokens` cannot be extended.
pub fn add_tokens<'a>(
    text: &str,
    tokens: impl Iterator<Item = (&'a String, &'a String)>,
) -> Result<String, String> {
    let mut text = text.to_owned();
    for (agent, token) in tokens {
        let entry = json!({ "agent": agent, "sha256": sha256_hex(token) });
        if read_tokens(&text)?.contains(&entry) {
            continue;
        }
        text = insert_token(&text, &entry).ok_or(ODD)?;
        if !read_tokens(&text)?.contains(&entry) {
            return Err(ODD.to_owned());
        }
    }
    Ok(text)
}

/// Returns `true` if the configuration serves HTTPS (`http.tls`).
pub fn has_tls(text: &str) -> bool {
    let tree = document::parse_jsonc(text).ok();
    tree.is_some_and(|tree| Value::from(tree).pointer("/http/tls").is_some_and(Value::is_object))
}

const ODD: &str = "cannot edit `auth.tokens` safely";

fn read_tokens(text: &str) -> Result<Vec<Value>, String> {
    let tree = document::parse_jsonc(text).map_err(|_| "invalid JSON".to_owned())?;
    let value = Value::from(tree);
    let tokens = value.get("auth").and_then(|auth| auth.get("tokens"));
    Ok(tokens.and_then(Value::as_array).cloned().unwrap_or_default())
}

fn insert_token(text: &str, entry: &Value) -> Option<String> {
    let tree = document::parse_jsonc(text).ok()?;
    let root = Node::root(&tree);
    let Some(tokens) = root.get("auth").and_then(|auth| auth.get("tokens")) else {
        return insert_json(text, "auth", "tokens", &json!([entry]));
    };
    let array = tokens.value.as_array()?;
    let at = array.elements.last().map_or(array.start() + 1, Ranged::end);
    let comma = if array.elements.is_empty() { "" } else { ", " };
    Some(format!("{}{comma}{entry}{}", text.get(..at)?, text.get(at..)?))
}
