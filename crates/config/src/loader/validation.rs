//! Validation: turns a raw configuration into a [`Config`].
//!
//! Raw objects are destructured field by field, so that a forgotten key is a compile error.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;

use globset::Glob;

use crate::sections::category::{self, StandaloneServer, StandaloneServers};
use crate::sections::drift_policy;
use crate::sections::limits::{RawLimits, RawResultCache};
use crate::sections::macros::PendingMacros;
use crate::sections::policy::validation::RawPolicy;
use crate::sections::root::category::RawCategory;
use crate::sections::root::{RawConfig, RawServer, RawToolbox};
use crate::sections::server;
use crate::syntax::checks::{check_name, narrow_number};
use crate::syntax::document::SourceLocation;
use crate::syntax::objects::LocatedMap;
use crate::syntax::paths::PathResolver;
use crate::syntax::reader::{ConfigReader, Located, did_you_mean};
use crate::syntax::renamed::renamed_hint;
use mcp_workbench_names::{ServerName, ToolboxName};
use mcp_workbench_settings::{
    AuthConfig, AutoReload, Config, HttpConfig, Launch, Limits, MACROS, ServerConfig, ToolMode,
    ToolboxConfig, defaults,
};

/// Returns the disabled servers: first those in toolboxes, then those in the top-level
/// `mcpServers`.
pub(crate) fn disabled_servers(raw: &RawConfig) -> Vec<(ToolboxName, ServerName)> {
    let off = |toolbox: &str, (name, server): &(Located<String>, RawServer)| {
        let name = &name.value;
        let names = || (ToolboxName::new(toolbox), ServerName::new(name));
        server.is_disabled().then(names)
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

fn check_auto_reload(word: &Located<String>, reader: &mut ConfigReader<'_>) -> AutoReload {
    let known = AutoReload::WORDS.into_iter().find(|(name, _)| *name == word.value);
    known.map_or_else(
        || {
            let message = format!("expected `safe` or `all`, found `{}`", word.value);
            let words = AutoReload::WORDS.map(|(name, _)| name);
            let hint =
                renamed_hint(&word.value, &words).or_else(|| did_you_mean(&word.value, &words));
            reader.report_error(&word.location, message, hint);
            AutoReload::default()
        },
        |(_, mode)| mode,
    )
}

/// Checks everything except macros, which need all toolboxes. Errors are reported to `reader`.
/// `others` holds the names of the services of an attached catalog.
pub(crate) fn validate_config(
    raw: RawConfig,
    others: Option<Vec<String>>,
    paths: &PathResolver<'_>,
    reader: &mut ConfigReader<'_>,
) -> (Config, PendingMacros) {
    let RawConfig {
        schema: _,
        tool_mode,
        auto_reload,
        on_definition_change,
        sandbox,
        search,
        navigator,
        max_tool_name_length,
        limits,
        http,
        shared_store,
        result_cache,
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
        approvals,
    } = raw;
    let has_catalog = others.is_some();
    let is_empty_on_purpose = toolboxes.as_ref().is_some_and(|toolboxes| toolboxes.0.is_empty());
    let mut servers = server_names(toolboxes.as_ref(), mcp_servers.as_ref());
    servers.extend(others.unwrap_or_default());
    let mut known = servers.clone();
    known.extend(macros.as_ref().map(|_| MACROS.to_owned()));
    let rules = RawPolicy {
        agent_policies,
        exposed_tools,
        exposed_resources,
        exposed_prompts,
        default_policy,
        dangerous_tools,
        require_confirmation,
    };
    let max_tool_name_length = narrow_number(max_tool_name_length);
    let mode = tool_mode.map_or(ToolMode::default(), |mode| mode.value.checked());
    let policy = rules.checked(&known, paths, reader);
    if let Some(auth) = &auth {
        auth.value.warn_unknown_agents(&policy, reader);
    }
    if auth.as_ref().is_none_or(|auth| auth.value.jwt.is_none()) {
        report_exchanges(toolboxes.as_ref(), mcp_servers.as_ref(), reader);
    }
    let mut checked = Config {
        mode,
        auto_reload: auto_reload.map(|word| check_auto_reload(&word, reader)).unwrap_or_default(),
        max_tool_name_length: max_tool_name_length.unwrap_or(defaults::NAME_LIMIT),
        sandbox: sandbox.map(|raw| raw.checked(paths, reader)).unwrap_or_default(),
        search: search.map(|raw| raw.checked(mode, reader)).unwrap_or_default(),
        navigator: navigator.map(|raw| raw.checked(paths, reader)).unwrap_or_default(),
        http: http.map_or_else(HttpConfig::default, |raw| raw.checked(paths, reader)),
        shared_store: shared_store.map(|raw| raw.checked(paths, reader)).unwrap_or_default(),
        limits: limits.map_or_else(Limits::default, RawLimits::checked),
        result_cache: result_cache.map(RawResultCache::checked).unwrap_or_default(),
        active_toolsets: check_globs(active_toolsets.unwrap_or_default(), reader),
        clients: clients
            .into_iter()
            .flat_map(|clients| clients.0)
            .map(|(name, raw)| (name.value, raw.checked()))
            .collect(),
        policy,
        approvals: approvals.map(|raw| raw.checked(reader)).unwrap_or_default(),
        audit: audit.and_then(|raw| raw.into_checked(paths)),
        telemetry: telemetry.map(|raw| raw.checked(reader)).unwrap_or_default(),
        auth: auth.map(|raw| raw.value.checked(&raw.location, paths.env, reader)),
        drift_policy: on_definition_change
            .and_then(|word| drift_policy::parse_drift_policy(&word, reader)),
        toolboxes: Vec::new(),
    };
    let blocks = ServerSections {
        is_empty_on_purpose,
        toolboxes: toolboxes.unwrap_or_default(),
        mcp_servers: mcp_servers.unwrap_or_default(),
        categories: categories.unwrap_or_default(),
    };
    checked.toolboxes = all_toolboxes(blocks, has_catalog, paths, reader);
    apply_launch_defaults(&mut checked);
    (checked, PendingMacros { macros: macros.unwrap_or_default(), servers })
}

/// Reports servers that exchange callers' tokens although no caller can have one.
fn report_exchanges(
    toolboxes: Option<&LocatedMap<RawToolbox>>,
    alone: Option<&LocatedMap<RawServer>>,
    reader: &mut ConfigReader<'_>,
) {
    let in_toolboxes = toolboxes.into_iter().flat_map(|toolboxes| &toolboxes.0);
    let in_toolboxes = in_toolboxes.filter_map(|(_, toolbox)| toolbox.mcp_servers.as_ref());
    let servers = in_toolboxes.chain(alone).flat_map(|servers| &servers.0);
    let enabled = servers.filter(|(_, raw)| !raw.is_disabled());
    for auth in enabled.filter_map(|(_, raw)| raw.auth.as_ref()) {
        let message = "callers have no tokens to exchange: the top-level `auth` has no `jwt`";
        let hint = "add `auth.jwt` at the top level, or remove `auth` from this server";
        reader.report_error(&auth.location, message, Some(hint.to_owned()));
    }
}

/// Builds a configuration without expanding variables or reporting errors.
pub fn unexpanded_config(raw: RawConfig, folder: &Path) -> Config {
    let env = BTreeMap::new();
    let paths = PathResolver { base_dir: folder, env: &env };
    validate_config(raw, None, &paths, &mut ConfigReader::new(None)).0
}

pub(crate) struct ServerSections {
    /// The file has an empty `toolboxes` object.
    pub(crate) is_empty_on_purpose: bool,
    pub(crate) toolboxes: LocatedMap<RawToolbox>,
    pub(crate) mcp_servers: LocatedMap<RawServer>,
    pub(crate) categories: LocatedMap<RawCategory>,
}

/// Returns the toolboxes of all sections, in file order.
pub(crate) fn all_toolboxes(
    blocks: ServerSections,
    has_catalog: bool,
    paths: &PathResolver<'_>,
    reader: &mut ConfigReader<'_>,
) -> Vec<ToolboxConfig> {
    let ServerSections { is_empty_on_purpose, toolboxes, mcp_servers, categories } = blocks;
    let root = SourceLocation::default();
    let wrong =
        ["toolboxes", "mcpServers", "servers"].map(|block| reader.has_error_under(&root, block));
    let is_empty = toolboxes.0.is_empty() && mcp_servers.0.is_empty();
    if is_empty && !has_catalog && !wrong.contains(&true) {
        report_no_toolboxes(&root, is_empty_on_purpose, reader);
    }
    let mut sections = Vec::new();
    let mut names = HashSet::new();
    for (name, raw) in toolboxes.0 {
        let toolbox = toolbox(&name, raw, paths, reader);
        names.insert(name.value);
        sections.push((name.location.offset, toolbox));
    }
    let divided: HashSet<String> = categories
        .0
        .iter()
        .filter_map(|(_, category)| Some(category.server.as_ref()?.value.clone()))
        .collect();
    let mut servers = StandaloneServers::default();
    for (name, raw) in mcp_servers.0 {
        let is_shown = raw.show_server.as_ref().is_some_and(|show| show.value)
            || !divided.contains(&name.value);
        if names.contains(&name.value) {
            reader.report_fatal(
                &name.location,
                format!("a toolbox `{}` already exists under `toolboxes`", name.value),
                Some("rename one of them".to_owned()),
            );
        }
        let whole = toolbox_of_server(&name, raw, paths, reader);
        if let StandaloneServer::Enabled(toolbox, _) = &whole
            && is_shown
        {
            sections.push((name.location.offset, Some((**toolbox).clone())));
        }
        servers.insert(name.value, whole);
    }
    for (name, raw) in categories.0 {
        check_name(&name, "category", reader);
        let toolbox = category::check_category(&name, raw, &servers, reader);
        let same = |shown: &ToolboxConfig| shown.name.as_str() == name.value;
        if names.contains(&name.value)
            || sections.iter().any(|(_, shown)| shown.as_ref().is_some_and(same))
        {
            reader.report_unless_lenient(
                &name.location,
                &format!("a toolbox `{}` already exists", name.value),
                "the category replaces it",
                Some("rename one of them".to_owned()),
            );
            sections.retain(|(_, shown)| !shown.as_ref().is_some_and(same));
        }
        sections.push((name.location.offset, toolbox));
    }
    // Restore file order across the sections.
    sections.sort_by_key(|(offset, _)| *offset);
    sections.into_iter().filter_map(|(_, toolbox)| toolbox).collect()
}

/// Reports missing toolboxes. A file with an explicit `"toolboxes": {}` can still be served.
fn report_no_toolboxes(root: &SourceLocation, is_on_purpose: bool, reader: &mut ConfigReader<'_>) {
    let ours = concat!(
        "run `mcp-workbench add NAME -- COMMAND`,\n",
        "add `\"toolboxes\": {\"dev\": {\"description\": \"what it is for\", ",
        "\"mcpServers\": { … }}}`,\nor paste the `mcpServers` object of any client"
    );
    let toml = "add `[[servers]]` with a `namespace` and a `command`";
    let hint = if reader.is_toml() { toml } else { ours };
    let instead = "nothing to serve";
    if is_on_purpose {
        reader.report_warning(root, format!("no toolboxes; {instead}"), Some(hint.to_owned()));
    } else {
        reader.report_unless_lenient(root, "no toolboxes", instead, Some(hint.to_owned()));
    }
}

/// Applies file-wide launch settings: the default `sandbox`, and, with `inheritEnv`, the variables
/// to withhold because they hold agents' bearer tokens. A child that read one could impersonate
/// that agent.
pub(crate) fn apply_launch_defaults(config: &mut Config) {
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
    paths: &PathResolver<'_>,
    reader: &mut ConfigReader<'_>,
) -> Option<ToolboxConfig> {
    let RawToolbox { description, mcp_servers, namespace } = raw;
    check_name(name, "toolbox", reader);
    let (description, location) = match description {
        Some(text) => (text.value.trim().to_owned(), text.location),
        None => (String::new(), name.location.clone()),
    };
    if description.is_empty() && !reader.has_error_under(&name.location, "description") {
        let hint = "describe its purpose in a sentence: agents read it to decide whether to open \
                    the toolbox";
        reader.report_error(&location, "expected a description", Some(hint.into()));
    }
    let entries = mcp_servers.unwrap_or_default();
    if entries.0.is_empty() {
        if !reader.has_error_under(&name.location, "mcpServers") {
            let hint = "add `\"mcpServers\": {\"name\": {\"command\": \"…\"}}`";
            let message = "expected at least one server under `mcpServers`";
            reader.report_error(&name.location, message, Some(hint.to_owned()));
        }
        return None;
    }
    let servers = check_servers(entries, paths, reader)?;
    if servers.is_empty() {
        reader.report_warning(&name.location, "ignored: all its servers are disabled", None);
        return None;
    }
    let namespace = check_namespace(namespace, reader).unwrap_or_else(|| name.value.clone());
    Some(ToolboxConfig { name: ToolboxName::new(&name.value), description, namespace, servers })
}

/// Checks the servers of one toolbox. Returns `None` if one is invalid, so that the caller doesn't
/// report "all its servers are disabled".
fn check_servers(
    entries: LocatedMap<RawServer>,
    paths: &PathResolver<'_>,
    reader: &mut ConfigReader<'_>,
) -> Option<Vec<ServerConfig>> {
    let mut servers = Some(Vec::new());
    for (name, raw) in entries.0 {
        check_name(&name, "server", reader);
        let of_the_top_level = [
            raw.namespace.as_ref().map(|namespace| &namespace.location),
            raw.show_server.as_ref().map(|show| &show.location),
        ];
        for location in of_the_top_level.into_iter().flatten() {
            let hint = "this key is for servers in the top-level `mcpServers`; a toolbox has its \
                        own `namespace`";
            reader.report_warning(location, "ignored inside a toolbox", Some(hint.to_owned()));
        }
        match server::check_server(&name, raw, paths, reader) {
            server::ServerCheckOutcome::Enabled(server) => {
                if let Some(servers) = &mut servers {
                    servers.push(*server);
                }
            }
            server::ServerCheckOutcome::Disabled => {}
            server::ServerCheckOutcome::Invalid => servers = None,
        }
    }
    servers
}

fn toolbox_of_server(
    name: &Located<String>,
    mut raw: RawServer,
    paths: &PathResolver<'_>,
    reader: &mut ConfigReader<'_>,
) -> StandaloneServer {
    check_name(name, "server", reader);
    let namespace = check_namespace(raw.namespace.take(), reader);
    let description = raw
        .description
        .as_ref()
        .map(|text| text.value.trim().to_owned())
        .filter(|text| !text.is_empty())
        .unwrap_or_else(|| mcp_workbench_settings::default_description(&name.value));
    match server::check_server(name, raw, paths, reader) {
        server::ServerCheckOutcome::Enabled(server) => {
            let toolbox = ToolboxConfig {
                name: ToolboxName::new(&name.value),
                description,
                namespace: namespace.clone().unwrap_or_else(|| name.value.clone()),
                servers: vec![*server],
            };
            StandaloneServer::Enabled(Box::new(toolbox), namespace)
        }
        server::ServerCheckOutcome::Disabled => {
            reader.report_warning(&name.location, "ignored: disabled", None);
            StandaloneServer::Disabled
        }
        server::ServerCheckOutcome::Invalid => StandaloneServer::Invalid,
    }
}

fn check_namespace(
    namespace: Option<Located<String>>,
    reader: &mut ConfigReader<'_>,
) -> Option<String> {
    let Located { value, location: spot } = namespace?;
    if value.chars().any(char::is_control) {
        reader.report_error(&spot, "a namespace must not contain control characters", None);
    }
    Some(value)
}

/// Returns the sorted, unique names of all servers, including disabled ones.
fn server_names(
    toolboxes: Option<&LocatedMap<RawToolbox>>,
    alone: Option<&LocatedMap<RawServer>>,
) -> Vec<String> {
    let toolboxes = toolboxes.into_iter().flat_map(|toolboxes| &toolboxes.0);
    let inside = toolboxes.flat_map(|(_, toolbox)| &toolbox.mcp_servers);
    let servers = inside.chain(alone).flat_map(|servers| &servers.0);
    let mut names: Vec<String> = servers.map(|(name, _)| name.value.clone()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Checks the globs of `activeToolsets`. An invalid glob is an error in a native file; in another
/// program's file it matches the tool of exactly that name.
fn check_globs(globs: Vec<Located<String>>, reader: &mut ConfigReader<'_>) -> Vec<String> {
    let mut checked = Vec::with_capacity(globs.len());
    for Located { value, location: spot } in globs {
        if value.trim().is_empty() {
            reader.report_unless_lenient(&spot, "expected a tool name or a glob", "ignored", None);
        } else if let Err(error) = Glob::new(&value) {
            let message = format!("`{value}` is not a glob: {}", error.kind());
            let hint = "write a name, or a glob such as `notes_*`".to_owned();
            reader.report_unless_lenient(&spot, &message, "read as a name", Some(hint));
            checked.push(globset::escape(&value));
        } else {
            checked.push(value);
        }
    }
    checked
}
