//! Views of toolboxes: the permitted tools, resources and prompts, under the names that agents see.

use std::sync::{Arc, OnceLock};

use foldhash::HashMap;

use crate::catalog::schema::SchemaViolation;
use crate::catalog::{
    DefinitionOverride, Prompt, Resource, ResourceTemplate, ServerCapabilities, ToolDefinition,
};
use crate::policy::ToolTraits;
use mcp_workbench_names::{ExposedName, ServerName, ToolId};
use mcp_workbench_settings::ToolOverride;
use mcp_workbench_wire::json::select::Selection;
use mcp_workbench_wire::json::{self, EditError, RawJson, similar};

mod namespace_table;
mod server_view;
#[cfg(test)]
mod tests;

pub use crate::catalog::PrimitiveKind;
pub use crate::toolbox::namespace_table::{
    NameConflict, NamespaceTable, NamespacedPrimitive, TOOLMAN_ACTIVATE, UriTarget,
};
pub use crate::toolbox::server_view::ServerView;

/// An immutable view of the listed servers of a toolbox, in the order of the configuration and then
/// of each server's own list.
#[derive(Debug, Default)]
pub struct ToolboxView {
    parts: Vec<Arc<ServerView>>,
    /// Index of each server in `parts`.
    places: HashMap<ServerName, usize>,
}

/// Some clients send this for absent arguments.
const NULL: &[u8] = b"null";

/// Arguments that pinned arguments can't be added to.
const UNREADABLE: &str = "an object with an invalid member name";

/// The JSON type of arguments that aren't an object, with its article ("an array").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAnObjectError(pub &'static str);

impl NotAnObjectError {
    /// Classifies arguments by their first byte; `None` for an object or `null`.
    fn of(arguments: &RawJson) -> Option<Self> {
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

/// A resource, template or prompt in a toolbox.
#[derive(Debug)]
pub struct ExposedPrimitive<'a, D> {
    pub server: &'a ServerName,
    pub definition: &'a Arc<D>,
}

/// A tool in a toolbox.
#[derive(Debug)]
pub struct ExposedTool {
    pub id: ToolId,
    pub name: ExposedName,
    /// The exposed definition: the server's own with the overrides of the configuration applied.
    pub definition: Arc<ToolDefinition>,
    pub server_definition: Arc<ToolDefinition>,
    pub traits: ToolTraits,
    /// An object with the arguments that are added to every call.
    pub pinned: Option<RawJson>,
    /// The fields that its results are reduced to.
    pub selection: Option<Arc<Selection>>,
    registered: OnceLock<Result<RawJson, EditError>>,
}

impl ToolboxView {
    pub fn new(parts: Vec<Arc<ServerView>>) -> Self {
        let places = parts.iter().enumerate().map(|(at, part)| (part.server().clone(), at));
        Self { places: places.collect(), parts }
    }

    pub fn parts(&self) -> &[Arc<ServerView>] {
        &self.parts
    }

    /// Returns `true` if both share the same server views (pointer equality).
    pub fn has_the_parts_of(&self, other: &Self) -> bool {
        let (some, others) = (&self.parts, &other.parts);
        some.len() == others.len() && some.iter().zip(others).all(|(a, b)| Arc::ptr_eq(a, b))
    }

    pub fn part(&self, server: &str) -> Option<&Arc<ServerView>> {
        self.parts.get(*self.places.get(server)?)
    }

    pub fn tools(&self) -> impl Iterator<Item = &ExposedTool> + Clone {
        self.parts.iter().flat_map(|part| &part.tools)
    }

    pub fn tools_of(&self, server: &ServerName) -> &[ExposedTool] {
        self.part(server.as_str()).map_or(&[], |part| &part.tools)
    }

    pub fn tool_count(&self) -> usize {
        self.parts.iter().map(|part| part.tools.len()).sum()
    }

    pub fn tool(&self, server: &str, tool: &str) -> Option<&ExposedTool> {
        self.part(server)?.tool(tool)
    }

    pub fn resources(&self) -> impl Iterator<Item = ExposedPrimitive<'_, Resource>> {
        self.shown(ServerView::resources)
    }

