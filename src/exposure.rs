//! Exposure: how toolboxes are presented to an agent, one file a mode.
//!
//! A mode says which instructions an agent gets, which tools it sees, and what a call of one of
//! them means. It holds no connections, no policy and no protocol: calls go to the gateway, and
//! what must be told to the agent besides the answer is part of the [`Reply`]. Addresses that two
//! servers have alike are told apart here too ([`uris`]).

mod activate;
mod answer;
mod budget;
mod call;
mod direct;
mod dynamic;
mod guidance;
mod listing;
mod meta;
mod modular;
mod navigate;
mod profile;
mod proxy;
mod request;
mod search;
mod signatures;
pub(crate) mod uris;
mod way;
mod weight;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::backend::Outcome;
use crate::gateway::{Gateway, Origin, Presence, Snapshot};
use crate::name::{Place, ToolboxName};
use crate::raw::Raw;
use crate::toolbox::{Item, Kind, TOOLMAN_ACTIVATE};

pub use crate::config::ToolMode;
pub(crate) use crate::exposure::activate::Refusal;
pub use crate::exposure::activate::{Active, Switch};
pub(crate) use crate::exposure::answer::explain;
use crate::exposure::call::CalledBy;
pub(crate) use crate::exposure::profile::is_meant;
pub use crate::exposure::profile::{Profile, Relisting};
use crate::exposure::proxy::Showing;
pub use crate::exposure::request::{Chosen, Lists, Reply, Request, Surface};
pub use crate::exposure::search::Finding;
use crate::exposure::way::Way;

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

/// The tools of a gateway as agents see them.
#[derive(Clone)]
pub struct Exposure {
    gateway: Arc<Gateway>,
    profile: Profile,
    mode: ToolMode,
}

impl Exposure {
    /// Presents a gateway in the mode of its configuration to a client of this name, of which this
    /// is known.
    pub fn new(gateway: Arc<Gateway>, client: &str, known: Profile) -> Self {
        let clients = gateway.config().clients.iter();
        // What is said of any client comes before what is said of one.
        let meant = clients.filter(|(key, _)| key.as_str() == "*" || is_meant(key, client));
        let profile = meant.fold(known, |profile, (_, by)| profile.corrected(by));
        let mode = gateway.config().mode;
        Self { gateway, profile, mode }
    }

    /// The facts that are known of the agent's program.
    pub fn profile(&self) -> Profile {
        self.profile
    }

    /// Presents it in this mode instead, which an agent has got used to.
    #[must_use]
    pub fn in_mode(self, mode: ToolMode) -> Self {
        Self { mode, ..self }
    }

    /// The gateway behind it.
    pub fn gateway(&self) -> &Arc<Gateway> {
        &self.gateway
    }

    /// Returns `true` if calls change the tool list of a session in a way that the client is to
    /// follow. A client of which that is not known is served without.
    pub fn changes_lists(&self) -> bool {
        match self.way(Surface::Changing) {
            Way::Register => true,
            Way::RegisterAndTell => self.mode == ToolMode::Dynamic,
            Way::Activate => self.surface(Surface::Changing) == Surface::Changing,
            _ => false,
        }
    }

    /// Returns `true` if the file asks for lists that change, and this client does not follow that.
    pub fn falls_back(&self) -> bool {
        matches!(self.mode, ToolMode::Dynamic | ToolMode::Activate)
            && self.profile.relisting == Relisting::Never
    }

    /// The kind of list that the agent's client can follow.
    fn surface(&self, allowed: Surface) -> Surface {
        match self.profile.relisting {
            Relisting::Never => Surface::Constant,
            Relisting::InTime | Relisting::Unknown => allowed,
        }
    }

