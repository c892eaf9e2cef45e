//! From the raw shape to the checked [`Config`]: bounds, names, and what must not be missing.
//!
//! Every raw object is destructured field by field, so a new key cannot be forgotten here.

use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::path::Path;

use crate::config::document::Spot;
use crate::config::env::EnvSource;
use crate::config::limits;
use crate::config::raw::{Entries, RawConfig, RawLimits, RawServer, RawToolbox};
use crate::config::reader::{Located, Reader};
use crate::config::{Config, Limits, ServerConfig, ToolMode, ToolboxConfig, server};
use crate::name::{MIN_NAME_LIMIT, ServerName, ToolboxName};

/// What relative paths and `~` start at.
pub(super) struct Places<'a> {
    /// The folder of the file; absolute.
    pub(super) folder: &'a Path,
    /// Where the home folder comes from.
    pub(super) env: &'a dyn EnvSource,
}

/// The servers that are switched off: those in toolboxes, then those that stand alone.
pub(super) fn disabled(raw: &RawConfig) -> Vec<(ToolboxName, ServerName)> {
    let off = |toolbox: &str, (name, server): &(Located<String>, RawServer)| {
        let name = &name.value;
        let names = || (ToolboxName::new(toolbox), ServerName::new(name));
        server.is_off().then(names)
    };
    let in_toolboxes = raw.toolboxes.iter().flat_map(|toolboxes| &toolboxes.0);
    let in_toolboxes = in_toolboxes.flat_map(|(toolbox, raw)| {
        let servers = raw.mcp_servers.iter().flat_map(|servers| &servers.0);
        servers.filter_map(|server| off(&toolbox.value, server))
    });
    let alone = raw.mcp_servers.iter().flat_map(|servers| &servers.0);
    let alone = alone.filter_map(|server| off(&server.0.value, server));
    in_toolboxes.chain(alone).collect()
}

/// Checks a whole configuration; where something is wrong, the reader has noted it.
pub(super) fn config(raw: RawConfig, places: &Places<'_>, reader: &mut Reader<'_>) -> Config {
    let RawConfig { schema: _, tool_mode, max_tool_name_length, limits, toolboxes, mcp_servers } =
        raw;
    let max_tool_name_length =
        bounded(max_tool_name_length, MIN_NAME_LIMIT as u64..=limits::MAX_NAME_LIMIT, reader);
    let mut checked = Config {
        mode: tool_mode.map_or(ToolMode::default(), |mode| mode.value.checked()),
        max_tool_name_length: max_tool_name_length.unwrap_or(limits::DEFAULT_NAME_LIMIT),
        limits: limits.map_or_else(Limits::default, |raw| check_limits(raw, reader)),
        active_toolsets: Vec::new(),
        toolboxes: Vec::new(),
    };
    let root = Spot::default();
    let wrong =
        ["toolboxes", "mcpServers"].map(|block| reader.has_error_under(&root, block)) != [false; 2];
    let toolboxes = toolboxes.unwrap_or_default();
    let mcp_servers = mcp_servers.unwrap_or_default();
    if toolboxes.0.is_empty() && mcp_servers.0.is_empty() && !wrong {
        let hint = concat!(
            "write `\"toolboxes\": {\"dev\": {\"description\": \"what it is for\", ",
            "\"mcpServers\": { … }}}`,\nor paste the `mcpServers` block of any client"
        );
        reader.error(&root, "no toolboxes", Some(hint.to_owned()));
    }
    let mut sections = Vec::new();
    let mut names = HashSet::new();
    for (name, raw) in toolboxes.0 {
        let toolbox = toolbox(&name, raw, places, reader);
        names.insert(name.value);
        sections.push((name.spot.offset, toolbox));
    }
    for (name, raw) in mcp_servers.0 {
        if names.contains(&name.value) {
            reader.error(
                &name.spot,
                format!("there is a toolbox `{}` under `toolboxes` too", name.value),
                Some("rename one of the two".to_owned()),
            );
        }
        let toolbox = toolbox_of_server(&name, raw, places, reader);
        sections.push((name.spot.offset, toolbox));
    }
    // The two blocks may stand in either order in the file.
    sections.sort_by_key(|(offset, _)| *offset);
    checked.toolboxes = sections.into_iter().filter_map(|(_, toolbox)| toolbox).collect();
    checked
}

