//! `modular`: one tool returns the definitions of a group, another calls its tools.
//!
//! A group is a toolbox. Tool names, descriptions and results follow Modular MCP; the README lists
//! the differences. A category is a group of selected tools of one server under the names that the
//! user wrote, and its results have the form that users of categories know.

mod arguments;
mod definitions;
mod names;
mod results;

use std::time::Duration;

use crate::exposure::call::call_tool;
use crate::exposure::mode::{
    BoxFuture, ExposedTools, Exposure, Instructions, ListContext, Mode, ModeTraits, OwnToolsInput,
};
use crate::exposure::modular::arguments::{CallTool, GetTools};
use crate::exposure::tool_call::{CallRoute, ListMutability, ToolCallReply, ToolCallRequest};
use crate::exposure::tool_results;
use crate::exposure::truncation::names_that_fit;
use mcp_workbench_core::catalog::shorten;
use mcp_workbench_core::gateway::{FailedServer, RequestContext};
use mcp_workbench_names::ToolId;
use mcp_workbench_settings::{Config, ToolboxConfig};

use crate::exposure::modular::definitions::{instructions, tools};

pub(crate) const GET_TOOLS: &str = "get-modular-tools";
pub(crate) const CALL_TOOL: &str = "call-modular-tool";
/// Names in versions of Modular MCP with categories. Understood, but not listed.
pub(crate) const GET_CATEGORY: &str = "get-category-tools";
pub(crate) const CALL_CATEGORY: &str = "call-category-tool";
/// How long the first tool list waits, to find servers that fail. Most failures are immediate, and
/// a group can be listed before it is ready.
const UNLISTED_TIMEOUT: Duration = Duration::from_secs(2);

const MAX_SUGGESTIONS: usize = 5;
/// Bytes of group names that an error lists.
const MAX_NAMES: usize = 600;
/// Characters of an unknown name that an error repeats.
const MAX_NAME: usize = 200;

pub(crate) struct Modular;

impl Mode for Modular {
    fn traits(&self) -> &ModeTraits {
        const TRAITS: ModeTraits = ModeTraits {
            own_tools_depend_on: OwnToolsInput::ServerHealth,
            unlisted_timeout: Some(UNLISTED_TIMEOUT),
            ..ModeTraits::new("get-modular-tools shows all tools of a group.")
        };
        &TRAITS
    }

    fn instructions(&self, config: &Config, _: ListMutability) -> Instructions {
        Instructions::Own(instructions(config))
    }

    fn tools(&self, ctx: ListContext<'_>) -> ExposedTools {
        ExposedTools::of_mode(tools(ctx.exposure.gateway()), ctx)
    }

    fn call<'a>(
        &'a self,
        exposure: &'a Exposure,
        request: ToolCallRequest<'a>,
    ) -> Option<BoxFuture<'a, ToolCallReply>> {
        match request.name {
            GET_TOOLS | GET_CATEGORY => Some(Box::pin(get_modular_tools(exposure, request))),
            CALL_TOOL | CALL_CATEGORY => Some(Box::pin(call_modular_tool(exposure, request))),
            _ => None,
        }
    }
}

async fn get_modular_tools(exposure: &Exposure, request: ToolCallRequest<'_>) -> ToolCallReply {
    let config = exposure.gateway().config();
    let wanted = match GetTools::parse(request.arguments) {
        Ok(wanted) => wanted,
        Err(problem) => {
            return ToolCallReply::from_outcome(tool_results::error_result(&problem));
        }
    };
    let toolbox = match group(config, &wanted.group) {
        Ok(toolbox) => toolbox,
        Err(problem) => {
            return ToolCallReply::from_outcome(tool_results::error_result(&problem));
        }
    };
    exposure.gateway().views().wait_for_stored_listings().await;
    // Stored tool lists are enough here; changes are announced once the servers run.
    let failed = if exposure.gateway().views().is_fully_listed(toolbox) {
        Vec::new()
    } else {
        exposure.gateway().startup().open_toolbox(toolbox, request.context).await.failed
    };
    if have_all_failed(toolbox, &failed) {
        return ToolCallReply::from_outcome(tool_results::error_result(&unavailable(
            toolbox, &failed,
        )));
    }
    let view = exposure.gateway().snapshot().view(&toolbox.name);
    let telling = results::ResultOptions {
        max: exposure.listing_bytes(),
        is_modern: request.context.is_modern,
        shows_apps: exposure.shows_apps(),
    };
    match results::tools(toolbox, &view, &failed, wanted.names.as_deref(), telling) {
        Ok(outcome) => {
            let opened = Some(toolbox.name.clone());
            ToolCallReply { opened, ..ToolCallReply::from_outcome(outcome) }
        }
        Err(problem) => ToolCallReply::from_outcome(tool_results::error_result(&problem)),
    }
}

