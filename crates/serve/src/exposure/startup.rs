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

/// In modes that list everything, starts the servers without a cached listing, and waits for them
/// if the mode does. Returns immediately if that was done before.
pub async fn ensure_started(exposure: &Exposure, agent: &AgentHandle) {
    match exposure.traits().startup {
        Startup::OnDemand => {}
        Startup::TryUnlisted => {
            Box::pin(try_servers(exposure, &RequestContext::detached(agent))).await;
        }
        Startup::UnlistedInBackground => {
            Box::pin(exposure.gateway.startup().start_unlisted_once(agent)).await;
        }
        Startup::ListAll => {
            let context = RequestContext::detached(agent);
            Box::pin(exposure.gateway.startup().ensure_listed(&context)).await;
        }
        Startup::RunAll => Box::pin(exposure.gateway.startup().start_all_and_wait(agent)).await,
    }
}

/// Like `ensure_started`, but also starts servers with a cached listing and waits for them: for their
/// live instructions, or for a name that no cached listing has.
pub(crate) async fn ensure_running(exposure: &Exposure, agent: &AgentHandle) {
    match exposure.traits().startup {
        Startup::OnDemand | Startup::TryUnlisted => ensure_started(exposure, agent).await,
        Startup::UnlistedInBackground | Startup::ListAll | Startup::RunAll => {
            Box::pin(exposure.gateway.startup().start_all_and_wait(agent)).await;
        }
    }
}
