//! Rules and patterns that match nothing.

use std::path::Path;

use crate::cli::args::GlobalArgs;
use crate::cli::gateways::{with_gateway, without_policy};
use crate::cli::output::CommandError;
use crate::cli::servers::cached_listings;
use mcp_workbench_config::{Finding, locate_key};
use mcp_workbench_core::policy;
use mcp_workbench_names::ServerRef;
use mcp_workbench_os::read_input_text;
use mcp_workbench_settings::{Config, ConfirmationPolicy};

/// Returns a remark on each name and glob that matches nothing its servers have. Servers without a
/// cached listing are skipped.
pub(crate) fn findings(global: &GlobalArgs, config: &Config) -> Result<Vec<Finding>, CommandError> {
    if !has_tool_rules(config) && !has_primitive_rules(config) {
        return Ok(Vec::new());
    }
    let known = cached_listings::tools(global, config)?;
    let names = |tools: Vec<(String, _)>| tools.into_iter().map(|(name, _)| name).collect();
    let known = known.into_iter().map(|(server, tools)| (server, names(tools))).collect();
    let mut rules = policy::find_unmatched_tool_patterns(config, &known);
    if has_primitive_rules(config) {
        let listings = cached_listings::listings(global, config)?;
        rules.extend(policy::find_unmatched_primitive_patterns(
            config,
            &listings.into_iter().collect(),
        ));
    }
    let patterns = patterns(global, config)?;
    if rules.is_empty() && patterns.is_empty() {
        return Ok(Vec::new());
    }
    let source = global.source_file()?;
    let text = source.and_then(|file| {
        let text = read_input_text(&file).ok()?;
        Some((file, text))
    });
    let place = |keys: &[String], otherwise: &str| -> (String, Option<(usize, usize)>) {
        let key = text.as_ref().and_then(|(file, text)| locate_key(text, Path::new(file), keys));
        key.map_or_else(|| (otherwise.to_owned(), None), |key| (key.path, Some((key.line, 1))))
    };
    let rules = rules.iter().map(|found| {
        let (path, position) = place(found.rule.path(), found.rule.as_str());
        Finding { position, ..Finding::warning(path, found.to_string(), found.hint.clone()) }
    });
    let (path, position) = place(&["active_toolsets".to_owned()], "activeToolsets");
    let patterns = patterns.into_iter().map(|(pattern, hint)| {
        let message = format!("`{pattern}` matches no tool or resource");
        Finding { position, ..Finding::warning(path.clone(), message, hint) }
    });
    Ok(rules.chain(patterns).collect())
}

/// Returns the patterns of `activeToolsets` without a match, each with a hint. Modes without
/// namespaces don't use them.
fn patterns(
    global: &GlobalArgs,
    config: &Config,
) -> Result<Vec<(String, Option<String>)>, CommandError> {
    if !config.mode.has_namespaces() || config.active_toolsets.is_empty() {
        return Ok(Vec::new());
    }
    let whole = without_policy(config.clone());
    with_gateway(global, whole, async |gateway| {
        gateway.views().wait_for_stored_listings().await;
        let snapshot = gateway.snapshot();
        let is_listed = |at: &ServerRef| {
            let view = snapshot.view(&at.toolbox);
            view.abilities_of(&at.server).is_some()
        };
        let all = snapshot.namespaced();
        let names: Vec<&str> = all.items.iter().map(|item| item.documented_name.as_str()).collect();
        let dead = all.unmatched(&gateway.config().active_toolsets, is_listed).into_iter();
        let dead = dead.map(|pattern| {
            let bare = pattern.trim_start_matches('!');
            let near = mcp_workbench_names::nearest(bare, names.iter().copied(), 1).pop();
            (pattern.to_owned(), near.map(|near| format!("did you mean `{near}`?")))
        });
        dead.collect()
    })
}

fn has_tool_rules(config: &Config) -> bool {
    let servers = config.toolboxes.iter().flat_map(|toolbox| &toolbox.servers);
    let mut entries = servers.map(|server| {
        !server.tool_filters.is_empty() || server.include.is_some() || !server.overrides.is_empty()
    });
    let policy = &config.policy;
    policy.has_rules()
        || !policy.dangerous_tools.is_empty()
        || policy.confirmation != ConfirmationPolicy::default()
        || (config.mode.has_namespaces() && !config.active_toolsets.is_empty())
        || entries.any(|speaks| speaks)
}

fn has_primitive_rules(config: &Config) -> bool {
    let policy = &config.policy;
    let mut servers = config.toolboxes.iter().flat_map(|toolbox| &toolbox.servers);
    let mut agents = policy.agents.values();
    !policy.exposed_resources.is_empty()
        || !policy.exposed_prompts.is_empty()
        || agents.any(|a| !a.resource_overrides.is_empty() || !a.prompt_overrides.is_empty())
        || servers.any(|s| !s.resource_filters.is_empty() || !s.prompt_filters.is_empty())
}
