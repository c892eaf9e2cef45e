//! Finds the line of a policy key in a configuration file, for `explain` and for warnings.

use std::path::Path;

use crate::dialect::is_toml;
use crate::loader::catalog::is_yaml;
use crate::syntax::document::{self, Node, line_columns};
use crate::syntax::key_case::to_camel_case;

/// The path of a key as the file spells it, and its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyLocation {
    /// For example `agentPolicies.reader.allowedServers`.
    pub path: String,
    pub line: usize,
}

/// Locates the key at the path `keys`, whose parts are in `snake_case`. Matches `camelCase`
/// spellings, servers in any toolbox, and policy keys under `security_settings`. Returns `None` if
/// the key isn't found, and for TOML.
pub fn locate_key(text: &str, file: &Path, keys: &[String]) -> Option<KeyLocation> {
    if is_toml(file) {
        return None;
    }
    let text = document::strip_bom(text);
    let parse = if is_yaml(file) { document::yaml::parse } else { document::parse_jsonc };
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
    let (line, _) = *line_columns(text, &[found.location.offset]).first()?;
    Some(KeyLocation { path: found.location.path(), line })
}

fn descend<'a>(node: Node<'a>, keys: &[&str]) -> Option<Node<'a>> {
    let [key, rest @ ..] = keys else { return Some(node) };
    let child = match key.parse::<usize>() {
        Ok(index) if node.value.as_array().is_some() => node.elements().into_iter().nth(index),
        // A list of one element can be written without the brackets.
        Ok(0) if node.get(key).is_none() => Some(node),
        _ => node.get(key).or_else(|| node.get(&to_camel_case(key))),
    };
    descend(child?, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, keys: &[&str]) -> Option<(String, usize)> {
        let keys: Vec<String> = keys.iter().map(|&key| key.to_owned()).collect();
        locate_key(text, Path::new("x.json"), &keys).map(|key| (key.path, key.line))
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
        let key = locate_key(text, Path::new("_config.yaml"), &keys).unwrap();
        assert_eq!((&*key.path, key.line), ("agent_policies.ann.allowedServers", 3));
    }
}
