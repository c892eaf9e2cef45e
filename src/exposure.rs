//! Exposure: how toolboxes are presented to an agent, one file a mode.
//!
//! A mode says which instructions an agent gets, which tools it sees, and what a call of one of
//! them means. It holds no connections, no policy and no protocol: calls go to the gateway, and
//! what must be told to the agent besides the answer is part of the [`Reply`]. Addresses that two
//! servers have alike are told apart here too ([`uris`]).

mod activate;
mod answer;
mod budget;
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
use crate::gateway::{CallError, Gateway, Origin, Presence, Snapshot};
use crate::name::{Place, ToolId, ToolboxName};
use crate::raw::Raw;
use crate::toolbox::{Item, Kind, TOOLMAN_ACTIVATE};

pub use crate::config::ToolMode;
pub(crate) use crate::exposure::activate::Refusal;
pub use crate::exposure::activate::{Active, Switch};
pub(crate) use crate::exposure::answer::explain;
pub(crate) use crate::exposure::profile::is_meant;
pub use crate::exposure::profile::{Profile, Relisting};
use crate::exposure::proxy::{Calls, Showing, Telling};
pub use crate::exposure::request::{Chosen, Lists, Reply, Request, Surface};
pub use crate::exposure::search::Finding;
use crate::exposure::way::Way;

