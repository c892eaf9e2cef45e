//! A lens: everything that some agents see of all servers, by exposed name.
//!
//! Name tables are derived from the views on first use, so that the many listing changes of a
//! startup don't rebuild unused tables.

use std::sync::{Arc, OnceLock};

use foldhash::HashMap;
use parking_lot::Mutex;

use crate::toolbox::{ExposedTool, NameConflict, NamespaceTable, ServerView, ToolboxView};
use mcp_workbench_names::{
    ExposedName, NameTable, PrimitiveId, PrimitiveNameTable, ServerRef, ToolId, ToolboxName,
};
use mcp_workbench_settings::Config;
use mcp_workbench_wire::json::RawJson;

#[derive(Debug, Default)]
pub(crate) struct Lens {
    config: Arc<Config>,
    views: HashMap<ToolboxName, Arc<ToolboxView>>,
    registered: OnceLock<NameTable>,
    tools: OnceLock<PrimitiveNameTable>,
    prompts: OnceLock<PrimitiveNameTable>,
    uris: OnceLock<PrimitiveNameTable>,
    templates: OnceLock<PrimitiveNameTable>,
    /// `Some` if sessions may use the names of `activate` mode.
    namespaced: Option<OnceLock<NamespaceTable>>,
    said: ReportedConflicts,
}

/// The current name conflicts, stored so that each is logged once.
pub(crate) type ReportedConflicts = Arc<Mutex<Vec<NameConflict>>>;

impl Lens {
    /// `said` enables the names of `activate` mode.
    pub(crate) fn new(
        config: Arc<Config>,
        views: HashMap<ToolboxName, Arc<ToolboxView>>,
        said: Option<ReportedConflicts>,
    ) -> Self {
        let namespaced = said.is_some().then(OnceLock::new);
        Self { config, views, namespaced, said: said.unwrap_or_default(), ..Self::default() }
    }

    pub(crate) fn views(&self) -> &HashMap<ToolboxName, Arc<ToolboxView>> {
        &self.views
    }

