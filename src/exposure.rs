//! Exposure: how toolboxes are presented to an agent, one file a mode.
//!
//! A mode says which instructions an agent gets, which tools it sees, and what a call of one of
//! them means. It holds no connections, no policy and no protocol: calls go to the gateway, and
//! what must be told to the agent besides the answer is part of the [`Reply`]. Addresses that two
//! servers have alike are told apart here too ([`uris`]).

mod answer;
mod budget;
mod direct;
mod dynamic;
mod guidance;
mod listing;
mod meta;
mod modular;
mod proxy;
pub(crate) mod uris;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::backend::Outcome;
use crate::config::ToolMode;
use crate::gateway::{CallError, Gateway, Origin};
use crate::name::{ToolId, ToolboxName};
use crate::raw::Raw;

pub(crate) use crate::exposure::answer::explain;

/// What a session allows of a tool list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surface {
    /// It may change as toolboxes are opened: sessions that began with `initialize`.
    Changing,
    /// It must not change as a side effect of requests: 2026-07-28, server/tools.
    Constant,
}

/// A `tools/call` as an agent wrote it.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The name that is called.
    pub name: &'a str,
    /// Its arguments, untouched.
    pub arguments: Option<&'a Raw>,
    /// What else its parameters have, less `_meta`.
    pub rest: &'a [(String, Raw)],
    /// Where the call comes from.
    pub origin: Origin<'a>,
    /// What the agent's session allows.
    pub surface: Surface,
}

/// What an agent is answered, and what else is to be done for it.
pub struct Reply {
    /// The answer.
    pub outcome: Outcome,
    /// The toolbox that the call has opened for this agent, if it did.
    pub opened: Option<ToolboxName>,
    /// Whether the answer is worth holding back until the agent has listed its tools again.
    pub awaits_relisting: bool,
}

impl Reply {
    fn plain(outcome: Outcome) -> Self {
        Self { outcome, opened: None, awaits_relisting: false }
    }
}

/// The tools of a gateway as agents see them.
#[derive(Clone)]
pub struct Exposure {
    gateway: Arc<Gateway>,
}

impl Exposure {
    /// Presents a gateway in the mode of its configuration.
    pub fn new(gateway: Arc<Gateway>) -> Self {
        Self { gateway }
    }

    /// The gateway behind it.
    pub fn gateway(&self) -> &Arc<Gateway> {
        &self.gateway
    }

    /// Whether the mode ever changes the tool list of a session.
    pub fn changes_lists(&self) -> bool {
        self.mode(Surface::Changing) == ToolMode::Dynamic
    }

    /// What a model should know before its first call: every toolbox, and how to open one.
    pub fn instructions(&self, surface: Surface) -> String {
        let mode = self.mode(surface);
        if mode == ToolMode::Modular {
            return modular::instructions(self.gateway.config());
        }
        let ours = guidance::instructions(self.gateway.config(), mode);
        if mode != ToolMode::Direct {
            return ours;
        }
        // No toolbox is opened, so what its servers say of themselves is said here.
        let snapshot = self.gateway.snapshot();
        let toolboxes = self.gateway.config().toolboxes.iter();
        let views: Vec<_> = toolboxes.map(|toolbox| snapshot.view(&toolbox.name)).collect();
        guidance::with_servers(ours, views.iter().flat_map(|view| &view.instructions))
    }

    /// The definitions of the tools that an agent sees, which has opened these toolboxes.
    pub fn tools(&self, surface: Surface, opened: &BTreeSet<ToolboxName>) -> Vec<Raw> {
        match self.mode(surface) {
            ToolMode::Dynamic => dynamic::tools(&self.gateway, opened),
            ToolMode::Proxy | ToolMode::Auto | ToolMode::Activate => proxy::tools(&self.gateway),
            ToolMode::Modular => modular::tools(&self.gateway),
            ToolMode::Direct => direct::tools(&self.gateway),
        }
    }

    /// The arguments that clients over HTTP repeat in headers when they call a tool that they see,
    /// each with the header's name and a JSON pointer.
    pub fn mirrored(&self, name: &str) -> Vec<(String, String)> {
        // What is seen in the other modes wants no such thing, and over HTTP a list is constant.
        let snapshot = self.gateway.snapshot();
        let tool = direct::resolve(&self.gateway, &snapshot, name).filter(|_| self.is_direct());
        let view = tool.map(|tool| (snapshot.view(&tool.toolbox), tool));
        let tool = view.as_ref().and_then(|(view, id)| view.tool(id.server.as_str(), &id.tool));
        tool.map(|tool| tool.definition.mirrored()).unwrap_or_default()
    }

