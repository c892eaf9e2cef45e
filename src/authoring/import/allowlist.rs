//! Server allowlists in a client's settings, next to the servers.

use mcp_workbench_config::syntax::document::Node;

/// The allowlist and denylist of a file: `mcp.allowed` and `mcp.excluded` of Gemini CLI and its
/// forks.
#[derive(Debug, Default)]
pub(super) struct ClientAllowlist {
    /// If not empty, all other servers are denied.
    only: Vec<String>,
    excluded: Vec<String>,
}

impl ClientAllowlist {
    pub(super) fn read(root: &Node<'_>) -> Self {
        let mcp = root.get("mcp");
        // Early versions had the lists at the top level.
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

    /// Returns why the client doesn't use `server`, or `None` if it does.
    pub(super) fn denial_reason(&self, server: &str) -> Option<&'static str> {
        let server = normal(server);
        if self.excluded.contains(&server) {
            Some("listed in `mcp.excluded`")
        } else if !self.only.is_empty() && !self.only.contains(&server) {
            Some("not listed in `mcp.allowed`")
        } else {
            None
        }
    }
}

fn normal(name: &str) -> String {
    name.trim().to_lowercase()
}
