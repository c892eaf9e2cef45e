//! A lens: what some agents see of all servers, and under which names.
//!
//! The views say what is seen; everything else follows from them, and is made when somebody first asks
//! for it: while servers come up one after the other, nobody pays for names that nobody looks up.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use foldhash::HashMap;

use crate::name::{
    self, ExposedName, NameTable, Primitive, ServerRef, ToolId, ToolboxName, UniqueNames,
};
use crate::raw::Raw;
use crate::settings::Config;
use crate::toolbox::{Discarded, Namespaced, Part, View, ViewTool};

/// All that some agents see; immutable.
#[derive(Debug, Default)]
pub(crate) struct Lens {
    config: Arc<Config>,
    /// The view of each toolbox.
    views: HashMap<ToolboxName, Arc<View>>,
    registered: OnceLock<NameTable>,
    tools: OnceLock<UniqueNames>,
    prompts: OnceLock<UniqueNames>,
    uris: OnceLock<UniqueNames>,
    templates: OnceLock<UniqueNames>,
    /// In `activate` mode, the same under its names.
    namespaced: Option<OnceLock<Namespaced>>,
    /// The primitives that the log has been told of as discarded.
    said: Said,
}

/// The primitives that had lost their names the last time that anybody looked.
pub(crate) type Said = Arc<Mutex<Vec<Discarded>>>;

impl Lens {
    /// Shows these views; with `said`, under the names of `activate` mode too.
    pub(crate) fn new(
        config: Arc<Config>,
        views: HashMap<ToolboxName, Arc<View>>,
        said: Option<Said>,
    ) -> Self {
        let namespaced = said.is_some().then(OnceLock::new);
        Self { config, views, namespaced, said: said.unwrap_or_default(), ..Self::default() }
    }

    /// The view of each toolbox, as far as its servers have been listed.
    pub(crate) fn views(&self) -> &HashMap<ToolboxName, Arc<View>> {
        &self.views
    }

