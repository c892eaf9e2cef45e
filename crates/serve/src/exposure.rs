//! Exposure: how toolboxes are presented to an agent, one file a mode.
//!
//! A mode says which instructions an agent gets, which tools it sees, and what a call of one of
//! them means. It holds no connections, no policy and no protocol: calls go to the gateway, and
//! what must be told to the agent besides the answer is part of the [`Reply`]. Addresses that two
//! servers have alike are told apart here too ([`uris`]).

mod activate;
mod alone;
mod answer;
mod auto;
mod budget;
mod call;
mod direct;
mod dynamic;
mod guidance;
mod listing;
mod meta;
mod mode;
mod modes;
mod modular;
mod navigate;
mod opening;
mod profile;
mod proxy;
mod registering;
mod request;
mod search;
mod signatures;
pub(crate) mod uris;
mod weight;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::backend::Outcome;
use crate::gateway::{Gateway, Presence, RequestContext, Snapshot};
use crate::name::{ServerRef, ToolboxName};
use crate::raw::Raw;
use crate::toolbox::{Kind, TOOLMAN_ACTIVATE};

pub use crate::exposure::alone::ServerIntroduction;
pub(crate) use crate::exposure::answer::error as tool_error;
pub use crate::exposure::answer::explain;
pub use crate::exposure::mode::Exposure;
use crate::exposure::mode::{Audience, Mode};
pub(crate) use crate::exposure::profile::is_meant;
pub use crate::exposure::profile::{Profile, Relisting};
use crate::exposure::proxy::Showing;
pub(crate) use crate::exposure::request::Refusal;
pub use crate::exposure::request::{Lists, Reply, Request, Surface};
pub use crate::exposure::search::Finding;
pub use crate::settings::ToolMode;
pub use crate::state::{Active, Chosen, Switch};

/// Returns `true` if a call of this name is answered with definitions of tools.
pub fn tells_definitions(name: &str) -> bool {
    matches!(
        name,
        meta::OPEN_TOOLBOX
            | search::SEARCH_TOOLS
            | modular::GET
            | modular::GET_CATEGORY
            | TOOLMAN_ACTIVATE
    )
}

impl Exposure {
    /// Presents a gateway in the mode of its configuration to a client of this name, of which this
    /// is known.
    pub fn new(gateway: Arc<Gateway>, client: &str, known: Profile) -> Self {
        let clients = gateway.config().clients.iter();
        // What is said of any client comes before what is said of one.
        let meant = clients.filter(|(key, _)| key.as_str() == "*" || is_meant(key, client));
        let profile = meant.fold(known, |profile, (_, by)| profile.corrected(by));
        let choose = modes::of(gateway.config().mode);
        Self { gateway, profile, choose }
    }

    /// The facts that are known of the agent's program.
    pub fn profile(&self) -> Profile {
        self.profile
    }

    /// Presents it in this mode instead, which an agent has got used to.
    #[must_use]
    pub fn in_mode(self, mode: ToolMode) -> Self {
        Self { choose: modes::of(mode), ..self }
    }

    /// The gateway behind it.
    pub fn gateway(&self) -> &Arc<Gateway> {
        &self.gateway
    }

    /// Returns `true` if calls change the tool list of a session in a way that the client is to
    /// follow. A client of which that is not known is served without.
    pub fn changes_lists(&self) -> bool {
        self.mode(Surface::Changing).changes_lists(&self.profile)
    }

    /// Returns `true` if the file asks for lists that change, and this client does not follow that.
    pub fn falls_back(&self) -> bool {
        self.mode(Surface::Changing).falls_back(&self.profile)
    }

    /// Returns `true` if nobody knows whether the client lists tools again.
    fn may_not_list_again(&self) -> bool {
        self.profile.relisting == Relisting::Unknown
    }

    /// The kind of list that the agent's client can follow.
    fn surface(&self, allowed: Surface) -> Surface {
        match self.profile.relisting {
            Relisting::Never => Surface::Constant,
            Relisting::InTime | Relisting::Unknown => allowed,
        }
    }