    /// The toolboxes whose resources and prompts an agent sees, which has opened these.
    pub fn shown(&self, surface: Surface, opened: &BTreeSet<ToolboxName>) -> Vec<ToolboxName> {
        let toolboxes = self.gateway.config().toolboxes.iter().map(|toolbox| &toolbox.name);
        let is_shown = |toolbox: &&ToolboxName| match (self.gateway.config().mode, surface) {
            (ToolMode::Direct, _) => true,
            (_, Surface::Changing) => opened.contains(*toolbox),
            // A list must not change as a side effect of a request, so there is nothing in it.
            (_, Surface::Constant) => false,
        };
        toolboxes.filter(is_shown).cloned().collect()
    }

    /// Whether the tools of those toolboxes are in the agent's list too.
    pub fn shows_tools(&self, surface: Surface) -> bool {
        !matches!(self.mode(surface), ToolMode::Proxy | ToolMode::Modular)
    }

    /// Whether what our own tools say of themselves tells of servers, and so changes with them.
    pub fn tells_of_servers(&self) -> bool {
        self.gateway.config().mode == ToolMode::Modular
    }

    /// Tries the servers that nothing is known of, so that the list can tell which cannot be had.
    pub async fn try_servers(&self, origin: Origin<'_>) {
        self.gateway.try_unlisted(origin, modular::PATIENCE).await;
    }

    /// Whether everything is shown from the start, and so has to be started first.
    pub fn is_direct(&self) -> bool {
        self.gateway.config().mode == ToolMode::Direct
    }

    /// Does what a call means. `open_toolbox`, `use_tool` and every registered name are
    /// understood in every mode, whether or not they are listed.
    pub async fn call(&self, request: Request<'_>) -> Reply {
        if self.is_direct() {
            Box::pin(self.gateway.start_all(request.origin.agent)).await;
            let snapshot = self.gateway.snapshot();
            if let Some(tool) = direct::resolve(&self.gateway, &snapshot, request.name) {
                let reply = Box::pin(self.use_tool(&tool, request.arguments, &request)).await;
                return Reply::plain(reply.outcome);
            }
        }
        if self.gateway.config().mode == ToolMode::Modular {
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
        let used = match request.name {
            meta::OPEN_TOOLBOX => return Box::pin(self.open(request)).await,
            meta::USE_TOOL => meta::UseTool::parse(request.arguments, self.gateway.config()),
            name => Ok(meta::UseTool {
                target: meta::Target::Registered(name.to_owned()),
                arguments: meta::unquoted(request.arguments),
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
                    Err(error) => return Reply::plain(answer::call_error(&error)),
                },
            },
        };
        self.use_tool(&tool, arguments.as_ref(), &request).await
    }

    async fn open(&self, request: Request<'_>) -> Reply {
        let wanted = match meta::OpenToolbox::parse(request.arguments) {
            Ok(wanted) => wanted,
            Err(problem) => return Reply::plain(answer::error(&problem)),
        };
        let toolbox = match self.gateway.toolbox(&wanted.toolbox) {
            Ok(toolbox) => toolbox,
            Err(error) => return Reply::plain(answer::call_error(&error)),
        };
        let opened = self.gateway.open(toolbox, request.origin).await;
        let max = self.gateway.config().limits.max_listing_bytes;
        let mode = self.mode(request.surface);
        let outcome = match mode {
            ToolMode::Dynamic => dynamic::opened(toolbox, &opened, max),
            _ => proxy::opened(toolbox, &opened, &wanted, max),
        };
        Reply {
            outcome,
            opened: Some(toolbox.name.clone()),
            awaits_relisting: mode == ToolMode::Dynamic,
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
        request: &Request<'_>,
    ) -> Reply {
        // In two boxes, of which either is small, a call is cheaper than in one.
        let called = Box::pin(self.gateway.call(tool, arguments, request.rest, request.origin));
        let outcome = match called.await {
            Ok(outcome) => uris::in_result(&self.gateway.snapshot(), &tool.place(), outcome),
            Err(error @ (CallError::BadArguments { .. } | CallError::Server { .. })) => {
                answer::call_error(&error)
            }
            Err(error) => return Reply::plain(answer::call_error(&error)),
        };
        Reply { outcome, opened: Some(tool.toolbox.clone()), awaits_relisting: false }
    }

    fn mode(&self, surface: Surface) -> ToolMode {
        match (self.gateway.config().mode, surface) {
            (ToolMode::Dynamic, Surface::Changing) => ToolMode::Dynamic,
            (ToolMode::Dynamic, Surface::Constant) => ToolMode::Proxy,
            (mode, _) => mode,
        }
    }
}
