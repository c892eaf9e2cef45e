//! Maps the names in calls to the names in the catalog.

use crate::exposure::call::{resolve_tool, scoped_tool};
use crate::exposure::meta_tools::ToolTarget;
use crate::exposure::mode::Exposure;
use mcp_workbench_core::gateway::Snapshot;
use mcp_workbench_core::toolbox::PrimitiveKind;
use mcp_workbench_names::ToolId;

/// Returns the catalog name of a `use_tool` target; an unknown target yields a name that isn't in
/// the catalog.
pub(super) fn name_of_target(exposure: &Exposure, target: ToolTarget<'_>) -> String {
    let tool = match target {
        ToolTarget::Registered(name) => return name.into_owned(),
        ToolTarget::Qualified(tool) => tool,
        ToolTarget::Scoped(within) => match scoped_tool(exposure, &within) {
            Ok(tool) => tool,
            // Not in its scope, so don't look elsewhere.
            Err(_) => return within.to_string(),
        },
    };
    let name = name_of(&exposure.gateway().snapshot(), &tool);
    name.unwrap_or_else(|| format!("{}:{}", tool.server, tool.tool))
}

/// Returns the catalog name for an alias: `server:tool`, the registered name, or the server's own.
pub(super) fn catalog_name_for(
    exposure: &Exposure,
    snapshot: &Snapshot,
    name: &str,
) -> Option<String> {
    if snapshot.namespaced().get(PrimitiveKind::Tool, name).is_some() {
        return None;
    }
    let tool = resolve_tool(exposure, name)?;
    // The server's own name can look like one in another namespace.
    let all = snapshot.namespaced();
    let config = exposure.gateway().config();
    let is_taken = tool.tool == name && all.is_of_another(config, name, &tool.server_ref());
    if is_taken { None } else { name_of(snapshot, &tool) }
}

fn name_of(snapshot: &Snapshot, tool: &ToolId) -> Option<String> {
    let items = snapshot.namespaced().items.iter();
    let mut tools = items.filter(|item| item.kind == PrimitiveKind::Tool);
    tools.find(|item| item.tool() == *tool).map(|item| item.name.clone())
}
