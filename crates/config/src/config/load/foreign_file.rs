//! A client's own file, served as it is: its servers are read, and everything else is the client's.

use jsonc_parser::common::Ranged;
use serde_json::{Value, json};
use strsim::osa_distance;

use crate::config::keys::raw::RawConfig;
use crate::config::syntax::document::{Node, Spot};
use crate::config::syntax::reader::{Reader, camel, listed};
use crate::config::syntax::section::{FromNode, Kind, Section};

/// Where clients have their servers, each a way from the top of the file; the first that is there
/// counts, for `mcp` beside `mcpServers` holds settings.
const BLOCKS: [&[&str]; 7] = [
    &["mcpServers"],
    &["amp.mcpServers"],
    &["context_servers"],
    &["servers"],
    &["mcp", "servers"],
    &["mcp.servers"],
    &["mcp"],
];

/// Keys of a server's block, one of which every server has.
const MEANS: [&str; 6] = ["command", "url", "httpUrl", "serverUrl", "type", "transport"];

/// The most keys of a client that a remark names.
const NAMED: usize = 4;

/// Finds the servers of a client's file, and the way to them.
fn block<'a>(root: &Node<'a>) -> Option<(&'static [&'static str], Node<'a>)> {
    let found = |way: &&'static [&'static str]| {
        let node = way.iter().try_fold(root.clone(), |node, key| node.get(key))?;
        (*way == ["mcpServers"] || has_servers(&node)).then_some((*way, node))
    };
    BLOCKS.iter().find_map(found)
}

/// Returns whether an object has servers, and not settings of something else.
fn has_servers(node: &Node<'_>) -> bool {
    let entries = node.value.as_object().into_iter().flat_map(|object| &object.properties);
    let mut entries = entries.map(|entry| node.child(entry));
    entries.any(|entry| MEANS.iter().any(|key| entry.get(key).is_some()))
}

/// Returns whether a file is a client's, which has servers and no key that was meant to be one of
/// `ours`, the section at the top of our files.
pub(crate) fn is_one(root: &Node<'_>, ours: &'static Section) -> bool {
    let entries = root.value.as_object().into_iter().flat_map(|object| &object.properties);
    let mut keys = entries.map(|entry| entry.name.as_str());
    block(root).is_some() && !keys.any(|key| is_meant(key, ours))
}

/// Returns whether a key is one of `ours` in another spelling, or a rule that belongs deeper in our
/// files. A key that says who may do what must not be taken for a client's, which nobody reads.
fn is_meant(key: &str, ours: &'static Section) -> bool {
    let folded = |key: &str| camel(key).to_ascii_lowercase();
    let key = folded(key);
    let is_near = |ours: &str| {
        let ours = folded(ours);
        let most = match ours.len() {
            0..=6 => 1,
            7..=11 => 2,
            _ => 3,
        };
        // Hardly anybody gets the first letter wrong, and `oauth` is not `auth`.
        key.chars().next() == ours.chars().next() && osa_distance(&key, &ours) <= most
    };
    let top = ours.keys.iter().filter(|key| matches!(key.kind, Kind::Ours | Kind::Rule));
    let sections = ours.all().into_iter().flat_map(|section| section.keys);
    let rules = sections.filter(|key| key.kind == Kind::Rule);
    top.chain(rules).any(|key| is_near(key.name))
}

/// Returns whether something in a client's file is in its servers; nothing else concerns us.
pub(crate) fn concerns(root: &Node<'_>, spot: &Spot) -> bool {
    block(root).is_some_and(|(_, block)| spot.is_in(&block.spot))
}

/// Returns the servers of a client's file under the key that they have in ours.
pub fn servers_alone(root: &Node<'_>) -> Value {
    let servers = block(root).map(|(_, servers)| Value::from(servers.value.clone()));
    json!({ "mcpServers": servers })
}

/// Reads the servers of a client's file.
pub(crate) fn read(root: &Node<'_>, reader: &mut Reader<'_>) -> Option<RawConfig> {
    let (way, block) = block(root)?;
    let entries = root.value.as_object().into_iter().flat_map(|object| &object.properties);
    let is_other = |key: &str| key != "$schema" && way.first() != Some(&key);
    let others: Vec<_> = entries.filter(|entry| is_other(entry.name.as_str())).collect();
    if let Some(first) = others.first() {
        let names: Vec<_> = others.iter().map(|entry| entry.name.as_str()).collect();
        let shown = match names.len() - names.len().min(NAMED) {
            0 => listed(&names, "and"),
            more => {
                let quoted: Vec<_> =
                    names.iter().take(NAMED).map(|name| format!("`{name}`")).collect();
                format!("{} and {more} more", quoted.join(", "))
            }
        };
        let verb = if names.len() == 1 { "is" } else { "are" };
        let message = format!("ignored: {shown} {verb} for the client");
        reader.warn(&root.spot.at(first.start()), message, None);
    }
    Some(RawConfig { mcp_servers: FromNode::from_node(&block, reader), ..RawConfig::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::syntax::section::Described;

    #[test]
    fn tells_a_misspelt_key_of_ours_from_a_clients() {
        let ours = RawConfig::DESCRIPTION;
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
            assert!(is_meant(key, ours), "{key}");
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
            assert!(!is_meant(key, ours), "{key}");
        }
    }
}
