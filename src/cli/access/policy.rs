//! `policy diff`: compares the access of each agent between two configurations.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;

use crate::cli::access::access_diff;
use crate::cli::args::{GlobalArgs, with_run_context};
use crate::cli::output::{CommandError, print};
use crate::cli::runtime::current_folder;
use crate::cli::servers::cached_listings::CachedTools;
use crate::cli::servers::value_sources::CheckOnly;
use mcp_workbench_config::env::ProcessEnv;
use mcp_workbench_names::ServerRef;
use mcp_workbench_settings::Config;

const EXAMPLES: &str = "\
Examples:
  mcp-workbench policy diff old.json workbench-config.json
  git show HEAD:workbench-config.json > /tmp/old.json
  mcp-workbench policy diff /tmp/old.json workbench-config.json --json";

/// Compare access rules
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: PolicyCommand,
}

#[derive(Debug, Subcommand)]
enum PolicyCommand {
    /// Show what each agent gains or loses between configurations
    ///
    /// Compares the tools in the cached tool lists; for a server without one, the names and patterns
    /// in the rules. Changed conditions and confirmations count, too. Starts no server.
    ///
    /// Exits with 0 if nothing changes, 1 if something does, and 2 if a configuration is invalid.
    Diff {
        /// Old configuration
        old: PathBuf,
        /// New configuration
        new: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(global: &GlobalArgs, args: &Args) -> Result<ExitCode, CommandError> {
    let PolicyCommand::Diff { old, new, json } = &args.command;
    let [old, new] = [load(global, old)?, load(global, new)?];
    let known = access_diff::cached_tools(global, &old, &new)?;
    note_unknown(&[&old, &new], &known);
    let changes = access_diff::diff(global, old, new, &known)?;
    if *json {
        print::json(&changes)?;
    } else {
        print::prose(&access_diff::in_words(&changes))?;
    }
    let is_same = changes.is_empty();
    Ok(if is_same { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn note_unknown(configs: &[&Config], known: &CachedTools) {
    let mut unknown = BTreeSet::new();
    for toolbox in configs.iter().flat_map(|config| &config.toolboxes) {
        for server in toolbox.launchable_servers() {
            let at = ServerRef { toolbox: toolbox.name.clone(), server: server.name.clone() };
            if !known.contains_key(&at) {
                unknown.insert(format!("`{}`", server.name));
            }
        }
    }
    if !unknown.is_empty() {
        print::note(&format!(
            "no cached tool list for some servers, so only names in rules are compared: {}\n\
             hint: run `mcp-workbench cache refresh` to cache their tool lists",
            unknown.into_iter().collect::<Vec<_>>().join(", ")
        ));
    }
}

fn load(global: &GlobalArgs, file: &Path) -> Result<Config, CommandError> {
    let folder = current_folder()?;
    let location = mcp_workbench_config::locate(Some(file.to_owned()), &ProcessEnv, &folder);
    let loaded = mcp_workbench_config::load(&location, &ProcessEnv, &CheckOnly)
        .map_err(CommandError::config)?;
    Ok(with_run_context(loaded, global.mode, &folder).config)
}
