//! Serves agents over HTTP.

use std::sync::Arc;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::app::certificates::CertificateReloader;
use crate::app::error::AppError;
use crate::app::serving::{HttpLifecycle, ServeOptions, serve};
use mcp_workbench_core::backend::{PoolOptions, ServedAgents};
use mcp_workbench_core::gateway::Caller;
use mcp_workbench_http::{
    DefaultAccess, DrainControl, DrainTimeouts, HttpListeners, TlsCertificates,
};
use mcp_workbench_settings::{Config, is_loopback};

/// Serves agents on `listener` over HTTP until a signal comes. The first signal drains: new
/// requests are accepted during the drain delay, and calls in flight get the time of `grace`. A
/// second signal skips the rest. Returns when all servers are gone, within another 3 s. The
/// configuration is reloaded as in [`serve_stdio`](crate::app::serve_stdio).
///
/// # Errors
///
/// Returns an error if signal handlers can't be installed, or the audit log or the health listener
/// can't be opened.
pub async fn serve_http(
    served: ServeOptions,
    options: PoolOptions,
    listener: TcpListener,
    default_access: DefaultAccess,
    grace: DrainTimeouts,
    tls: Option<TlsCertificates>,
) -> Result<(), AppError> {
    let config = &served.config;
    let health = match config.http.health_listen {
        Some(address) => Some(TcpListener::bind(address).await.map_err(AppError::BindHealth)?),
        None => None,
    };
    if let Some(Ok(address)) = health.as_ref().map(TcpListener::local_addr) {
        tracing::info!("serving /health, /ready and /metrics at http://{address}");
    }
    let config_wants = config.http.max_connections;
    let most_connections = connection_limit(mcp_workbench_os::raise_file_limit(), config_wants);
    let tls = tls.map(Arc::new);
    let certificates = tls.as_ref().zip(config.http.tls.as_ref());
    let certificates = certificates.map(|(tls, files)| CertificateReloader::new(tls, files));
    let scheme = if tls.is_some() { "https" } else { "http" };
    let listening =
        HttpListeners { agents: listener, health, max_connections: most_connections, tls };
    let address = listening.agents.local_addr().ok();
    let address = address.map(|at| format!("{scheme}://{at}{}", mcp_workbench_http::ENDPOINT));
    let is_served_elsewhere = !is_for_this_machine(&listening.agents, config);
    let options = PoolOptions {
        agents: ServedAgents { are_many: true, are_remote: is_served_elsewhere, ..options.agents },
        ..options
    };
    let draining = CancellationToken::new();
    let caller = Caller { agent: default_access.agent.clone(), ..Caller::default() };
    let over_http =
        HttpLifecycle { endpoint_url: address, draining: draining.clone(), certificates };
    // Boxed: the future is large.
    Box::pin(serve(served, options, caller, Some(over_http), |app, tasks, shutdown| async move {
        let ending = DrainControl { draining, grace, shutdown };
        mcp_workbench_http::serve(app, listening, default_access, &tasks, ending).await;
    }))
    .await
}

/// Returns `true` if only clients on this machine are expected, directly or through a proxy.
fn is_for_this_machine(listener: &TcpListener, config: &Config) -> bool {
    let is_local = listener.local_addr().is_ok_and(|address| address.ip().is_loopback());
    let jwt = config.auth.as_ref().and_then(|auth| auth.jwt.as_ref());
    let resource = jwt.and_then(|jwt| jwt.resource.as_ref());
    let mut addresses = resource.into_iter().chain(&config.http.public_url);
    is_local && config.http.allowed_hosts.is_empty() && addresses.all(is_loopback)
}

/// Open files that aren't client connections, such as pipes of servers.
const RESERVED_FDS: u64 = 256;

/// Returns the connection limit for this many open `files`. Warns if it is below `wanted`.
fn connection_limit(files: Option<u64>, wanted: usize) -> usize {
    let most = files.map_or(u64::MAX, |files| files.saturating_sub(RESERVED_FDS).max(files / 2));
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    if most < wanted {
        tracing::warn!(
            "the open-file limit of {} allows at most {most} connections, fewer than \
             `http.maxConnections` ({wanted}): raise the hard limit (`ulimit -Hn`) or lower \
             `http.maxConnections`",
            files.unwrap_or_default(),
        );
    }
    most
}
