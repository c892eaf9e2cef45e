//! Builds the program from its parts: serves agents over stdio or HTTP, or runs a single task with
//! a gateway. Both end on their own or on a signal, followed by a shutdown.

mod certificates;
mod error;
mod file_watcher;
mod http;
mod memory_reclaimer;
mod reload;
mod serving;
mod signals;

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::app::serving::serve;
use crate::app::signals::ShutdownSignals;
use mcp_workbench_core::backend::PoolOptions;
use mcp_workbench_core::gateway::{Caller, Gateway, GatewayRegistry};
use mcp_workbench_serve::frontend::{self, StreamDrain};
use mcp_workbench_settings::Config;
use mcp_workbench_wire::http_client::bridge::{self, BridgeOutcome, BridgeUpstream};
use mcp_workbench_wire::json::RawJson;
use mcp_workbench_wire::stdio;

pub use crate::app::error::AppError;
pub use crate::app::http::serve_http;
pub use crate::app::memory_reclaimer::MemoryReclaimer;
pub use crate::app::reload::{DescribeDiffFn, ReloadSource, ValueRefresh};
pub(crate) use crate::app::serving::FLUSH_TIMEOUT_RANGE;
pub use crate::app::serving::{CommandOptions, ServeOptions};
pub use crate::app::signals::run_until_signal;

/// Serves one agent, `caller`, on standard input and output until the input ends or a signal comes.
/// After the end of the input, requests in flight get the time of `grace`, unless the agent has
/// closed its end of the output. Returns when all servers are gone, within another 2 s. With a source, the configuration is reloaded when
/// its file changes and on SIGHUP.
///
/// # Errors
///
/// Returns an error if signal handlers can't be installed or the audit log can't be opened.
pub async fn serve_stdio(
    served: ServeOptions,
    options: PoolOptions,
    caller: Caller,
    grace: Duration,
) -> Result<(), AppError> {
    // Boxed: the future is large.
    Box::pin(serve(served, options, caller.clone(), None, move |app, tasks, shutdown| async move {
        let streams = stdio::streams();
        let drain = StreamDrain { timeout: grace, agent_left: mcp_workbench_os::output_closed() };
        frontend::serve_stream(&app, caller, streams, &tasks, &shutdown, drain).await;
        tracing::info!("the client disconnected");
    }))
    .await
}

/// Bridges the agent on standard input and output to the workbench at `upstream` until the input
/// ends or a signal comes. `revive` is called if that workbench doesn't answer.
///
/// # Errors
///
/// Returns an error if signal handlers can't be installed.
pub async fn run_bridge(
    upstream: BridgeUpstream,
    revive: impl AsyncFn() -> Result<(), String>,
) -> Result<Result<BridgeOutcome, String>, AppError> {
    mcp_workbench_os::raise_file_limit();
    let mut signals =
        ShutdownSignals::listen(Vec::new()).map_err(AppError::InstallSignalHandler)?;
    let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
    let carried = bridge::run(stdio::streams(), upstream, revive, &stop, &tasks);
    tokio::pin!(carried);
    match signals.run_until_signal(&mut carried).await {
        Ok(end) => Ok(end),
        Err(stopped) => {
            tracing::info!("{stopped}");
            stop.cancel();
            Ok(carried.await)
        }
    }
}

/// Runs `work` with a gateway for `caller`, until it is done or a signal comes. Returns when all
/// servers are gone.
pub async fn with_gateway<T>(
    config: Config,
    options: PoolOptions,
    caller: &Caller,
    work: impl AsyncFnOnce(&Gateway) -> T,
) -> Result<T, AppError> {
    with_gateway_for_client(config, options, (caller, None), work).await
}

/// Like [`with_gateway`], with the MCP capabilities that the client declares.
pub async fn with_gateway_for_client<T>(
    config: Config,
    options: PoolOptions,
    (caller, capabilities): (&Caller, Option<&RawJson>),
    work: impl AsyncFnOnce(&Gateway) -> T,
) -> Result<T, AppError> {
    let tasks = TaskTracker::new();
    let gateways = GatewayRegistry::new(Arc::new(config), options, &tasks);
    let gateway = gateways.gateway_for(caller, capabilities);
    let done = run_until_signal(work(&gateway)).await;
    gateways.shut_down().await;
    gateways.observer().close(FLUSH_TIMEOUT_RANGE.0);
    done
}
