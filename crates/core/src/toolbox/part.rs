//! One server as a toolbox shows it. It changes when that server's listing does, and with nothing
//! else; so it is made once for a listing, and shared by all who see the same.

use std::sync::Arc;

use foldhash::HashMap;

use crate::catalog::{Abilities, Listing, Prompt, Resource, Template, ToolDefinition};
use crate::name::{ServerName, ServerRef, ToolId};
use crate::policy::{Moment, Policy, ShownOf, Traits};
use crate::settings::{ServerConfig, ToolboxConfig};
use crate::toolbox::ViewTool;

/// One server that has been listed, as one toolbox shows it; immutable. Everything is in the order of
/// the server's own lists.
#[derive(Debug)]
pub struct Part {
    /// Where the server stands.
    pub server_ref: ServerRef,
    /// Its tools.
    pub tools: Vec<ViewTool>,
    /// Tools that are not shown because the configuration has given their names to others: the
    /// server's own name for one, and the name that is taken.
    pub eclipsed: Vec<(String, String)>,
    /// The rest of the listing, as far as it may be seen.
    besides: Option<Besides>,
    listing: Arc<Listing>,
    /// Where each tool stands in that order.
    places: HashMap<String, usize>,
}

/// The part of a listing that is no tools.
#[derive(Debug)]
struct Besides {
    listing: Arc<Listing>,
    /// The part of it that is shown.
    shown: ShownOf,
}

impl Part {
    /// Shows what policy allows of a server's listing. `name_limit` limits the registered names, in
    /// bytes. What may be used at certain times only is shown as of `now`.
    pub fn new(
        toolbox: &ToolboxConfig,
        server: &ServerConfig,
        listing: &Arc<Listing>,
        policy: &Policy,
        name_limit: usize,
        now: Moment,
    ) -> Self {
        let server_ref = ServerRef { toolbox: toolbox.name.clone(), server: server.name.clone() };
        let is_admitted = policy.admit(&server_ref.toolbox, &server_ref.server).is_ok();
        let mut part = Self::empty(server_ref.clone(), Arc::clone(listing));
        part.besides = is_admitted.then(|| {
            let shown = policy.shown_of(&server_ref, listing);
            Besides { listing: Arc::clone(listing), shown }
        });
        let decide = Deciding::new(server_ref, server, listing, policy, now);
        for definition in &listing.tools {
            let Some((own, traits)) = decide.on(definition) else { continue };
            let over = server.tool_override(&own.tool, traits.has_namesake);
            let Some(tool) = ViewTool::overridden(own, definition, over, name_limit) else {
                continue;
            };
            part.add(ViewTool { traits, ..tool });
        }
        part.tools.shrink_to_fit();
        part
    }

    fn empty(server_ref: ServerRef, listing: Arc<Listing>) -> Self {
        let (tools, eclipsed, places) = Default::default();
        Self { server_ref, tools, eclipsed, besides: None, listing, places }
    }

    /// Adds a tool, unless another has its name.
    fn add(&mut self, tool: ViewTool) {
        if self.places.contains_key(&tool.id.tool) {
            self.eclipsed.push((tool.own.name.clone(), tool.id.tool));
            return;
        }
        self.places.insert(tool.id.tool.clone(), self.tools.len());
        self.tools.push(tool);
    }

    /// The server.
    pub fn server(&self) -> &ServerName {
        &self.server_ref.server
    }

    /// The tool called so.
    pub fn tool(&self, name: &str) -> Option<&ViewTool> {
        self.tools.get(*self.places.get(name)?)
    }

    /// Its resources.
    pub fn resources(&self) -> &[Arc<Resource>] {
        let Some(Besides { listing, shown }) = &self.besides else { return &[] };
        shown.resources.as_ref().unwrap_or(&listing.resources)
    }

    /// Its resource templates.
    pub fn templates(&self) -> &[Arc<Template>] {
        let Some(Besides { listing, shown }) = &self.besides else { return &[] };
        shown.templates.as_ref().unwrap_or(&listing.templates)
    }

    /// Its prompts.
    pub fn prompts(&self) -> &[Arc<Prompt>] {
        let Some(Besides { listing, shown }) = &self.besides else { return &[] };
        shown.prompts.as_ref().unwrap_or(&listing.prompts)
    }

    /// Its capabilities, where those may be known.
    pub fn abilities(&self) -> Option<&Abilities> {
        self.besides.as_ref().map(|besides| &besides.listing.abilities)
    }

    /// Its instructions, in its own words.
    pub fn instructions(&self) -> Option<&str> {
        let said = self.besides.as_ref()?.listing.instructions.as_deref();
        said.filter(|text| !text.trim().is_empty())
    }

    /// Everything that its server has listed, for whoever decides on it.
    pub fn listing(&self) -> &Arc<Listing> {
        &self.listing
    }

    /// Identifies the listing that it shows among all that are shown: those of one server in several
    /// toolboxes are one.
    pub fn source(&self) -> usize {
        Arc::as_ptr(&self.listing).addr()
    }

    /// Returns `true` if both show the same of the same listing.
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
impl Part {
    /// These tools, without a server that has listed them.
    pub fn of_tools(server_ref: ServerRef, tools: Vec<ViewTool>) -> Self {
        let mut part = Self::empty(server_ref, Arc::default());
        for tool in tools {
            part.add(tool);
        }
        part
    }
}

/// The policy for the tools of one server.
struct Deciding<'a> {
    server_ref: ServerRef,
    by_name: HashMap<&'a str, &'a ToolDefinition>,
    prefix: String,
    policy: &'a Policy,
    now: Moment,
}

impl<'a> Deciding<'a> {
    fn new(
        server_ref: ServerRef,
        server: &ServerConfig,
        listing: &'a Listing,
        policy: &'a Policy,
        now: Moment,
    ) -> Self {
        let tools = listing.tools.iter();
        let by_name = tools.map(|tool| (tool.name.as_str(), &**tool)).collect();
        Self { server_ref, by_name, prefix: server.client_prefix(), policy, now }
    }

    /// The tool and what there is to know of it, if it may be seen.
    fn on(&self, definition: &ToolDefinition) -> Option<(ToolId, Traits)> {
        let has_namesake = self.has_namesake(&definition.name);
        let is_destructive = self.policy.heeds_hints() && definition.is_destructive();
        let traits = Traits { has_namesake, is_destructive };
        let ServerRef { toolbox, server } = self.server_ref.clone();
        let own = ToolId { toolbox, server, tool: definition.name.clone() };
        let grant = self.policy.decide(&own, traits, || self.now);
        grant.ok().map(|_| (own, traits))
    }

    /// Returns `true` if clients call another tool by the name that they call this one. A tool that
    /// may not be seen counts as absent, for nothing that is said of others may depend on it.
    fn has_namesake(&self, tool: &str) -> bool {
        let namesake = self.by_name.get(format!("{}{tool}", self.prefix).as_str());
        namesake.is_some_and(|namesake| self.on(namesake).is_some())
    }
}
