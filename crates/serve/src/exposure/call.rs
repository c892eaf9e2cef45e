//! Tool calls of agents: resolves the tool, calls it and prepares the result.

use std::sync::Arc;

use crate::exposure::meta_tools::ScopedToolName;
use crate::exposure::mode::{Exposure, ModeTraits, OwnToolsInput, ToolDelivery};
use crate::exposure::tool_call::{CallRoute, ToolCallReply, ToolCallRequest};
use crate::exposure::toolbox_mode::open_toolbox;
use crate::exposure::{apps, meta_tools, startup, tool_results};
use mcp_workbench_core::backend::RpcOutcome;
use mcp_workbench_core::gateway::{CallError, RequestContext, SelectedBy};
use mcp_workbench_names::{ServerRef, ToolId};
use mcp_workbench_wire::json::RawJson;
use mcp_workbench_wire::json::select::Selection;

/// Handles a tool call. Every mode except `activate` accepts `open_toolbox`, `use_tool` and
/// registered names, listed or not.
pub(crate) async fn call(exposure: &Exposure, request: &ToolCallRequest<'_>) -> ToolCallReply {
    startup::ensure_started(exposure, request.context.agent).await;
    apps::wait_for_apps(exposure).await;
    let mode = exposure.mode(request.lists);
    let request =
        ToolCallRequest { lists: exposure.profile.effective_mutability(request.lists), ..*request };
    if let Some(answering) = mode.call(exposure, request) {
        return answering.await;
    }
    if request.name == meta_tools::OPEN_TOOLBOX {
        return Box::pin(open_toolbox(exposure, request)).await;
    }
    let FoundCall { tool, arguments, select } = match find_called(exposure, &request).await {
        Ok(found) => found,
        Err(why) => return ToolCallReply::from_outcome(why),
    };
    let called_by = match request.name {
        meta_tools::USE_TOOL => CallRoute::OurTool { select: select.as_ref() },
        _ => CallRoute::ItsName,
    };
    call_tool(exposure, &tool, arguments.as_ref(), called_by, &request).await
}

struct FoundCall {
    tool: ToolId,
    arguments: Option<RawJson>,
    select: Option<Arc<Selection>>,
}

/// Resolves the tool and the arguments of a call, or returns the error result.
async fn find_called(
    exposure: &Exposure,
    request: &ToolCallRequest<'_>,
) -> Result<FoundCall, RpcOutcome> {
    let used = match request.name {
        meta_tools::USE_TOOL => {
            meta_tools::UseTool::parse(request.arguments, exposure.gateway.config())
        }
        name => Ok(meta_tools::UseTool {
            target: meta_tools::ToolTarget::Registered(name.into()),
            arguments: meta_tools::object_of(request.arguments),
            select: None,
        }),
    };
    let meta_tools::UseTool { target, arguments, select } =
        used.map_err(|problem| tool_results::error_result(&problem))?;
    let select = meta_tools::selection(select.as_ref());
    let select = select.map_err(|problem| tool_results::error_result(&problem))?;
    let context = request.context;
    let (name, found) = match target {
        meta_tools::ToolTarget::Qualified(tool) => {
            return Ok(FoundCall { tool, arguments, select });
        }
        meta_tools::ToolTarget::Scoped(within) => {
            let found = Box::pin(find_within(exposure, &within, context)).await;
            (within.tool, found)
        }
        meta_tools::ToolTarget::Registered(name) => {
            let found = match resolve_tool(exposure, &name) {
                Some(tool) => Ok(tool),
                // It can be a tool of a server that was never listed.
                None => Box::pin(exposure.gateway.startup().resolve(&name, context)).await,
            };
            (name.into_owned(), found)
        }
    };
    match found {
        Ok(tool) => Ok(FoundCall { tool, arguments, select }),
        Err(error) => {
            exposure.gateway.calls().note_unresolved(
                &name,
                arguments.as_ref(),
                Some(&error),
                context,
            );
            let ambiguity = apps::ambiguity(exposure, &exposure.gateway.snapshot(), &name);
            Err(ambiguity.map_or_else(
                || tool_results::call_error(&error, exposure.traits().unknown_tool_hint),
                |problem| tool_results::error_result(&problem),
            ))
        }
    }
}

/// Resolves a registered name, `server:tool`, or a server's own name if it is unique: tool
/// descriptions refer to other tools of their server by those names.
pub(super) fn resolve_tool(exposure: &Exposure, name: &str) -> Option<ToolId> {
    exposure.gateway.snapshot().resolve(name)
}

/// Resolves a name that is scoped to a toolbox or server. If necessary, opens the toolbox to
/// list servers that were never listed.
async fn find_within(
    exposure: &Exposure,
    within: &ScopedToolName,
    context: &RequestContext<'_>,
) -> Result<ToolId, CallError> {
    exposure.gateway.views().wait_for_stored_listings().await;
    let unknown = match scoped_tool(exposure, within) {
        Ok(tool) => return Ok(tool),
        Err(error) => error,
    };
    let Some(toolbox) = &within.toolbox else { return Err(unknown) };
    let toolbox = exposure.gateway.scope().toolbox(toolbox)?;
    if exposure.gateway.views().is_current(toolbox) {
        return Err(unknown);
    }
    Box::pin(exposure.gateway.startup().open_toolbox(toolbox, context)).await;
    scoped_tool(exposure, within)
}