    pub fn templates(&self) -> impl Iterator<Item = ExposedPrimitive<'_, ResourceTemplate>> {
        self.shown(ServerView::templates)
    }

    pub fn prompts(&self) -> impl Iterator<Item = ExposedPrimitive<'_, Prompt>> {
        self.shown(ServerView::prompts)
    }

    fn shown<D: 'static>(
        &self,
        of: fn(&ServerView) -> &[Arc<D>],
    ) -> impl Iterator<Item = ExposedPrimitive<'_, D>> {
        self.parts.iter().flat_map(move |part| {
            of(part).iter().map(|definition| ExposedPrimitive { server: part.server(), definition })
        })
    }

    pub fn abilities(&self) -> impl Iterator<Item = (&ServerName, &ServerCapabilities)> {
        self.parts.iter().filter_map(|part| Some((part.server(), part.abilities()?)))
    }

    pub fn abilities_of(&self, server: &ServerName) -> Option<&ServerCapabilities> {
        self.part(server.as_str())?.abilities()
    }

    pub fn instructions(&self) -> impl Iterator<Item = (&ServerName, &str)> {
        self.parts.iter().filter_map(|part| Some((part.server(), part.instructions()?)))
    }

    pub fn instructions_of(&self, server: &ServerName) -> Option<&str> {
        self.part(server.as_str())?.instructions()
    }

    /// Compares resources and resource templates.
    pub fn has_the_resources_of(&self, other: &Self) -> bool {
        self.has_the_same(other, ServerView::resources)
            && self.has_the_same(other, ServerView::templates)
    }

    pub fn has_the_prompts_of(&self, other: &Self) -> bool {
        self.has_the_same(other, ServerView::prompts)
    }

    fn has_the_same<D: PartialEq + 'static>(
        &self,
        other: &Self,
        of: fn(&ServerView) -> &[Arc<D>],
    ) -> bool {
        let count = |view: &Self| view.shown(of).count();
        count(self) == count(other)
            && self.shown(of).zip(other.shown(of)).all(|(a, b)| {
                a.server == b.server
                    && (Arc::ptr_eq(a.definition, b.definition) || a.definition == b.definition)
            })
    }

    /// Compares names and definitions of the tools.
    pub fn has_the_tools_of(&self, other: &Self) -> bool {
        self.tool_count() == other.tool_count()
            && self
                .tools()
                .zip(other.tools())
                .all(|(a, b)| std::ptr::eq(a, b) || (a.name == b.name && a.is_defined_as(b)))
    }
}

impl ExposedTool {
    pub fn new(name: ExposedName, id: ToolId, definition: Arc<ToolDefinition>) -> Self {
        let server_definition = Arc::clone(&definition);
        let registered = OnceLock::new();
        Self {
            id,
            name,
            definition,
            server_definition,
            traits: ToolTraits::default(),
            pinned: None,
            selection: None,
            registered,
        }
    }

