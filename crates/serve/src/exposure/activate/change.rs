//! The demands of a call of `toolman_activate`, and how they are met.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use crate::catalog::shorten;
use crate::exposure::meta;
use crate::name;
use crate::raw::Raw;
use crate::state::Switch;
use crate::toolbox::{Item, Kind, Namespaced};

/// The most names that are offered for one that is not there.
const OFFERED: usize = 5;
/// The most names that an error repeats, and offers others for.
const MAX_REPEATED: usize = 10;
/// How much of a name, or of what stands in its place, an error repeats, in characters.
const MAX_NAME: usize = 100;

/// The advice when nothing was asked for.
const EMPTY: &str = "All lists are empty. Specify at least one tool or resource name from the \
                     catalog in tools_on, tools_off, resources_on or resources_off, for example \
                     {\"tools_on\": [\"<name>\"]}.";

/// The end of every error of ours.
const NOTHING: &str = "No changes applied.";

/// The demands of a call.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) tools_on: Vec<String>,
    pub(crate) tools_off: Vec<String>,
    pub(crate) resources_on: Vec<String>,
    pub(crate) resources_off: Vec<String>,
    /// A glob over the names that are to be told.
    pub(crate) list: Option<String>,
}

impl Change {
    /// Reads the arguments of a call: every list may be missing, `null`, a single name, or a list
    /// that was written as a string.
    pub(crate) fn parse(arguments: Option<&Raw>) -> Result<Self, String> {
        let Some(arguments) = meta::unquoted(arguments) else { return Ok(Self::default()) };
        let Ok(mut given) = arguments.parse::<Map<String, Value>>() else {
            return Err(format!("The arguments are no object. {EMPTY}"));
        };
        let mut list = |key: &str| {
            names(given.remove(key).unwrap_or_default()).map_err(|found| {
                format!("`{key}` is to be a list of names, but is {found}. {NOTHING}")
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
                "There is no argument `{}`. {NOTHING} The arguments are tools_on, tools_off, \
                 resources_on and resources_off, each a list of names.",
                shorten(key, MAX_NAME)
            )),
            None => Ok(change),
        }
    }

    /// Everything that is named, with whether it is to be on.
    pub(crate) fn named(&self) -> impl Iterator<Item = (Kind, bool, &str)> {
        let lists = [
            (Kind::Tool, true, &self.tools_on),
            (Kind::Tool, false, &self.tools_off),
            (Kind::Resource, true, &self.resources_on),
            (Kind::Resource, false, &self.resources_off),
        ];
        lists
            .into_iter()
            .flat_map(|(kind, is_on, list)| list.iter().map(move |n| (kind, is_on, n.as_str())))
    }

    /// The switches to be made; all of them, or an error that says what was wrong.
    pub(crate) fn switches(&self, all: &Known<'_>) -> Result<Vec<Switch>, String> {
        let mut switches: Vec<Switch> = Vec::new();
        let mut unknown = Vec::new();
        let mut seen = HashSet::new();
        let mut meant = HashSet::new();
        for (kind, is_on, name) in self.named().filter(|named| seen.insert(*named)) {
            let found = all.get(kind, name);
            if found.is_none() && !unknown.contains(&(kind, name)) {
                unknown.push((kind, name));
            }
            // What is active is known by the names of the lists, whichever name was given.
            let name = found.map_or(name, |item| &item.name).to_owned();
            let switch = Switch { kind, name, is_on };
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
                "'{}' is to be switched on and off at once. {NOTHING} Name it in one of the lists \
                 only.",
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
                other => Err(format!("a list that has {}", shorten(&other.to_string(), MAX_NAME))),
            });
            texts.collect()
        }
        other => Err(shorten(&other.to_string(), MAX_NAME)),
    }
}

/// The primitives that may be switched: all but those of servers that have crashed.
pub(crate) struct Known<'a> {
    pub(crate) all: &'a Namespaced,
    pub(crate) is_there: &'a dyn Fn(&Item) -> bool,
}

impl<'a> Known<'a> {
    /// The primitive of this name.
    pub(crate) fn get(&self, kind: Kind, name: &str) -> Option<&'a Item> {
        self.all.get(kind, name).filter(|item| (self.is_there)(item))
    }

    /// The names that are nearest to one that is not there.
    pub(crate) fn similar(&self, kind: Kind, name: &str) -> Vec<&'a str> {
        let is_kind = |item: &Item| match kind {
            Kind::Tool => item.kind == Kind::Tool,
            _ => matches!(item.kind, Kind::Resource | Kind::Template),
        };
        let items = self.all.items.iter().filter(|item| is_kind(item) && (self.is_there)(item));
        name::nearest(name, items.map(|item| item.name.as_str()), OFFERED)
    }

    /// The error where these names are not there.
    fn none_of(&self, unknown: &[(Kind, &str)]) -> String {
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
             toolman_activate for the names there are.",
            hints.collect::<String>()
        )
    }

    fn hint(&self, kind: Kind, name: &str) -> Option<String> {
        let (other, list) = match kind {
            Kind::Tool => (Kind::Resource, "resources"),
            _ => (Kind::Tool, "tools"),
        };
        if self.get(other, name).is_some() {
            let word = other.word();
            return Some(format!(" '{name}' is a {word}: use {list}_on and {list}_off for it."));
        }
        let similar = self.similar(kind, name);
        (!similar.is_empty()).then(|| format!(" Similar to '{name}': {}.", similar.join(", ")))
    }
}

/// An answer of ours that says what was wrong.
pub(crate) fn problem(error: &str) -> Value {
    json!({"success": false, "result": "", "error": error})
}

#[cfg(test)]
mod tests;
