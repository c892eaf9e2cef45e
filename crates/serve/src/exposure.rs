//! Modes: how toolboxes are presented to an agent.
//!
//! A mode defines the instructions of an agent, the tools in its list, and the effect of calling
//! them. It holds no connections, no policy and no protocol state: calls go to the gateway, and
//! side effects on the session are part of the [`ToolCallReply`]. URIs that two servers have in
//! common are made unique in `uri_rewrite`.

mod activate;
mod answer_delivery;
mod app_table;
pub(crate) mod apps;
mod auto;
mod call;
mod client_profile;
pub(crate) mod context_cost;
mod direct;
mod dynamic;
mod instructions;
mod list_delivery;
mod meta_tools;
mod mode;
mod modes;
mod modular;
mod navigate;
mod passthrough;
mod rendering;
mod search;
mod signatures;
pub mod startup;
mod tool_call;
mod tool_results;
mod toolbox_mode;
mod truncation;
pub(crate) mod uri_rewrite;

use std::collections::BTreeSet;
use std::sync::Arc;

use mcp_workbench_core::backend::RpcOutcome;
use mcp_workbench_core::gateway::{AgentHandle, Gateway, Snapshot};
use mcp_workbench_core::toolbox::{PrimitiveKind, TOOLMAN_ACTIVATE};
use mcp_workbench_names::{ServerRef, ToolboxName};
use mcp_workbench_wire::json::RawJson;

use crate::exposure::answer_delivery::ToolPresentation;
pub(crate) use crate::exposure::call::call;
pub(crate) use crate::exposure::client_profile::matches_client;
pub use crate::exposure::client_profile::{ClientProfile, RelistBehavior};
pub use crate::exposure::mode::Exposure;
use crate::exposure::mode::{
    ExposedTools, Instructions, ListChanges, ListContext, Mode, ModeTraits, OwnToolsInput, Startup,
};
pub use crate::exposure::passthrough::InitializeInfo;
pub use crate::exposure::search::SearchHit;
pub(crate) use crate::exposure::tool_call::ResourceError;
pub use crate::exposure::tool_call::{
    ExposedLists, ListMutability, ToolCallReply, ToolCallRequest,
};
pub(crate) use crate::exposure::tool_results::error_result as tool_error;
pub use crate::exposure::tool_results::error_text;
pub use mcp_workbench_core::state::{Activation, ActivePrimitives, SessionChoices};
pub use mcp_workbench_settings::ToolMode;

/// Returns `true` if the result of a call of this tool contains tool definitions.
pub fn returns_tool_definitions(name: &str) -> bool {
    matches!(
        name,
        meta_tools::OPEN_TOOLBOX
            | search::SEARCH_TOOLS
            | modular::GET_TOOLS
            | modular::GET_CATEGORY
            | TOOLMAN_ACTIVATE
    )
}

impl Exposure {
    /// Presents a gateway in its configured mode. `known` describes the client; the configuration
    /// overrides it.
    pub fn new(gateway: Arc<Gateway>, client: &str, known: ClientProfile) -> Self {
        let clients = gateway.config().clients.iter();
        // `*` sorts first, so the entry of a client overrides the general one.
        let meant = clients.filter(|(key, _)| key.as_str() == "*" || matches_client(key, client));
        let profile = meant.fold(known, |profile, (_, by)| profile.with_overrides(by));
        let choose = modes::selector_for(gateway.config().mode);
        Self { gateway, profile, choose }
    }

    pub fn profile(&self) -> ClientProfile {
        self.profile
    }

    /// Presents the gateway in another mode, such as the one an existing session started with.
    #[must_use]
    pub fn with_mode(self, mode: ToolMode) -> Self {
        Self { choose: modes::selector_for(mode), ..self }
    }

    pub fn gateway(&self) -> &Arc<Gateway> {
        &self.gateway
    }

    /// Returns `true` if calls change the tool list of a session and the client is expected to
    /// follow.
    pub fn notifies_list_changes(&self) -> bool {
        self.traits().list_changes == ListChanges::Followed
    }

    /// Returns `true` if the configured mode changes lists, but this client ignores list changes.
    pub fn is_fallback(&self) -> bool {
        self.traits().list_changes == ListChanges::Unsupported
    }

