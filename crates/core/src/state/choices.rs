//! Choices of an agent that its session remembers.

use std::collections::{BTreeSet, HashMap};

use serde::{Deserialize, Serialize};

use crate::toolbox::{NamespacedPrimitive, PrimitiveKind};
use mcp_workbench_names::ToolboxName;

/// Open toolboxes and active primitives of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SessionChoices {
    pub opened: BTreeSet<ToolboxName>,
    pub active: ActivePrimitives,
    /// `true` once the model knows that its client ignores tool list changes.
    pub is_told: bool,
}

/// Primitives that a session has activated or deactivated; all others have their initial state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ActivePrimitives {
    tools: HashMap<String, bool>,
    resources: HashMap<String, bool>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Activation {
    pub kind: PrimitiveKind,
    pub name: String,
    pub is_on: bool,
}

impl SessionChoices {
    pub fn switch(&mut self, switches: Vec<Activation>) {
        self.active.apply(switches);
    }
}

impl ActivePrimitives {
    pub fn apply(&mut self, switches: Vec<Activation>) {
        for Activation { kind, name, is_on } in switches {
            let switched =
                if kind == PrimitiveKind::Tool { &mut self.tools } else { &mut self.resources };
            switched.insert(name, is_on);
        }
    }

    /// Falls back to the primitive's initial state.
    pub fn has(&self, item: &NamespacedPrimitive) -> bool {
        let switched = match item.kind {
            PrimitiveKind::Tool => self.tools.get(&item.name),
            PrimitiveKind::Resource | PrimitiveKind::ResourceTemplate => {
                self.resources.get(&item.name)
            }
            PrimitiveKind::Prompt => None,
        };
        switched.copied().unwrap_or(item.starts_active)
    }
}
