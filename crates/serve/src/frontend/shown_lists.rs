//! The lists as an agent last saw them, for change detection.

use std::collections::HashMap;
use std::sync::Arc;

use crate::exposure::{ExposedLists, Exposure, ListMutability, SessionChoices};
use mcp_workbench_core::gateway::Snapshot;
use mcp_workbench_core::toolbox::ToolboxView;
use mcp_workbench_names::ToolboxName;
use mcp_workbench_wire::json::RawJson;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ListChanges {
    pub(crate) tools: bool,
    pub(crate) resources: bool,
    pub(crate) prompts: bool,
}

impl ListChanges {
    pub(crate) fn notices(self) -> impl Iterator<Item = &'static str> {
        [
            (self.tools, "notifications/tools/list_changed"),
            (self.resources, "notifications/resources/list_changed"),
            (self.prompts, "notifications/prompts/list_changed"),
        ]
        .into_iter()
        .filter_map(|(has_changed, method)| has_changed.then_some(method))
    }
}

/// The toolbox views that an agent sees, or complete lists in modes that need them.
#[derive(Default)]
pub(crate) struct ShownLists {
    views: HashMap<ToolboxName, Arc<ToolboxView>>,
    lists: Option<ExposedLists>,
    /// The tools last given, if their definitions depend on server state.
    given: Option<Vec<RawJson>>,
}

impl ShownLists {
    /// Records the tools given. Before that, they can't change.
    pub(crate) fn give(&mut self, exposure: &Exposure, tools: &[RawJson]) {
        if exposure.own_tools_name_servers() || exposure.shows_apps() {
            self.given = Some(tools.to_vec());
        }
    }

    pub(crate) fn has_given_tools(&self) -> bool {
        self.given.is_some()
    }

    pub(crate) fn update(
        &mut self,
        exposure: &Exposure,
        mutability: ListMutability,
        chosen: &SessionChoices,
        snapshot: &Snapshot,
    ) -> ListChanges {
        let mut changed = ListChanges::default();
        if let Some(lists) = exposure.lists(mutability, chosen, snapshot) {
            let last = self.lists.replace(lists);
            if let (Some(last), Some(lists)) = (last, &self.lists) {
                changed.tools = last.tools != lists.tools;
                changed.resources = last.resources != lists.resources;
                changed.prompts = last.prompts != lists.prompts;
            }
            return changed;
        }
        let shows_tools = exposure.lists_server_tools(mutability);
        let shown = exposure.visible_toolboxes(mutability, &chosen.opened);
        let nothing = ToolboxView::default();
        self.views.retain(|toolbox, last| {
            let is_shown = shown.contains(toolbox);
            if !is_shown {
                changed.tools |= shows_tools && !last.has_the_tools_of(&nothing);
                changed.resources |= !last.has_the_resources_of(&nothing);
                changed.prompts |= !last.has_the_prompts_of(&nothing);
            }
            is_shown
        });
        for toolbox in shown {
            let view = snapshot.view(&toolbox);
            let last = self.views.get(&toolbox).cloned().unwrap_or_default();
            if !Arc::ptr_eq(&last, &view) {
                changed.tools |= shows_tools && !last.has_the_tools_of(&view);
                changed.resources |= !last.has_the_resources_of(&view);
                changed.prompts |= !last.has_the_prompts_of(&view);
                self.views.insert(toolbox, view);
            }
        }
        if let Some(given) = &mut self.given {
            let tools = exposure.tools(mutability, chosen);
            changed.tools |= *given != tools;
            *given = tools;
        }
        changed
    }

    /// Like `update`, after a new configuration replaced the one behind `before`. Detects changes
    /// of the workbench's own tools and of the order, too.
    pub(crate) fn replace(
        &mut self,
        before: &Exposure,
        exposure: &Exposure,
        mutability: ListMutability,
        chosen: &mut SessionChoices,
    ) -> ListChanges {
        let tools = before.tools(mutability, chosen);
        chosen
            .opened
            .retain(|toolbox| exposure.gateway().scope().toolbox(toolbox.as_str()).is_ok());
        let snapshot = exposure.gateway().snapshot();
        let mut changed = self.update(exposure, mutability, chosen, &snapshot);
        changed.tools |= tools != exposure.tools(mutability, chosen);
        changed
    }
}
