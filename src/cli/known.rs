//! The knowledge of what servers have without starting anything: what is kept of their listings.

use std::collections::HashMap;
use std::sync::Arc;

use crate::app;
use crate::catalog::{Drifted, Listing};
use crate::cli::error::Error;
use crate::cli::{Global, block_on, pool_options, without_rules};
use crate::gateway::Caller;
use crate::name::{ServerName, ServerRef};
use crate::policy::Traits;
use crate::settings::{Config, Definitions, MACROS};
use crate::toolbox::Part;

/// The tools of servers by their own names, as far as anything is kept of them.
pub(crate) type Known = HashMap<ServerRef, Vec<(String, Traits)>>;

/// Definitions among those that are not as the lock has them, by server.
pub(crate) type Drift = HashMap<ServerRef, Vec<Drifted>>;

/// Looks at what is kept of the tools of a configuration's servers, whatever is left out of it; its
/// macros are known.
pub(crate) fn tools(global: &Global, config: &Config) -> Result<Known, Error> {
    Ok(tools_and_drift(global, config)?.0)
}

/// Looks at it, and at what of it is not as the lock has it.
pub(crate) fn tools_and_drift(global: &Global, config: &Config) -> Result<(Known, Drift), Error> {
    let found = look(global, config, |part, drift| {
        let tools = part.tools.iter().map(|tool| {
            let is_destructive = tool.own.is_destructive();
            (tool.own.name.clone(), Traits { is_destructive, ..tool.traits })
        });
        (tools.collect::<Vec<_>>(), drift)
    })?;
    let (mut known, mut drift) = (Known::new(), Drift::new());
    for (at, (tools, drifted)) in found {
        drift.insert(at.clone(), drifted);
        known.insert(at, tools);
    }
    for toolbox in &config.toolboxes {
        let macros = toolbox.macros().map(|config| (config.name.clone(), Traits::default()));
        let macros: Vec<_> = macros.collect();
        if !macros.is_empty() {
            let (toolbox, server) = (toolbox.name.clone(), ServerName::new(MACROS));
            known.insert(ServerRef { toolbox, server }, macros);
        }
    }
    Ok((known, drift))
}

/// Looks at what is kept of all that a configuration's servers list.
pub(crate) fn listings(
    global: &Global,
    config: &Config,
) -> Result<HashMap<ServerRef, Arc<Listing>>, Error> {
    look(global, config, |part, _| Arc::clone(part.listing()))
}

fn look<T: 'static>(
    global: &Global,
    config: &Config,
    of: impl Fn(&Part, Vec<Drifted>) -> T,
) -> Result<HashMap<ServerRef, T>, Error> {
    let mut whole = without_rules(config.clone());
    for server in whole.toolboxes.iter_mut().flat_map(|toolbox| &mut toolbox.servers) {
        server.tool_filters.clear();
        server.resource_filters.clear();
        server.prompt_filters.clear();
        server.include = None;
        server.overrides.clear();
        // What is kept from agents is known here.
        let heeded = server.definitions.filter(|mode| *mode != Definitions::Off);
        server.definitions = heeded.map(|_| Definitions::Warn);
    }
    let options = pool_options(Some(global));
    let known = block_on(app::with_gateway(whole, options, &Caller::NOBODY, async |gateway| {
        gateway.recalled().await;
        let kept = gateway.remembered();
        let snapshot = gateway.snapshot();
        let known = kept.into_iter().filter_map(|(server_ref, _)| {
            let drift = snapshot.drift(&server_ref).map(|judged| judged.drift.clone());
            let view = snapshot.view(&server_ref.toolbox);
            let known = of(view.part(server_ref.server.as_str())?, drift.unwrap_or_default());
            Some((server_ref, known))
        });
        known.collect()
    }))?;
    known.map_err(Error::internal)
}
