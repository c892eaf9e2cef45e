//! How many bytes of tool definitions a client shows its model, with the workbench and without.

use std::collections::HashSet;

use crate::exposure::{Exposure, meta_tools};
use mcp_workbench_wire::json::RawJson;

/// Bytes added to each tool name by clients that show only names: `mcp__server__tool` and a line
/// break.
const NAME_OVERHEAD: usize = 8;

/// Returns how many bytes of `tools` the client shows its model. If the client has a tool
/// search of its own, it shows only the names of the tools it hides.
pub(crate) fn shown_bytes(exposure: &Exposure, tools: &[RawJson]) -> usize {
    let shown = |tool: &RawJson| {
        if hides(exposure, tool) {
            tool.member("name").map_or(0, |name| name.len() + NAME_OVERHEAD)
        } else {
            tool.len()
        }
    };
    tools.iter().map(shown).sum()
}

/// Returns how many bytes of the known tools the client would show if it were connected to
/// their servers directly. Results of its own tool search don't count.
pub(crate) fn baseline_bytes(exposure: &Exposure) -> usize {
    let snapshot = exposure.gateway.snapshot();
    let toolboxes = exposure.gateway.config().toolboxes.iter();
    let views: Vec<_> = toolboxes.map(|toolbox| snapshot.view(&toolbox.name)).collect();
    // A server in two toolboxes would be registered once.
    let mut seen = HashSet::new();
    let mut bytes = 0;
    for tool in views.iter().flat_map(|view| view.tools()) {
        let (server, own) = (tool.id.server.as_str(), &tool.server_definition);
        if !seen.insert((server, own.name.as_str())) {
            continue;
        }
        bytes += if hides(exposure, &own.raw) {
            server.len() + own.name.len() + NAME_OVERHEAD
        } else {
            own.raw.len()
        };
    }
    bytes
}

fn hides(exposure: &Exposure, tool: &RawJson) -> bool {
    exposure.profile.hides_definitions() && !meta_tools::is_kept_loaded(tool)
}
