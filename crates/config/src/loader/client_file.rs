//! Client configuration files: their servers are read, all other keys belong to the client.

use jsonc_parser::common::Ranged;
use serde_json::{Value, json};
use strsim::osa_distance;

use crate::sections::root::RawConfig;
use crate::syntax::document::{Node, SourceLocation};
use crate::syntax::key_case::to_camel_case;
use crate::syntax::reader::{ConfigReader, quoted_list};
use crate::syntax::section::{FromNode, KeyOwnership, SectionSpec};

/// The key paths under which clients keep servers. The first match wins: a file with `mcpServers`
/// can also have `mcp`, with unrelated settings.
const SERVER_PATHS: [&[&str]; 7] = [
    &["mcpServers"],
    &["amp.mcpServers"],
    &["context_servers"],
    &["servers"],
    &["mcp", "servers"],
    &["mcp.servers"],
    &["mcp"],
];

/// Every server entry has at least one of these keys.
const LAUNCH_KEYS: [&str; 6] = ["command", "url", "httpUrl", "serverUrl", "type", "transport"];

const NAMED: usize = 4;

/// Finds the servers of a client's file, and their key path.
fn find_servers<'a>(root: &Node<'a>) -> Option<(&'static [&'static str], Node<'a>)> {
    let found = |way: &&'static [&'static str]| {
        let node = way.iter().try_fold(root.clone(), |node, key| node.get(key))?;
        (*way == ["mcpServers"] || has_servers(&node)).then_some((*way, node))
    };
    SERVER_PATHS.iter().find_map(found)
}

/// Returns `true` if an object contains server entries rather than settings.
fn has_servers(node: &Node<'_>) -> bool {
    let entries = node.value.as_object().into_iter().flat_map(|object| &object.properties);
    let mut entries = entries.map(|entry| node.child(entry));
    entries.any(|entry| LAUNCH_KEYS.iter().any(|key| entry.get(key).is_some()))
}

/// Returns `true` for a client's file: it has servers, and no key that looks like a native one of
/// the section `ours`.
pub(crate) fn is_client_file(root: &Node<'_>, ours: &'static SectionSpec) -> bool {
    let entries = root.value.as_object().into_iter().flat_map(|object| &object.properties);
    let mut keys = entries.map(|entry| entry.name.as_str());
    find_servers(root).is_some() && !keys.any(|key| is_misspelt_native_key(key, ours))
}

/// Returns `true` if `key` is probably a misspelled native key, or a policy key at the wrong depth.
/// Client keys are ignored, so a policy key must never be mistaken for one.
fn is_misspelt_native_key(key: &str, ours: &'static SectionSpec) -> bool {
    let folded = |key: &str| to_camel_case(key).to_ascii_lowercase();
    let key = folded(key);
    let is_near = |ours: &str| {
        let ours = folded(ours);
        let most = match ours.len() {
            0..=6 => 1,
            7..=11 => 2,
            _ => 3,
        };
        // Typos rarely change the first letter, and `oauth` must not match `auth`.
        key.chars().next() == ours.chars().next() && osa_distance(&key, &ours) <= most
    };
    let top = ours
        .keys
        .iter()
        .filter(|key| matches!(key.ownership, KeyOwnership::Native | KeyOwnership::Policy));
    let sections = ours.flatten().into_iter().flat_map(|section| section.keys);
    let rules = sections.filter(|key| key.ownership == KeyOwnership::Policy);
    top.chain(rules).any(|key| is_near(key.name))
}

/// Returns `true` for locations in the file's servers. Everything else is ignored.
pub(crate) fn is_in_servers(root: &Node<'_>, location: &SourceLocation) -> bool {
    find_servers(root).is_some_and(|(_, block)| location.is_in(&block.location))
}

/// Returns the file's servers as JSON under the native key `mcpServers`.
pub fn extract_servers(root: &Node<'_>) -> Value {
    let servers = find_servers(root).map(|(_, servers)| Value::from(servers.value.clone()));
    json!({ "mcpServers": servers })
}

/// Reads the file's servers, and reports the ignored keys in one warning.
pub(crate) fn read(root: &Node<'_>, reader: &mut ConfigReader<'_>) -> Option<RawConfig> {
    let (way, block) = find_servers(root)?;
    let entries = root.value.as_object().into_iter().flat_map(|object| &object.properties);
    let is_other = |key: &str| key != "$schema" && way.first() != Some(&key);
    let others: Vec<_> = entries.filter(|entry| is_other(entry.name.as_str())).collect();
    if let Some(first) = others.first() {
        let names: Vec<_> = others.iter().map(|entry| entry.name.as_str()).collect();
        let shown = match names.len() - names.len().min(NAMED) {
            0 => quoted_list(&names, "and"),
            more => {
                let quoted: Vec<_> =
                    names.iter().take(NAMED).map(|name| format!("`{name}`")).collect();
                format!("{} and {more} more", quoted.join(", "))
            }
        };
        let message = format!("ignored: {shown} (for the client)");
        reader.report_warning(&root.location.with_offset(first.start()), message, None);
    }
    Some(RawConfig { mcp_servers: FromNode::from_node(&block, reader), ..RawConfig::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::section::ConfigSection;

    #[test]
    fn distinguishes_misspelled_native_keys_from_client_keys() {
        let ours = RawConfig::SPEC;
        for key in [
            "tooolboxes",
            "toolboxs",
            "toolbox",
            "tool_boxes",
            "Toolboxes",
            "toolmode",
            "auht",
            "limit",
            "agentPolicy",
            "agent-policies",
            "allowed_servers",
        ] {
            assert!(is_misspelt_native_key(key, ours), "{key}");
        }
        for key in [
            "globalShortcut",
            "preferences",
            "tools",
            "toolUsage",
            "oauth",
            "oauthAccount",
            "theme",
            "agent",
            "agent_servers",
            "admin",
            "hooks",
            "autoUpdates",
            "numStartups",
            "editor.fontSize",
            "",
        ] {
            assert!(!is_misspelt_native_key(key, ours), "{key}");
        }
    }
}
