//! Toolboxes: what of the catalog one toolbox shows, and under which names.

use std::sync::{Arc, OnceLock};

use foldhash::HashMap;

use crate::catalog::schema::Mismatch;
use crate::catalog::{Abilities, Alteration, Prompt, Resource, Template, ToolDefinition};
use crate::name::{self, ExposedName, ServerName, ToolId};
use crate::policy::Traits;
use crate::raw::{self, Raw};
use crate::settings::ToolOverride;

mod namespaced;
mod part;
#[cfg(test)]
mod tests;

pub use crate::toolbox::namespaced::{Discarded, Item, Kind, Namespaced, TOOLMAN_ACTIVATE, Target};
pub use crate::toolbox::part::Part;

/// One toolbox as it is shown, as far as its servers have been listed; immutable. Everything is in
/// the order of the configuration, then of each server's own list.
#[derive(Debug, Default)]
pub struct View {
    parts: Vec<Arc<Part>>,
    /// Where each server stands in that order.
    places: HashMap<ServerName, usize>,
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

/// A primitive other than a tool, as a toolbox shows it.
#[derive(Debug)]
pub struct Shown<'a, D> {
    /// The server that has it.
    pub server: &'a ServerName,
    /// The server's own definition.
    pub definition: &'a Arc<D>,
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
    /// Shows these parts.
    pub fn new(parts: Vec<Arc<Part>>) -> Self {
        let places = parts.iter().enumerate().map(|(at, part)| (part.server().clone(), at));
        Self { places: places.collect(), parts }
    }

    /// The parts that it is made of, one for each server that has been listed.
    pub fn parts(&self) -> &[Arc<Part>] {
        &self.parts
    }

    /// Returns `true` if both are made of the very same parts.
    pub fn has_the_parts_of(&self, other: &Self) -> bool {
        let (some, others) = (&self.parts, &other.parts);
        some.len() == others.len() && some.iter().zip(others).all(|(a, b)| Arc::ptr_eq(a, b))
    }

    /// The part of one server, if that has been listed.
    pub fn part(&self, server: &str) -> Option<&Arc<Part>> {
        self.parts.get(*self.places.get(server)?)
    }

    /// Its tools.
    pub fn tools(&self) -> impl Iterator<Item = &ViewTool> + Clone {
        self.parts.iter().flat_map(|part| &part.tools)
    }

    /// The tools of one of its servers.
    pub fn tools_of(&self, server: &ServerName) -> &[ViewTool] {
        self.part(server.as_str()).map_or(&[], |part| &part.tools)
    }

    /// How many tools it has.
    pub fn tool_count(&self) -> usize {
        self.parts.iter().map(|part| part.tools.len()).sum()
    }

    /// The tool called `tool` of `server`.
    pub fn tool(&self, server: &str, tool: &str) -> Option<&ViewTool> {
        self.part(server)?.tool(tool)
    }

    /// Its resources.
    pub fn resources(&self) -> impl Iterator<Item = Shown<'_, Resource>> {
        self.shown(Part::resources)
    }

    /// Its resource templates.
    pub fn templates(&self) -> impl Iterator<Item = Shown<'_, Template>> {
        self.shown(Part::templates)
    }

    /// Its prompts.
    pub fn prompts(&self) -> impl Iterator<Item = Shown<'_, Prompt>> {
        self.shown(Part::prompts)
    }

    fn shown<D: 'static>(&self, of: fn(&Part) -> &[Arc<D>]) -> impl Iterator<Item = Shown<'_, D>> {
        self.parts.iter().flat_map(move |part| {
            of(part).iter().map(|definition| Shown { server: part.server(), definition })
        })
    }

    /// The capabilities of each of its servers.
    pub fn abilities(&self) -> impl Iterator<Item = (&ServerName, &Abilities)> {
        self.parts.iter().filter_map(|part| Some((part.server(), part.abilities()?)))
    }

    /// The capabilities of one of its servers.
    pub fn abilities_of(&self, server: &ServerName) -> Option<&Abilities> {
        self.part(server.as_str())?.abilities()
    }

    /// The instructions of its servers, in their own words.
    pub fn instructions(&self) -> impl Iterator<Item = (&ServerName, &str)> {
        self.parts.iter().filter_map(|part| Some((part.server(), part.instructions()?)))
    }

    /// The instructions of one of its servers.
    pub fn instructions_of(&self, server: &ServerName) -> Option<&str> {
        self.part(server.as_str())?.instructions()
    }

    /// Returns `true` if both show the same resources, templates included.
    pub fn has_the_resources_of(&self, other: &Self) -> bool {
        self.has_the_same(other, Part::resources) && self.has_the_same(other, Part::templates)
    }

    /// Returns `true` if both show the same prompts.
    pub fn has_the_prompts_of(&self, other: &Self) -> bool {
        self.has_the_same(other, Part::prompts)
    }

    fn has_the_same<D: PartialEq + 'static>(
        &self,
        other: &Self,
        of: fn(&Part) -> &[Arc<D>],
    ) -> bool {
        let count = |view: &Self| view.shown(of).count();
        count(self) == count(other)
            && self.shown(of).zip(other.shown(of)).all(|(a, b)| {
                a.server == b.server
                    && (Arc::ptr_eq(a.definition, b.definition) || a.definition == b.definition)
            })
    }

    /// Returns `true` if both show the same tools with the same definitions.
    pub fn has_the_tools_of(&self, other: &Self) -> bool {
        self.tool_count() == other.tool_count()
            && self
                .tools()
                .zip(other.tools())
                .all(|(a, b)| std::ptr::eq(a, b) || (a.name == b.name && a.is_defined_as(b)))
    }
}

impl ViewTool {
    /// A tool as its server defines it, under `name`.
    pub fn new(name: ExposedName, id: ToolId, definition: Arc<ToolDefinition>) -> Self {
        let own = Arc::clone(&definition);
        let registered = OnceLock::new();
        Self { id, name, definition, own, traits: Traits::default(), pinned: None, registered }
    }

    /// The tool that its server calls `own`, as `over` wants it, and under a name that can stand in
    /// a list; none if that cannot be shown.
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
        let fitted = (!name::is_fit(&own.tool)).then(|| name::fitted(&own.tool));
        if over.is_none() && fitted.is_none() {
            return Some(as_it_is(own));
        }
        let unchanged = ToolOverride::default();
        let over = over.unwrap_or(&unchanged);
        let hidden: Vec<&str> = over.arguments.keys().map(String::as_str).collect();
        let alteration = Alteration {
            name: over.name.as_deref().or(fitted.as_deref()),
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

    fn is_defined_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.definition, &other.definition)
            || self.definition.raw == other.definition.raw
    }

    /// Returns `true` if both are the same tool, shown in the same way.
    fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.own, &other.own)
            && (&self.id, &self.name, self.traits) == (&other.id, &other.name, other.traits)
            && self.pinned == other.pinned
            && self.is_defined_as(other)
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
