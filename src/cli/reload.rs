//! `reload`: asks running workbenches to reload their configuration.

use std::path::Path;
use std::process::ExitCode;

use crate::cli::error::CommandError;
use crate::cli::units::format_count;
use crate::cli::{GlobalArgs, print};
use crate::os;
use crate::telemetry::process_registry;

const EXAMPLES: &str = "\
Examples:
  mcp-workbench reload
  mcp-workbench reload --config ~/team/workbench-config.json";

/// Have the workbenches that serve a configuration take it over as it is now
///
/// A workbench follows changes of its file by itself where they are about how toolboxes are presented.
/// Who may do what, what is launched and who may ask are taken over when somebody asks for it, for whoever
/// can write the file may be an agent. This command asks, as SIGHUP does. A file that cannot be used is
/// not taken over.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {}

pub(crate) fn run(global: &GlobalArgs, _: &Args) -> Result<ExitCode, CommandError> {
    global.load()?;
    let file = global.config_file()?;
    let record =
        process_registry::read_processes(&global.resolve_cache_dir()?).map_err(|error| {
            CommandError::failed("what runs cannot be found out").with_cause(&error.to_string())
        })?;
    let is_same = |config: &str| match (Path::new(config).canonicalize(), file.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    };
    let serving: Vec<_> = record.iter().filter(|record| is_same(&record.config)).collect();
    for record in &serving {
        os::send_reload_signal(record.pid).map_err(|error| {
            CommandError::failed(format!("the workbench {} cannot be asked", record.pid))
                .with_cause(&error.to_string())
                .with_hint("restart it: it reads its configuration at the start")
        })?;
    }
    if serving.is_empty() {
        return Err(CommandError::failed(format!("no workbench serves `{}` now", file.display()))
            .with_hint("`mcp-workbench ps` shows those that serve"));
    }
    print::note(&format!(
        "asked {}; `mcp-workbench logs` says what became of it",
        format_count(serving.len(), "workbench")
    ));
    Ok(ExitCode::SUCCESS)
}
