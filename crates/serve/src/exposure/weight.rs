//! How many bytes of definitions a client shows its model, with the workbench and without.

use std::collections::HashSet;

use crate::exposure::{Exposure, meta};
use crate::raw::Raw;

/// How many bytes stand around the names where a client shows names alone: `mcp__server__tool` and
/// the end of the line.
const AROUND: usize = 8;

impl Exposure {
    /// Returns how many bytes of a list of tools the client shows its model. One that has a search of
    /// its own shows the names of what it looks for by that.
    pub fn shown_bytes(&self, tools: &[Raw]) -> usize {
        let shown = |tool: &Raw| {
            if self.hides(tool) {
                tool.member("name").map_or(0, |name| name.len() + AROUND)
            } else {
                tool.len()
            }
        };
        tools.iter().map(shown).sum()
    }

    /// Returns how many bytes it would show of the tools that are known now if their servers were
    /// registered in it. What a search of its own then finds is not among them.
    pub fn bytes_without_us(&self) -> usize {
        let snapshot = self.gateway.snapshot();
        let toolboxes = self.gateway.config().toolboxes.iter();
        let views: Vec<_> = toolboxes.map(|toolbox| snapshot.view(&toolbox.name)).collect();
        // A server of two toolboxes would be registered once.
        let mut seen = HashSet::new();
        let mut bytes = 0;
        for tool in views.iter().flat_map(|view| view.tools()) {
            let (server, own) = (tool.id.server.as_str(), &tool.own);
            if !seen.insert((server, own.name.as_str())) {
                continue;
            }
            bytes += if self.hides(&own.raw) {
                server.len() + own.name.len() + AROUND
            } else {
                own.raw.len()
            };
        }
        bytes
    }

    fn hides(&self, tool: &Raw) -> bool {
        self.profile.has_tool_search && !meta::is_kept_loaded(tool)
    }
}
