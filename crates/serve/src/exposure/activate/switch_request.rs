//! Arguments of `toolman_activate`, and their resolution into switches.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use crate::exposure::meta_tools;
use mcp_workbench_core::catalog::shorten;
use mcp_workbench_core::state::Activation;
use mcp_workbench_core::toolbox::{NamespaceTable, NamespacedPrimitive, PrimitiveKind};
use mcp_workbench_wire::json::RawJson;

const MAX_SUGGESTIONS: usize = 5;
/// Maximum number of unknown names that an error repeats.
const MAX_REPEATED: usize = 10;
/// Maximum length of a repeated name or value, in characters.
const MAX_NAME: usize = 100;

const EMPTY: &str = "All lists are empty. Specify at least one tool or resource name from the \
                     catalog in tools_on, tools_off, resources_on or resources_off, for example \
                     {\"tools_on\": [\"<name>\"]}.";

const NOTHING: &str = "No changes applied.";

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SwitchRequest {
    pub(crate) tools_on: Vec<String>,
    pub(crate) tools_off: Vec<String>,
    pub(crate) resources_on: Vec<String>,
    pub(crate) resources_off: Vec<String>,
    /// A glob over the names to list.
    pub(crate) list: Option<String>,
}

impl SwitchRequest {
    /// Parses the arguments leniently: a list can be missing, `null`, a single name, or JSON in a
    /// string.
    pub(crate) fn parse(arguments: Option<&RawJson>) -> Result<Self, String> {
        let Some(arguments) = meta_tools::unwrap_json_string(arguments) else {
            return Ok(Self::default());
        };
        let Ok(mut given) = arguments.parse::<Map<String, Value>>() else {
            return Err(format!("Expected an object. {EMPTY}"));
        };
        let mut list = |key: &str| {
            names(given.remove(key).unwrap_or_default()).map_err(|found| {
                format!("`{key}` must be a list of names, but is {found}. {NOTHING}")
            })
        };
        let change = Self {
            tools_on: list("tools_on")?,
            tools_off: list("tools_off")?,
            resources_on: list("resources_on")?,
            resources_off: list("resources_off")?,
            list: list("list")?.into_iter().next(),
        };
        match given.keys().next() {
            Some(key) => Err(format!(
                "Unknown argument `{}`. {NOTHING} The arguments are tools_on, tools_off, \
                 resources_on and resources_off, each a list of names.",
                shorten(key, MAX_NAME)
            )),
            None => Ok(change),
        }
    }

    /// Returns all names, each with whether to switch it on.
    pub(crate) fn named(&self) -> impl Iterator<Item = (PrimitiveKind, bool, &str)> {
        let lists = [
            (PrimitiveKind::Tool, true, &self.tools_on),
            (PrimitiveKind::Tool, false, &self.tools_off),
            (PrimitiveKind::Resource, true, &self.resources_on),
            (PrimitiveKind::Resource, false, &self.resources_off),
        ];
        lists
            .into_iter()
            .flat_map(|(kind, is_on, list)| list.iter().map(move |n| (kind, is_on, n.as_str())))
    }

    /// Returns all switches, or an error message if any name is invalid.
    pub(crate) fn switches(&self, all: &AvailableItems<'_>) -> Result<Vec<Activation>, String> {
        let mut switches: Vec<Activation> = Vec::new();
        let mut unknown = Vec::new();
        let mut seen = HashSet::new();
        let mut meant = HashSet::new();
        for (kind, is_on, name) in self.named().filter(|named| seen.insert(*named)) {
            let found = all.get(kind, name);
            if found.is_none() && !unknown.contains(&(kind, name)) {
                unknown.push((kind, name));
            }
            // Activation is stored by catalog name, so replace aliases.
            let name = found.map_or(name, |item| &item.name).to_owned();
            let switch = Activation { kind, name, is_on };
            if meant.insert(switch.clone()) {
                switches.push(switch);
            }
        }
        if switches.is_empty() {
            return Err(EMPTY.to_owned());
        }
        if !unknown.is_empty() {
            return Err(all.none_of(&unknown));
        }
        let on: HashSet<_> =
            switches.iter().filter(|s| s.is_on).map(|s| (s.kind, &s.name)).collect();
        let mut off = switches.iter().filter(|switch| !switch.is_on);
        if let Some(both) = off.find(|switch| on.contains(&(switch.kind, &switch.name))) {
            return Err(format!(
                "Cannot both activate and deactivate '{}'. {NOTHING} Name it in only one of the \
                 lists.",
                both.name
            ));
        }
        Ok(switches)
    }
}

