//! `direct`: everything is there from the start, under its own name where that is unambiguous.

use crate::exposure::uris;
use crate::gateway::{Gateway, Snapshot};
use crate::name::{Place, ToolId};
use crate::raw::Raw;

/// The tools of every toolbox, in the order of the configuration.
pub(crate) fn tools(gateway: &Gateway) -> Vec<Raw> {
    let snapshot = gateway.snapshot();
    let views = gateway.config().toolboxes.iter().map(|toolbox| snapshot.view(&toolbox.name));
    let mut tools = Vec::new();
    for view in views {
        for tool in &view.tools {
            // One server in two toolboxes has its tools once.
            let own = snapshot.tools().resolve(&tool.id.tool);
            let is_first = own.is_none_or(|own| is_of(&own.place, &tool.id));
            if snapshot.tools().is_ambiguous(&tool.id.tool) {
                tools.push(uris::in_tool(&snapshot, tool, tool.registered()));
            } else if is_first {
                tools.push(uris::in_tool(&snapshot, tool, &tool.definition.raw));
            }
        }
    }
    tools
}

fn is_of(place: &Place, tool: &ToolId) -> bool {
    place.toolbox == tool.toolbox && place.server == tool.server
}

/// The tool that is called so: by its own name, or `server:tool`.
pub(crate) fn resolve(gateway: &Gateway, snapshot: &Snapshot, name: &str) -> Option<ToolId> {
    if let Some(thing) = snapshot.tools().resolve(name)
        && !snapshot.tools().is_ambiguous(name)
    {
        return Some(ToolId {
            toolbox: thing.place.toolbox.clone(),
            server: thing.place.server.clone(),
            tool: thing.name.clone(),
        });
    }
    gateway.qualified(name).into_iter().find(|id| {
        let view = snapshot.view(&id.toolbox);
        view.tool(id.server.as_str(), &id.tool).is_some()
    })
}
