//! The `Mode` trait: how an agent gets at tools, and which lists and instructions it sees. Each
//! mode has its own file; `modes` selects one for a client.

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::exposure::app_table::AppTable;
use crate::exposure::client_profile::ClientProfile;
use crate::exposure::tool_call::{ListMutability, ResourceError, ToolCallReply, ToolCallRequest};
use crate::exposure::uri_rewrite;
use mcp_workbench_core::backend::RpcOutcome;
use mcp_workbench_core::gateway::{Gateway, Snapshot};
use mcp_workbench_core::state::{ActivePrimitives, SessionChoices};
use mcp_workbench_core::toolbox::{ExposedTool, PrimitiveKind};
use mcp_workbench_names::{ServerRef, ToolId, ToolboxName};
use mcp_workbench_settings::Config;
use mcp_workbench_wire::json::RawJson;

/// The future of a mode's work. Boxed because it is usually larger than the future that awaits it.
pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

pub(crate) type ModeSelector = fn(ListMutability, &ClientProfile) -> &'static dyn Mode;

/// The tools of a gateway as agents see them.
#[derive(Clone)]
pub struct Exposure {
    pub(super) gateway: Arc<Gateway>,
    pub(super) profile: ClientProfile,
    pub(super) choose: ModeSelector,
}

#[derive(Clone, Copy)]
pub(crate) struct ListContext<'a> {
    pub(crate) exposure: &'a Exposure,
    /// `Mutable` only if the client also follows list changes.
    pub(crate) mutability: ListMutability,
    pub(crate) chosen: &'a SessionChoices,
    pub(crate) at: &'a Snapshot,
}

impl<'a> ListContext<'a> {
    pub(crate) fn config(&self) -> &'a Config {
        self.exposure.gateway().config()
    }

    /// Returns the tools with a user interface, if the client shows it.
    pub(crate) fn apps(&self) -> Option<AppTable<'a>> {
        self.exposure.shows_apps().then(|| AppTable::new(self.at))
    }

    pub(crate) fn active(&self) -> Cow<'a, ActivePrimitives> {
        let active = match self.mutability {
            ListMutability::Mutable => Cow::Borrowed(&self.chosen.active),
            ListMutability::Fixed => Cow::Owned(ActivePrimitives::default()),
        };
        let Some(apps) = self.apps() else { return active };
        let mut active = active.into_owned();
        active.apply(apps.activations());
        Cow::Owned(active)
    }

    /// Returns the tools of open toolboxes, and all tools with a user interface if the client shows
    /// it.
    pub(crate) fn registered_tools(self, is_open: impl Fn(&ToolboxName) -> bool) -> Vec<RawJson> {
        let (at, apps) = (self.at, self.apps());
        let apps = apps.as_ref();
        let mut tools = Vec::new();
        for toolbox in &self.config().toolboxes {
            let is_open = is_open(&toolbox.name);
            if !is_open && apps.is_none() {
                continue;
            }
            let view = at.view(&toolbox.name);
            let is_shown = |tool: &ExposedTool| is_open || apps.is_some_and(|all| all.lists(tool));
            // Hide names that resolve to another tool.
            let known = view.tools().filter(|tool| {
                is_shown(tool) && at.resolve_registered(tool.name.as_str()) == Some(&tool.id)
            });
            tools.extend(known.filter_map(|tool| {
                let definition = tool.registered_definition();
                definition.and_then(|raw| uri_rewrite::rewrite_tool(at, apps, tool, raw)).ok()
            }));
        }
        tools
    }
}

pub(crate) struct UsageHints {
    /// The end of the first line of the instructions: which tool to call.
    pub(crate) call: &'static str,
    /// The gateway's own tool whose `toolbox` parameter enumerates all toolboxes, if there is one.
    pub(crate) lists_toolboxes: Option<&'static str>,
    /// How to call tools of toolboxes; may be empty.
    pub(crate) usage: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToolDelivery {
    /// In the tool list.
    List,
    /// In the tool list and in the answer. `use_tool` calls tools that the model doesn't find in
    /// its list.
    Both,
    /// In the answer, to be called with `use_tool`; the tool list doesn't change.
    Answer,
}

impl ToolDelivery {
    pub(crate) fn adds_to_list(self) -> bool {
        self != Self::Answer
    }
}

/// When a mode starts servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Startup {
    /// When an agent opens their toolbox, searches or calls.
    OnDemand,
    /// Those without a stored tool list, at the first list, which doesn't wait for them.
    UnlistedInBackground,
    /// Before the first list, those without a stored tool list.
    TryUnlisted,
    /// Like `TryUnlisted`, and all once an agent asks for something that no list has.
    ListAll,
    /// All, before the first list, which waits for all of them: a stored tool list can be from
    /// another version of a server.
    RunAll,
}

/// Whether calls change the tool list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListChanges {
    None,
    /// Yes, and the client is expected to list again.
    Followed,
    /// The configuration asks for it, but the client ignores list changes.
    Unsupported,
}

/// Whether `search_tools` is in the tool list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SearchOffer {
    Never,
    IfConfigured,
    Always,
}

