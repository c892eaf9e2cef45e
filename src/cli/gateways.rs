//! Runs commands with a gateway.

use std::sync::Arc;

use crate::app;
use crate::cli::args::GlobalArgs;
use crate::cli::output::CommandError;
use crate::cli::runtime::{block_on, current_program};
use mcp_workbench_config::env::{EnvSource, ProcessEnv};
use mcp_workbench_core::backend::{ChildEnvironment, PoolOptions};
use mcp_workbench_core::gateway::Gateway;
use mcp_workbench_settings::{Config, PolicyConfig};

/// Returns the configuration without access rules, for commands that inspect its servers.
pub(crate) fn without_policy(config: Config) -> Config {
    Config { policy: PolicyConfig::default(), ..config }
}

pub(crate) fn with_gateway<T>(
    global: &GlobalArgs,
    config: Config,
    work: impl AsyncFnOnce(&Gateway) -> T,
) -> Result<T, CommandError> {
    run_with_gateway(global, config, pool_options(Some(global)), work)
}

/// Like `with_gateway`, with calls written to the configured audit log.
pub(crate) fn with_recording_gateway<T>(
    global: &GlobalArgs,
    config: Config,
    work: impl AsyncFnOnce(&Gateway) -> T,
) -> Result<T, CommandError> {
    let options = pool_options(Some(global));
    options.observer.open_audit(&config).map_err(|error| {
        CommandError::failed("failed to open the audit log configured in `audit`").because(&error)
    })?;
    run_with_gateway(global, config, options, work)
}

fn run_with_gateway<T>(
    global: &GlobalArgs,
    config: Config,
    options: PoolOptions,
    work: impl AsyncFnOnce(&Gateway) -> T,
) -> Result<T, CommandError> {
    block_on(app::with_gateway(config, options, &global.caller(), work))?
        .map_err(CommandError::internal)
}

pub(crate) fn pool_options(global: Option<&GlobalArgs>) -> PoolOptions {
    PoolOptions {
        environment: Arc::new(ChildEnvironment::new(ProcessEnv.vars())),
        program: current_program(),
        homes: global.and_then(GlobalArgs::homes),
        direct: global.and_then(GlobalArgs::direct_records),
        store: global.and_then(GlobalArgs::store),
        logins: global.and_then(GlobalArgs::login_keep),
        ..PoolOptions::default()
    }
}