async fn call_modular_tool(exposure: &Exposure, request: ToolCallRequest<'_>) -> ToolCallReply {
    let wanted = match CallTool::parse(request.arguments) {
        Ok(wanted) => wanted,
        Err(problem) => {
            return ToolCallReply::from_outcome(tool_results::error_result(&problem));
        }
    };
    let toolbox = match group(exposure.gateway().config(), &wanted.group) {
        Ok(toolbox) => toolbox,
        Err(problem) => return unresolved(exposure, &wanted, &problem, request.context),
    };
    match find_modular(exposure, toolbox, &wanted.name, &request).await {
        Ok(tool) => {
            let route = CallRoute::OurTool { select: None };
            call_tool(exposure, &tool, wanted.args.as_ref(), route, &request).await
        }
        Err(problem) => unresolved(exposure, &wanted, &problem, request.context),
    }
}

fn unresolved(
    exposure: &Exposure,
    wanted: &CallTool,
    problem: &str,
    context: &RequestContext<'_>,
) -> ToolCallReply {
    exposure.gateway().calls().note_unresolved(&wanted.name, wanted.args.as_ref(), None, context);
    ToolCallReply::from_outcome(tool_results::error_result(problem))
}

async fn find_modular(
    exposure: &Exposure,
    toolbox: &ToolboxConfig,
    name: &str,
    request: &ToolCallRequest<'_>,
) -> Result<ToolId, String> {
    let resolve = || {
        let view = exposure.gateway().snapshot().view(&toolbox.name);
        names::resolve(toolbox, &view, name).map(|tool| tool.id.clone())
    };
    exposure.gateway().views().wait_for_stored_listings().await;
    if let Ok(tool) = resolve() {
        return Ok(tool);
    }
    let failed = if exposure.gateway().views().is_current(toolbox) {
        Vec::new()
    } else {
        exposure.gateway().startup().open_toolbox(toolbox, request.context).await.failed
    };
    if have_all_failed(toolbox, &failed) {
        return Err(unavailable(toolbox, &failed));
    }
    resolve().map_err(|near| {
        let failed: String = failed.iter().map(failure_text).collect();
        format!("{}{failed}", no_tool(toolbox, name, &near))
    })
}

fn have_all_failed(toolbox: &ToolboxConfig, failed: &[FailedServer]) -> bool {
    !failed.is_empty() && failed.len() == toolbox.launchable_servers().count()
}

fn group<'a>(config: &'a Config, wanted: &str) -> Result<&'a ToolboxConfig, String> {
    if let Some(toolbox) = config.toolbox(wanted) {
        return Ok(toolbox);
    }
    let known = || config.toolboxes.iter().map(|toolbox| toolbox.name.as_str());
    let near = mcp_workbench_names::nearest(wanted, known(), MAX_SUGGESTIONS);
    let near = match near.as_slice() {
        [] => String::new(),
        near => format!(" Did you mean {}?", quoted(near)),
    };
    let groups = match names_that_fit(MAX_NAMES, known()) {
        (names, 0) => names,
        (names, more) => format!("{names}, and {more} more"),
    };
    let wanted = shorten(wanted, MAX_NAME);
    Err(format!("unknown group `{wanted}`.{near} Groups: {groups}."))
}

fn unavailable(toolbox: &ToolboxConfig, failed: &[FailedServer]) -> String {
    let failed: String = failed.iter().map(failure_text).collect();
    format!("the group `{}` is not available.{failed}", toolbox.name)
}

fn failure_text(FailedServer { server, reason, hint, .. }: &FailedServer) -> String {
    format!("\nserver `{server}`: {reason}\nWhat to do: {hint}.")
}

fn no_tool(toolbox: &ToolboxConfig, wanted: &str, near: &[String]) -> String {
    let near =
        if near.is_empty() { String::new() } else { format!(" Did you mean {}?", quoted(near)) };
    format!(
        "the group `{group}` has no tool `{wanted}`.{near} {GET_TOOLS} with \"group\": \"{group}\" shows \
         its tools.",
        group = toolbox.name,
        wanted = shorten(wanted, MAX_NAME),
    )
}

fn quoted(names: &[impl AsRef<str>]) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("`{}`", name.as_ref())).collect();
    names.join(", ")
}
