//! The choices of an agent in what it wants to see, as its session remembers them.

use std::collections::{BTreeSet, HashMap};

use serde::{Deserialize, Serialize};

use crate::name::ToolboxName;
use crate::toolbox::{Item, Kind};

/// The choices of an agent in what it wants to see.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Chosen {
    /// The toolboxes that it has opened.
    pub opened: BTreeSet<ToolboxName>,
    /// The primitives that it has switched on and off.
    pub active: Active,
    /// `true` once its model has been told that its client does not list tools again.
    pub is_told: bool,
}

/// The tools and resources of a session that were switched; all others are as they started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Active {
    tools: HashMap<String, bool>,
    resources: HashMap<String, bool>,
}

/// One primitive that is switched on or off.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Switch {
    /// The kind of primitive.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// `true` if it is switched on.
    pub is_on: bool,
}

impl Chosen {
    /// Switches tools and resources.
    pub fn switch(&mut self, switches: Vec<Switch>) {
        self.active.apply(switches);
    }
}

impl Active {
    /// Switches primitives.
    pub fn apply(&mut self, switches: Vec<Switch>) {
        for Switch { kind, name, is_on } in switches {
            let switched = if kind == Kind::Tool { &mut self.tools } else { &mut self.resources };
            switched.insert(name, is_on);
        }
    }

    /// Returns `true` if a primitive is active: as it was switched, else as it started.
    pub fn has(&self, item: &Item) -> bool {
        let switched = match item.kind {
            Kind::Tool => self.tools.get(&item.name),
            Kind::Resource | Kind::Template => self.resources.get(&item.name),
            Kind::Prompt => None,
        };
        switched.copied().unwrap_or(item.starts_active)
    }
}
