//! `reload`: asks running workbenches to reload their configuration.

use std::path::Path;
use std::process::ExitCode;

use crate::cli::error::CommandError;
use crate::cli::units::format_count;
use crate::cli::{GlobalArgs, print};
use crate::telemetry::process_registry;

const EXAMPLES: &str = "\
Examples:
  mcp-workbench reload
  mcp-workbench reload --config ~/team/workbench-config.json";

/// Reload the configuration in running workbenches
///
/// Applies all changes of the configuration file in every workbench that serves it, as SIGHUP does.
/// Without `reload`, a workbench applies only changes to presentation automatically (see
/// `autoReload`). Changes to access rules, launches and authentication wait for a reload, because an
/// agent with a file tool may be able to edit the file.
///
/// An invalid configuration is rejected; the previous one stays active.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {}

pub(crate) fn run(global: &GlobalArgs, _: &Args) -> Result<ExitCode, CommandError> {
    global.load()?;
    let file = global.config_file()?;
    let record =
        process_registry::read_processes(&global.resolve_cache_dir()?).map_err(|error| {
            CommandError::failed("failed to list running workbenches")
                .with_cause(&error.to_string())
        })?;
    let is_same = |config: &str| match (Path::new(config).canonicalize(), file.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    };
    let serving: Vec<_> = record.iter().filter(|record| is_same(&record.config)).collect();
    let signals = crate::cli::block_on(async {
        let mut signals = Vec::new();
        for record in &serving {
            let signal = record.process().await.and_then(|process| process.reload());
            signals.push((record.pid, signal));
        }
        signals
    })?;
    for (pid, signal) in signals {
        signal.map_err(|error| {
            CommandError::failed(format!("failed to signal the workbench with PID {pid}"))
                .with_cause(&error.to_string())
                .with_hint("restart it to apply the configuration")
        })?;
    }
    if serving.is_empty() {
        return Err(CommandError::failed(format!(
            "no running workbench uses `{}`",
            file.display()
        ))
        .with_hint("run `mcp-workbench ps` to list running workbenches"));
    }
    print::note(&format!(
        "requested a reload of {}; run `mcp-workbench logs` to see the result",
        format_count(serving.len(), "workbench")
    ));
    Ok(ExitCode::SUCCESS)
}
