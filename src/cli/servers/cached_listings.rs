//! Reads cached listings instead of starting servers.

use std::collections::HashMap;
use std::sync::Arc;

use crate::app;
use crate::cli::args::GlobalArgs;
use crate::cli::gateways::{pool_options, without_policy};
use crate::cli::output::CommandError;
use crate::cli::runtime::block_on;
use mcp_workbench_core::backend::{LoginScope, ServerTransport};
use mcp_workbench_core::catalog::{DefinitionDrift, Listing};
use mcp_workbench_core::gateway::Caller;
use mcp_workbench_core::policy::ToolTraits;
use mcp_workbench_core::toolbox::ServerView;
use mcp_workbench_names::{ServerName, ServerRef};
use mcp_workbench_settings::{Config, DriftPolicy, MACROS, ServerConfig};

/// The servers' tools by their own names. Servers without a cached listing are absent.
pub(crate) type CachedTools = HashMap<ServerRef, Vec<(String, ToolTraits)>>;

pub(crate) type DriftByServer = HashMap<ServerRef, Vec<DefinitionDrift>>;

/// Returns all cached tools, including filtered ones, and the configured macros.
pub(crate) fn tools(global: &GlobalArgs, config: &Config) -> Result<CachedTools, CommandError> {
    Ok(tools_with_drift(global, config)?.0)
}

pub(crate) fn tools_with_drift(
    global: &GlobalArgs,
    config: &Config,
) -> Result<(CachedTools, DriftByServer), CommandError> {
    let found = read_cached(global, config, |part, drift| {
        let tools = part.tools.iter().map(|tool| {
            let annotations = tool.server_definition.annotations();
            (tool.server_definition.name.clone(), ToolTraits { annotations, ..tool.traits })
        });
        (tools.collect::<Vec<_>>(), drift)
    })?;
    let (mut known, mut drift) = (CachedTools::new(), DriftByServer::new());
    for (at, (tools, drifted)) in found {
        drift.insert(at.clone(), drifted);
        known.insert(at, tools);
    }
    for toolbox in &config.toolboxes {
        let macros = toolbox.macros().map(|config| (config.name.clone(), ToolTraits::default()));
        let macros: Vec<_> = macros.collect();
        if !macros.is_empty() {
            let (toolbox, server) = (toolbox.name.clone(), ServerName::new(MACROS));
            known.insert(ServerRef { toolbox, server }, macros);
        }
    }
    Ok((known, drift))
}

pub(crate) fn listings(
    global: &GlobalArgs,
    config: &Config,
) -> Result<HashMap<ServerRef, Arc<Listing>>, CommandError> {
    read_cached(global, config, |part, _| Arc::clone(part.listing()))
}

/// Returns `true` if the cache has a usable listing of the server.
pub(crate) fn is_cached(global: &GlobalArgs, server: &ServerConfig) -> bool {
    let reach = ServerTransport::from_config(server, &LoginScope::only(None)).ok();
    let store = global.store();
    let kept = reach.zip(store).and_then(|(reach, store)| store.look_up(&reach, server.protocol));
    kept.is_some_and(|entry| entry.record.is_ok())
}

fn read_cached<T: 'static>(
    global: &GlobalArgs,
    config: &Config,
    of: impl Fn(&ServerView, Vec<DefinitionDrift>) -> T,
) -> Result<HashMap<ServerRef, T>, CommandError> {
    let mut whole = without_policy(config.clone());
    for server in whole.toolboxes.iter_mut().flat_map(|toolbox| &mut toolbox.servers) {
        server.tool_filters.clear();
        server.resource_filters.clear();
        server.prompt_filters.clear();
        server.include = None;
        server.overrides.clear();
        // `Warn` reports drift without hiding the definitions.
        let heeded = server.drift_policy.filter(|mode| *mode != DriftPolicy::Off);
        server.drift_policy = heeded.map(|_| DriftPolicy::Warn);
    }
    let options = pool_options(Some(global));
    let known = block_on(app::with_gateway(whole, options, &Caller::ANONYMOUS, async |gateway| {
        gateway.views().wait_for_stored_listings().await;
        let kept = gateway.views().stored_listings();
        let snapshot = gateway.snapshot();
        let known = kept.into_iter().filter_map(|(server_ref, _)| {
            let drift = snapshot.drift(&server_ref).map(|judged| judged.drift.clone());
            let view = snapshot.view(&server_ref.toolbox);
            let known = of(view.part(server_ref.server.as_str())?, drift.unwrap_or_default());
            Some((server_ref, known))
        });
        known.collect()
    }))?;
    known.map_err(CommandError::internal)
}
