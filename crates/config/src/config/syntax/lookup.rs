//! Where a key of the rules stands in a file, for whoever explains what decided.

use std::path::Path;

use crate::config::dialect::is_toml;
use crate::config::load::catalog::is_yaml;
use crate::config::syntax::document::{self, Node, positions};
use crate::config::syntax::reader::camel;

/// A key as a file spells it, and the line it is in, from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Such as `agentPolicies.reader.allowedServers`.
    pub path: String,
    /// The line.
    pub line: usize,
}

/// Finds the key that these lead to, each in `snake_case`; a file may spell it in `camelCase`, and
/// have it in another place.
pub fn find_key(text: &str, file: &Path, keys: &[String]) -> Option<Key> {
    if is_toml(file) {
        return None;
    }
    let text = document::without_mark(text);
    let parse = if is_yaml(file) { document::yaml::parse } else { document::parse };
    let tree = parse(text).ok()?;
    let root = Node::root(&tree);
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let found = match keys.as_slice() {
        ["mcp_servers", server, rest @ ..] => {
            let toolboxes = root.get("toolboxes");
            let toolboxes = toolboxes.iter().flat_map(|node| {
                let names =
                    node.value.as_object().into_iter().flat_map(|object| &object.properties);
                names.map(|name| node.child(name))
            });
            let places = toolboxes.filter_map(|toolbox| toolbox.get("mcpServers"));
            let places = places.chain(root.get("mcpServers")).chain(root.get("servers"));
            let mut servers = places.filter_map(|servers| servers.get(server));
            servers.find_map(|server| descend(server, rest))
        }
        ["dangerous_tools" | "require_confirmation", ..] => {
            descend(root.clone(), &keys).or_else(|| descend(root.get("security_settings")?, &keys))
        }
        keys => descend(root.clone(), keys),
    }?;
    let (line, _) = *positions(text, &[found.spot.offset]).first()?;
    Some(Key { path: found.spot.path(), line })
}

fn descend<'a>(node: Node<'a>, keys: &[&str]) -> Option<Node<'a>> {
    let [key, rest @ ..] = keys else { return Some(node) };
    let child = match key.parse::<usize>() {
        Ok(index) if node.value.as_array().is_some() => node.elements().into_iter().nth(index),
        // One alone may stand without a list around it.
        Ok(0) if node.get(key).is_none() => Some(node),
        _ => node.get(key).or_else(|| node.get(&camel(key))),
    };
    descend(child?, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, keys: &[&str]) -> Option<(String, usize)> {
        let keys: Vec<String> = keys.iter().map(|&key| key.to_owned()).collect();
        find_key(text, Path::new("x.json"), &keys).map(|key| (key.path, key.line))
    }

    #[test]
    fn a_key_is_found_however_it_is_spelled() {
        let text = r#"{
            "agentPolicies": {
                "a_b": {
                    "allowedServers": [],
                    "when": { "time": {} }
                }
            },
            "exposed_tools": { "x": [] },
            "toolboxes": { "box": { "mcpServers": {
                "x": { "toolFilters": ["a"] } } } },
            "security_settings": {
                "dangerous_tools": [] }
        }"#;
        let at = |path: &str, line| Some((path.to_owned(), line));
        let agent = "agentPolicies.a_b";
        let servers = at(&format!("{agent}.allowedServers"), 4);
        assert_eq!(found(text, &["agent_policies", "a_b", "allowed_servers"]), servers);
        assert_eq!(
            found(text, &["agent_policies", "a_b", "when", "0"]),
            at(&format!("{agent}.when"), 5)
        );
        assert_eq!(found(text, &["exposed_tools", "x"]), at("exposed_tools.x", 8));
        let filters = at("toolboxes.box.mcpServers.x.toolFilters", 10);
        assert_eq!(found(text, &["mcp_servers", "x", "tool_filters"]), filters);
        assert_eq!(found(text, &["dangerous_tools"]), at("security_settings.dangerous_tools", 12));
        assert_eq!(found(text, &["default_policy", "allow_unknown_tools"]), None);
        let text = "dangerousTools: []\nagent_policies:\n  ann: {allowedServers: []}";
        let keys = ["agent_policies", "ann", "allowed_servers"].map(str::to_owned);
        let key = find_key(text, Path::new("_config.yaml"), &keys).unwrap();
        assert_eq!((&*key.path, key.line), ("agent_policies.ann.allowedServers", 3));
    }
}
