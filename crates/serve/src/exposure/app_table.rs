//! The pages of tools with a user interface (MCP Apps), and the URIs under which agents know them.

use std::collections::HashMap;

use mcp_workbench_core::gateway::Snapshot;
use mcp_workbench_core::state::Activation;
use mcp_workbench_core::toolbox::{ExposedTool, PrimitiveKind};
use mcp_workbench_names::{ServerRef, ToolId, is_unambiguous_ui_uri, qualified_ui_uri};

/// The tools with a user interface, and the URIs of their pages.
pub(crate) struct AppTable<'a> {
    at: &'a Snapshot,
    /// The listing of the only server whose tools have the page; `None` if several have it.
    sources: HashMap<&'a str, Option<usize>>,
}

impl<'a> AppTable<'a> {
    pub(crate) fn new(at: &'a Snapshot) -> Self {
        let mut sources = HashMap::new();
        for (_, listing, page) in pages(at) {
            let source = sources.entry(page).or_insert(Some(listing));
            if *source != Some(listing) {
                *source = None;
            }
        }
        Self { at, sources }
    }

    /// Returns `true` if the tool is listed in every mode. A server in several toolboxes
    /// contributes its tools once.
    pub(crate) fn lists(&self, tool: &ExposedTool) -> bool {
        is_app_tool(tool) && self.at.direct_name(tool).is_some()
    }

    /// Returns the URI under which agents know a page. Hosts reject other URIs than `ui://`.
    pub(crate) fn exposed_uri(&self, server: &ServerRef, own: &str) -> String {
        if self.is_unique(own) { own.to_owned() } else { qualified_ui_uri(server, own) }
    }

    /// Returns `true` if the URI leads to one server only, as a page or as a listed resource.
    fn is_unique(&self, own: &str) -> bool {
        let Some(Some(source)) = self.sources.get(own) else { return false };
        let is_same = |at: &ServerRef| {
            self.at.parts().any(|part| part.server_ref == *at && part.listing_id() == *source)
        };
        let leads_there = match self.at.uri_names().resolve(own) {
            Some(listed) => is_same(&listed.server_ref),
            None => !self.at.is_changed_uri(own),
        };
        leads_there && is_unambiguous_ui_uri(own)
    }

    /// Returns the servers whose tools have this page, each with its own URI.
    pub(crate) fn owners(&self, uri: &str) -> Vec<(ServerRef, String)> {
        let is_it = |server: &ServerRef, page: &str| self.exposed_uri(server, page) == uri;
        let mut owners: Vec<_> = pages(self.at)
            .filter(|(server, _, page)| is_it(server, page))
            .map(|(server, _, page)| (server.clone(), page.to_owned()))
            .collect();
        owners.dedup();
        owners
    }

    /// Returns the switches of `activate` mode that turn all of these tools on.
    pub(crate) fn activations(&self) -> Vec<Activation> {
        let items = self.at.namespaced().items.iter();
        let tools = items.filter(|item| {
            item.kind == PrimitiveKind::Tool && is_app_tool_at(self.at, &item.tool())
        });
        tools
            .map(|item| Activation { kind: item.kind, name: item.name.clone(), is_on: true })
            .collect()
    }
}

/// Returns the page of each tool that has one, with its server and the listing of the server.
fn pages(at: &Snapshot) -> impl Iterator<Item = (&ServerRef, usize, &str)> {
    at.parts().flat_map(|part| {
        let pages = part.tools.iter().filter_map(|tool| tool.definition.ui()?.page.as_deref());
        pages.map(|page| (&part.server_ref, part.listing_id(), page))
    })
}

pub(crate) fn is_app_tool(tool: &ExposedTool) -> bool {
    tool.definition.ui().is_some()
}

/// Returns `true` if only apps call the tool.
pub(crate) fn is_app_only(tool: &ExposedTool) -> bool {
    tool.definition.ui().is_some_and(|ui| ui.is_app_only)
}

pub(crate) fn is_app_tool_at(at: &Snapshot, tool: &ToolId) -> bool {
    at.view(&tool.toolbox).tool(tool.server.as_str(), &tool.tool).is_some_and(is_app_tool)
}