/// Whether a call of this name is answered with definitions of tools.
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

    /// What is known of the agent's program.
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

    /// Whether calls change the tool list of a session in a way that the client is to follow. One
    /// of which nobody knows whether it does is served without.
    pub fn changes_lists(&self) -> bool {
        match self.way(Surface::Changing) {
            Way::Register => true,
            Way::RegisterAndTell => self.mode == ToolMode::Dynamic,
            Way::Activate => self.surface(Surface::Changing) == Surface::Changing,
            _ => false,
        }
    }

    /// Whether the file asks for lists that change, and this client does not follow that.
    pub fn falls_back(&self) -> bool {
        matches!(self.mode, ToolMode::Dynamic | ToolMode::Activate)
            && self.profile.relisting == Relisting::Never
    }

    /// What of its list the agent's client can follow.
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

    /// What the client is shown of tools before a call.
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

    /// What a model should know before its first call: every toolbox, and how to open one.
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

    /// What a tool has answered, as an agent is given it: with the addresses that it knows, and no
    /// more of it than it may be given at once.
    fn hand_out(&self, tool: &ToolId, outcome: Outcome, origin: Origin<'_>) -> Outcome {
        let outcome = self.with_addresses(&self.gateway.answering(tool), outcome);
        self.gateway.hand_out(&tool.tool, outcome, origin)
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

    /// Whether the tools of those toolboxes are in the agent's list too.
    pub fn shows_tools(&self, surface: Surface) -> bool {
        !matches!(self.way(surface), Way::Tell | Way::Modular | Way::Search | Way::Navigate)
    }

    /// Whether what our own tools say of themselves tells of servers, and so changes with them.
    pub fn tells_of_servers(&self) -> bool {
        self.mode == ToolMode::Modular
    }

    /// Whether what our own tools say of themselves tells of what servers listed when they last
    /// ran.
    pub fn tells_of_known_tools(&self) -> bool {
        self.profile.has_tool_search
            && matches!(self.way(Surface::Changing), Way::RegisterAndTell | Way::Tell)
    }

    /// Whether a list waits for servers that nothing is known of, which may take a while.
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

    /// The same, and waits for the servers that are known of old, for what they say is wanted.
    pub async fn run_everything(&self, agent: &Presence) {
        if self.is_direct() {
            Box::pin(self.gateway.run_all(agent)).await;
        } else {
            self.start_everything(agent).await;
        }
    }

    /// Whether everything is told of from the start, and so has to be started first.
    pub fn starts_everything(&self) -> bool {
        matches!(self.mode, ToolMode::Direct | ToolMode::Activate)
    }

    fn is_direct(&self) -> bool {
        self.mode == ToolMode::Direct
    }

    fn is_activate(&self) -> bool {
        self.mode == ToolMode::Activate
    }

    /// Does what a call means. `open_toolbox`, `use_tool` and every registered name are
    /// understood in every mode but `activate`, whether or not they are listed.
    pub async fn call(&self, request: Request<'_>) -> Reply {
        self.start_everything(request.origin.agent).await;
        let request = Request { surface: self.surface(request.surface), ..request };
        if self.is_activate() {
            return Box::pin(activate::call(self, request)).await;
        }
        if self.is_direct() {
            let snapshot = self.gateway.snapshot();
            if let Some(tool) = direct::resolve(&self.gateway, &snapshot, request.name) {
                let arguments = meta::object_of(request.arguments);
                let called =
                    Box::pin(self.use_tool(&tool, arguments.as_ref(), CalledBy::ItsName, &request));
                return Reply::plain(called.await.outcome);
            }
        }
        if self.mode == ToolMode::Modular {
            match request.name {
                modular::GET | modular::GET_CATEGORY => {
                    return Box::pin(self.get_modular_tools(request)).await;
                }
                modular::CALL | modular::CALL_CATEGORY => {
                    return Box::pin(self.call_modular_tool(request)).await;
                }
                _ => {}
            }
        }
        if self.mode == ToolMode::Navigate && request.name == navigate::EXECUTE_TASK {
            return Box::pin(self.execute_task(request)).await;
        }
        let called_by = match request.name {
            meta::USE_TOOL => CalledBy::OurTool,
            _ => CalledBy::ItsName,
        };
        let used = match request.name {
            search::SEARCH_TOOLS if self.offers_search() => {
                return Box::pin(self.search_tools(request)).await;
            }
            meta::OPEN_TOOLBOX => return Box::pin(self.open(request)).await,
            meta::USE_TOOL => meta::UseTool::parse(request.arguments, self.gateway.config()),
            name => Ok(meta::UseTool {
                target: meta::Target::Registered(name.into()),
                arguments: meta::object_of(request.arguments),
            }),
        };
        let (target, arguments) = match used {
            Ok(meta::UseTool { target, arguments }) => (target, arguments),
            Err(problem) => return Reply::plain(answer::error(&problem)),
        };
        let tool = match target {
            meta::Target::Tool(tool) => tool,
            meta::Target::Registered(name) => match self.resolve(&name) {
                Some(tool) => tool,
                // It may be a tool of a server that was never listed.
                None => match Box::pin(self.gateway.resolve(&name, request.origin)).await {
                    Ok(tool) => tool,
                    Err(error) => {
                        let (arguments, origin) = (arguments.as_ref(), request.origin);
                        self.gateway.note_unresolved(&name, arguments, Some(&error), origin);
                        return Reply::plain(self.call_error(&error));
                    }
                },
            },
        };
        self.use_tool(&tool, arguments.as_ref(), called_by, &request).await
    }

    fn call_error(&self, error: &CallError) -> Outcome {
        answer::call_error(error, self.gateway.config().mode)
    }

    async fn open(&self, request: Request<'_>) -> Reply {
        let wanted = match meta::OpenToolbox::parse(request.arguments) {
            Ok(wanted) => wanted,
            Err(problem) => return Reply::plain(answer::error(&problem)),
        };
        let toolbox = match self.gateway.toolbox(&wanted.toolbox) {
            Ok(toolbox) => toolbox,
            Err(error) => return Reply::plain(self.call_error(&error)),
        };
        let opened = self.gateway.open(toolbox, request.origin).await;
        let max = self.listing_bytes();
        let way = self.way(request.surface);
        let calls = match way {
            Way::RegisterAndTell => Calls::ByNameIfListed,
            _ if self.falls_back() => Calls::WithUseToolAlone,
            _ => Calls::WithUseTool,
        };
        let detail = if self.profile.has_tool_search {
            meta::Detail::Signatures
        } else {
            meta::Detail::Full
        };
        let outcome = match way {
            Way::Register => dynamic::opened(toolbox, &opened, max),
            _ => proxy::opened(toolbox, &opened, &wanted, Telling { detail, calls, max }),
        };
        Reply {
            outcome,
            opened: Some(toolbox.name.clone()),
            switched: Vec::new(),
            awaits_relisting: way.registers(),
        }
    }

    /// The tool that is registered under a name, or is called so by its server alone: what a
    /// server's tools say of each other, they say by their own names.
    fn resolve(&self, name: &str) -> Option<ToolId> {
        let snapshot = self.gateway.snapshot();
        let registered = snapshot.resolve(name).cloned();
        registered.or_else(|| {
            let is_one = !snapshot.tools().is_ambiguous(name);
            is_one.then(|| direct::resolve(&self.gateway, &snapshot, name)).flatten()
        })
    }

    async fn use_tool(
        &self,
        tool: &ToolId,
        arguments: Option<&Raw>,
        called_by: CalledBy,
        request: &Request<'_>,
    ) -> Reply {
        // In two boxes, of which either is small, a call is cheaper than in one.
        let called = Box::pin(self.gateway.call(tool, arguments, request.rest, request.origin));
        let outcome = match called.await {
            Ok(outcome) => {
                let outcome = match called_by {
                    CalledBy::ItsName => outcome,
                    CalledBy::OurTool => self.gateway.explained(tool, arguments, outcome),
                };
                self.hand_out(tool, outcome, request.origin)
            }
            Err(
                error @ (CallError::BadArguments { .. }
                | CallError::NotAnObject { .. }
                | CallError::Server { .. }),
            ) => self.call_error(&error),
            Err(error) => return Reply::plain(self.call_error(&error)),
        };
        Reply { opened: Some(tool.toolbox.clone()), ..Reply::plain(outcome) }
    }
}

/// How a server's tool is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CalledBy {
    /// By a name of its own: its server's answer goes back as it is.
    ItsName,
    /// Through a tool of ours, which may explain an error.
    OurTool,
}

/// What is active for an agent: where lists are constant, what is so from the start.
fn active(surface: Surface, chosen: &Chosen) -> Cow<'_, Active> {
    match surface {
        Surface::Changing => Cow::Borrowed(&chosen.active),
        Surface::Constant => Cow::Owned(Active::default()),
    }
}
