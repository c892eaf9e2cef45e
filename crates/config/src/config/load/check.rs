//! From the raw shape to the checked [`Config`]: limits, names, and what must not be missing.
//!
//! Every raw object is destructured field by field, so a new key cannot be forgotten here.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;

use globset::Glob;

use crate::config::keys::category::{self, Servers, Whole};
use crate::config::keys::definitions;
use crate::config::keys::limits::{RawCache, RawLimits};
use crate::config::keys::macros::Unplaced;
use crate::config::keys::policy::check::Rules;
use crate::config::keys::raw::category::RawCategory;
use crate::config::keys::raw::{RawConfig, RawServer, RawToolbox};
use crate::config::keys::server;
use crate::config::syntax::checks::{check_name, number};
use crate::config::syntax::document::Spot;
use crate::config::syntax::entries::Entries;
use crate::config::syntax::places::Places;
use crate::config::syntax::reader::{Located, Reader, did_you_mean};
use crate::name::{ServerName, ToolboxName};
use crate::settings;
use crate::settings::{
    AuthConfig, Config, HttpConfig, Launch, Limits, MACROS, ServerConfig, ToolMode, ToolboxConfig,
    Watch, defaults,
};

/// The servers that are switched off: those in toolboxes, then those that stand alone.
pub(crate) fn disabled(raw: &RawConfig) -> Vec<(ToolboxName, ServerName)> {
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

fn check_watch(word: &Located<String>, reader: &mut Reader<'_>) -> Watch {
    let known = Watch::WORDS.into_iter().find(|(name, _)| *name == word.value);
    known.map_or_else(
        || {
            let message =
                format!("expected `presentation` or `everything`, found `{}`", word.value);
            let hint = did_you_mean(&word.value, &Watch::WORDS.map(|(name, _)| name));
            reader.error(&word.spot, message, hint);
            Watch::default()
        },
        |(_, watch)| watch,
    )
}

/// Checks a whole configuration but for its macros, which come last; where something is wrong, the
/// reader has noted it. `others` are the names of servers that a catalog adds, if there is one.
pub(crate) fn config(
    raw: RawConfig,
    others: Option<Vec<String>>,
    places: &Places<'_>,
    reader: &mut Reader<'_>,
) -> (Config, Unplaced) {
    let RawConfig {
        schema: _,
        tool_mode,
        watch,
        definitions: differing,
        sandbox,
        search,
        navigator,
        max_tool_name_length,
        limits,
        http,
        shared,
        cache,
        clients,
        audit,
        telemetry,
        auth,
        toolboxes,
        mcp_servers,
        categories,
        macros,
        active_toolsets,
        task_based_tool_selection: _,
        agent_policies,
        exposed_tools,
        exposed_resources,
        exposed_prompts,
        default_policy,
        dangerous_tools,
        require_confirmation,
    } = raw;
    let has_catalog = others.is_some();
    let is_empty_on_purpose = toolboxes.as_ref().is_some_and(|toolboxes| toolboxes.0.is_empty());
    let mut servers = server_names(toolboxes.as_ref(), mcp_servers.as_ref());
    servers.extend(others.unwrap_or_default());
    let mut known = servers.clone();
    known.extend(macros.as_ref().map(|_| MACROS.to_owned()));
    let rules = Rules {
        agent_policies,
        exposed_tools,
        exposed_resources,
        exposed_prompts,
        default_policy,
        dangerous_tools,
        require_confirmation,
    };
    let max_tool_name_length = number(max_tool_name_length);
    let mode = tool_mode.map_or(ToolMode::default(), |mode| mode.value.checked());
    let policy = rules.checked(&known, places, reader);
    if let Some(auth) = &auth {
        auth.value.note_strangers(&policy, reader);
    }
    let mut checked = Config {
        mode,
        watch: watch.map(|word| check_watch(&word, reader)).unwrap_or_default(),
        max_tool_name_length: max_tool_name_length.unwrap_or(defaults::NAME_LIMIT),
        sandbox: sandbox.map(|raw| raw.checked(places, reader)).unwrap_or_default(),
        search: search.map(|raw| raw.checked(mode, reader)).unwrap_or_default(),
        navigator: navigator.map(|raw| raw.checked(places, reader)).unwrap_or_default(),
        http: http.map_or_else(HttpConfig::default, |raw| raw.checked(places, reader)),
        shared: shared.map(|raw| raw.checked(places, reader)).unwrap_or_default(),
        limits: limits.map_or_else(Limits::default, RawLimits::checked),
        cache: cache.map(RawCache::checked).unwrap_or_default(),
        active_toolsets: check_globs(active_toolsets.unwrap_or_default(), reader),
        clients: clients
            .into_iter()
            .flat_map(|clients| clients.0)
            .map(|(name, raw)| (name.value, raw.checked()))
            .collect(),
        policy,
        audit: audit.and_then(|raw| raw.checked(places)),
        telemetry: telemetry.map(|raw| raw.checked(reader)).unwrap_or_default(),
        auth: auth.map(|raw| raw.value.checked(&raw.spot, places.env, reader)),
        definitions: differing.and_then(|word| definitions::check(&word, reader)),
        toolboxes: Vec::new(),
    };
    let blocks = Blocks {
        is_empty_on_purpose,
        toolboxes: toolboxes.unwrap_or_default(),
        mcp_servers: mcp_servers.unwrap_or_default(),
        categories: categories.unwrap_or_default(),
    };
    checked.toolboxes = all_toolboxes(blocks, has_catalog, places, reader);
    settle_launches(&mut checked);
    (checked, Unplaced { macros: macros.unwrap_or_default(), servers })
}

/// Returns the toolboxes and rules of a file as they are written, before variables are expanded. What
/// is wrong with the file is passed over; whoever serves it hears of that.
pub fn as_written(raw: RawConfig, folder: &Path) -> Config {
    let env = BTreeMap::new();
    let places = Places { folder, env: &env };
    config(raw, None, &places, &mut Reader::new(None)).0
}

/// The blocks that make toolboxes.
struct Blocks {
    /// The file has `toolboxes`, and nothing in them.
    is_empty_on_purpose: bool,
    toolboxes: Entries<RawToolbox>,
    mcp_servers: Entries<RawServer>,
    categories: Entries<RawCategory>,
}

/// The toolboxes of all blocks, in the order of the file.
fn all_toolboxes(
    blocks: Blocks,
    has_catalog: bool,
    places: &Places<'_>,
    reader: &mut Reader<'_>,
) -> Vec<ToolboxConfig> {
    let Blocks { is_empty_on_purpose, toolboxes, mcp_servers, categories } = blocks;
    let root = Spot::default();
    let wrong =
        ["toolboxes", "mcpServers", "servers"].map(|block| reader.has_error_under(&root, block));
    let is_empty = toolboxes.0.is_empty() && mcp_servers.0.is_empty();
    if is_empty && !has_catalog && !wrong.contains(&true) {
        note_emptiness(&root, is_empty_on_purpose, reader);
    }
    let mut sections = Vec::new();
    let mut names = HashSet::new();
    for (name, raw) in toolboxes.0 {
        let toolbox = toolbox(&name, raw, places, reader);
        names.insert(name.value);
        sections.push((name.spot.offset, toolbox));
    }
    let divided: HashSet<String> = categories
        .0
        .iter()
        .filter_map(|(_, category)| Some(category.server.as_ref()?.value.clone()))
        .collect();
    let mut servers = Servers::default();
    for (name, raw) in mcp_servers.0 {
        let is_shown = raw.show_server.as_ref().is_some_and(|show| show.value)
            || !divided.contains(&name.value);
        if names.contains(&name.value) {
            reader.refuse(
                &name.spot,
                format!("there is a toolbox `{}` under `toolboxes` too", name.value),
                Some("rename one of the two".to_owned()),
            );
        }
        let whole = toolbox_of_server(&name, raw, places, reader);
        if let Whole::On(toolbox, _) = &whole
            && is_shown
        {
            sections.push((name.spot.offset, Some((**toolbox).clone())));
        }
        servers.insert(name.value, whole);
    }
    for (name, raw) in categories.0 {
        check_name(&name, "category", reader);
        let toolbox = category::check(&name, raw, &servers, reader);
        let same = |shown: &ToolboxConfig| shown.name.as_str() == name.value;
        if names.contains(&name.value)
            || sections.iter().any(|(_, shown)| shown.as_ref().is_some_and(same))
        {
            reader.fault(
                &name.spot,
                &format!("there is a toolbox `{}` too", name.value),
                "it gives way to the category",
                Some("rename one of the two".to_owned()),
            );
            sections.retain(|(_, shown)| !shown.as_ref().is_some_and(same));
        }
        sections.push((name.spot.offset, toolbox));
    }
    // The blocks may stand in any order in the file.
    sections.sort_by_key(|(offset, _)| *offset);
    sections.into_iter().filter_map(|(_, toolbox)| toolbox).collect()
}

/// Says that there is nothing; a file that says so itself, with `"toolboxes": {}`, can be served.
fn note_emptiness(root: &Spot, is_on_purpose: bool, reader: &mut Reader<'_>) {
    let ours = concat!(
        "write `\"toolboxes\": {\"dev\": {\"description\": \"what it is for\", ",
        "\"mcpServers\": { … }}}`,\nor paste the `mcpServers` block of any client"
    );
    let toml = "write `[[servers]]`, and under it a `namespace` and a `command`";
    let hint = if reader.is_toml() { toml } else { ours };
    let instead = "there is nothing to serve";
    if is_on_purpose {
        reader.warn(root, format!("no toolboxes; {instead}"), Some(hint.to_owned()));
    } else {
        reader.fault(root, "no toolboxes", instead, Some(hint.to_owned()));
    }
}

/// Gives every launch what the file says for all: its sandbox, unless it has one of its own, and that
/// tokens of agents are kept from it, for it could be anybody with them.
pub(crate) fn settle_launches(config: &mut Config) {
    let tokens = config.auth.iter().flat_map(AuthConfig::all_tokens);
    let variables: BTreeSet<String> = tokens.filter_map(|token| token.variable.clone()).collect();
    let servers = config.toolboxes.iter_mut().flat_map(|toolbox| &mut toolbox.servers);
    for server in servers {
        let Launch::Stdio(launch) = &mut server.launch else { continue };
        launch.sandbox.get_or_insert_with(|| config.sandbox.clone());
        if launch.inherit_env {
            launch.withheld.clone_from(&variables);
        }
    }
}

fn toolbox(
    name: &Located<String>,
    raw: RawToolbox,
    places: &Places<'_>,
    reader: &mut Reader<'_>,
) -> Option<ToolboxConfig> {
    let RawToolbox { description, mcp_servers, namespace } = raw;
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
    let namespace = check_namespace(namespace, reader).unwrap_or_else(|| name.value.clone());
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
        let of_the_top_level = [
            raw.namespace.as_ref().map(|namespace| &namespace.spot),
            raw.show_server.as_ref().map(|show| &show.spot),
        ];
        for spot in of_the_top_level.into_iter().flatten() {
            let hint = "it belongs to a server of the top-level `mcpServers`; a toolbox has a \
                        `namespace` of its own";
            reader.warn(spot, "ignored in a toolbox", Some(hint.to_owned()));
        }
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
    mut raw: RawServer,
    places: &Places<'_>,
    reader: &mut Reader<'_>,
) -> Whole {
    check_name(name, "server", reader);
    let namespace = check_namespace(raw.namespace.take(), reader);
    let description = raw
        .description
        .as_ref()
        .map(|text| text.value.trim().to_owned())
        .filter(|text| !text.is_empty())
        .unwrap_or_else(|| settings::unsaid(&name.value));
    match server::check(name, raw, places, reader) {
        server::Checked::On(server) => {
            let toolbox = ToolboxConfig {
                name: ToolboxName::new(&name.value),
                description,
                namespace: namespace.clone().unwrap_or_else(|| name.value.clone()),
                servers: vec![*server],
            };
            Whole::On(Box::new(toolbox), namespace)
        }
        server::Checked::Off => {
            reader.warn(&name.spot, "left out: it is disabled", None);
            Whole::Off
        }
        server::Checked::Wrong => Whole::Wrong,
    }
}

fn check_namespace(namespace: Option<Located<String>>, reader: &mut Reader<'_>) -> Option<String> {
    let Located { value, spot } = namespace?;
    if value.chars().any(char::is_control) {
        reader.error(&spot, "a namespace may not contain control characters", None);
    }
    Some(value)
}

/// The names of all servers, those that are switched off too; each once.
fn server_names(
    toolboxes: Option<&Entries<RawToolbox>>,
    alone: Option<&Entries<RawServer>>,
) -> Vec<String> {
    let toolboxes = toolboxes.into_iter().flat_map(|toolboxes| &toolboxes.0);
    let inside = toolboxes.flat_map(|(_, toolbox)| &toolbox.mcp_servers);
    let servers = inside.chain(alone).flat_map(|servers| &servers.0);
    let mut names: Vec<String> = servers.map(|(name, _)| name.value.clone()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The globs of `activeToolsets`. What is none means itself in a file of another program.
fn check_globs(globs: Vec<Located<String>>, reader: &mut Reader<'_>) -> Vec<String> {
    let mut checked = Vec::with_capacity(globs.len());
    for Located { value, spot } in globs {
        if value.trim().is_empty() {
            reader.fault(&spot, "expected a tool's name or a glob", "ignored", None);
        } else if let Err(error) = Glob::new(&value) {
            let message = format!("`{value}` is not a glob: {}", error.kind());
            let hint = "write a name, or a glob such as `notes_*`".to_owned();
            reader.fault(&spot, &message, "taken as a name", Some(hint));
            checked.push(globset::escape(&value));
        } else {
            checked.push(value);
        }
    }
    checked
}
