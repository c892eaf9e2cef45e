//! Rules and patterns that mean nothing that servers have.

use std::path::Path;

use crate::cli::error::Error;
use crate::cli::{Global, known, with_gateway, without_rules};
use crate::config::{Finding, find_key};
use crate::name::{self, ServerRef};
use crate::policy;
use crate::settings::{Config, Confirmation};

/// Returns a remark on each name and glob of a configuration that means nothing that its servers
/// have, as far as it is kept what they list.
pub(crate) fn findings(global: &Global, config: &Config) -> Result<Vec<Finding>, Error> {
    if !speaks_of_tools(config) && !speaks_of_others(config) {
        return Ok(Vec::new());
    }
    let known = known::tools(global, config)?;
    let names = |tools: Vec<(String, _)>| tools.into_iter().map(|(name, _)| name).collect();
    let known = known.into_iter().map(|(server, tools)| (server, names(tools))).collect();
    let mut rules = policy::unmatched(config, &known);
    if speaks_of_others(config) {
        let listings = known::listings(global, config)?;
        rules.extend(policy::unmatched_besides(config, &listings.into_iter().collect()));
    }
    let patterns = patterns(global, config)?;
    if rules.is_empty() && patterns.is_empty() {
        return Ok(Vec::new());
    }
    let source = global.own_file()?;
    let text = source.and_then(|file| {
        let text = std::fs::read_to_string(&file).ok()?;
        Some((file, text))
    });
    let place = |keys: &[String], otherwise: &str| -> (String, Option<(usize, usize)>) {
        let key = text.as_ref().and_then(|(file, text)| find_key(text, Path::new(file), keys));
        key.map_or_else(|| (otherwise.to_owned(), None), |key| (key.path, Some((key.line, 1))))
    };
    let rules = rules.iter().map(|found| {
        let (path, position) = place(found.rule.path(), found.rule.as_str());
        Finding { position, ..Finding::remark(path, found.to_string(), found.hint.clone()) }
    });
    let (path, position) = place(&["active_toolsets".to_owned()], "activeToolsets");
    let patterns = patterns.into_iter().map(|(pattern, hint)| {
        let message = format!("`{pattern}` matches no tool and no resource");
        Finding { position, ..Finding::remark(path.clone(), message, hint) }
    });
    Ok(rules.chain(patterns).collect())
}

/// Returns the patterns of `activeToolsets` that match nothing, each with a hint; none in other
/// modes, where they have no meaning.
fn patterns(global: &Global, config: &Config) -> Result<Vec<(String, Option<String>)>, Error> {
    if !config.mode.has_namespaces() || config.active_toolsets.is_empty() {
        return Ok(Vec::new());
    }
    let whole = without_rules(config.clone());
    with_gateway(global, whole, async |gateway| {
        gateway.recalled().await;
        let snapshot = gateway.snapshot();
        let is_listed = |at: &ServerRef| {
            let view = snapshot.view(&at.toolbox);
            view.abilities_of(&at.server).is_some()
        };
        let all = snapshot.namespaced();
        let names: Vec<&str> = all.items.iter().map(|item| item.full.as_str()).collect();
        let dead = all.unmatched(&gateway.config().active_toolsets, is_listed).into_iter();
        let dead = dead.map(|pattern| {
            let bare = pattern.trim_start_matches('!');
            let near = name::nearest(bare, names.iter().copied(), 1).pop();
            (pattern.to_owned(), near.map(|near| format!("did you mean `{near}`?")))
        });
        dead.collect()
    })
}

/// Returns true if anything in the configuration names tools.
fn speaks_of_tools(config: &Config) -> bool {
    let servers = config.toolboxes.iter().flat_map(|toolbox| &toolbox.servers);
    let mut entries = servers.map(|server| {
        !server.tool_filters.is_empty() || server.include.is_some() || !server.overrides.is_empty()
    });
    let policy = &config.policy;
    policy.has_rules()
        || !policy.dangerous_tools.is_empty()
        || policy.confirmation != Confirmation::default()
        || (config.mode.has_namespaces() && !config.active_toolsets.is_empty())
        || entries.any(|speaks| speaks)
}

/// Returns true if anything in the configuration names resources or prompts.
fn speaks_of_others(config: &Config) -> bool {
    let policy = &config.policy;
    let mut servers = config.toolboxes.iter().flat_map(|toolbox| &toolbox.servers);
    let mut agents = policy.agents.values();
    !policy.exposed_resources.is_empty()
        || !policy.exposed_prompts.is_empty()
        || agents.any(|a| !a.resource_overrides.is_empty() || !a.prompt_overrides.is_empty())
        || servers.any(|s| !s.resource_filters.is_empty() || !s.prompt_filters.is_empty())
}
