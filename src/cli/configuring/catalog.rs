//! `catalog`: generates a catalog folder, or compares one with its servers.

use std::process::ExitCode;

use crate::cli::args::GlobalArgs;
use crate::cli::output::CommandError;
use mcp_workbench_core::catalog::ToolDefinition;

mod check;
mod draft;
mod init;

/// Generate a catalog folder, or compare one with its servers
///
/// A catalog folder organizes tools in YAML files: categories contain services, and services contain
/// a file per tool.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: CatalogCommand,
}

#[derive(Debug, clap::Subcommand)]
enum CatalogCommand {
    Init(init::Args),
    Check(check::Args),
}

pub(crate) fn run(global: &GlobalArgs, args: &Args) -> Result<ExitCode, CommandError> {
    match &args.command {
        CatalogCommand::Init(args) => init::run(global, args),
        CatalogCommand::Check(args) => check::run(global, args),
    }
}

fn schema(tool: &ToolDefinition) -> serde_json::Value {
    let whole: serde_json::Value = tool.raw.parse().unwrap_or_default();
    whole.get("inputSchema").cloned().unwrap_or_else(|| serde_json::json!({ "type": "object" }))
}
