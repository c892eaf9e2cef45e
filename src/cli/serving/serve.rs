//! `serve`: serves the toolboxes over stdio or HTTP.

use std::process::ExitCode;
use std::sync::Arc;

use crate::app::ValueRefresh;
use crate::cli::args::GlobalArgs;
use crate::cli::output::CommandError;
use crate::cli::servers::value_sources::ValueCache;
use crate::cli::serving::serve_loaded::serve_loaded;
use crate::cli::serving::serving_args::ServingArgs;
#[cfg(feature = "test-fakes")]
use mcp_workbench_config::env::{EnvSource, ProcessEnv};
use mcp_workbench_core::telemetry::process_registry::ProcessFiles;

/// Serializes every stored record and reads it back, if set. The value names a member that session
/// records lose.
#[cfg(feature = "test-fakes")]
const REHEARSAL: &str = "WORKBENCH_REHEARSAL";

const EXAMPLES: &str = "\
Examples:
  mcp-workbench serve -c ~/workbench-config.json
  mcp-workbench serve --http 127.0.0.1:8000
  mcp-workbench serve --http 0.0.0.0:8000      (requires `auth`)
  mcp-workbench serve --http 0.0.0.0:8443 --tls-cert tls.crt --tls-key tls.key
  claude mcp add workbench -- mcp-workbench serve -c ~/workbench-config.json
  claude mcp add --transport http workbench http://127.0.0.1:8000/mcp
  claude mcp add --transport http files http://127.0.0.1:8000/mcp/files

HTTP paths:
  /mcp              All toolboxes
  /mcp/<toolbox>    One toolbox
  /health           Liveness
  /ready            Readiness
  /metrics          Prometheus metrics
  /                 The dashboard";

/// Serve your toolboxes over stdio (default) or HTTP
///
/// Over stdio, serves one client until it closes stdin. This is also what `mcp-workbench` does
/// without a command. Over HTTP, serves many clients until SIGTERM or SIGINT.
#[derive(Debug, Default, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) serving: ServingArgs,
}

/// Serves until stdin closes, or over HTTP until a signal arrives.
pub(crate) fn run(
    global: &GlobalArgs,
    args: &Args,
    files: Option<&ProcessFiles>,
) -> Result<ExitCode, CommandError> {
    #[cfg(feature = "test-fakes")]
    if let Some(without) = ProcessEnv.get(REHEARSAL) {
        mcp_workbench_core::state::round_trip::begin(without);
    }
    let global = &global.for_serving(args.serving.http.is_some());
    let values = Arc::<ValueCache>::default();
    let loaded = global
        .read_with_values(&values.source(ValueRefresh::All))?
        .map_err(CommandError::config)?;
    let source = global.config_source(values)?;
    serve_loaded(global, &args.serving, files, loaded, source)
}
