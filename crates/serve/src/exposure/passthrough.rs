//! `alone`: passes one server through, as if the agent had started it itself. Used by `expose`.
//!
//! Names and definitions are the server's own bytes, and no tools are added. `toolFilters` and
//! `overrides` of the toolbox still apply.

use std::sync::Arc;

use crate::exposure::call::call_tool;
use crate::exposure::mode::{
    BoxFuture, ExposedTools, Exposure, ListContext, Mode, ModeTraits, Startup,
};
use crate::exposure::tool_call::{CallRoute, ResourceError, ToolCallReply, ToolCallRequest};
use crate::exposure::{meta_tools, tool_results};
use mcp_workbench_core::backend::RpcOutcome;
use mcp_workbench_core::gateway::{AgentHandle, CallError, Snapshot, StartPriority};
use mcp_workbench_core::toolbox::{ExposedTool, PrimitiveKind, ServerView};
use mcp_workbench_names::{ServerRef, ToolId};
use mcp_workbench_settings::{Config, ServerConfig};
use mcp_workbench_wire::json::{self, RawJson};

pub(crate) struct Passthrough;

/// Information about the server for the response to `initialize` or `server/discover`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitializeInfo {
    /// The server's own JSON, limited to members of the agent's protocol revision.
    pub capabilities: RawJson,
    /// `true` if the server only supports the older revisions.
    pub is_legacy: bool,
    pub instructions: Option<String>,
}

impl Mode for Passthrough {
    fn traits(&self) -> &ModeTraits {
        const TRAITS: ModeTraits = ModeTraits {
            startup: Startup::RunAll,
            lists_server_tools: true,
            is_transparent: true,
            ..ModeTraits::new("The tool list shows all tools.")
        };
        &TRAITS
    }

    fn tools(&self, ctx: ListContext<'_>) -> ExposedTools {
        let part = only(ctx.config()).zip(part(ctx.config(), ctx.at));
        let tools = part.map(|((_, server), part)| {
            part.tools.iter().map(|tool| exposed_definition(server, tool).1.clone()).collect()
        });
        ExposedTools { own: Vec::new(), servers: tools.unwrap_or_default() }
    }

    fn primitives(&self, ctx: ListContext<'_>, kind: PrimitiveKind) -> Option<Vec<RawJson>> {
        let Some(part) = part(ctx.config(), ctx.at) else { return Some(Vec::new()) };
        Some(match kind {
            PrimitiveKind::Tool => self.tools(ctx).servers,
            PrimitiveKind::Resource => part.resources().iter().map(|one| one.raw.clone()).collect(),
            PrimitiveKind::ResourceTemplate => {
                part.templates().iter().map(|one| one.raw.clone()).collect()
            }
            PrimitiveKind::Prompt => part.prompts().iter().map(|one| one.raw.clone()).collect(),
        })
    }