    fn mode(&self, mutability: ListMutability) -> &'static dyn Mode {
        (self.choose)(mutability, &self.profile)
    }

    /// Returns the traits of the mode for a list that can change.
    fn traits(&self) -> &'static ModeTraits {
        self.mode(ListMutability::Mutable).traits()
    }

    fn audience<'a>(
        &'a self,
        mutability: ListMutability,
        chosen: &'a SessionChoices,
        at: &'a Snapshot,
    ) -> ListContext<'a> {
        ListContext {
            exposure: self,
            mutability: self.profile.effective_mutability(mutability),
            chosen,
            at,
        }
    }

    /// Maximum size of a tool list in an answer, in bytes.
    fn listing_bytes(&self) -> usize {
        let max = self.gateway.config().limits.max_listing_bytes;
        self.profile.answer_limit.map_or(max, |limit| limit.min(max))
    }

    /// Maximum size of the instructions, in bytes.
    fn instructions_bytes(&self) -> usize {
        let limit =
            self.profile.instructions_limit.unwrap_or(instructions::DEFAULT_MAX_INSTRUCTIONS);
        // In code mode, the description of each tool repeats the instructions.
        let max = if self.profile.has_code_mode {
            instructions::PREVIEW_CHARS
        } else {
            instructions::MAX_INSTRUCTIONS
        };
        limit.min(max)
    }

    fn showing(&self) -> ToolPresentation {
        // Assume that the model sees the instructions only if the client accepts them in full.
        let shown = self.profile.instructions_limit.unwrap_or_default();
        let limit = self.profile.description_limit.unwrap_or(signatures::MAX);
        ToolPresentation {
            reads_instructions: shown >= instructions::DEFAULT_MAX_INSTRUCTIONS,
            signatures: self.profile.shows_signatures().then(|| limit.min(signatures::MAX)),
            shows_apps: self.shows_apps(),
        }
    }

    /// Returns the instructions for the model: the toolboxes, and how to open one. Empty in modes
    /// without instructions, if all tools are listed.
    pub fn instructions(&self, mutability: ListMutability) -> String {
        let (mut mode, mutability) =
            (self.mode(mutability), self.profile.effective_mutability(mutability));
        if !mode.traits().has_instructions {
            if self.gateway.views().unlisted().is_empty() {
                return String::new();
            }
            // They lead to the tools for opening toolboxes, which such a mode then lists.
            mode = &toolbox_mode::ANSWER;
        }
        let (config, max) = (self.gateway.config(), self.instructions_bytes());
        let hints = match mode.instructions(config, mutability) {
            Instructions::Own(text) => return text,
            Instructions::Hints(hints) => hints,
        };
        let render = |max| instructions::render(config, &hints, max);
        if mode.traits().startup == Startup::OnDemand {
            return render(max);
        }
        // No `open_toolbox` call delivers the servers' instructions, so append them.
        let snapshot = self.gateway.snapshot();
        let toolboxes = self.gateway.config().toolboxes.iter();
        let views: Vec<_> = toolboxes.map(|toolbox| snapshot.view(&toolbox.name)).collect();
        let servers: Vec<_> = views.iter().flat_map(|view| view.instructions()).collect();
        let ours = render(if servers.is_empty() { max } else { max / 2 });
        instructions::with_servers(ours, servers.into_iter(), max)
    }

    pub fn tools(&self, mutability: ListMutability, chosen: &SessionChoices) -> Vec<RawJson> {
        let (mode, snapshot) = (self.mode(mutability), self.gateway.snapshot());
        let ctx = self.audience(mutability, chosen, &snapshot);
        let ExposedTools { own: mut tools, servers } = mode.tools(ctx);
        let own = tools.len();
        tools.extend(servers);
        if self.gateway.config().limits.max_result_bytes.is_some() {
            // Clients validate results against it, and a truncated result can lack required
            // members.
            let bare = tools.iter().filter_map(|tool| tool.without_member("outputSchema").ok());
            tools = bare.collect();
        }
        if mutability == ListMutability::Mutable {
            tools.iter_mut().for_each(meta_tools::remove_modern_output_schema);
        }
        if self.profile.has_tool_search {
            tools.iter_mut().take(own).for_each(meta_tools::keep_loaded);
        }
        tools
    }

    /// Returns an agent's resources, templates or prompts; `None` if they come from the opened
    /// toolboxes.
    pub fn primitives(
        &self,
        kind: PrimitiveKind,
        mutability: ListMutability,
        chosen: &SessionChoices,
    ) -> Option<Vec<RawJson>> {
        let snapshot = self.gateway.snapshot();
        self.mode(mutability).primitives(self.audience(mutability, chosen, &snapshot), kind)
    }

    /// Returns all lists at one moment; `None` if they come from the opened toolboxes.
    pub fn lists(
        &self,
        mutability: ListMutability,
        chosen: &SessionChoices,
        at: &Snapshot,
    ) -> Option<ExposedLists> {
        let mode = self.mode(mutability);
        let ctx = self.audience(mutability, chosen, at);
        let mut resources = mode.primitives(ctx, PrimitiveKind::Resource)?;
        resources.extend(mode.primitives(ctx, PrimitiveKind::ResourceTemplate)?);
        let prompts = mode.primitives(ctx, PrimitiveKind::Prompt)?;
        let ExposedTools { own: mut tools, servers } = mode.tools(ctx);
        tools.extend(servers);
        Some(ExposedLists { tools, resources, prompts })
    }

    /// Returns the servers that can have this resource, each with its own URI for it; `None` in
    /// modes that don't resolve URIs themselves.
    pub(crate) fn resource_owners(
        &self,
        uri: &str,
        mutability: ListMutability,
        chosen: &SessionChoices,
    ) -> Option<Result<Vec<(ServerRef, String)>, ResourceError>> {
        let snapshot = self.gateway.snapshot();
        let pages = apps::page_owners(self, &snapshot, uri);
        if !pages.is_empty() {
            return Some(Ok(pages));
        }
        self.mode(mutability).resource_owners(self.audience(mutability, chosen, &snapshot), uri)
    }

    /// Returns the server of a primitive and the server's name for it.
    pub fn resolve_primitive(
        &self,
        kind: PrimitiveKind,
        name: &str,
    ) -> Option<(ServerRef, String)> {
        self.mode(ListMutability::Mutable).resolve_primitive(&self.gateway.snapshot(), kind, name)
    }

    /// Rewrites the URIs in a server's result to those that agents know.
    pub fn rewrite_uris(&self, server: &ServerRef, outcome: RpcOutcome) -> RpcOutcome {
        let snapshot = self.gateway.snapshot();
        self.mode(ListMutability::Mutable).rewrite_uris(&snapshot, server, outcome)
    }

    /// Returns the arguments of a tool that HTTP clients repeat in headers, each with the header's
    /// name and a JSON pointer to the argument.
    pub fn header_parameters(&self, name: &str) -> Vec<(String, String)> {
        // Fixed mode suffices: lists never change over HTTP, so no later tool can ask for headers.
        let snapshot = self.gateway.snapshot();
        let tool = self.mode(ListMutability::Fixed).listed_tool(self, &snapshot, name);
        let tool = tool.or_else(|| apps::listed_app_tool(self, &snapshot, name));
        let view = tool.map(|tool| (snapshot.view(&tool.toolbox), tool));
        let tool = view.as_ref().and_then(|(view, id)| view.tool(id.server.as_str(), &id.tool));
        tool.map(|tool| tool.definition.header_params()).unwrap_or_default()
    }

    /// Returns the toolboxes whose resources and prompts are in an agent's lists.
    pub fn visible_toolboxes(
        &self,
        mutability: ListMutability,
        opened: &BTreeSet<ToolboxName>,
    ) -> Vec<ToolboxName> {
        let toolboxes = self.gateway.config().toolboxes.iter().map(|toolbox| &toolbox.name);
        let is_shown = |toolbox: &&ToolboxName| match mutability {
            _ if self.starts_all_servers() => true,
            ListMutability::Mutable => opened.contains(*toolbox),
            // A fixed list must not change as a side effect of a request.
            ListMutability::Fixed => false,
        };
        toolboxes.filter(is_shown).cloned().collect()
    }

    /// Returns `true` if the tools of those toolboxes are also in the agent's list.
    pub fn lists_server_tools(&self, mutability: ListMutability) -> bool {
        self.mode(mutability).traits().lists_server_tools
    }

    /// Returns `true` if descriptions of the mode's own tools mention servers, so they change with
    /// them.
    pub fn own_tools_name_servers(&self) -> bool {
        self.traits().own_tools_depend_on == OwnToolsInput::ServerHealth
    }

    /// Returns `true` if descriptions of the mode's own tools mention tools from cached listings.
    pub fn own_tools_name_tools(&self) -> bool {
        self.profile.shows_signatures()
            && self.traits().own_tools_depend_on == OwnToolsInput::KnownTools
    }

    /// Returns `true` if the mode passes one server through unchanged.
    pub fn is_transparent(&self) -> bool {
        self.traits().is_transparent
    }

    /// Returns the passthrough server's own introduction once it runs; `None` in other modes. Fails
    /// with a message for the agent if the server doesn't start.
    pub async fn introduction(
        &self,
        agent: &AgentHandle,
        is_modern: bool,
    ) -> Option<Result<InitializeInfo, String>> {
        if !self.is_transparent() {
            return None;
        }
        Some(passthrough::introduction(self, agent, is_modern).await)
    }

    /// Returns `true` if tools with a user interface are in every tool list of the client.
    pub fn shows_apps(&self) -> bool {
        self.gateway.scope().shows_apps() && !self.is_transparent()
    }

    /// Returns `true` if everything is listed from the start, so all servers have to be started.
    pub fn starts_all_servers(&self) -> bool {
        self.traits().startup != Startup::OnDemand
    }
}
