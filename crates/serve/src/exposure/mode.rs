//! The `Mode` trait: how an agent gets at tools, and which lists and instructions it sees. Each
//! mode has its own file; `modes` selects one for a client.

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::RpcOutcome;
use crate::exposure::client_profile::ClientProfile;
use crate::exposure::tool_call::{ListMutability, ResourceError, ToolCallReply, ToolCallRequest};
use crate::exposure::uri_rewrite;
use crate::gateway::{AgentHandle, Gateway, Snapshot};
use crate::json::RawJson;
use crate::name::{ServerRef, ToolId};
use crate::settings::Config;
use crate::state::{ActivePrimitives, SessionChoices};
use crate::toolbox::PrimitiveKind;

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

/// A way of offering tools to an agent. Modes are stateless: the state of an agent is in its
/// [`ListContext`], everything else in the gateway.
pub(crate) trait Mode: Sync {
    fn usage_hints(&self, _config: &Config, _surface: ListMutability) -> UsageHints {
        let call = "Their tools are in your tool list.";
        UsageHints { call, lists_toolboxes: None, usage: String::new() }
    }

    /// Returns the instructions, unless they are built from [`UsageHints`].
    fn instructions(&self, _config: &Config) -> Option<String> {
        None
    }

    /// Returns the end of the error for an unknown tool: how to find the tools.
    fn unknown_tool_hint(&self) -> &'static str;

    fn own_tools(&self, ctx: ListContext<'_>) -> Vec<RawJson>;

    /// Returns the listed tools of servers, which include those with a user interface.
    fn server_tools(&self, ctx: ListContext<'_>) -> Vec<RawJson> {
        ctx.registered_tools(|_| false)
    }

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

    fn delivery(&self) -> ToolDelivery {
        ToolDelivery::Answer
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
            PrimitiveKind::Template => at.templates(),
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

    /// `true` if calls change the tool list and the client is expected to list again.
    fn notifies_list_changes(&self, _client: &ClientProfile) -> bool {
        false
    }

    /// `true` if the configuration asks for a dynamic tool list but the client ignores list
    /// changes.
    fn is_fallback(&self, _client: &ClientProfile) -> bool {
        false
    }

    fn offers_search(&self, _config: &Config) -> bool {
        false
    }

    /// `true` if lists contain everything from the start, so all servers are started first.
    fn starts_all_servers(&self) -> bool {
        false
    }

    fn lists_server_tools(&self) -> bool {
        false
    }

    /// `true` if definitions of the gateway's own tools name servers and change with them.
    fn own_tools_name_servers(&self) -> bool {
        false
    }

    /// `true` if own tools contain stored tool lists, for clients that are shown signatures.
    fn own_tools_name_tools(&self) -> bool {
        false
    }

    fn is_transparent(&self) -> bool {
        false
    }

    /// How long listing waits for servers without a stored tool list, if at all.
    fn unlisted_timeout(&self) -> Option<Duration> {
        None
    }

    /// Starts the servers that lists depend on. Later calls return at once.
    fn ensure_started<'a>(
        &'a self,
        _exposure: &'a Exposure,
        _agent: &'a AgentHandle,
    ) -> Option<BoxFuture<'a, ()>> {
        None
    }

    /// Like `ensure_started`, but also waits for servers known only from the store, because their
    /// live instructions are needed.
    fn ensure_running<'a>(
        &'a self,
        exposure: &'a Exposure,
        agent: &'a AgentHandle,
    ) -> Option<BoxFuture<'a, ()>> {
        self.ensure_started(exposure, agent)
    }
}