fn names(value: Value) -> Result<Vec<String>, String> {
    match value {
        Value::Null => Ok(Vec::new()),
        Value::String(text) => match serde_json::from_str::<Vec<String>>(&text) {
            Ok(names) => Ok(names),
            Err(_) if text.trim().is_empty() => Ok(Vec::new()),
            Err(_) => Ok(vec![text]),
        },
        Value::Array(items) => {
            let texts = items.into_iter().map(|item| match item {
                Value::String(text) => Ok(text),
                other => Err(format!("a list with {}", shorten(&other.to_string(), MAX_NAME))),
            });
            texts.collect()
        }
        other => Err(shorten(&other.to_string(), MAX_NAME)),
    }
}

/// The primitives that can be switched, without crashed servers.
pub(crate) struct AvailableItems<'a> {
    pub(crate) all: &'a NamespaceTable,
    pub(crate) is_there: &'a dyn Fn(&NamespacedPrimitive) -> bool,
}

impl<'a> AvailableItems<'a> {
    pub(crate) fn get(&self, kind: PrimitiveKind, name: &str) -> Option<&'a NamespacedPrimitive> {
        self.all.get(kind, name).filter(|item| (self.is_there)(item))
    }

    pub(crate) fn similar(&self, kind: PrimitiveKind, name: &str) -> Vec<&'a str> {
        let is_kind = |item: &NamespacedPrimitive| match kind {
            PrimitiveKind::Tool => item.kind == PrimitiveKind::Tool,
            _ => matches!(item.kind, PrimitiveKind::Resource | PrimitiveKind::ResourceTemplate),
        };
        let items = self.all.items.iter().filter(|item| is_kind(item) && (self.is_there)(item));
        mcp_workbench_names::nearest(name, items.map(|item| item.name.as_str()), MAX_SUGGESTIONS)
    }

    fn none_of(&self, unknown: &[(PrimitiveKind, &str)]) -> String {
        let (repeated, more) = unknown.split_at(unknown.len().min(MAX_REPEATED));
        let names = repeated
            .iter()
            .map(|(kind, name)| format!("{} '{}'", kind.word(), shorten(name, MAX_NAME)));
        let names = names.collect::<Vec<_>>().join(", ");
        let more = match more.len() {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        let hints = repeated.iter().filter_map(|(kind, name)| self.hint(*kind, name));
        format!(
            "Unknown names: {names}{more}. {NOTHING}{} Check the catalog in the description of \
             toolman_activate for valid names.",
            hints.collect::<String>()
        )
    }

    fn hint(&self, kind: PrimitiveKind, name: &str) -> Option<String> {
        let (other, list) = match kind {
            PrimitiveKind::Tool => (PrimitiveKind::Resource, "resources"),
            _ => (PrimitiveKind::Tool, "tools"),
        };
        if self.get(other, name).is_some() {
            let word = other.word();
            return Some(format!(" '{name}' is a {word}: use {list}_on and {list}_off for it."));
        }
        let similar = self.similar(kind, name);
        (!similar.is_empty()).then(|| format!(" Similar to '{name}': {}.", similar.join(", ")))
    }
}

pub(crate) fn problem(error: &str) -> Value {
    json!({"success": false, "result": "", "error": error})
}

#[cfg(test)]
mod tests;
