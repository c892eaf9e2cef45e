//! Checks of what is said of single tools: overrides, and the categories that divide a server.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::config::keys::raw::category::{RawCategory, RawCategoryTools, RawOverride};
use crate::config::syntax::entries::Entries;
use crate::config::syntax::reader::{Located, Reader, did_you_mean, listed};
use crate::name::{ToolboxName, client_prefix};
use crate::settings;
use crate::settings::{ServerConfig, ToolOverride, ToolboxConfig};

/// The servers of the top-level `mcpServers`, for categories to divide.
#[derive(Default)]
pub(crate) struct Servers {
    by_name: HashMap<String, Whole>,
}

/// One of those servers.
pub(crate) enum Whole {
    /// The toolbox that it is as a whole, and the `namespace` that it was given.
    On(Box<ToolboxConfig>, Option<String>),
    /// It is switched off.
    Off,
    /// It cannot be used, which has been reported.
    Wrong,
}

impl Servers {
    pub(crate) fn insert(&mut self, name: String, server: Whole) {
        self.by_name.insert(name, server);
    }

    fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.by_name.keys().map(String::as_str).collect();
        names.sort_unstable();
        names
    }
}

/// Checks one category; the toolbox it is, if it is one.
pub(crate) fn check(
    name: &Located<String>,
    raw: RawCategory,
    servers: &Servers,
    reader: &mut Reader<'_>,
) -> Option<ToolboxConfig> {
    let RawCategory { description, server, tools } = raw;
    let description = described(name, description, reader);
    let Some(wanted) = server else {
        missing(name, "server", "a `server`", "write the name of a server in `mcpServers`", reader);
        return None;
    };
    let Some(server) = servers.by_name.get(&wanted.value) else {
        let known = servers.names();
        let hint = did_you_mean(&wanted.value, &known).unwrap_or_else(|| {
            if known.is_empty() {
                "a category is made of a server in the top-level `mcpServers`".to_owned()
            } else {
                format!("expected {}", listed(&known, "or"))
            }
        });
        let message = format!("there is no server `{}` in `mcpServers`", wanted.value);
        reader.error(&wanted.spot, message, Some(hint));
        return None;
    };
    let Some(RawCategoryTools { include_names, overrides }) = tools else {
        let hint = "write `\"tools\": {\"includeNames\": [\"read_file\"]}`";
        missing(name, "tools", "`tools`", hint, reader);
        return None;
    };
    let Some(include) = include_names else {
        let key = Located { value: String::new(), spot: name.spot.key("tools", name.spot.offset) };
        missing(&key, "includeNames", "`includeNames`", "write the names of its tools", reader);
        return None;
    };
    let prefix = client_prefix(&wanted.value);
    check_names(name, &include, overrides.as_ref(), &prefix, reader);
    let overrides = check_overrides(overrides, reader);
    match server {
        Whole::On(whole, namespace) => {
            let server = whole.servers.first()?;
            Some(ToolboxConfig {
                name: ToolboxName::new(&name.value),
                description: description.unwrap_or_else(|| settings::unsaid(&wanted.value)),
                namespace: namespace.clone().unwrap_or_else(|| name.value.clone()),
                servers: vec![ServerConfig {
                    include: Some(include.into_iter().map(|name| name.value).collect()),
                    overrides: overlaid(&server.overrides, overrides, &prefix),
                    ..server.clone()
                }],
            })
        }
        Whole::Off => {
            reader.warn(&name.spot, "left out: its server is disabled", None);
            None
        }
        Whole::Wrong => None,
    }
}

/// The description that a person wrote; without one, ours is refused.
fn described(
    name: &Located<String>,
    description: Option<Located<String>>,
    reader: &mut Reader<'_>,
) -> Option<String> {
    let is_wrong = reader.has_error_under(&name.spot, "description");
    let spot = description.as_ref().map_or(&name.spot, |text| &text.spot).clone();
    let text = description.map(|text| text.value.trim().to_owned());
    let text = text.filter(|text| !text.is_empty());
    if text.is_none() && !is_wrong {
        let hint = "say in a sentence what it is for: agents read it to decide whether to use it";
        let instead = "the name of its server stands for it";
        reader.fault(&spot, "expected a description", instead, Some(hint.to_owned()));
    }
    text
}

