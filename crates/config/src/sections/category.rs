//! Validation of categories, which divide a server into toolboxes, and of tool overrides.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::sections::root::category::{RawCategory, RawCategoryTools, RawOverride};
use crate::syntax::objects::LocatedMap;
use crate::syntax::reader::{ConfigReader, Located, did_you_mean, quoted_list};
use mcp_workbench_names::{ToolboxName, client_prefix};
use mcp_workbench_settings::{ServerConfig, ToolOverride, ToolboxConfig};
use mcp_workbench_wire::json::select::{MAX_POINTERS, PointerError, Selection};

/// The servers in the top-level `mcpServers`, by name.
#[derive(Default)]
pub(crate) struct StandaloneServers {
    by_name: HashMap<String, StandaloneServer>,
}

pub(crate) enum StandaloneServer {
    /// The toolbox of the undivided server, and the server's configured `namespace`.
    Enabled(Box<ToolboxConfig>, Option<String>),
    Disabled,
    /// The server's entry has an error, which was reported.
    Invalid,
}

impl StandaloneServers {
    pub(crate) fn insert(&mut self, name: String, server: StandaloneServer) {
        self.by_name.insert(name, server);
    }

    fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.by_name.keys().map(String::as_str).collect();
        names.sort_unstable();
        names
    }
}

/// Checks a category and returns its toolbox, or `None` if the category is disabled or invalid.
pub(crate) fn check_category(
    name: &Located<String>,
    raw: RawCategory,
    servers: &StandaloneServers,
    reader: &mut ConfigReader<'_>,
) -> Option<ToolboxConfig> {
    let RawCategory { description, server, tools } = raw;
    let description = require_description(name, description, reader);
    let Some(wanted) = server else {
        missing(name, "server", "a `server`", "add the name of a server in `mcpServers`", reader);
        return None;
    };
    let Some(server) = servers.by_name.get(&wanted.value) else {
        let known = servers.names();
        let hint = did_you_mean(&wanted.value, &known).unwrap_or_else(|| {
            if known.is_empty() {
                "add the server to the top-level `mcpServers`".to_owned()
            } else {
                format!("expected {}", quoted_list(&known, "or"))
            }
        });
        let message = format!("no server `{}` in `mcpServers`", wanted.value);
        reader.report_error(&wanted.location, message, Some(hint));
        return None;
    };
    let Some(RawCategoryTools { include_names, overrides }) = tools else {
        let hint = "add `\"tools\": {\"includeNames\": [\"read_file\"]}`";
        missing(name, "tools", "`tools`", hint, reader);
        return None;
    };
    let Some(include) = include_names else {
        let key = Located {
            value: String::new(),
            location: name.location.child_key("tools", name.location.offset),
        };
        missing(&key, "includeNames", "`includeNames`", "add the names of its tools", reader);
        return None;
    };
    let prefix = client_prefix(&wanted.value);
    check_names(name, &include, overrides.as_ref(), &prefix, reader);
    let overrides = check_overrides(overrides, reader);
    match server {
        StandaloneServer::Enabled(whole, namespace) => {
            let server = whole.servers.first()?;
            Some(ToolboxConfig {
                name: ToolboxName::new(&name.value),
                description: description
                    .unwrap_or_else(|| mcp_workbench_settings::default_description(&wanted.value)),
                namespace: namespace.clone().unwrap_or_else(|| name.value.clone()),
                servers: vec![ServerConfig {
                    include: Some(include.into_iter().map(|name| name.value).collect()),
                    overrides: merge_overrides(&server.overrides, overrides, &prefix),
                    ..server.clone()
                }],
            })
        }
        StandaloneServer::Disabled => {
            reader.report_warning(&name.location, "ignored: its server is disabled", None);
            None
        }
        StandaloneServer::Invalid => None,
    }
}

fn require_description(
    name: &Located<String>,
    description: Option<Located<String>>,
    reader: &mut ConfigReader<'_>,
) -> Option<String> {
    let is_wrong = reader.has_error_under(&name.location, "description");
    let location = description.as_ref().map_or(&name.location, |text| &text.location).clone();
    let text = description.map(|text| text.value.trim().to_owned());
    let text = text.filter(|text| !text.is_empty());
    if text.is_none() && !is_wrong {
        let hint = "describe its purpose in a sentence: agents read it to decide whether to open \
                    the toolbox";
        let instead = "described by the name of its server";
        reader.report_unless_lenient(
            &location,
            "expected a description",
            instead,
            Some(hint.to_owned()),
        );
    }
    text
}

