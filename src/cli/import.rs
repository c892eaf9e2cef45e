//! `import`: servers that other clients have, written into the configuration.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::authoring::import::{Gathered, Grade, Grouping, ImportPlan, Options, gather};
use crate::cli::error::Error;
use crate::cli::import::files::Files;
use crate::cli::import::proposal::Proposed;
use crate::cli::import::trial::Trial;
use crate::cli::replace;
use crate::cli::secrets::Variables;
use crate::cli::{Global, lock, print};
use crate::config::env::ProcessEnv;
use crate::config::{self, Location};

pub(in crate::cli) mod ask;
mod files;
mod json;
pub(in crate::cli) mod proposal;
pub(in crate::cli) mod report;
pub(in crate::cli) mod trial;

const EXAMPLES: &str = "\
Examples:
  mcp-workbench import                      Take over what every client here has
  mcp-workbench import ~/.claude.json --dry-run
  mcp-workbench import .vscode/mcp.json .cursor/mcp.json --toolbox dev";

/// Add the servers of other clients to the configuration
///
/// Reads the files that clients such as Claude Code, Codex, Cursor, VS Code, Gemini CLI, Goose and
/// Zed keep their servers in, starts each server once, and proposes toolboxes by what their tools
/// do. What is in the configuration already stays as it is, comments included; what cannot be
/// carried over is reported.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct Args {
    /// A file that has servers in it (can be repeated) [default: those of all clients here]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Put all servers into this toolbox
    #[arg(long, value_name = "NAME", group = "arrangement")]
    toolbox: Option<String>,
    /// Put all servers into one toolbox, which gets a name
    #[arg(long, group = "arrangement")]
    one: bool,
    /// Make a toolbox of every server
    #[arg(long, group = "arrangement")]
    per_server: bool,
    /// Make a toolbox of every file
    #[arg(long, group = "arrangement")]
    per_client: bool,
    /// Start no server, and go by their names
    #[arg(long)]
    no_start: bool,
    /// Write without asking
    #[arg(long, short)]
    yes: bool,
    /// Write `workbench.lock` too: what the servers say of their tools, to be reviewed
    #[arg(long, conflicts_with_all = ["dry_run", "json"])]
    lock: bool,
    /// Print the configuration instead of writing it
    #[arg(long)]
    dry_run: bool,
    /// Print JSON: what was added, and what there is to say
    #[arg(long)]
    json: bool,
}

/// Imports; fails where nothing could be carried over, or not the rules that belong to it.
pub(crate) fn run(global: &Global, args: &Args) -> Result<ExitCode, Error> {
    let folder = std::env::current_dir().map_err(Error::internal)?;
    let target = config::locate(global.config.clone(), &ProcessEnv, &folder);
    let Files { sources, models, unasked } = files::read(&args.files, &folder)?;
    let existing = match target.path.try_exists() {
        Ok(false) => None,
        Ok(true) | Err(_) => Some(files::source(&target.shown, &target.path)?),
    };
    let invalid = |report| Error::config(config::LoadError::Invalid(report));
    let mut secrets = Variables::default();
    let gathered = gather(existing.as_ref(), &sources, &mut secrets).map_err(invalid)?;
    let trial = if args.no_start {
        Trial::none(gathered.servers().len())
    } else {
        trial::run(global, &gathered, &target, (&secrets, &unasked))?
    };
    let mut proposed = proposed(args, &gathered, &trial);

    let is_written = !args.dry_run;
    if is_written && !args.json && !args.yes && !proposed.is_empty() && ask::is_possible() {
        print::note(&report::proposal(&proposed));
        if !ask::whether(&mut proposed, &target.shown)? {
            print::note(&"nothing was written");
            return Ok(ExitCode::SUCCESS);
        }
    }
    let options = Options {
        grouping: if args.per_server { Grouping::Server } else { Grouping::File },
        toolbox: args.toolbox.clone(),
        proposal: proposed.iter().map(Proposed::to_proposal).collect(),
        outcomes: trial.outcomes,
    };
    let planned = gathered.plan(&options).map_err(invalid)?;
    if is_written && !planned.added.is_empty() {
        let models = existing.as_ref().map_or(models, |_| vec![target.path.clone()]);
        let models: Vec<_> = models.iter().map(PathBuf::as_path).collect();
        replace::file(&target, &planned.text, &models)?;
    }
    print(args, &planned, &proposed, (&target, existing.is_some()))?;
    if !planned.added.is_empty() && wants_lock(args)? {
        let added = planned.added.iter().map(|added| (&*added.toolbox, &*added.server));
        lock::beside(global, &target.path, &added.collect::<Vec<_>>())?;
    }
    let has_failed = nothing_came_of_it(&planned) || planned.has_refused_rules;
    Ok(if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Returns `true` if a lock is to be written, which whoever is there is asked.
fn wants_lock(args: &Args) -> Result<bool, Error> {
    let may_ask = !args.yes && !args.json && !args.dry_run && ask::is_possible();
    Ok(args.lock || (may_ask && ask::whether_to_lock()?))
}

/// The toolboxes to propose, where the command line does not say which there are to be.
fn proposed(args: &Args, gathered: &Gathered, trial: &Trial) -> Vec<Proposed> {
    let servers = gathered.servers();
    if servers.is_empty() || args.toolbox.is_some() || args.per_server || args.per_client {
        Vec::new()
    } else if args.one {
        vec![proposal::one(servers, &trial.tools)]
    } else {
        proposal::several(servers, &trial.tools)
    }
}

fn print(
    args: &Args,
    planned: &ImportPlan,
    proposed: &[Proposed],
    (target, is_extended): (&Location, bool),
) -> Result<(), Error> {
    let report = || report::of(planned, proposed, target, (is_extended, args.dry_run), args.lock);
    if args.json {
        print::json_of_config(&json::Import::new(planned, proposed, target, args.dry_run))
    } else if args.dry_run {
        print::config(&planned.text.trim_end())?;
        print::note(&report());
        Ok(())
    } else {
        print::prose(&report())
    }
}

/// Returns `true` if nothing was added and nothing was there already.
fn nothing_came_of_it(planned: &ImportPlan) -> bool {
    let is_there = |grade| grade == Grade::Exact;
    planned.added.is_empty() && !planned.findings.iter().any(|finding| is_there(finding.grade))
}