fn missing(at: &Located<String>, key: &str, what: &str, hint: &str, reader: &mut Reader<'_>) {
    if !reader.has_error_under(&at.spot, key) {
        reader.error(&at.spot, format!("expected {what}"), Some(hint.to_owned()));
    }
}

/// Warns of names that say nothing new, and of overrides that reach nothing.
fn check_names(
    category: &Located<String>,
    include: &[Located<String>],
    overrides: Option<&Entries<RawOverride>>,
    prefix: &str,
    reader: &mut Reader<'_>,
) {
    if include.is_empty() && !reader.has_error_under(&category.spot, "tools") {
        reader.warn(&category.spot, "it has no tools: `includeNames` is empty", None);
    }
    let bare = |name: &'_ str| name.strip_prefix(prefix).unwrap_or(name).to_owned();
    let mut names = HashSet::new();
    for name in include {
        if name.value.trim().is_empty() {
            reader.fault(&name.spot, "expected the name of a tool", "ignored", None);
        } else if !names.insert(bare(&name.value)) {
            reader.warn(&name.spot, format!("`{}` is there already", name.value), None);
        }
    }
    for (name, _) in overrides.iter().flat_map(|overrides| &overrides.0) {
        if !names.contains(&bare(&name.value)) {
            let mut known: Vec<&str> = names.iter().map(String::as_str).collect();
            known.sort_unstable();
            let message = "no effect: `includeNames` does not have this tool";
            reader.warn(&name.spot, message, did_you_mean(&bare(&name.value), &known));
        }
    }
}

/// Checks what is to be different about single tools.
pub(crate) fn check_overrides(
    overrides: Option<Entries<RawOverride>>,
    reader: &mut Reader<'_>,
) -> BTreeMap<String, ToolOverride> {
    let mut names: HashMap<String, String> = HashMap::new();
    let mut checked = BTreeMap::new();
    for (tool, raw) in overrides.unwrap_or_default().0 {
        let RawOverride { enabled, description, name, arguments } = raw;
        if let Some(name) = &name {
            let is_off = enabled.as_ref().is_some_and(|enabled| !enabled.value);
            if name.value.trim().is_empty() || name.value.chars().any(char::is_control) {
                reader.error(&name.spot, "expected a name for the tool", None);
            } else if !is_off
                && let Some(other) = names.insert(name.value.clone(), tool.value.clone())
            {
                let message = format!("`{other}` is called `{}` already", name.value);
                let hint = "give each tool a name of its own".to_owned();
                reader.error(&name.spot, message, Some(hint));
            }
        }
        let tool_override = ToolOverride {
            enabled: enabled.map(|enabled| enabled.value),
            name: name.map(|name| name.value),
            description: description.map(|text| text.value),
            arguments: arguments.into_iter().flatten().collect(),
        };
        checked.insert(tool.value, tool_override);
    }
    checked
}

/// The overrides of a server with those of a category over them; the same tool may be written
/// with the prefix that clients put before it, or without.
fn overlaid(
    server: &BTreeMap<String, ToolOverride>,
    category: BTreeMap<String, ToolOverride>,
    prefix: &str,
) -> BTreeMap<String, ToolOverride> {
    let mut all = server.clone();
    for (tool, upper) in category {
        let twin = match tool.strip_prefix(prefix) {
            Some(bare) => bare.to_owned(),
            None => format!("{prefix}{tool}"),
        };
        // Where both ways of writing are there, the longer one is what the shorter means.
        if let Some(below) = server.get(&twin) {
            let longer = if tool.len() > twin.len() { &tool } else { &twin };
            all.insert(longer.clone(), over(&upper, below));
        }
        if let Some(below) = server.get(&tool) {
            all.insert(tool, over(&upper, below));
        } else {
            all.entry(tool).or_insert(upper);
        }
    }
    all
}

/// Returns the changes of `upper`, and those of `below` that it leaves open.
fn over(upper: &ToolOverride, below: &ToolOverride) -> ToolOverride {
    let mut arguments = below.arguments.clone();
    arguments.extend(upper.arguments.clone());
    ToolOverride {
        enabled: upper.enabled.or(below.enabled),
        name: upper.name.clone().or_else(|| below.name.clone()),
        description: upper.description.clone().or_else(|| below.description.clone()),
        arguments,
    }
}
