//! `catalog`: a folder of YAML files that says which tools there are, written and compared.

use std::process::ExitCode;
use std::sync::Arc;

use crate::catalog::ToolDefinition;
use crate::cli::Global;
use crate::cli::error::Error;
use crate::gateway::Snapshot;
use crate::name::ServerRef;

mod compare;
mod draft;
mod init;

/// Write a catalog folder, or compare one with its servers
///
/// A catalog is a folder of YAML files: categories, in them services, in them a file for each tool.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Init(init::Args),
    Check(compare::Args),
}

pub(crate) fn run(global: &Global, args: &Args) -> Result<ExitCode, Error> {
    match &args.command {
        Command::Init(args) => init::run(global, args),
        Command::Check(args) => compare::run(global, args),
    }
}

/// The tools that a server lists, as it says them itself.
pub(crate) fn tools(snapshot: &Snapshot, at: &ServerRef) -> Vec<Arc<ToolDefinition>> {
    let view = snapshot.view(&at.toolbox);
    view.tools_of(&at.server).iter().map(|tool| Arc::clone(&tool.own)).collect()
}

/// The schema of a tool's arguments.
fn schema(tool: &ToolDefinition) -> serde_json::Value {
    let whole: serde_json::Value = tool.raw.parse().unwrap_or_default();
    whole.get("inputSchema").cloned().unwrap_or_else(|| serde_json::json!({ "type": "object" }))
}
