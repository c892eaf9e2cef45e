//! `setup`: the workbench in place of the servers that clients have, and back again.
//!
//! `clients` are the files that are here, `plan` works out what is to be done, `carry` does it and keeps a
//! journal (`kept`), `undo` takes it back.

use std::process::ExitCode;

use clap::builder::PossibleValuesParser;

use crate::authoring::client_files::programs;
use crate::cli::error::Error;
use crate::cli::import::ask::{is_possible, whether_to_lock};
use crate::cli::setup::plan::Plan;
use crate::cli::{Global, lock, print};

mod ask;
mod carry;
mod clients;
mod json;
mod kept;
mod plan;
mod report;
mod savings;
mod shared;
mod status;
mod undo;

const EXAMPLES: &str = "\
Examples:
  mcp-workbench setup --dry-run         Show what would be done
  mcp-workbench setup                   Ask, then do it
  mcp-workbench setup --client cursor --client codex
  mcp-workbench setup --service         One workbench for all of them
  mcp-workbench setup undo              Take all of it back";

/// Put the workbench into your clients, in place of their servers
///
/// Finds the clients that are installed, starts each of their servers once, sorts them into
/// toolboxes, and writes the user's configuration, with secrets in a file that nobody else can
/// read. Each client gets one entry, in its own format, in place of the servers that the workbench
/// has now. Servers that do not start, want a sign-in or belong to a project stay where they are.
/// Run it again to take over what has come since.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES, args_conflicts_with_subcommands = true)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    /// Set up this client alone (can be repeated) [default: all that are here]
    #[arg(long = "client", value_name = "ID", hide_possible_values = true, value_parser = ids())]
    clients: Vec<String>,
    /// Have all clients share one workbench, which runs as a service of yours
    #[arg(long)]
    service: bool,
    /// Write `workbench.lock` too: what the servers say of their tools, to be reviewed
    #[arg(long, conflicts_with_all = ["dry_run", "json"], hide_short_help = true)]
    lock: bool,
    /// Do it without asking
    #[arg(long, short)]
    yes: bool,
    /// Show what would be done, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    Status(status::Args),
    Undo(undo::Args),
}

fn ids() -> PossibleValuesParser {
    PossibleValuesParser::new(programs().iter().map(|program| program.id))
}

/// Sets up; fails where a client's file could not be written.
pub(crate) fn run(global: &Global, args: &Args) -> Result<ExitCode, Error> {
    match &args.action {
        Some(Action::Status(args)) => return status::run(global, args),
        Some(Action::Undo(args)) => return undo::run(global, args),
        None => {}
    }
    let may_ask = !args.yes && !args.dry_run && !args.json && is_possible();
    let mut chosen = args.clients.clone();
    let plan = loop {
        let plan = Plan::make(global, &chosen, args.service)?;
        if !may_ask || plan.is_empty() {
            break plan;
        }
        print::note(&report::plan(&plan));
        match ask::whether(&plan)? {
            ask::Answer::Yes => break plan,
            ask::Answer::No => {
                print::note(&"nothing was changed");
                return Ok(ExitCode::SUCCESS);
            }
            ask::Answer::Only(clients) => chosen = clients,
        }
    };
    if args.dry_run || plan.is_empty() {
        show(args, &plan)?;
        return Ok(ExitCode::SUCCESS);
    }
    if !args.yes && !may_ask {
        show(args, &plan)?;
        return Err(Error::wrong("nothing was changed, for nobody can be asked here")
            .hint("`mcp-workbench setup --yes` does it, `--dry-run` only shows it"));
    }
    if !may_ask && !args.json {
        print::prose(&format!("{}\n", report::plan(&plan)))?;
    }
    let done = carry::out(global, &plan)?;
    let start = savings::at_the_start(&plan.target.path);
    if args.json {
        print::json(&json::Setup::new(&plan, Some((&done, start.as_ref().ok()))))?;
    } else {
        print::prose(&report::done(&plan, &done, start.as_ref(), args.lock))?;
    }
    if !plan.added.is_empty() && (args.lock || (may_ask && whether_to_lock()?)) {
        let added = plan.added.iter().map(|added| (&*added.toolbox, &*added.server));
        lock::beside(global, &plan.target.path, &added.collect::<Vec<_>>())?;
    }
    Ok(if done.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn show(args: &Args, plan: &Plan) -> Result<(), Error> {
    if args.json {
        print::json(&json::Setup::new(plan, None))
    } else {
        print::prose(&report::plan(plan))
    }
}