    fn mode(&self, surface: Surface) -> &'static dyn Mode {
        (self.choose)(surface, &self.profile)
    }

    /// Returns this agent as the one that is shown how things are at one moment.
    fn audience<'a>(
        &'a self,
        surface: Surface,
        chosen: &'a Chosen,
        at: &'a Snapshot,
    ) -> Audience<'a> {
        Audience { exposure: self, surface: self.surface(surface), chosen, at }
    }

    /// The most bytes of a list of tools in an answer.
    fn listing_bytes(&self) -> usize {
        let max = self.gateway.config().limits.max_listing_bytes;
        self.profile.answer_limit.map_or(max, |limit| limit.min(max))
    }

    /// The most bytes of the instructions.
    fn instructions_bytes(&self) -> usize {
        let limit = self.profile.instructions_limit.unwrap_or(guidance::MAX_INSTRUCTIONS);
        limit.min(guidance::MOST_INSTRUCTIONS)
    }

    /// The view of tools that the client gets before a call.
    fn showing(&self) -> Showing {
        // It has all that the instructions can say, or what a tool says of itself says more.
        let shown = self.profile.instructions_limit.unwrap_or_default();
        let limit = self.profile.description_limit.unwrap_or(signatures::MAX);
        Showing {
            reads_instructions: shown >= guidance::MAX_INSTRUCTIONS,
            signatures: self.profile.has_tool_search.then(|| limit.min(signatures::MAX)),
        }
    }

    /// The instructions that a model should know before its first call: every toolbox, and how to
    /// open one.
    pub fn instructions(&self, surface: Surface) -> String {
        let (mode, surface) = (self.mode(surface), self.surface(surface));
        let (config, max) = (self.gateway.config(), self.instructions_bytes());
        if let Some(own) = mode.instructions(config) {
            return own;
        }
        let ours = guidance::instructions(config, &mode.guide(config, surface), max);
        if !mode.starts_everything() {
            return ours;
        }
        // No toolbox is opened, so what its servers say of themselves is said here.
        let snapshot = self.gateway.snapshot();
        let toolboxes = self.gateway.config().toolboxes.iter();
        let views: Vec<_> = toolboxes.map(|toolbox| snapshot.view(&toolbox.name)).collect();
        guidance::with_servers(ours, views.iter().flat_map(|view| view.instructions()), max)
    }

    /// The definitions of the tools that an agent sees.
    pub fn tools(&self, surface: Surface, chosen: &Chosen) -> Vec<Raw> {
        let (mode, snapshot) = (self.mode(surface), self.gateway.snapshot());
        let audience = self.audience(surface, chosen, &snapshot);
        let mut tools = mode.own_tools(audience);
        let own = tools.len();
        tools.extend(mode.server_tools(audience));
        if self.gateway.config().limits.max_result_bytes.is_some() {
            // Clients check results against it, and what was cut may not have what they look for.
            for tool in &mut tools {
                if let Some(other) = tool.without_member("outputSchema") {
                    *tool = other;
                }
            }
        }
        if self.profile.has_tool_search {
            tools.iter_mut().take(own).for_each(meta::keep_loaded);
        }
        tools
    }

    /// Returns the definitions of what else an agent sees, where that is more than the views of
    /// toolboxes.
    pub fn primitives(&self, kind: Kind, surface: Surface, chosen: &Chosen) -> Option<Vec<Raw>> {
        let snapshot = self.gateway.snapshot();
        self.mode(surface).primitives(self.audience(surface, chosen, &snapshot), kind)
    }

    /// Returns all lists at one moment, where they are more than the views of toolboxes.
    pub fn lists(&self, surface: Surface, chosen: &Chosen, at: &Snapshot) -> Option<Lists> {
        let mode = self.mode(surface);
        let audience = self.audience(surface, chosen, at);
        let mut resources = mode.primitives(audience, Kind::Resource)?;
        resources.extend(mode.primitives(audience, Kind::Template)?);
        let prompts = mode.primitives(audience, Kind::Prompt)?;
        let mut tools = mode.own_tools(audience);
        tools.extend(mode.server_tools(audience));
        Some(Lists { tools, resources, prompts })
    }

    /// Returns the servers that an address may lead to, each with its own address, where addresses
    /// are known by other names than their servers'.
    pub(crate) fn addressed(
        &self,
        uri: &str,
        surface: Surface,
        chosen: &Chosen,
    ) -> Option<Result<Vec<(ServerRef, String)>, Refusal>> {
        let snapshot = self.gateway.snapshot();
        self.mode(surface).addressed(self.audience(surface, chosen, &snapshot), uri)
    }

    /// Returns the server that has a primitive of this name, and its own name for it.
    pub fn find(&self, kind: Kind, name: &str) -> Option<(ServerRef, String)> {
        self.mode(Surface::Changing).find(&self.gateway.snapshot(), kind, name)
    }

    /// Returns the result of a server with the addresses in it as agents know them.
    pub fn with_addresses(&self, server: &ServerRef, outcome: Outcome) -> Outcome {
        let snapshot = self.gateway.snapshot();
        self.mode(Surface::Changing).with_addresses(&snapshot, server, outcome)
    }

    /// Returns the arguments that clients over HTTP repeat in headers when they call a tool that
    /// they see, each with the header's name and a JSON pointer.
    pub fn mirrored(&self, name: &str) -> Vec<(String, String)> {
        // Tools that are listed later want no such thing, for over HTTP a list is constant.
        let snapshot = self.gateway.snapshot();
        let tool = self.mode(Surface::Constant).listed(self, &snapshot, name);
        let view = tool.map(|tool| (snapshot.view(&tool.toolbox), tool));
        let tool = view.as_ref().and_then(|(view, id)| view.tool(id.server.as_str(), &id.tool));
        tool.map(|tool| tool.definition.mirrored()).unwrap_or_default()
    }

    /// Returns the toolboxes whose resources and prompts an agent sees, which has opened these.
    pub fn shown(&self, surface: Surface, opened: &BTreeSet<ToolboxName>) -> Vec<ToolboxName> {
        let toolboxes = self.gateway.config().toolboxes.iter().map(|toolbox| &toolbox.name);
        let is_shown = |toolbox: &&ToolboxName| match surface {
            _ if self.starts_everything() => true,
            Surface::Changing => opened.contains(*toolbox),
            // A list must not change as a side effect of a request, so there is nothing in it.
            Surface::Constant => false,
        };
        toolboxes.filter(is_shown).cloned().collect()
    }

    /// Returns `true` if the tools of those toolboxes are in the agent's list too.
    pub fn shows_tools(&self, surface: Surface) -> bool {
        self.mode(surface).lists_tools()
    }

    /// Returns `true` if our own tools tell of servers in their descriptions, and so change with
    /// them.
    pub fn tells_of_servers(&self) -> bool {
        self.mode(Surface::Changing).tells_of_servers()
    }

    /// Returns `true` if our own tools tell in their descriptions of what servers listed when they
    /// last ran.
    pub fn tells_of_known_tools(&self) -> bool {
        self.profile.has_tool_search && self.mode(Surface::Changing).tells_of_known_tools()
    }

    /// Returns `true` if a list waits for servers that nothing is known of, which may take a while.
    pub fn tries_servers(&self) -> bool {
        self.mode(Surface::Changing).patience().is_some()
    }

    /// Tries the servers that nothing is known of, so that the list can tell what they have, or
    /// which cannot be had.
    pub async fn try_servers(&self, context: &RequestContext<'_>) {
        if let Some(patience) = self.mode(Surface::Changing).patience() {
            self.gateway.try_unlisted(context, patience).await;
        }
    }

    /// Starts what has to be started before anything can be told, where everything is told of from
    /// the start; at once when that has been done.
    pub async fn start_everything(&self, agent: &Presence) {
        if let Some(starting) = self.mode(Surface::Changing).start(self, agent) {
            starting.await;
        }
    }

    /// Starts everything, and waits also for the servers that are known of old, for what they say
    /// is wanted.
    pub async fn run_everything(&self, agent: &Presence) {
        if let Some(starting) = self.mode(Surface::Changing).run(self, agent) {
            starting.await;
        }
    }

    /// Returns `true` if one server is served as if there were nothing between it and the agent.
    pub fn stands_for_server(&self) -> bool {
        self.mode(Surface::Changing).stands_for_server()
    }

    /// Returns what that server says of itself when a session begins, once it runs; `None` in other
    /// modes. Why it cannot be started is an error for the agent.
    pub async fn introduction(
        &self,
        agent: &Presence,
        is_modern: bool,
    ) -> Option<Result<ServerIntroduction, String>> {
        if !self.stands_for_server() {
            return None;
        }
        Some(alone::introduction(self, agent, is_modern).await)
    }

    /// Returns `true` if everything is told of from the start, and so has to be started first.
    pub fn starts_everything(&self) -> bool {
        self.mode(Surface::Changing).starts_everything()
    }
}
