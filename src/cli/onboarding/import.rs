//! `import`: adds servers of other MCP clients to the configuration.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::authoring::import::{
    Grade, Grouping, ImportCandidates, ImportOptions, ImportPlan, collect_candidates,
};
use crate::cli::access::locking::lock_writer::lock_added;
use crate::cli::args::GlobalArgs;
use crate::cli::files::atomic_write;
use crate::cli::files::secret_variables::SecretVariables;
use crate::cli::files::source_files::read_source;
use crate::cli::onboarding::import::sources::ImportSources;
use crate::cli::onboarding::proposal_report::proposal_table;
use crate::cli::onboarding::toolbox_proposal::ToolboxProposal;
use crate::cli::onboarding::{prompt, toolbox_proposal};
use crate::cli::output::{CommandError, print, redact_config};
use crate::cli::runtime::current_folder;
use crate::cli::servers::running_workbenches::reload_running;
use crate::cli::servers::trial_run;
use crate::cli::servers::trial_run::TrialRun;
use mcp_workbench_config::ConfigLocation;
use mcp_workbench_config::env::ProcessEnv;

mod json;
mod report;
mod sources;

const EXAMPLES: &str = "\
Examples:
  mcp-workbench import      Import the servers of all installed clients
  mcp-workbench import ~/.claude.json --dry-run
  mcp-workbench import .vscode/mcp.json .cursor/mcp.json --toolbox dev";

/// Import servers from other MCP clients
///
/// Reads the configuration files of clients such as Claude Code, Codex, Cursor, VS Code, Gemini CLI,
/// Goose and Zed, starts each server once, and proposes toolboxes based on what the tools do.
/// Edits the active configuration, or the file of `--config`; creates `./workbench-config.json` if
/// there is none. Everything already in it stays as it is, including comments. Settings that can't
/// be imported are reported.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "independent flags")]
pub(crate) struct Args {
    /// File to import (repeatable), or `-` for pasted JSON on stdin [default: files of all installed clients]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Put all servers into this toolbox
    #[arg(long, value_name = "NAME", group = "arrangement")]
    toolbox: Option<String>,
    /// Put all servers into one toolbox with a generated name
    #[arg(long, group = "arrangement")]
    one: bool,
    /// One toolbox per server
    #[arg(long, group = "arrangement")]
    per_server: bool,
    /// One toolbox per file
    #[arg(long, group = "arrangement")]
    per_client: bool,
    /// Do not start servers; group them by name
    #[arg(long)]
    no_start: bool,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
    /// Also write workbench.lock for review
    #[arg(long, conflicts_with_all = ["dry_run", "json"])]
    lock: bool,
    /// Print the resulting configuration, write nothing
    #[arg(long)]
    dry_run: bool,
    /// Print JSON with added servers and findings
    #[arg(long)]
    json: bool,
}

/// Imports servers. Fails if nothing or not all access rules could be imported.
pub(crate) fn run(global: &GlobalArgs, args: &Args) -> Result<ExitCode, CommandError> {
    let folder = current_folder()?;
    let target = mcp_workbench_config::discover(global.config.clone(), &ProcessEnv, &folder);
    let ImportSources { sources, permission_sources: models, untrusted: unasked } =
        sources::read(&args.files, &folder)?;
    let existing = match target.path.try_exists() {
        Ok(false) => None,
        Ok(true) | Err(_) => Some(read_source(&target.display_path, &target.path)?),
    };
    let mut secrets = SecretVariables::default();
    let gathered = collect_candidates(existing.as_ref(), &sources, &mut secrets)
        .map_err(CommandError::invalid_config)?;
    let trial = if args.no_start {
        TrialRun::skipped(gathered.servers().len())
    } else {
        trial_run::run(global, gathered.servers(), &target, (&secrets, &unasked))?
    };
    let mut proposed = proposed(args, &gathered, &trial);

    let is_written = !args.dry_run;
    if is_written && !args.json && !args.yes && !proposed.is_empty() && prompt::is_interactive() {
        print::note(&proposal_table(&proposed));
        if !prompt::confirm_toolboxes(&mut proposed, &target.display_path)? {
            print::note(&"nothing was written");
            return Ok(ExitCode::SUCCESS);
        }
    }
    let options = ImportOptions {
        grouping: if args.per_server { Grouping::Server } else { Grouping::File },
        toolbox: args.toolbox.clone(),
        proposal: proposed.iter().map(ToolboxProposal::to_proposal).collect(),
        descriptions: if args.per_server {
            toolbox_proposal::describe_each(gathered.servers(), &trial)
        } else {
            Vec::new()
        },
        toolbox_descriptions: if args.toolbox.is_some() || args.per_client {
            toolbox_proposal::describe_files(gathered.servers(), &trial, args.toolbox.is_some())
        } else {
            Vec::new()
        },
        outcomes: trial.outcomes,
        confirmations: Vec::new(),
    };
    let planned = gathered.plan(&options).map_err(CommandError::invalid_config)?;
    if is_written && !planned.added.is_empty() {
        let models = existing.as_ref().map_or(models, |_| vec![target.path.clone()]);
        let models: Vec<_> = models.iter().map(PathBuf::as_path).collect();
        atomic_write::write_atomically(&target, &planned.text, &models)?;
    }
    let reloaded = if is_written && !planned.added.is_empty() {
        reload_running(global, &target.path)
    } else {
        None
    };
    print(args, &planned, &proposed, (&target, existing.is_some()))?;
    if let Some(reloaded) = reloaded.filter(|_| !args.json) {
        print::prose(&format!("\n{reloaded}"))?;
    }
    if !planned.added.is_empty() && wants_lock(args)? {
        let added = planned.added.iter().map(|added| (&*added.toolbox, &*added.server));
        lock_added(global, &target.path, &added.collect::<Vec<_>>())?;
    }
    let has_failed = is_empty_import(&planned) || planned.has_rejected_policy;
    Ok(if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn wants_lock(args: &Args) -> Result<bool, CommandError> {
    let may_ask = !args.yes && !args.json && !args.dry_run && prompt::is_interactive();
    Ok(args.lock || (may_ask && prompt::confirm_lock()?))
}

/// Returns the proposed toolboxes; empty if the command line determines them.
fn proposed(args: &Args, gathered: &ImportCandidates, trial: &TrialRun) -> Vec<ToolboxProposal> {
    let servers = gathered.servers();
    if servers.is_empty() || args.toolbox.is_some() || args.per_server || args.per_client {
        Vec::new()
    } else if args.one {
        vec![toolbox_proposal::propose_single(servers, trial)]
    } else {
        toolbox_proposal::propose_by_purpose(servers, trial)
    }
}

fn print(
    args: &Args,
    planned: &ImportPlan,
    proposed: &[ToolboxProposal],
    (target, is_extended): (&ConfigLocation, bool),
) -> Result<(), CommandError> {
    let report =
        || report::import_report(planned, proposed, target, (is_extended, args.dry_run), args.lock);
    let text = args.dry_run.then(|| redact_config(&[&planned.text], &planned.text));
    if args.json {
        print::json(&json::ImportReport::new(planned, proposed, target, text.as_deref()))
    } else if let Some(text) = text {
        print::text_unredacted(&text.trim_end())?;
        if text != planned.text {
            print::note(&"note: secrets are shown as `***`, but written as they are\n");
        }
        print::note(&report());
        Ok(())
    } else {
        print::prose(&report())
    }
}

fn is_empty_import(planned: &ImportPlan) -> bool {
    let is_there = |grade| grade == Grade::Exact;
    planned.added.is_empty() && !planned.findings.iter().any(|finding| is_there(finding.grade))
}
