//! Starts the servers whose tools are in a list before an agent gets it.

use crate::exposure::mode::{Exposure, Startup};
use mcp_workbench_core::gateway::{AgentHandle, RequestContext};

/// Returns `true` if a list waits for servers without a cached listing.
pub(crate) fn tries_servers(exposure: &Exposure) -> bool {
    exposure.traits().unlisted_timeout.is_some()
}

/// Starts the servers without a cached listing, so that the list has their tools or reports
/// them as unavailable.
pub(crate) async fn try_servers(exposure: &Exposure, context: &RequestContext<'_>) {
    if let Some(patience) = exposure.traits().unlisted_timeout {
        exposure.gateway.startup().probe_unlisted(context, patience).await;
    }
}

/// In modes that list everything, starts the servers and waits for those without a cached
/// listing. Returns immediately if that was done before.
pub async fn ensure_started(exposure: &Exposure, agent: &AgentHandle) {
    match exposure.traits().startup {
        Startup::OnDemand => {}
        Startup::TryUnlisted => {
            Box::pin(try_servers(exposure, &RequestContext::detached(agent))).await;
        }
        Startup::StartAll => Box::pin(exposure.gateway.startup().start_all(agent)).await,
        Startup::RunAll => Box::pin(exposure.gateway.startup().start_all_and_wait(agent)).await,
    }
}

/// Like `ensure_started`, but also waits for servers with a cached listing, because their live
/// instructions are needed.
pub(crate) async fn ensure_running(exposure: &Exposure, agent: &AgentHandle) {
    match exposure.traits().startup {
        Startup::OnDemand | Startup::TryUnlisted => ensure_started(exposure, agent).await,
        Startup::StartAll | Startup::RunAll => {
            Box::pin(exposure.gateway.startup().start_all_and_wait(agent)).await;
        }
    }
}
