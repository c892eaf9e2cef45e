//! Toolboxes: what of the catalog one toolbox shows, and under which names.

use std::sync::{Arc, OnceLock};

use foldhash::HashMap;

use crate::catalog::schema::Mismatch;
use crate::catalog::{Abilities, Alteration, Listing, Prompt, Resource, Template, ToolDefinition};
use crate::config::{ServerConfig, ToolOverride, ToolboxConfig};
use crate::name::{ExposedName, Place, ServerName, ToolId};
use crate::policy::{Moment, Policy, Traits};
use crate::raw::{self, Raw};

mod namespaced;
#[cfg(test)]
mod tests;

pub use crate::toolbox::namespaced::{Discarded, Item, Kind, Namespaced, TOOLMAN_ACTIVATE, Target};

/// One toolbox as it is shown, as far as its servers have been listed; immutable. Everything is in
/// the order of the configuration, then of each server's own list.
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
    /// The capabilities of each of its servers.
    pub abilities: Vec<(ServerName, Abilities)>,
    /// How servers want to be used, in their own words; in the order of the configuration.
    pub instructions: Vec<(ServerName, String)>,
    /// Tools that are not shown because the configuration has given their names to others: the
    /// server, its own name for the tool, and the name that is taken.
    pub eclipsed: Vec<(ServerName, String, String)>,
    /// Where each tool stands in that order.
    places: HashMap<ServerName, HashMap<String, usize>>,
}

/// A client may write this where there are no arguments.
const NULL: &[u8] = b"null";

/// The kind of JSON that arguments are which are no object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAnObject(pub &'static str);

impl NotAnObject {
    /// Tells what arguments are that are neither an object nor `null`, as they are written.
    fn of(arguments: &Raw) -> Option<Self> {
        let text = arguments.as_bytes();
        Some(Self(match text.first() {
            Some(b'{') => return None,
            _ if text == NULL => return None,
            Some(b'"') => "a string",
            Some(b'[') => "an array",
            Some(b't' | b'f') => "a boolean",
            _ => "a number",
        }))
    }
}

/// One thing besides tools that a toolbox shows.
#[derive(Debug)]
pub struct Shown<D> {
    /// The server that has it.
    pub server: ServerName,
    /// The server's own definition.
    pub definition: Arc<D>,
}

/// One tool as a toolbox shows it.
#[derive(Debug)]
pub struct ViewTool {
    /// Which tool it is.
    pub id: ToolId,
    /// The name it is registered under.
    pub name: ExposedName,
    /// The definition that is shown: the server's, with the changes that the configuration makes.
    pub definition: Arc<ToolDefinition>,
    /// The server's own definition.
    pub own: Arc<ToolDefinition>,
    /// The hints that policy needs beside the name.
    pub traits: Traits,
    /// An object of the arguments that every call has.
    pub pinned: Option<Raw>,
    registered: OnceLock<Raw>,
}

impl View {
    /// Shows what policy allows of the listings of the toolbox's servers.
    ///
    /// `listing` gives what a server last listed, if it has been listed; `name_limit` bounds the
    /// registered names, in bytes. What may be used at certain times only is shown as of `now`.
    pub fn new<'a>(
        toolbox: &ToolboxConfig,
        listing: impl Fn(&ServerName) -> Option<&'a Listing>,
        policy: &Policy,
        name_limit: usize,
        now: Moment,
    ) -> Self {
        let mut view = Self::default();
        for server in &toolbox.servers {
            let Some(listing) = listing(&server.name) else {
                continue;
            };
            if policy.admit(&toolbox.name, &server.name).is_ok() {
                let said = listing.instructions.iter().filter(|text| !text.trim().is_empty());
                view.instructions.extend(said.map(|text| (server.name.clone(), text.clone())));
                view.abilities.push((server.name.clone(), listing.abilities.clone()));
                view.resources.extend(shown(&server.name, &listing.resources));
                view.templates.extend(shown(&server.name, &listing.templates));
                view.prompts.extend(shown(&server.name, &listing.prompts));
            }
            let place = Place { toolbox: toolbox.name.clone(), server: server.name.clone() };
            let decide = Deciding::new(place, server, listing, policy, now);
            for definition in &listing.tools {
                let Some((own, traits)) = decide.on(definition) else { continue };
                let over = server.tool_override(&own.tool, traits.has_namesake);
                let Some(tool) = ViewTool::overridden(own, definition, over, name_limit) else {
                    continue;
                };
                view.add(ViewTool { traits, ..tool });
            }
        }
        view
    }

    /// Adds a tool, unless another of its server has its name.
    fn add(&mut self, tool: ViewTool) {
        let places = self.places.entry(tool.id.server.clone()).or_default();
        if places.contains_key(&tool.id.tool) {
            self.eclipsed.push((tool.id.server, tool.own.name.clone(), tool.id.tool));
            return;
        }
        places.insert(tool.id.tool.clone(), self.tools.len());
        self.tools.push(tool);
    }

    /// The tool called `tool` of `server`.
    pub fn tool(&self, server: &str, tool: &str) -> Option<&ViewTool> {
        self.tools.get(*self.places.get(server)?.get(tool)?)
    }

    /// Returns `true` if both show the same resources, templates included.
    pub fn has_the_resources_of(&self, other: &Self) -> bool {
        are_the_same(&self.resources, &other.resources)
            && are_the_same(&self.templates, &other.templates)
    }

    /// Returns `true` if both show the same prompts.
    pub fn has_the_prompts_of(&self, other: &Self) -> bool {
        are_the_same(&self.prompts, &other.prompts)
    }

    /// Returns `true` if both show the same tools with the same definitions.
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