    /// Applies an override to the tool that its server calls `own`, and replaces a name that is
    /// unfit to be listed. Returns `None` if the definition can't be changed.
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
        let fitted = (!mcp_workbench_names::is_listable_name(&own.tool))
            .then(|| mcp_workbench_names::to_listable_name(&own.tool));
        if over.is_none() && fitted.is_none() {
            return Some(as_it_is(own));
        }
        let unchanged = ToolOverride::default();
        let over = over.unwrap_or(&unchanged);
        let selection = Selection::parse(over.select.iter().flatten().map(String::as_str));
        let selection = selection.inspect_err(
            |why| tracing::warn!(tool = %own, %why, "invalid `select`, the tool is hidden"),
        );
        let selection = selection.ok()?;
        let selection = (!selection.is_whole()).then(|| Arc::new(selection));
        let hidden: Vec<&str> = over.arguments.keys().map(String::as_str).collect();
        let alteration = DefinitionOverride {
            name: over.name.as_deref().or(fitted.as_deref()),
            description: over.description.as_deref(),
            hidden: &hidden,
            is_output_partial: selection.is_some(),
        };
        let shown = definition.with_override(&alteration);
        let shown = shown.inspect_err(
            |why| tracing::warn!(tool = %own, why, "cannot apply the override, the tool is hidden"),
        );
        let shown = Arc::new(shown.ok()?);
        let tool = as_it_is(ToolId { tool: shown.name.clone(), ..own });
        let pinned = (!hidden.is_empty()).then(|| RawJson::encode(&over.arguments));
        Some(Self { definition: shown, pinned, selection, ..tool })
    }

    fn is_defined_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.definition, &other.definition)
            || self.definition.raw == other.definition.raw
    }

    fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.server_definition, &other.server_definition)
            && (&self.id, &self.name, self.traits) == (&other.id, &other.name, other.traits)
            && self.pinned == other.pinned
            && self.selection == other.selection
            && self.is_defined_as(other)
    }

    /// Returns the ID with the server's own name for the tool.
    pub fn own_id(&self) -> ToolId {
        ToolId { tool: self.server_definition.name.clone(), ..self.id.clone() }
    }

    /// Merges the pinned arguments into `given`, which is otherwise passed on as written and isn't
    /// checked against the schema. Arguments whose names differ from pinned ones only in case are
    /// removed, unless the schema has them.
    ///
    /// # Errors
    ///
    /// Returns an error if `given` is neither an object nor `null`, or can't be edited.
    pub fn apply_pinned(
        &self,
        given: Option<&RawJson>,
    ) -> Result<Option<RawJson>, NotAnObjectError> {
        if let Some(given) = given
            && let Some(kind) = NotAnObjectError::of(given)
        {
            return Err(kind);
        }
        let Some(pinned) = &self.pinned else { return Ok(given.cloned()) };
        let given = given.filter(|given| given.as_bytes() != NULL);
        let given = given.cloned().unwrap_or_else(|| json::object([]));
        let with_pinned = || {
            let pinned = pinned.members().ok_or(EditError::NotAnObject)?;
            let pinned: Vec<_> = pinned.iter().map(|(name, value)| (&**name, value)).collect();
            self.without_pinned(&given, &pinned)?.with_last(&pinned)
        };
        // Arguments without the pinned ones must not reach the server.
        with_pinned().map(Some).map_err(|_: EditError| NotAnObjectError(UNREADABLE))
    }

    fn without_pinned(
        &self,
        given: &RawJson,
        pinned: &[(&str, &RawJson)],
    ) -> Result<RawJson, EditError> {
        let members = given.members().ok_or(EditError::NotAnObject)?;
        let names = members.iter().map(|(name, _)| &**name).filter(|name| {
            pinned.iter().any(|(pinned, _)| {
                pinned == name
                    || similar::is_similar(pinned, name)
                        && !self.server_definition.has_argument(name)
            })
        });
        given.without_members(&names.collect::<Vec<_>>())
    }

    /// Returns the schema violations in `given`, in terms of the schema that the agent sees.
    pub fn mismatches(&self, given: Option<&RawJson>) -> Vec<SchemaViolation> {
        let given = given.filter(|given| given.as_bytes() != NULL);
        let Ok(sent) = self.apply_pinned(given) else { return Vec::new() };
        let Err(mismatches) = self.server_definition.validate_arguments(sent.as_ref()) else {
            return Vec::new();
        };
        let Some(pinned) = &self.pinned else { return mismatches };
        // The server's schema decides. The exposed schema may be stricter, for example if one of
        // two alternative arguments is pinned.
        let pinned = pinned.members().unwrap_or_default();
        let pinned: Vec<_> = pinned.iter().map(|(name, value)| (&**name, value)).collect();
        let seen = given.map(|given| self.without_pinned(given, &pinned)).transpose();
        let Ok(seen) = seen else {
            return mismatches;
        };
        self.definition.validate_arguments(seen.as_ref()).err().unwrap_or(mismatches)
    }

    /// Returns the definition with the registered name, otherwise byte for byte as exposed.
    ///
    /// # Errors
    ///
    /// Returns an error if the definition can't be edited; the tool must not be listed then.
    pub fn registered_definition(&self) -> Result<&RawJson, EditError> {
        let registered = self.registered.get_or_init(|| {
            let name = RawJson::encode(&self.name.as_str());
            self.definition.raw.with_member("name", &name)
        });
        registered.as_ref().map_err(|error| *error)
    }

    /// Returns the definition with the members `toolbox` and `server` in front.
    ///
    /// # Errors
    ///
    /// Returns an error if the definition can't be edited.
    pub fn definition_with_location(&self) -> Result<RawJson, EditError> {
        let toolbox = RawJson::encode(&self.id.toolbox.as_str());
        let server = RawJson::encode(&self.id.server.as_str());
        let raw = &self.definition.raw;
        // Drop the server's own members of these names, which could be misleading.
        let bare = raw.without_members(&["toolbox", "server"])?;
        bare.with_first(&[("toolbox", &toolbox), ("server", &server)])
    }
}
