//! The lists of servers as an agent has been shown them, to tell it when they change.

use std::collections::HashMap;
use std::sync::Arc;

use crate::exposure::{Chosen, Exposure, Lists, Surface};
use crate::gateway::Snapshot;
use crate::name::ToolboxName;
use crate::raw::Raw;
use crate::toolbox::View;

/// Which lists have changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changed {
    pub(crate) tools: bool,
    pub(crate) resources: bool,
    pub(crate) prompts: bool,
}

impl Changed {
    /// The notifications that tell of it.
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

/// The views that an agent is shown, or its lists where they are more than that.
#[derive(Default)]
pub(crate) struct Shown {
    views: HashMap<ToolboxName, Arc<View>>,
    lists: Option<Lists>,
    /// The tools it was last given, where our own definitions tell of servers.
    given: Option<Vec<Raw>>,
}

impl Shown {
    /// Takes note of the tools that the agent is given: until then nothing of them can change.
    pub(crate) fn give(&mut self, exposure: &Exposure, tools: &[Raw]) {
        if exposure.tells_of_servers() {
            self.given = Some(tools.to_vec());
        }
    }

    /// Returns `true` if such tools were given.
    pub(crate) fn is_given(&self) -> bool {
        self.given.is_some()
    }

    /// Brings them up to date and says which lists that changes.
    pub(crate) fn update(
        &mut self,
        exposure: &Exposure,
        surface: Surface,
        chosen: &Chosen,
        snapshot: &Snapshot,
    ) -> Changed {
        let mut changed = Changed::default();
        if let Some(lists) = exposure.lists(surface, chosen, snapshot) {
            let last = self.lists.replace(lists);
            if let (Some(last), Some(lists)) = (last, &self.lists) {
                changed.tools = last.tools != lists.tools;
                changed.resources = last.resources != lists.resources;
                changed.prompts = last.prompts != lists.prompts;
            }
            return changed;
        }
        let shows_tools = exposure.shows_tools(surface);
        let shown = exposure.shown(surface, &chosen.opened);
        let nothing = View::default();
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
            let tools = exposure.tools(surface, chosen);
            changed.tools |= *given != tools;
            *given = tools;
        }
        changed
    }

    /// Finds out what changes when another configuration takes the place of the one that `before`
    /// presents. It may change our own tools too, and the order of all.
    pub(crate) fn replace(
        &mut self,
        before: &Exposure,
        exposure: &Exposure,
        surface: Surface,
        chosen: &mut Chosen,
    ) -> Changed {
        let tools = before.tools(surface, chosen);
        chosen.opened.retain(|toolbox| exposure.gateway().toolbox(toolbox.as_str()).is_ok());
        let snapshot = exposure.gateway().snapshot();
        let mut changed = self.update(exposure, surface, chosen, &snapshot);
        changed.tools |= tools != exposure.tools(surface, chosen);
        changed
    }
}