/// Resolves a scoped name among the listed tools of that toolbox or server only.
pub(super) fn scoped_tool(
    exposure: &Exposure,
    within: &ScopedToolName,
) -> Result<ToolId, CallError> {
    let known =
        resolve_tool(exposure, &within.tool).filter(|tool| within.matches(&tool.server_ref()));
    if let Some(tool) = known {
        return Ok(tool);
    }
    let config = exposure.gateway.config();
    if let Some(toolbox) = &within.toolbox {
        exposure.gateway.scope().toolbox(toolbox)?;
    }
    let snapshot = exposure.gateway.snapshot();
    let servers = config.servers().map(|(toolbox, server)| ServerRef {
        toolbox: toolbox.name.clone(),
        server: server.name.clone(),
    });
    let servers: Vec<_> = servers.filter(|at| within.matches(at)).collect();
    let id = |at: &ServerRef| ToolId {
        toolbox: at.toolbox.clone(),
        server: at.server.clone(),
        tool: within.tool.clone(),
    };
    let has_it = |at: &&ServerRef| {
        snapshot.view(&at.toolbox).tool(at.server.as_str(), &within.tool).is_some()
    };
    let servers: Vec<&ServerRef> = servers.iter().collect();
    let having: Vec<_> = servers.iter().copied().filter(has_it).collect();
    match (having.as_slice(), servers.as_slice()) {
        // The only server can have an unlisted tool of that name; the call will tell.
        ([at], _) | ([], [at]) => Ok(id(at)),
        (several, _) => Err(CallError::UnknownTool {
            wanted: within.tool.clone(),
            nearest: several.iter().map(|at| id(at).to_string()).collect(),
        }),
    }
}

pub(super) async fn call_tool(
    exposure: &Exposure,
    tool: &ToolId,
    arguments: Option<&RawJson>,
    called_by: CallRoute<'_>,
    request: &ToolCallRequest<'_>,
) -> ToolCallReply {
    // If a client gets signatures instead of definitions, only `open_toolbox` adds definitions.
    let ModeTraits { delivery, own_tools_depend_on, .. } = exposure.mode(request.lists).traits();
    let has_signatures =
        *delivery == ToolDelivery::List && *own_tools_depend_on == OwnToolsInput::KnownTools;
    let is_by_name = matches!(called_by, CallRoute::ItsName);
    let opens = is_by_name || !has_signatures;
    // Small boxes are cheaper than one large one: the allocator has small blocks ready.
    let called = Box::pin(exposure.gateway.calls().call(
        tool,
        arguments,
        request.other_params,
        request.context,
    ));
    let outcome = match called.await {
        Ok(outcome) => outcome,
        Err(error) => {
            // Once its tool is found, the toolbox counts as opened, even if the call failed.
            let is_found = matches!(
                error,
                CallError::InvalidArguments { .. }
                    | CallError::NotAnObject { .. }
                    | CallError::Server { .. }
            );
            let opened = (opens && is_found).then(|| tool.toolbox.clone());
            return ToolCallReply {
                opened,
                ..ToolCallReply::from_outcome(tool_results::call_error(
                    &error,
                    exposure.traits().unknown_tool_hint,
                ))
            };
        }
    };
    let (outcome, select) = match called_by {
        CallRoute::ItsName => (outcome, None),
        CallRoute::OurTool { select } => {
            (exposure.gateway.views().with_argument_hints(tool, arguments, outcome), select)
        }
    };
    let outcome = prepare_result(exposure, tool, select, outcome, request.context).await;
    // What an app does must not add tools to the model's list.
    let is_of_app = is_by_name
        && apps::may_be_call_of_app(exposure, &exposure.gateway.snapshot(), tool, request.name);
    let opened = (opens && !is_of_app).then(|| tool.toolbox.clone());
    ToolCallReply { opened, ..ToolCallReply::from_outcome(outcome) }
}

/// Prepares a result for the agent: rewrites URIs, selects the fields of the call or else of the
/// configuration, and truncates long results.
pub(super) async fn prepare_result(
    exposure: &Exposure,
    tool: &ToolId,
    select: Option<&Arc<Selection>>,
    outcome: RpcOutcome,
    context: &RequestContext<'_>,
) -> RpcOutcome {
    let mut outcome = exposure.rewrite_uris(&exposure.gateway.scope().result_server(tool), outcome);
    let results = exposure.gateway.results();
    let select = match select {
        Some(select) => Some((Arc::clone(select), SelectedBy::Call)),
        None => configured_selection(exposure, tool).map(|select| (select, SelectedBy::Config)),
    };
    if let Some((select, by)) = select {
        outcome = Box::pin(results.select(&select, by, outcome, context)).await;
    }
    results.truncate(&tool.tool, &mut outcome, context).await;
    let written = exposure.gateway.config().macro_at(tool);
    let is_ours = written.is_some_and(|config| config.result.is_some());
    if is_ours && !context.is_modern {
        tool_results::structured_as_object(outcome)
    } else {
        outcome
    }
}

fn configured_selection(exposure: &Exposure, tool: &ToolId) -> Option<Arc<Selection>> {
    let view = exposure.gateway.snapshot().view(&tool.toolbox);
    view.tool(tool.server.as_str(), &tool.tool)?.selection.clone()
}
