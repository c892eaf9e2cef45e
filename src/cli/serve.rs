//! `serve`: serves the toolboxes to an agent.

use std::io::IsTerminal;
use std::process::ExitCode;

use crate::app;
use crate::cli::error::Error;
use crate::cli::{Global, block_on, pool_options, print};

/// Serves until the agent leaves.
pub(crate) fn run(global: &Global) -> Result<ExitCode, Error> {
    let loaded = global.load()?;
    if std::io::stdin().is_terminal() {
        print::note(
            &"serving MCP on standard input, as a client would use it; Ctrl-C ends it\n\
              hint: `mcp-workbench demo` shows what an agent sees",
        );
    }
    block_on(app::serve_stdio(loaded.config, pool_options()))?.map_err(Error::internal)?;
    Ok(ExitCode::SUCCESS)
}