fn missing(at: &Located<String>, key: &str, what: &str, hint: &str, reader: &mut ConfigReader<'_>) {
    if !reader.has_error_under(&at.location, key) {
        reader.report_error(&at.location, format!("expected {what}"), Some(hint.to_owned()));
    }
}

fn check_names(
    category: &Located<String>,
    include: &[Located<String>],
    overrides: Option<&LocatedMap<RawOverride>>,
    prefix: &str,
    reader: &mut ConfigReader<'_>,
) {
    if include.is_empty() && !reader.has_error_under(&category.location, "tools") {
        reader.report_warning(&category.location, "no tools: `includeNames` is empty", None);
    }
    let bare = |name: &'_ str| name.strip_prefix(prefix).unwrap_or(name).to_owned();
    let mut names = HashSet::new();
    for name in include {
        if name.value.trim().is_empty() {
            reader.report_unless_lenient(&name.location, "expected a tool name", "ignored", None);
        } else if !names.insert(bare(&name.value)) {
            reader.report_warning(&name.location, format!("duplicate tool `{}`", name.value), None);
        }
    }
    for (name, _) in overrides.iter().flat_map(|overrides| &overrides.0) {
        if !names.contains(&bare(&name.value)) {
            let mut known: Vec<&str> = names.iter().map(String::as_str).collect();
            known.sort_unstable();
            let message = "no effect: the tool is not in `includeNames`";
            reader.report_warning(
                &name.location,
                message,
                did_you_mean(&bare(&name.value), &known),
            );
        }
    }
}

/// Checks tool overrides and reports new names that are empty, invalid or duplicate.
pub(crate) fn check_overrides(
    overrides: Option<LocatedMap<RawOverride>>,
    reader: &mut ConfigReader<'_>,
) -> BTreeMap<String, ToolOverride> {
    let mut names: HashMap<String, String> = HashMap::new();
    let mut checked = BTreeMap::new();
    for (tool, raw) in overrides.unwrap_or_default().0 {
        let RawOverride { enabled, description, name, arguments, select } = raw;
        if let Some(name) = &name {
            let is_off = enabled.as_ref().is_some_and(|enabled| !enabled.value);
            if name.value.trim().is_empty() || name.value.chars().any(char::is_control) {
                reader.report_error(&name.location, "expected a tool name", None);
            } else if !is_off
                && let Some(other) = names.insert(name.value.clone(), tool.value.clone())
            {
                let message = format!("tool `{other}` already has the name `{}`", name.value);
                let hint = "give each tool a different name".to_owned();
                reader.report_error(&name.location, message, Some(hint));
            }
        }
        let tool_override = ToolOverride {
            enabled: enabled.map(|enabled| enabled.value),
            name: name.map(|name| name.value),
            description: description.map(|text| text.value),
            arguments: arguments.into_iter().flatten().collect(),
            select: select.map(|pointers| check_pointers(pointers, reader)),
        };
        checked.insert(tool.value, tool_override);
    }
    checked
}

/// Returns the pointers of `select` and reports invalid ones.
fn check_pointers(pointers: Vec<Located<String>>, reader: &mut ConfigReader<'_>) -> Vec<String> {
    for pointer in &pointers {
        if let Err(error) = Selection::parse([&*pointer.value]) {
            reader.report_error(&pointer.location, error.to_string(), None);
        }
    }
    if let Some(first) = pointers.get(MAX_POINTERS) {
        reader.report_error(&first.location, PointerError::TooMany.to_string(), None);
    }
    pointers.into_iter().map(|pointer| pointer.value).collect()
}

/// Merges a category's overrides into its server's. Either may write a tool's name with or without
/// the client prefix.
fn merge_overrides(
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
        // If the server has both spellings, tool lookup prefers the longer one, so that one is
        // overridden.
        if let Some(below) = server.get(&twin) {
            let longer = if tool.len() > twin.len() { &tool } else { &twin };
            all.insert(longer.clone(), merge_override(&upper, below));
        }
        if let Some(below) = server.get(&tool) {
            all.insert(tool, merge_override(&upper, below));
        } else {
            all.entry(tool).or_insert(upper);
        }
    }
    all
}

/// Merges two overrides of the same tool; `upper` wins.
fn merge_override(upper: &ToolOverride, below: &ToolOverride) -> ToolOverride {
    let mut arguments = below.arguments.clone();
    arguments.extend(upper.arguments.clone());
    ToolOverride {
        enabled: upper.enabled.or(below.enabled),
        name: upper.name.clone().or_else(|| below.name.clone()),
        description: upper.description.clone().or_else(|| below.description.clone()),
        arguments,
        select: upper.select.clone().or_else(|| below.select.clone()),
    }
}