fn check_limits(raw: RawLimits, reader: &mut Reader<'_>) -> Limits {
    let RawLimits { max_listing_bytes, max_message_bytes } = raw;
    let (least, most) = limits::LISTING_BYTES;
    let max_listing_bytes = bounded(max_listing_bytes, least..=most, reader);
    let (least, most) = limits::MESSAGE_BYTES;
    let max_message_bytes = bounded(max_message_bytes, least..=most, reader);
    Limits {
        max_listing_bytes: max_listing_bytes.unwrap_or(limits::DEFAULT_LISTING_BYTES),
        max_message_bytes: max_message_bytes.unwrap_or(limits::DEFAULT_MESSAGE_BYTES),
    }
}

fn toolbox(
    name: &Located<String>,
    raw: RawToolbox,
    places: &Places<'_>,
    reader: &mut Reader<'_>,
) -> Option<ToolboxConfig> {
    let RawToolbox { description, mcp_servers } = raw;
    check_name(name, "toolbox", reader);
    let (description, spot) = match description {
        Some(text) => (text.value.trim().to_owned(), text.spot),
        None => (String::new(), name.spot.clone()),
    };
    if description.is_empty() && !reader.has_error_under(&name.spot, "description") {
        let hint = "say in a sentence what it is for: agents read it to decide whether to open it";
        reader.error(&spot, "expected a description", Some(hint.into()));
    }
    let entries = mcp_servers.unwrap_or_default();
    if entries.0.is_empty() {
        if !reader.has_error_under(&name.spot, "mcpServers") {
            let hint = "write `\"mcpServers\": {\"name\": {\"command\": \"…\"}}`";
            let message = "expected at least one server under `mcpServers`";
            reader.error(&name.spot, message, Some(hint.to_owned()));
        }
        return None;
    }
    let servers = check_servers(entries, places, reader)?;
    if servers.is_empty() {
        reader.warn(&name.spot, "left out: all its servers are disabled", None);
        return None;
    }
    let namespace = name.value.clone();
    Some(ToolboxConfig { name: ToolboxName::new(&name.value), description, namespace, servers })
}

/// Checks the servers of one toolbox; none if one of them is wrong, so that "all are disabled" is
/// only said where it is true.
fn check_servers(
    entries: Entries<RawServer>,
    places: &Places<'_>,
    reader: &mut Reader<'_>,
) -> Option<Vec<ServerConfig>> {
    let mut servers = Some(Vec::new());
    for (name, raw) in entries.0 {
        check_name(&name, "server", reader);
        match server::check(&name, raw, places, reader) {
            server::Checked::On(server) => {
                if let Some(servers) = &mut servers {
                    servers.push(*server);
                }
            }
            server::Checked::Off => {}
            server::Checked::Wrong => servers = None,
        }
    }
    servers
}

fn toolbox_of_server(
    name: &Located<String>,
    raw: RawServer,
    places: &Places<'_>,
    reader: &mut Reader<'_>,
) -> Option<ToolboxConfig> {
    check_name(name, "server", reader);
    let description = raw
        .description
        .as_ref()
        .map(|text| text.value.trim().to_owned())
        .filter(|text| !text.is_empty())
        .unwrap_or_else(|| format!("Tools of the server `{}`", name.value));
    match server::check(name, raw, places, reader) {
        server::Checked::On(server) => Some(ToolboxConfig {
            name: ToolboxName::new(&name.value),
            description,
            namespace: name.value.clone(),
            servers: vec![*server],
        }),
        server::Checked::Off => {
            reader.warn(&name.spot, "left out: it is disabled", None);
            None
        }
        server::Checked::Wrong => None,
    }
}

fn check_name(name: &Located<String>, what: &str, reader: &mut Reader<'_>) {
    if name.value.trim().is_empty() {
        reader.error(&name.spot, format!("expected a name for the {what}"), None);
    } else if name.value.chars().any(char::is_control) {
        reader.error(
            &name.spot,
            format!("the name of a {what} may not contain control characters"),
            None,
        );
    }
}

/// The number, if it is there and within bounds.
pub(super) fn bounded<T: TryFrom<u64>>(
    number: Option<Located<u64>>,
    bounds: RangeInclusive<u64>,
    reader: &mut Reader<'_>,
) -> Option<T> {
    let number = number?;
    if bounds.contains(&number.value) {
        return T::try_from(number.value).ok();
    }
    let message = format!(
        "expected a number from {} to {}, found {}",
        bounds.start(),
        bounds.end(),
        number.value
    );
    reader.error(&number.spot, message, None);
    None
}
