//! The names that tools have in the catalog, by what a call says of them.

use crate::exposure::meta::Target;
use crate::exposure::mode::Exposure;
use crate::gateway::Snapshot;
use crate::name::ToolId;
use crate::toolbox::Kind;

/// The name in the catalog of what `use_tool` is to call, or one that is not there.
pub(super) fn name_of_target(exposure: &Exposure, target: Target<'_>) -> String {
    let tool = match target {
        Target::Registered(name) => return name.into_owned(),
        Target::Tool(tool) => tool,
        Target::Within(within) => match exposure.within(&within) {
            Ok(tool) => tool,
            // What is nowhere in there is not to be found elsewhere.
            Err(_) => return within.to_string(),
        },
    };
    let name = name_of(&exposure.gateway().snapshot(), &tool);
    name.unwrap_or_else(|| format!("{}:{}", tool.server, tool.tool))
}

/// The name here of a tool that is called by another: `server:tool`, the name it is registered under,
/// or its server's own for it.
pub(super) fn known_as(exposure: &Exposure, snapshot: &Snapshot, name: &str) -> Option<String> {
    if snapshot.namespaced().get(Kind::Tool, name).is_some() {
        return None;
    }
    let tool = exposure.resolve(name)?;
    // Its server's own name for it may begin as another namespace's do.
    let all = snapshot.namespaced();
    let config = exposure.gateway().config();
    let is_taken = tool.tool == name && all.is_of_another(config, name, &tool.server_ref());
    if is_taken { None } else { name_of(snapshot, &tool) }
}

/// The name of a tool in the catalog.
fn name_of(snapshot: &Snapshot, tool: &ToolId) -> Option<String> {
    let items = snapshot.namespaced().items.iter();
    let mut tools = items.filter(|item| item.kind == Kind::Tool);
    tools.find(|item| item.tool() == *tool).map(|item| item.name.clone())
}