    fn way(&self, surface: Surface) -> Way {
        Way::of(self.mode, surface, &self.profile)
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
    fn showing(&self, way: Way) -> Showing {
        // It has all that the instructions can say, or what a tool says of itself says more.
        let shown = self.profile.instructions_limit.unwrap_or_default();
        let limit = self.profile.description_limit.unwrap_or(signatures::MAX);
        Showing {
            way,
            reads_instructions: shown >= guidance::MAX_INSTRUCTIONS,
            signatures: self.profile.has_tool_search.then(|| limit.min(signatures::MAX)),
        }
    }

    /// The instructions that a model should know before its first call: every toolbox, and how to
    /// open one.
    pub fn instructions(&self, surface: Surface) -> String {
        let (way, surface) = (self.way(surface), self.surface(surface));
        match way {
            Way::Modular => return modular::instructions(self.gateway.config()),
            Way::Navigate => return navigate::instructions(self.gateway.config()),
            _ => {}
        }
        let max = self.instructions_bytes();
        let ours = guidance::instructions(self.gateway.config(), way, surface, max);
        if !self.starts_everything() {
            return ours;
        }
        // No toolbox is opened, so what its servers say of themselves is said here.
        let snapshot = self.gateway.snapshot();
        let toolboxes = self.gateway.config().toolboxes.iter();
        let views: Vec<_> = toolboxes.map(|toolbox| snapshot.view(&toolbox.name)).collect();
        guidance::with_servers(ours, views.iter().flat_map(|view| &view.instructions), max)
    }

    /// The definitions of the tools that an agent sees.
    pub fn tools(&self, surface: Surface, chosen: &Chosen) -> Vec<Raw> {
        let mut tools = self.own_tools(surface, chosen);
        let own = tools.len();
        tools.extend(self.server_tools(surface, chosen));
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

    fn own_tools(&self, surface: Surface, chosen: &Chosen) -> Vec<Raw> {
        let way = self.way(surface);
        let showing = self.showing(way);
        let (config, snapshot) = (self.gateway.config(), self.gateway.snapshot());
        match way {
            Way::Register => dynamic::own(config, showing.reads_instructions),
            Way::RegisterAndTell | Way::Tell => proxy::own(config, &snapshot, showing),
            Way::Modular => modular::tools(&self.gateway),
            Way::Search => search::tools(&self.gateway),
            Way::Navigate => navigate::tools(&self.gateway),
            Way::Direct => Vec::new(),
            Way::Activate => {
                let surface = self.surface(surface);
                activate::own(self, &snapshot, surface, &active(surface, chosen))
            }
        }
    }

    fn server_tools(&self, surface: Surface, chosen: &Chosen) -> Vec<Raw> {
        match self.way(surface) {
            Way::Register | Way::RegisterAndTell => {
                dynamic::registered(&self.gateway, &chosen.opened)
            }
            Way::Direct => direct::tools(&self.gateway),
            Way::Activate => {
                let active = active(self.surface(surface), chosen);
                activate::active_tools(&self.gateway.snapshot(), &active)
            }
            Way::Tell | Way::Modular | Way::Search | Way::Navigate => Vec::new(),
        }
    }

    /// The definitions of what else an agent sees, where that is more than the views of toolboxes.
    pub fn things(&self, kind: Kind, surface: Surface, chosen: &Chosen) -> Option<Vec<Raw>> {
        let active = active(self.surface(surface), chosen);
        let things = || activate::things(&self.gateway.snapshot(), kind, &active);
        self.is_activate().then(things)
    }

    /// All of these lists at one moment.
    pub fn lists(&self, surface: Surface, chosen: &Chosen, at: &Snapshot) -> Option<Lists> {
        if !self.is_activate() {
            return None;
        }
        let surface = self.surface(surface);
        let active = active(surface, chosen);
        let mut tools = activate::own(self, at, surface, &active);
        tools.extend(activate::active_tools(at, &active));
        let mut resources = activate::things(at, Kind::Resource, &active);
        resources.extend(activate::things(at, Kind::Template, &active));
        Some(Lists { tools, resources, prompts: activate::things(at, Kind::Prompt, &active) })
    }

    /// The servers that an address may lead to, each with its own address, where addresses are
    /// known by other names than their servers'.
    pub(crate) fn addressed(
        &self,
        uri: &str,
        surface: Surface,
        chosen: &Chosen,
    ) -> Option<Result<Vec<(Place, String)>, Refusal>> {
        let surface = self.surface(surface);
        let found = || {
            let snapshot = self.gateway.snapshot();
            activate::addressed(&snapshot, uri, surface, &active(surface, chosen))
        };
        self.is_activate().then(found)
    }

    /// The server that has a thing of this name, and its own name for it.
    pub fn find(&self, kind: Kind, name: &str) -> Option<(Place, String)> {
        let snapshot = self.gateway.snapshot();
        if self.is_activate() {
            let item = snapshot.namespaced().get(kind, name)?;
            return Some((item.at.clone(), item.own.clone()));
        }
        let names = match kind {
            Kind::Tool => snapshot.tools(),
            Kind::Resource => snapshot.uris(),
            Kind::Template => snapshot.templates(),
            Kind::Prompt => snapshot.prompts(),
        };
        names.resolve(name).map(|thing| (thing.place.clone(), thing.name.clone()))
    }

    /// The result of a server with the addresses in it as agents know them.
    pub fn with_addresses(&self, place: &Place, outcome: Outcome) -> Outcome {
        let snapshot = self.gateway.snapshot();
        let addresses = if self.is_activate() {
            uris::Addresses::Namespaced(&snapshot)
        } else {
            uris::Addresses::Unique(&snapshot)
        };
        uris::in_result(addresses, place, outcome)
    }

    /// The arguments that clients over HTTP repeat in headers when they call a tool that they see,
    /// each with the header's name and a JSON pointer.
    pub fn mirrored(&self, name: &str) -> Vec<(String, String)> {
        // What is seen in the other modes wants no such thing, and over HTTP a list is constant.
        let snapshot = self.gateway.snapshot();
        let tool = match self.mode {
            ToolMode::Direct => direct::resolve(&self.gateway, &snapshot, name),
            ToolMode::Activate => snapshot.namespaced().get(Kind::Tool, name).map(Item::tool),
            _ => None,
        };
        let view = tool.map(|tool| (snapshot.view(&tool.toolbox), tool));
        let tool = view.as_ref().and_then(|(view, id)| view.tool(id.server.as_str(), &id.tool));
        tool.map(|tool| tool.definition.mirrored()).unwrap_or_default()
    }

    /// The toolboxes whose resources and prompts an agent sees, which has opened these.
    pub fn shown(&self, surface: Surface, opened: &BTreeSet<ToolboxName>) -> Vec<ToolboxName> {
        let toolboxes = self.gateway.config().toolboxes.iter().map(|toolbox| &toolbox.name);
        let is_shown = |toolbox: &&ToolboxName| match (self.mode, surface) {
            (ToolMode::Direct | ToolMode::Activate, _) => true,
            (_, Surface::Changing) => opened.contains(*toolbox),
            // A list must not change as a side effect of a request, so there is nothing in it.
            (_, Surface::Constant) => false,
        };
        toolboxes.filter(is_shown).cloned().collect()
    }

    /// Returns `true` if the tools of those toolboxes are in the agent's list too.
    pub fn shows_tools(&self, surface: Surface) -> bool {
        !matches!(self.way(surface), Way::Tell | Way::Modular | Way::Search | Way::Navigate)
    }

    /// Returns `true` if our own tools tell of servers in their descriptions, and so change with
    /// them.
    pub fn tells_of_servers(&self) -> bool {
        self.mode == ToolMode::Modular
    }

    /// Returns `true` if our own tools tell in their descriptions of what servers listed when they
    /// last ran.
    pub fn tells_of_known_tools(&self) -> bool {
        self.profile.has_tool_search
            && matches!(self.way(Surface::Changing), Way::RegisterAndTell | Way::Tell)
    }

    /// Returns `true` if a list waits for servers that nothing is known of, which may take a while.
    pub fn tries_servers(&self) -> bool {
        self.tells_of_servers() || self.is_activate()
    }

    /// Tries the servers that nothing is known of, so that the list can tell what they have, or
    /// which cannot be had.
    pub async fn try_servers(&self, origin: Origin<'_>) {
        let patience = if self.is_activate() { activate::PATIENCE } else { modular::PATIENCE };
        self.gateway.try_unlisted(origin, patience).await;
    }

    /// Starts what has to be started before anything can be told, where everything is told of from
    /// the start; at once when that has been done.
    pub async fn start_everything(&self, agent: &Presence) {
        match self.mode {
            ToolMode::Direct => Box::pin(self.gateway.start_all(agent)).await,
            ToolMode::Activate => {
                Box::pin(self.try_servers(Origin::nobody(agent))).await;
            }
            _ => {}
        }
    }

    /// Starts everything, and waits also for the servers that are known of old, for what they say
    /// is wanted.
    pub async fn run_everything(&self, agent: &Presence) {
        if self.is_direct() {
            Box::pin(self.gateway.run_all(agent)).await;
        } else {
            self.start_everything(agent).await;
        }
    }

    /// Returns `true` if everything is told of from the start, and so has to be started first.
    pub fn starts_everything(&self) -> bool {
        matches!(self.mode, ToolMode::Direct | ToolMode::Activate)
    }

    fn is_direct(&self) -> bool {
        self.mode == ToolMode::Direct
    }

    fn is_activate(&self) -> bool {
        self.mode == ToolMode::Activate
    }
}

/// The things that are active for an agent. Where lists are constant, they are those that are
/// active from the start.
fn active(surface: Surface, chosen: &Chosen) -> Cow<'_, Active> {
    match surface {
        Surface::Changing => Cow::Borrowed(&chosen.active),
        Surface::Constant => Cow::Owned(Active::default()),
    }
}
