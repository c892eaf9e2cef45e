//! Servers that a client's settings switch off by their names, in lists beside the servers.

use crate::config::syntax::document::Node;

/// The servers that a client uses of those in its file: `mcp.allowed` and `mcp.excluded` of Gemini CLI
/// and of clients made after it.
#[derive(Debug, Default)]
pub(super) struct Allowed {
    /// The only ones, if any are named.
    only: Vec<String>,
    excluded: Vec<String>,
}

impl Allowed {
    /// Reads the lists of a file.
    pub(super) fn read(root: &Node<'_>) -> Self {
        let mcp = root.get("mcp");
        // Early versions had the lists at the top.
        let list = |key: &str, before: &str| {
            let list = mcp.as_ref().and_then(|mcp| mcp.get(key)).or_else(|| root.get(before));
            let elements = list.iter().flat_map(Node::elements);
            let name = |node: Node<'_>| Some(normal(&node.value.as_string_lit()?.value));
            elements.filter_map(name).collect()
        };
        Self {
            only: list("allowed", "allowMCPServers"),
            excluded: list("excluded", "excludeMCPServers"),
        }
    }

    /// Returns why the client does not use a server, if it does not.
    pub(super) fn refusal(&self, server: &str) -> Option<&'static str> {
        let server = normal(server);
        if self.excluded.contains(&server) {
            Some("`mcp.excluded` names it")
        } else if !self.only.is_empty() && !self.only.contains(&server) {
            Some("`mcp.allowed` does not name it")
        } else {
            None
        }
    }
}

/// Returns a name as the client compares it.
fn normal(name: &str) -> String {
    name.trim().to_lowercase()
}
