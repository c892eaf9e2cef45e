//! `reload`: asks running workbenches to reload their configuration.

use std::process::ExitCode;

use crate::cli::args::GlobalArgs;
use crate::cli::output::{CommandError, format_count, print};
use crate::cli::servers::running_workbenches::{request_reload, serving_workbenches};

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
    let loaded = global.load()?;
    let mut file = global.config_file()?;
    if !file.exists() {
        // Only a project file is served.
        file = loaded.file.into();
    }
    let serving = serving_workbenches(global, &file)?;
    for (record, asked) in serving.iter().zip(request_reload(&serving)?) {
        asked.map_err(|error| {
            CommandError::failed(format!("failed to signal the workbench with PID {}", record.pid))
                .because(&error)
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