impl SearchOffer {
    pub(crate) fn is_made(self, config: &Config) -> bool {
        match self {
            Self::Never => false,
            Self::IfConfigured => config.search.offers_tool,
            Self::Always => true,
        }
    }
}

/// The information in the definitions of a mode's own tools, in addition to the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnToolsInput {
    Nothing,
    /// They name servers, and which of them have failed.
    ServerHealth,
    /// They contain stored tool lists, for clients that are shown signatures.
    KnownTools,
}

/// The constant properties of a mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ModeTraits {
    /// The end of the error for an unknown tool: how to find the tools.
    pub(crate) unknown_tool_hint: &'static str,
    /// How the tools of an opened toolbox reach the agent.
    pub(crate) delivery: ToolDelivery,
    pub(crate) startup: Startup,
    /// How long listing waits for servers without a stored tool list, if at all.
    pub(crate) unlisted_timeout: Option<Duration>,
    pub(crate) list_changes: ListChanges,
    pub(crate) search: SearchOffer,
    pub(crate) own_tools_depend_on: OwnToolsInput,
    /// `true` if the tools of visible toolboxes are in the tool list.
    pub(crate) lists_server_tools: bool,
    /// `true` if one server is passed through unchanged.
    pub(crate) is_transparent: bool,
    /// `false` if the model needs no instructions once all tools are listed.
    pub(crate) has_instructions: bool,
}

impl ModeTraits {
    pub(crate) const fn new(unknown_tool_hint: &'static str) -> Self {
        Self {
            unknown_tool_hint,
            delivery: ToolDelivery::Answer,
            startup: Startup::OnDemand,
            unlisted_timeout: None,
            list_changes: ListChanges::None,
            search: SearchOffer::Never,
            own_tools_depend_on: OwnToolsInput::Nothing,
            lists_server_tools: false,
            is_transparent: false,
            has_instructions: true,
        }
    }
}

/// The instructions for a model.
pub(crate) enum Instructions {
    /// The toolboxes, and how to use them.
    Hints(UsageHints),
    /// The mode's own text.
    Own(String),
}

/// A list of tools.
pub(crate) struct ExposedTools {
    /// Of the mode itself.
    pub(crate) own: Vec<RawJson>,
    pub(crate) servers: Vec<RawJson>,
}

impl ExposedTools {
    /// Returns a list without tools of servers, but for those with a user interface.
    pub(crate) fn of_mode(own: Vec<RawJson>, ctx: ListContext<'_>) -> Self {
        Self { own, servers: ctx.registered_tools(|_| false) }
    }
}

/// A way of offering tools to an agent. Modes are stateless: the state of an agent is in its
/// [`ListContext`], everything else in the gateway.
pub(crate) trait Mode: Sync {
    fn traits(&self) -> &ModeTraits;

    fn instructions(&self, _config: &Config, _mutability: ListMutability) -> Instructions {
        let call = "Their tools are in your tool list.";
        Instructions::Hints(UsageHints { call, lists_toolboxes: None, usage: String::new() })
    }

    fn tools(&self, ctx: ListContext<'_>) -> ExposedTools;

    /// Returns the listed primitives of `kind`. `None` lists all of the visible toolboxes.
    fn primitives(&self, _audience: ListContext<'_>, _kind: PrimitiveKind) -> Option<Vec<RawJson>> {
        None
    }

    /// Handles a name that is special in this mode. `None` for names that work in every mode.
    fn call<'a>(
        &'a self,
        _exposure: &'a Exposure,
        _request: ToolCallRequest<'a>,
    ) -> Option<BoxFuture<'a, ToolCallReply>> {
        None
    }

    /// Returns the tool listed as `name`, for modes whose lists have tools from the start.
    fn listed_tool(&self, _exposure: &Exposure, _at: &Snapshot, _name: &str) -> Option<ToolId> {
        None
    }

    /// Resolves an exposed name to its server and the server's own name for the primitive.
    fn resolve_primitive(
        &self,
        at: &Snapshot,
        kind: PrimitiveKind,
        name: &str,
    ) -> Option<(ServerRef, String)> {
        let names = match kind {
            PrimitiveKind::Tool => at.tools(),
            PrimitiveKind::Resource => at.uri_names(),
            PrimitiveKind::ResourceTemplate => at.templates(),
            PrimitiveKind::Prompt => at.prompts(),
        };
        names.resolve(name).map(|primitive| (primitive.server_ref.clone(), primitive.name.clone()))
    }

    /// Returns the servers that may own `uri`, each with its own URI. `None` means that agents see
    /// URIs as servers write them.
    fn resource_owners(
        &self,
        _audience: ListContext<'_>,
        _uri: &str,
    ) -> Option<Result<Vec<(ServerRef, String)>, ResourceError>> {
        None
    }

    fn rewrite_uris(&self, at: &Snapshot, server: &ServerRef, outcome: RpcOutcome) -> RpcOutcome {
        uri_rewrite::rewrite_result(uri_rewrite::UriNaming::Unique(at), server, outcome)
    }
}
