//! The part of a toolbox view that belongs to one server. It depends only on that server's listing
//! and the policy, so it is built once per listing and shared.

use std::sync::Arc;

use foldhash::HashMap;

use crate::catalog::{
    Listing, Prompt, Resource, ResourceTemplate, ServerCapabilities, ToolDefinition,
};
use crate::policy::{PermittedPrimitives, Policy, ToolTraits, UnixTime};
use crate::toolbox::ExposedTool;
use mcp_workbench_names::{ServerName, ServerRef, ToolId};
use mcp_workbench_settings::{ServerConfig, ToolboxConfig};

/// An immutable view of one listed server in a toolbox, in the order of the server's own lists.
#[derive(Debug)]
pub struct ServerView {
    pub server_ref: ServerRef,
    pub tools: Vec<ExposedTool>,
    /// Hidden tools: the server's own name, and the exposed name that was already taken.
    pub eclipsed: Vec<(String, String)>,
    /// `None` if policy hides the server.
    besides: Option<VisiblePrimitives>,
    listing: Arc<Listing>,
    /// Index of each tool in `tools`.
    places: HashMap<String, usize>,
}

/// Resources, templates and prompts that policy allows.
#[derive(Debug)]
struct VisiblePrimitives {
    listing: Arc<Listing>,
    primitives: PermittedPrimitives,
}

impl ServerView {
    /// Applies policy, as of `now`, to a listing. `name_limit` is the maximum length of registered
    /// names in bytes.
    pub fn new(
        toolbox: &ToolboxConfig,
        server: &ServerConfig,
        listing: &Arc<Listing>,
        policy: &Policy,
        name_limit: usize,
        now: UnixTime,
    ) -> Self {
        let server_ref = ServerRef { toolbox: toolbox.name.clone(), server: server.name.clone() };
        let is_admitted = policy.admit(&server_ref.toolbox, &server_ref.server).is_ok();
        let mut part = Self::empty(server_ref.clone(), Arc::clone(listing));
        part.besides = is_admitted.then(|| {
            let primitives = policy.permitted_primitives(&server_ref, listing);
            VisiblePrimitives { listing: Arc::clone(listing), primitives }
        });
        let decide = ToolDecider::new(server_ref, server, listing, policy, now);
        for definition in &listing.tools {
            let Some((own, traits)) = decide.decide(definition) else { continue };
            let over = server.tool_override(&own.tool, traits.has_prefixed_twin);
            let Some(tool) = ExposedTool::overridden(own, definition, over, name_limit) else {
                continue;
            };
            part.add(ExposedTool { traits, ..tool });
        }
        part.tools.shrink_to_fit();
        part
    }

    fn empty(server_ref: ServerRef, listing: Arc<Listing>) -> Self {
        let (tools, eclipsed, places) = Default::default();
        Self { server_ref, tools, eclipsed, besides: None, listing, places }
    }

    fn add(&mut self, tool: ExposedTool) {
        if self.places.contains_key(&tool.id.tool) {
            self.eclipsed.push((tool.server_definition.name.clone(), tool.id.tool));
            return;
        }
        self.places.insert(tool.id.tool.clone(), self.tools.len());
        self.tools.push(tool);
    }

    pub fn server(&self) -> &ServerName {
        &self.server_ref.server
    }

    pub fn tool(&self, name: &str) -> Option<&ExposedTool> {
        self.tools.get(*self.places.get(name)?)
    }

    pub fn resources(&self) -> &[Arc<Resource>] {
        let Some(VisiblePrimitives { listing, primitives }) = &self.besides else { return &[] };
        primitives.resources.as_ref().unwrap_or(&listing.resources)
    }

    pub fn templates(&self) -> &[Arc<ResourceTemplate>] {
        let Some(VisiblePrimitives { listing, primitives }) = &self.besides else { return &[] };
        primitives.templates.as_ref().unwrap_or(&listing.templates)
    }

