//! Toolboxes: what of the catalog one toolbox shows, and under which names.

use std::sync::{Arc, OnceLock};

use foldhash::HashMap;

use crate::catalog::{Abilities, Listing, Prompt, Resource, Template, ToolDefinition};
use crate::config::ToolboxConfig;
use crate::name::{ExposedName, ServerName, ToolId};
use crate::policy::Policy;
use crate::raw::Raw;

#[cfg(test)]
mod tests;

/// What one toolbox shows, as far as its servers have been listed; immutable. Everything is in the
/// order of the configuration, then of each server's own list.
#[derive(Debug, Default)]
pub struct View {
    /// Its tools.
    pub tools: Vec<ViewTool>,
    /// Its resources.
    pub resources: Vec<Shown<Resource>>,
    /// Its resource templates.
    pub templates: Vec<Shown<Template>>,
    /// Its prompts.
    pub prompts: Vec<Shown<Prompt>>,
    /// What its servers can do.
    pub abilities: Vec<(ServerName, Abilities)>,
    /// How servers want to be used, in their own words; in the order of the configuration.
    pub instructions: Vec<(ServerName, String)>,
    /// Where each tool stands in that order.
    places: HashMap<ServerName, HashMap<String, usize>>,
}

/// One thing besides tools that a toolbox shows.
#[derive(Debug)]
pub struct Shown<D> {
    /// The server that has it.
    pub server: ServerName,
    /// What its server says of it.
    pub definition: Arc<D>,
}

/// One tool as a toolbox shows it.
#[derive(Debug)]
pub struct ViewTool {
    /// Which tool it is.
    pub id: ToolId,
    /// The name it is registered under.
    pub name: ExposedName,
    /// What its server says of it.
    pub definition: Arc<ToolDefinition>,
    registered: OnceLock<Raw>,
}

impl View {
    /// Shows what policy allows of the listings of the toolbox's servers.
    ///
    /// `listing` gives what a server last listed, if it has been listed; `name_limit` bounds the
    /// registered names, in bytes.
    pub fn new<'a>(
        toolbox: &ToolboxConfig,
        listing: impl Fn(&ServerName) -> Option<&'a Listing>,
        policy: &Policy,
        name_limit: usize,
    ) -> Self {
        let mut view = Self::default();
        for server in &toolbox.servers {
            let Some(listing) = listing(&server.name) else {
                continue;
            };
            let instructions = listing.instructions.iter().filter(|text| !text.trim().is_empty());
            view.instructions.extend(instructions.map(|text| (server.name.clone(), text.clone())));
            if policy.admit(&toolbox.name, &server.name).is_ok() {
                view.abilities.push((server.name.clone(), listing.abilities.clone()));
                view.resources.extend(shown(&server.name, &listing.resources));
                view.templates.extend(shown(&server.name, &listing.templates));
                view.prompts.extend(shown(&server.name, &listing.prompts));
            }
            for definition in &listing.tools {
                let id = ToolId {
                    toolbox: toolbox.name.clone(),
                    server: server.name.clone(),
                    tool: definition.name.clone(),
                };
                if policy.decide(&id).is_ok() {
                    let name = ExposedName::registered(&id, name_limit);
                    let places = view.places.entry(id.server.clone()).or_default();
                    places.insert(id.tool.clone(), view.tools.len());
                    view.tools.push(ViewTool::new(name, id, Arc::clone(definition)));
                }
            }
        }
        view
    }

    /// The tool called `tool` of `server`.
    pub fn tool(&self, server: &str, tool: &str) -> Option<&ViewTool> {
        self.tools.get(*self.places.get(server)?.get(tool)?)
    }

    /// Whether both show the same resources, templates included.
    pub fn has_the_resources_of(&self, other: &Self) -> bool {
        are_the_same(&self.resources, &other.resources)
            && are_the_same(&self.templates, &other.templates)
    }

    /// Whether both show the same prompts.
    pub fn has_the_prompts_of(&self, other: &Self) -> bool {
        are_the_same(&self.prompts, &other.prompts)
    }

    /// Whether both show the same tools with the same definitions.
    pub fn has_the_tools_of(&self, other: &Self) -> bool {
        let pairs = self.tools.iter().zip(&other.tools);
        self.tools.len() == other.tools.len()
            && pairs.into_iter().all(|(a, b)| {
                a.name == b.name
                    && (Arc::ptr_eq(&a.definition, &b.definition)
                        || a.definition.raw == b.definition.raw)
            })
    }
}

fn shown<D>(server: &ServerName, definitions: &[Arc<D>]) -> impl Iterator<Item = Shown<D>> {
    definitions
        .iter()
        .map(|definition| Shown { server: server.clone(), definition: Arc::clone(definition) })
}

fn are_the_same<D: PartialEq>(some: &[Shown<D>], others: &[Shown<D>]) -> bool {
    some.len() == others.len()
        && some.iter().zip(others).all(|(a, b)| {
            a.server == b.server
                && (Arc::ptr_eq(&a.definition, &b.definition) || a.definition == b.definition)
        })
}

impl ViewTool {
    /// A tool as its server defines it, under `name`.
    pub fn new(name: ExposedName, id: ToolId, definition: Arc<ToolDefinition>) -> Self {
        Self { id, name, definition, registered: OnceLock::new() }
    }

    /// The server's definition with the registered name in place of its own, otherwise untouched.
    pub fn registered(&self) -> &Raw {
        self.registered.get_or_init(|| {
            let name = Raw::encode(&self.name.as_str());
            let raw = &self.definition.raw;
            raw.with_member("name", &name).unwrap_or_else(|| raw.clone())
        })
    }

    /// The server's definition, preceded by the toolbox and the server it belongs to.
    pub fn located(&self) -> Raw {
        let toolbox = Raw::encode(&self.id.toolbox.as_str());
        let server = Raw::encode(&self.id.server.as_str());
        let raw = &self.definition.raw;
        raw.with_first(&[("toolbox", &toolbox), ("server", &server)]).unwrap_or_else(|| raw.clone())
    }
}
