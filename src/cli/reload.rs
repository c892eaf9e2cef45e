//! `reload`: what is served is what the file says now, whatever has changed in it.

use std::path::Path;
use std::process::ExitCode;

use crate::cli::error::Error;
use crate::cli::size::count;
use crate::cli::{Global, print};
use crate::observe::running;
use crate::os;

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

/// Asks every workbench of this user that serves the file.
pub(crate) fn run(global: &Global, _: &Args) -> Result<ExitCode, Error> {
    global.load()?;
    let file = global.config_file()?;
    let told = running::told(&global.cache()?).map_err(|error| {
        Error::failed("what runs cannot be found out").because(&error.to_string())
    })?;
    let is_same = |config: &str| match (Path::new(config).canonicalize(), file.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    };
    let serving: Vec<_> = told.iter().filter(|told| is_same(&told.config)).collect();
    for told in &serving {
        os::ask_to_reload(told.pid).map_err(|error| {
            Error::failed(format!("the workbench {} cannot be asked", told.pid))
                .because(&error.to_string())
                .hint("restart it: it reads its configuration at the start")
        })?;
    }
    if serving.is_empty() {
        return Err(Error::failed(format!("no workbench serves `{}` now", file.display()))
            .hint("`mcp-workbench ps` shows those that serve"));
    }
    print::note(&format!(
        "asked {}; `mcp-workbench logs` says what became of it",
        count(serving.len(), "workbench")
    ));
    Ok(ExitCode::SUCCESS)
}