    fn call<'a>(
        &'a self,
        exposure: &'a Exposure,
        request: ToolCallRequest<'a>,
    ) -> Option<BoxFuture<'a, ToolCallReply>> {
        let tool = self.listed_tool(exposure, &exposure.gateway().snapshot(), request.name);
        Some(Box::pin(async move {
            let arguments = meta_tools::object_of(request.arguments);
            let Some(tool) = tool else {
                let wanted = request.name.to_owned();
                let unknown = CallError::UnknownTool { wanted, nearest: Vec::new() };
                let (gateway, name) = (exposure.gateway(), request.name);
                let (arguments, context) = (arguments.as_ref(), request.context);
                gateway.calls().note_unresolved(name, arguments, Some(&unknown), context);
                return ToolCallReply::from_outcome(tool_results::call_error(
                    &unknown,
                    self.traits().unknown_tool_hint,
                ));
            };
            let called =
                call_tool(exposure, &tool, arguments.as_ref(), CallRoute::ItsName, &request).await;
            ToolCallReply::from_outcome(called.outcome)
        }))
    }

    fn listed_tool(&self, exposure: &Exposure, at: &Snapshot, name: &str) -> Option<ToolId> {
        let config = exposure.gateway().config();
        let (_, server) = only(config)?;
        let part = part(config, at)?;
        let tool = part.tools.iter().find(|tool| exposed_definition(server, tool).0 == name)?;
        Some(tool.id.clone())
    }

    fn resolve_primitive(
        &self,
        at: &Snapshot,
        kind: PrimitiveKind,
        name: &str,
    ) -> Option<(ServerRef, String)> {
        let part = at.parts().next()?;
        let is_there = match kind {
            PrimitiveKind::Tool => {
                part.tools.iter().any(|tool| tool.server_definition.name == name)
            }
            PrimitiveKind::Resource => part.resources().iter().any(|one| one.uri == name),
            PrimitiveKind::ResourceTemplate => part.templates().iter().any(|one| one.uri == name),
            PrimitiveKind::Prompt => part.prompts().iter().any(|one| one.name == name),
        };
        is_there.then(|| (part.server_ref.clone(), name.to_owned()))
    }

    fn resource_owners(
        &self,
        ctx: ListContext<'_>,
        uri: &str,
    ) -> Option<Result<Vec<(ServerRef, String)>, ResourceError>> {
        // The server decides whether an unlisted resource exists.
        let at = only(ctx.config()).map(|(at, _)| (at, uri.to_owned()));
        Some(Ok(at.into_iter().collect()))
    }

    fn rewrite_uris(&self, _: &Snapshot, _: &ServerRef, outcome: RpcOutcome) -> RpcOutcome {
        outcome
    }
}

/// Starts the server and returns its introduction, or the error message for the agent.
pub(crate) async fn introduction(
    exposure: &Exposure,
    agent: &AgentHandle,
    is_modern: bool,
) -> Result<InitializeInfo, String> {
    let gateway = exposure.gateway();
    let config = gateway.config();
    let Some((at, _)) = only(config) else {
        return Err("no server is available to you".to_owned());
    };
    let started = gateway.startup().start(&at, agent, StartPriority::Opening).await;
    if let Err(failed) = started {
        let (server, reason, hint) = (failed.server, failed.reason, failed.hint);
        return Err(format!(
            "the server `{server}` could not be started: {reason}\nWhat to do: {hint}."
        ));
    }
    let snapshot = gateway.snapshot();
    let part = part(config, &snapshot);
    let mut abilities =
        part.as_ref().and_then(|part| part.abilities().cloned()).unwrap_or_default();
    // `tasks` belongs to the older revisions, `extensions` to the modern one.
    if is_modern {
        abilities.tasks = None;
        let usable = gateway.scope().usable_extensions(&at, &abilities);
        let usable = json::object(usable.iter().map(|(name, settings)| (&**name, settings)));
        abilities.extensions = abilities.extensions.map(|_| usable);
    } else {
        abilities.extensions = None;
    }
    let instructions = part.and_then(|part| part.instructions().map(str::to_owned));
    let is_legacy = gateway.servers().is_legacy(&at);
    Ok(InitializeInfo { capabilities: RawJson::encode(&abilities), is_legacy, instructions })
}

/// The configured server; `None` if the agent has no access to it.
fn only(config: &Config) -> Option<(ServerRef, &ServerConfig)> {
    let (toolbox, server) = config.servers().next()?;
    Some((ServerRef { toolbox: toolbox.name.clone(), server: server.name.clone() }, server))
}

/// `None` if the server has not been listed.
fn part(config: &Config, at: &Snapshot) -> Option<Arc<ServerView>> {
    let (server, _) = only(config)?;
    at.view(&server.toolbox).part(server.server.as_str()).cloned()
}

/// The tool's name and definition: the server's, unless the configuration overrides them.
fn exposed_definition<'a>(server: &ServerConfig, tool: &'a ExposedTool) -> (&'a str, &'a RawJson) {
    let is_changed =
        server.tool_override(&tool.server_definition.name, tool.traits.has_prefixed_twin).is_some();
    let definition = if is_changed { &tool.definition } else { &tool.server_definition };
    (&definition.name, &definition.raw)
}