    pub fn prompts(&self) -> &[Arc<Prompt>] {
        let Some(VisiblePrimitives { listing, primitives }) = &self.besides else { return &[] };
        primitives.prompts.as_ref().unwrap_or(&listing.prompts)
    }

    /// Returns the capabilities; `None` if policy hides the server.
    pub fn abilities(&self) -> Option<&ServerCapabilities> {
        self.besides.as_ref().map(|besides| &besides.listing.capabilities)
    }

    pub fn instructions(&self) -> Option<&str> {
        let said = self.besides.as_ref()?.listing.instructions.as_deref();
        said.filter(|text| !text.trim().is_empty())
    }

    /// Returns the complete listing, including everything that policy hides.
    pub fn listing(&self) -> &Arc<Listing> {
        &self.listing
    }

    /// Identifies the listing by its address. Views of a server in several toolboxes share it.
    pub fn listing_id(&self) -> usize {
        Arc::as_ptr(&self.listing).addr()
    }

    pub fn is_same(&self, other: &Self) -> bool {
        self.server_ref == other.server_ref
            && Arc::ptr_eq(&self.listing, &other.listing)
            && self.besides.is_some() == other.besides.is_some()
            && self.resources().len() == other.resources().len()
            && self.resources().iter().zip(other.resources()).all(|(a, b)| Arc::ptr_eq(a, b))
            && self.templates().len() == other.templates().len()
            && self.templates().iter().zip(other.templates()).all(|(a, b)| Arc::ptr_eq(a, b))
            && self.prompts().len() == other.prompts().len()
            && self.prompts().iter().zip(other.prompts()).all(|(a, b)| Arc::ptr_eq(a, b))
            && self.eclipsed == other.eclipsed
            && self.tools.len() == other.tools.len()
            && self.tools.iter().zip(&other.tools).all(|(a, b)| a.is_same(b))
    }
}

#[cfg(any(test, feature = "test-support"))]
impl ServerView {
    pub fn of_tools(server_ref: ServerRef, tools: Vec<ExposedTool>) -> Self {
        let mut part = Self::empty(server_ref, Arc::default());
        for tool in tools {
            part.add(tool);
        }
        part
    }
}

struct ToolDecider<'a> {
    server_ref: ServerRef,
    by_name: HashMap<&'a str, &'a ToolDefinition>,
    prefix: String,
    policy: &'a Policy,
    now: UnixTime,
}

impl<'a> ToolDecider<'a> {
    fn new(
        server_ref: ServerRef,
        server: &ServerConfig,
        listing: &'a Listing,
        policy: &'a Policy,
        now: UnixTime,
    ) -> Self {
        let tools = listing.tools.iter();
        let by_name = tools.map(|tool| (tool.name.as_str(), &**tool)).collect();
        Self { server_ref, by_name, prefix: server.client_prefix(), policy, now }
    }

    /// Returns the tool's ID and traits; `None` if policy hides it.
    fn decide(&self, definition: &ToolDefinition) -> Option<(ToolId, ToolTraits)> {
        let has_namesake = self.has_namesake(&definition.name);
        let annotations = self.policy.uses_annotations().then(|| definition.annotations());
        let annotations = annotations.unwrap_or_default();
        let traits = ToolTraits { has_prefixed_twin: has_namesake, annotations };
        let ServerRef { toolbox, server } = self.server_ref.clone();
        let own = ToolId { toolbox, server, tool: definition.name.clone() };
        let grant = self.policy.decide(&own, traits, || self.now);
        grant.ok().map(|_| (own, traits))
    }

    /// Returns `true` if another visible tool has the name that clients use for this one. A hidden
    /// tool counts as absent, so that its existence doesn't leak.
    fn has_namesake(&self, tool: &str) -> bool {
        let namesake = self.by_name.get(format!("{}{tool}", self.prefix).as_str());
        namesake.is_some_and(|namesake| self.decide(namesake).is_some())
    }
}