    /// Returns `true` if both show the same parts under the same names, in one world.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let has_names = |lens: &Self| lens.namespaced.is_some();
        // What has not been listed has names there too.
        has_names(self) == has_names(other)
            && (!has_names(self) || Arc::ptr_eq(&self.config, &other.config))
            && self.views.len() == other.views.len()
            && self.views.iter().all(|(toolbox, view)| {
                other.views.get(toolbox).is_some_and(|other| view.has_the_parts_of(other))
            })
    }

    /// Everything that is shown, in the order of the configuration.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &Part> {
        let toolboxes = self.config.toolboxes.iter();
        let views = toolboxes.filter_map(|toolbox| self.views.get(&toolbox.name));
        views.flat_map(|view| view.parts()).map(|part| &**part)
    }

    /// Tools by the names that they are registered under.
    pub(crate) fn registered(&self) -> &NameTable {
        self.registered.get_or_init(|| {
            let mut table = NameTable::default();
            for tool in self.parts().flat_map(|part| &part.tools) {
                table.insert(tool.name.clone(), tool.id.clone());
            }
            table
        })
    }

    /// Tools by their own names, where those can mean nothing else, and by their registered ones.
    pub(crate) fn tools(&self) -> &UniqueNames {
        self.tools.get_or_init(|| {
            let tools = self.parts().flat_map(|part| {
                part.tools.iter().map(move |tool| {
                    // What the configuration makes of a tool may differ from toolbox to toolbox.
                    let pinned = tool.pinned.as_ref().map(Raw::as_bytes);
                    let definition = tool.definition.raw.as_bytes();
                    let source = (part.source(), tool.own.name.as_str(), definition, pinned);
                    (source, primitive(part, &tool.id.tool))
                })
            });
            let limit = self.config.max_tool_name_length;
            UniqueNames::new(
                tools,
                |primitive| self.full_name(primitive),
                |own| name::is_free_tool(own, limit),
            )
        })
    }

    /// The tool that is called so: by its registered name, by its own where that can mean nothing else,
    /// or as `server:tool`.
    pub(crate) fn find(&self, name: &str) -> Option<ToolId> {
        if let Some(tool) = self.registered().resolve(name) {
            return Some(tool.clone());
        }
        if let Some(Primitive { server_ref, name }) = self.tools().resolve(name) {
            let ServerRef { toolbox, server } = server_ref.clone();
            return Some(ToolId { toolbox, server, tool: name.clone() });
        }
        qualified(&self.config, name).into_iter().find(|id| {
            let view = self.views.get(&id.toolbox);
            view.is_some_and(|view| view.tool(id.server.as_str(), &id.tool).is_some())
        })
    }

    /// The name of a tool in a list that has everything from the start; see
    /// [`crate::gateway::Snapshot::direct_name`].
    pub(crate) fn direct_name<'a>(&self, tool: &'a ViewTool) -> Option<&'a str> {
        let own = self.tools();
        if !own.is_changed(&tool.id.tool) {
            let first = own.resolve(&tool.id.tool)?;
            return (first.server_ref == tool.id.server_ref()).then_some(&tool.id.tool);
        }
        let leads_to = self.registered().resolve(tool.name.as_str());
        (leads_to == Some(&tool.id)).then_some(tool.name.as_str())
    }

    /// Prompts by the names that agents know them by.
    pub(crate) fn prompts(&self) -> &UniqueNames {
        self.prompts.get_or_init(|| {
            let prompts = self.parts().flat_map(|part| {
                part.prompts().iter().map(|prompt| (part.source(), primitive(part, &prompt.name)))
            });
            let limit = self.config.max_tool_name_length;
            UniqueNames::new(
                prompts,
                |primitive| self.full_name(primitive),
                |own| name::is_free_prompt(own, limit),
            )
        })
    }

    /// Resources by the addresses that agents know them by.
    pub(crate) fn uris(&self) -> &UniqueNames {
        self.uris.get_or_init(|| {
            let uris = self.parts().flat_map(|part| {
                part.resources()
                    .iter()
                    .map(|resource| (part.source(), primitive(part, &resource.uri)))
            });
            UniqueNames::new(uris, full_uri, name::is_free_address)
        })
    }

    /// Resource templates, likewise.
    pub(crate) fn templates(&self) -> &UniqueNames {
        self.templates.get_or_init(|| {
            let templates = self.parts().flat_map(|part| {
                part.templates()
                    .iter()
                    .map(|template| (part.source(), primitive(part, &template.uri)))
            });
            UniqueNames::new(templates, full_uri, name::is_free_address)
        })
    }

    /// The full name of a tool or a prompt.
    pub(crate) fn full_name(&self, primitive: &Primitive) -> String {
        let Primitive { server_ref: ServerRef { toolbox, server }, name } = primitive;
        let id = ToolId { toolbox: toolbox.clone(), server: server.clone(), tool: name.clone() };
        ExposedName::registered(&id, self.config.max_tool_name_length).to_string()
    }

    /// Everything under the names of `activate` mode; nothing in other modes.
    pub(crate) fn namespaced(&self) -> &Namespaced {
        static NOTHING: OnceLock<Namespaced> = OnceLock::new();
        let Some(namespaced) = &self.namespaced else {
            return NOTHING.get_or_init(Namespaced::default);
        };
        namespaced.get_or_init(|| {
            let nothing = Arc::default();
            let view = |toolbox: &ToolboxName| self.views.get(toolbox).unwrap_or(&nothing);
            let named = Namespaced::new(&self.config, |toolbox| Arc::clone(view(toolbox)));
            let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
            for discarded in named.discarded.iter().filter(|one| !said.contains(one)) {
                tracing::info!("{discarded}");
            }
            said.clone_from(&named.discarded);
            drop(said);
            named
        })
    }
}

/// Returns the tools that `server:tool` may mean, known or not: one in each toolbox that has a server of
/// this name. Of names that begin alike the longest is meant, so that no server can have a tool whose
/// name goes on as another server's does.
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

fn primitive(part: &Part, name: &str) -> Primitive {
    Primitive { server_ref: part.server_ref.clone(), name: name.to_owned() }
}

fn full_uri(primitive: &Primitive) -> String {
    name::full_address(&primitive.server_ref, &primitive.name)
}

#[cfg(test)]
mod tests;