/// The policy for the tools of one server.
struct Deciding<'a> {
    place: Place,
    by_name: HashMap<&'a str, &'a ToolDefinition>,
    prefix: String,
    policy: &'a Policy,
    now: Moment,
}

impl<'a> Deciding<'a> {
    fn new(
        place: Place,
        server: &ServerConfig,
        listing: &'a Listing,
        policy: &'a Policy,
        now: Moment,
    ) -> Self {
        let tools = listing.tools.iter();
        let by_name = tools.map(|tool| (tool.name.as_str(), &**tool)).collect();
        Self { place, by_name, prefix: server.client_prefix(), policy, now }
    }

    /// The tool and what there is to know of it, if it may be seen.
    fn on(&self, definition: &ToolDefinition) -> Option<(ToolId, Traits)> {
        let has_namesake = self.has_namesake(&definition.name);
        let is_destructive = self.policy.heeds_hints() && definition.is_destructive();
        let traits = Traits { has_namesake, is_destructive };
        let Place { toolbox, server } = self.place.clone();
        let own = ToolId { toolbox, server, tool: definition.name.clone() };
        let leave = self.policy.decide(&own, traits, || self.now);
        leave.ok().map(|_| (own, traits))
    }

    /// Returns `true` if clients call another tool by the name that they call this one. A tool that
    /// may not be seen counts as absent, for nothing that is said of others may depend on it.
    fn has_namesake(&self, tool: &str) -> bool {
        let namesake = self.by_name.get(format!("{}{tool}", self.prefix).as_str());
        namesake.is_some_and(|namesake| self.on(namesake).is_some())
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
        let own = Arc::clone(&definition);
        let registered = OnceLock::new();
        Self { id, name, definition, own, traits: Traits::default(), pinned: None, registered }
    }

    /// The tool that its server calls `own`, as `over` wants it; none if that cannot be shown.
    fn overridden(
        own: ToolId,
        definition: &Arc<ToolDefinition>,
        over: Option<&ToolOverride>,
        name_limit: usize,
    ) -> Option<Self> {
        let as_it_is = |id: ToolId| {
            let name = ExposedName::registered(&id, name_limit);
            Self::new(name, id, Arc::clone(definition))
        };
        let Some(over) = over else {
            return Some(as_it_is(own));
        };
        let hidden: Vec<&str> = over.arguments.keys().map(String::as_str).collect();
        let alteration = Alteration {
            name: over.name.as_deref(),
            description: over.description.as_deref(),
            hidden: &hidden,
        };
        let shown = definition.altered(&alteration);
        let shown = shown.inspect_err(|why| tracing::warn!(tool = %own, why, "cannot be altered"));
        let shown = Arc::new(shown.ok()?);
        let tool = as_it_is(ToolId { tool: shown.name.clone(), ..own });
        let pinned = (!hidden.is_empty()).then(|| Raw::encode(&over.arguments));
        Some(Self { definition: shown, pinned, ..tool })
    }

    /// The tool by its server's own name for it.
    pub fn own_id(&self) -> ToolId {
        ToolId { tool: self.own.name.clone(), ..self.id.clone() }
    }

    /// Returns the arguments that the server is to get for those that were given: the pinned ones
    /// in place of those that are called so, all else as written. Whether they are right is for the
    /// server to say.
    ///
    /// # Errors
    ///
    /// When they are no object, nor nothing.
    pub fn arguments(&self, given: Option<&Raw>) -> Result<Option<Raw>, NotAnObject> {
        if let Some(given) = given
            && let Some(kind) = NotAnObject::of(given)
        {
            return Err(kind);
        }
        let Some(pinned) = &self.pinned else { return Ok(given.cloned()) };
        let given = given.filter(|given| given.as_bytes() != NULL);
        let given = given.cloned().unwrap_or_else(|| raw::object([]));
        let pinned = pinned.members().into_iter().flatten();
        let with_pinned = pinned.fold(given, |arguments, (name, value)| {
            arguments.with_member(&name, &value).unwrap_or(arguments)
        });
        Ok(Some(with_pinned))
    }

    /// Returns what of the given arguments does not fit the tool's schema, in words of what the
    /// agent sees of it.
    pub fn mismatches(&self, given: Option<&Raw>) -> Vec<Mismatch> {
        let given = given.filter(|given| given.as_bytes() != NULL);
        let Ok(sent) = self.arguments(given) else { return Vec::new() };
        let Err(mismatches) = self.own.check_arguments(sent.as_ref()) else { return Vec::new() };
        let Some(pinned) = &self.pinned else { return mismatches };
        // The server's schema decides; the one that the agent sees may be stricter, as when one of
        // several arguments is wanted and that one is pinned.
        let pinned = pinned.members().into_iter().flatten();
        let seen = pinned.fold(given.cloned(), |seen, (name, _)| {
            seen.map(|seen| seen.without_member(&name).unwrap_or(seen))
        });
        self.definition.check_arguments(seen.as_ref()).err().unwrap_or(mismatches)
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
        // What a server says of these is not where the tool is.
        let bare = raw.without_members(&["toolbox", "server"]);
        let located =
            bare.and_then(|raw| raw.with_first(&[("toolbox", &toolbox), ("server", &server)]));
        located.unwrap_or_else(|| raw.clone())
    }
}
