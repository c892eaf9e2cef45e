//! MCP Apps (extension `io.modelcontextprotocol/ui`): tools with a user interface.
//!
//! A client that declares the extension finds the page of a tool in its tool list, so every mode
//! lists these tools, from stored listings and after policy. Its apps call tools of their own
//! server by the names that the server gave them. Other clients see no difference.

use crate::exposure::app_table::{AppTable, is_app_tool, is_app_tool_at};
use crate::exposure::mode::Exposure;
use crate::exposure::tool_results;
use mcp_workbench_core::gateway::Snapshot;
use mcp_workbench_names::{ServerRef, ToolId, UI_SCHEME};

/// Returns `true` if the client shows user interfaces, and a listed tool has one.
pub(crate) fn has_apps(exposure: &Exposure) -> bool {
    let snapshot = exposure.gateway.snapshot();
    exposure.shows_apps() && snapshot.parts().flat_map(|part| &part.tools).any(is_app_tool)
}

/// Waits for stored listings if the client shows apps. Theirs can be the first request after a
/// restart.
pub(crate) async fn wait_for_apps(exposure: &Exposure) {
    if exposure.shows_apps() {
        exposure.gateway.views().wait_for_stored_listings().await;
    }
}

/// Returns the servers that have this page of an app, each with its own URI.
pub(super) fn page_owners(
    exposure: &Exposure,
    at: &Snapshot,
    uri: &str,
) -> Vec<(ServerRef, String)> {
    if !uri.starts_with(UI_SCHEME) || !exposure.shows_apps() {
        return Vec::new();
    }
    AppTable::new(at).owners(uri)
}

/// Returns the tool that every mode lists as `name`, if its user interface is the reason.
pub(super) fn listed_app_tool(exposure: &Exposure, at: &Snapshot, name: &str) -> Option<ToolId> {
    let tool = at.resolve_registered(name).filter(|_| exposure.shows_apps())?;
    is_app_tool_at(at, tool).then(|| tool.clone())
}

/// Returns `true` if an app may be the caller: the tool has a user interface, or is called by
/// the name that its server gave it and the server has apps.
pub(super) fn may_be_call_of_app(
    exposure: &Exposure,
    at: &Snapshot,
    tool: &ToolId,
    name: &str,
) -> bool {
    let view = || at.view(&tool.toolbox);
    let has_apps = || view().tools_of(&tool.server).iter().any(is_app_tool);
    exposure.shows_apps() && (is_app_tool_at(at, tool) || tool.tool == name && has_apps())
}

/// Returns the error for the own name of tools of several servers, as an app would call it.
pub(super) fn ambiguity(exposure: &Exposure, at: &Snapshot, name: &str) -> Option<String> {
    if !exposure.shows_apps() || !at.tools().is_qualified(name) {
        return None;
    }
    let tools = at.parts().flat_map(|part| &part.tools).filter(|tool| tool.id.tool == name);
    let names: Vec<_> = tools.map(|tool| tool.name.to_string()).collect();
    let is_ambiguous = names.len() > 1;
    is_ambiguous.then(|| {
        format!(
            "several servers have a tool `{name}`, so it was not called.\nWhat to do: call one \
             of {}.",
            tool_results::offer(&names)
        )
    })
}
