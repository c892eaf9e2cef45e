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
use crate::toolbox::{Discarded, Namespaced, Part, View};

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
    fn parts(&self) -> impl Iterator<Item = &Part> {
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

    /// Tools by their own names, where those are unambiguous.
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
            UniqueNames::new(tools, |primitive| self.full_name(primitive))
        })
    }

    /// Prompts by the names that agents know them by.
    pub(crate) fn prompts(&self) -> &UniqueNames {
        self.prompts.get_or_init(|| {
            let prompts = self.parts().flat_map(|part| {
                part.prompts().iter().map(|prompt| (part.source(), primitive(part, &prompt.name)))
            });
            UniqueNames::new(prompts, |primitive| self.full_name(primitive))
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
            UniqueNames::new(uris, full_uri)
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
            UniqueNames::new(templates, full_uri)
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

fn primitive(part: &Part, name: &str) -> Primitive {
    Primitive { server_ref: part.server_ref.clone(), name: name.to_owned() }
}

fn full_uri(primitive: &Primitive) -> String {
    format!("{}{}", name::uri_prefix(&primitive.server_ref), primitive.name)
}
