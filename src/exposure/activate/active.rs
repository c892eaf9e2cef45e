//! The tools and resources that a session has switched on and off.

use std::collections::HashMap;

use crate::toolbox::{Item, Kind};

/// The tools and resources of a session that were switched; all others are as they started.
#[derive(Clone, Debug, Default)]
pub struct Active {
    tools: HashMap<String, bool>,
    resources: HashMap<String, bool>,
}

/// One thing that is switched on or off.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Switch {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) is_on: bool,
}

impl Active {
    /// Switches things.
    pub(crate) fn apply(&mut self, switches: Vec<Switch>) {
        for Switch { kind, name, is_on } in switches {
            let switched = if kind == Kind::Tool { &mut self.tools } else { &mut self.resources };
            switched.insert(name, is_on);
        }
    }

    /// Returns `true` if a thing is active: as it was switched, else as it started.
    pub(crate) fn has(&self, item: &Item) -> bool {
        let switched = match item.kind {
            Kind::Tool => self.tools.get(&item.name),
            Kind::Resource | Kind::Template => self.resources.get(&item.name),
            Kind::Prompt => None,
        };
        switched.copied().unwrap_or(item.starts_active)
    }
}