    /// Returns `true` if both have the same parts and the same names.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let has_names = |lens: &Self| lens.namespaced.is_some();
        // In `activate` mode servers have names before they are listed.
        has_names(self) == has_names(other)
            && (!has_names(self) || Arc::ptr_eq(&self.config, &other.config))
            && self.views.len() == other.views.len()
            && self.views.iter().all(|(toolbox, view)| {
                other.views.get(toolbox).is_some_and(|other| view.has_the_parts_of(other))
            })
    }

    pub(crate) fn parts(&self) -> impl Iterator<Item = &ServerView> {
        let toolboxes = self.config.toolboxes.iter();
        let views = toolboxes.filter_map(|toolbox| self.views.get(&toolbox.name));
        views.flat_map(|view| view.parts()).map(|part| &**part)
    }

    pub(crate) fn registered(&self) -> &NameTable {
        self.registered.get_or_init(|| {
            let mut table = NameTable::default();
            for tool in self.parts().flat_map(|part| &part.tools) {
                table.insert(tool.name.clone(), tool.id.clone());
            }
            table
        })
    }

    pub(crate) fn tools(&self) -> &PrimitiveNameTable {
        self.tools.get_or_init(|| {
            let tools = self.parts().flat_map(|part| {
                part.tools.iter().map(move |tool| {
                    // The configuration can change a tool per toolbox.
                    let pinned = tool.pinned.as_ref().map(RawJson::as_bytes);
                    let definition = tool.definition.raw.as_bytes();
                    let source = (
                        part.listing_id(),
                        tool.server_definition.name.as_str(),
                        definition,
                        pinned,
                    );
                    (source, primitive(part, &tool.id.tool))
                })
            });
            let limit = self.config.max_tool_name_length;
            PrimitiveNameTable::new(
                tools,
                |primitive| self.full_name(primitive),
                |own| {
                    mcp_workbench_names::is_portable_tool_name(own)
                        && mcp_workbench_names::is_unambiguous_tool_name(own, limit)
                },
            )
        })
    }

    pub(crate) fn resolve(&self, name: &str) -> Option<ToolId> {
        if let Some(tool) = self.registered().resolve(name) {
            return Some(tool.clone());
        }
        if let Some(PrimitiveId { server_ref, name }) = self.tools().resolve(name) {
            let ServerRef { toolbox, server } = server_ref.clone();
            return Some(ToolId { toolbox, server, tool: name.clone() });
        }
        qualified(&self.config, name).into_iter().find(|id| {
            let view = self.views.get(&id.toolbox);
            view.is_some_and(|view| view.tool(id.server.as_str(), &id.tool).is_some())
        })
    }

    pub(crate) fn direct_name<'a>(&self, tool: &'a ExposedTool) -> Option<&'a str> {
        let own = self.tools();
        if !own.is_qualified(&tool.id.tool) {
            let first = own.resolve(&tool.id.tool)?;
            return (first.server_ref == tool.id.server_ref()).then_some(&tool.id.tool);
        }
        let leads_to = self.registered().resolve(tool.name.as_str());
        (leads_to == Some(&tool.id)).then_some(tool.name.as_str())
    }

    pub(crate) fn prompts(&self) -> &PrimitiveNameTable {
        self.prompts.get_or_init(|| {
            let prompts = self.parts().flat_map(|part| {
                part.prompts()
                    .iter()
                    .map(|prompt| (part.listing_id(), primitive(part, &prompt.name)))
            });
            let limit = self.config.max_tool_name_length;
            PrimitiveNameTable::new(
                prompts,
                |primitive| self.full_name(primitive),
                |own| mcp_workbench_names::is_unambiguous_prompt_name(own, limit),
            )
        })
    }

    pub(crate) fn uri_names(&self) -> &PrimitiveNameTable {
        self.uris.get_or_init(|| {
            let uris = self.parts().flat_map(|part| {
                part.resources()
                    .iter()
                    .map(|resource| (part.listing_id(), primitive(part, &resource.uri)))
            });
            PrimitiveNameTable::new(uris, full_uri, |uri| {
                mcp_workbench_names::is_portable_uri(uri)
                    && mcp_workbench_names::is_unambiguous_uri(uri)
            })
        })
    }

    pub(crate) fn templates(&self) -> &PrimitiveNameTable {
        self.templates.get_or_init(|| {
            let templates = self.parts().flat_map(|part| {
                part.templates()
                    .iter()
                    .map(|template| (part.listing_id(), primitive(part, &template.uri)))
            });
            PrimitiveNameTable::new(templates, full_uri, mcp_workbench_names::is_unambiguous_uri)
        })
    }

    pub(crate) fn full_name(&self, primitive: &PrimitiveId) -> String {
        let PrimitiveId { server_ref: ServerRef { toolbox, server }, name } = primitive;
        let id = ToolId { toolbox: toolbox.clone(), server: server.clone(), tool: name.clone() };
        ExposedName::registered(&id, self.config.max_tool_name_length).to_string()
    }

    pub(crate) fn namespaced(&self) -> &NamespaceTable {
        static NOTHING: OnceLock<NamespaceTable> = OnceLock::new();
        let Some(namespaced) = &self.namespaced else {
            return NOTHING.get_or_init(NamespaceTable::default);
        };
        namespaced.get_or_init(|| {
            let nothing = Arc::default();
            let view = |toolbox: &ToolboxName| self.views.get(toolbox).unwrap_or(&nothing);
            let named = NamespaceTable::new(&self.config, |toolbox| Arc::clone(view(toolbox)));
            let mut said = self.said.lock();
            for discarded in named.discarded.iter().filter(|one| !said.contains(one)) {
                tracing::info!("{discarded}");
            }
            said.clone_from(&named.discarded);
            drop(said);
            named
        })
    }
}

/// Returns the tools that `server:tool` may refer to, listed or not, one per toolbox with such a
/// server. The longest matching server name wins, so that no tool name can extend into another
/// server's name.
pub(crate) fn qualified(config: &Config, name: &str) -> Vec<ToolId> {
    let servers = config.servers().filter_map(|(toolbox, server)| {
        let own = name.strip_prefix(server.name.as_str())?.strip_prefix(':')?;
        let (toolbox, server) = (toolbox.name.clone(), server.name.clone());
        Some(ToolId { toolbox, server, tool: own.to_owned() })
    });
    let mut servers: Vec<_> = servers.collect();
    let shortest = servers.iter().map(|id| id.tool.len()).min();
    servers.retain(|id| Some(id.tool.len()) == shortest);
    servers
}

fn primitive(part: &ServerView, name: &str) -> PrimitiveId {
    PrimitiveId { server_ref: part.server_ref.clone(), name: name.to_owned() }
}

fn full_uri(primitive: &PrimitiveId) -> String {
    mcp_workbench_names::qualified_uri(&primitive.server_ref, &primitive.name)
}

#[cfg(test)]
mod tests;
