//! `setup`: replaces the servers of MCP clients with the workbench, and can undo it.
//!
//! `clients` finds the clients' files, `plan` computes the changes, `apply` makes them and writes a
//! journal (`state_dir`), and `undo` reverts them.

use std::process::ExitCode;

use clap::builder::PossibleValuesParser;

use crate::authoring::client_files::client_apps;
use crate::cli::access::locking::lock_writer::lock_added;
use crate::cli::args::GlobalArgs;
use crate::cli::onboarding::prompt::{confirm_lock, is_interactive};
use crate::cli::onboarding::setup::plan::SetupPlan;
use crate::cli::output::{CommandError, print};
use crate::cli::servers::running_workbenches::reload_running;

mod apply;
mod client_plan;
mod client_rules;
mod clients;
mod json;
mod plan;
mod prompt;
mod report;
mod service_plan;
mod startup_size;
mod state_dir;
mod status;
mod tried_servers;
mod undo;

const EXAMPLES: &str = "\
Examples:
  mcp-workbench setup --dry-run   Show what would change
  mcp-workbench setup             Ask for confirmation, then apply it
  mcp-workbench setup --client cursor --client codex
  mcp-workbench setup --service   Share one background workbench
  mcp-workbench setup --audit     Record calls for `stats`
  mcp-workbench setup undo        Restore your clients' files";

/// Configure your MCP clients to use the workbench
///
/// Finds your installed clients, starts each of their servers once, groups the servers into toolboxes,
/// and writes your user configuration; secrets go to a file that only you can read. Each client then
/// has a single entry, in its own format, instead of the servers that the workbench now provides.
/// Servers that are disabled, fail to start, belong to a project or depend on the client's folder stay
/// in the client. So do servers that require a sign-in, because the client's login can't be moved; the
/// plan shows how to move them.
///
/// Run it again to add new clients and servers. `setup undo` reverts everything.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES, args_conflicts_with_subcommands = true)]
#[expect(clippy::struct_excessive_bools, reason = "independent flags")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    /// Set up only this client (repeatable) [default: all installed]
    #[arg(long = "client", value_name = "ID", hide_possible_values = true, value_parser = ids())]
    clients: Vec<String>,
    /// Run one shared background workbench for all clients
    #[arg(long)]
    service: bool,
    /// Record calls in an audit log, which `stats` summarizes
    #[arg(long)]
    audit: bool,
    /// Also write workbench.lock for review
    #[arg(long, conflicts_with_all = ["dry_run", "json"], hide_short_help = true)]
    lock: bool,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
    /// Show what would change, without changing it
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
    PossibleValuesParser::new(client_apps().iter().map(|program| program.id))
}

/// Fails if the workbench would have no servers, or a client's file could not be written.
pub(crate) fn run(global: &GlobalArgs, args: &Args) -> Result<ExitCode, CommandError> {
    match &args.action {
        Some(Action::Status(args)) => return status::run(global, args),
        Some(Action::Undo(args)) => return undo::run(global, args),
        None => {}
    }
    let may_ask = !args.yes && !args.dry_run && !args.json && is_interactive();
    let mut chosen = args.clients.clone();
    let plan = loop {
        let mut plan = SetupPlan::build(global, &chosen, args.service)?;
        if args.audit {
            plan.add_audit_log()?;
        }
        if !may_ask || plan.is_empty() {
            break plan;
        }
        print::note(&report::plan(&plan));
        match prompt::confirm_plan(&plan)? {
            prompt::PlanDecision::Yes => {
                if !plan.has_audit_log() && prompt::confirm_audit()? {
                    plan.add_audit_log()?;
                }
                break plan;
            }
            prompt::PlanDecision::No => {
                print::note(&"nothing was changed");
                return Ok(ExitCode::SUCCESS);
            }
            prompt::PlanDecision::Only(clients) => chosen = clients,
        }
    };
    if args.dry_run || plan.is_empty() {
        show(args, &plan)?;
        let is_failure = !plan.has_servers && !args.dry_run;
        return Ok(if is_failure { ExitCode::FAILURE } else { ExitCode::SUCCESS });
    }
    if !args.yes && !may_ask {
        show(args, &plan)?;
        return Err(CommandError::usage(
            "nothing was changed: no terminal to ask for confirmation",
        )
        .with_hint("run `mcp-workbench setup --yes` to apply these changes"));
    }
    if !may_ask && !args.json {
        print::prose(&format!("{}\n", report::plan(&plan)))?;
    }
    let done = apply::apply(global, &plan)?;
    let written = done.written.iter().filter_map(|place| plan.clients.get(*place));
    let starts: Result<startup_size::StartupSizes, String> = written
        .map(|client| {
            let id = client.file.program.id;
            Ok((id, startup_size::measure_startup_size(&plan.config.location.path, id)?))
        })
        .collect();
    let is_changed = plan.config.before.as_ref().is_some_and(|before| *before != plan.config.text);
    let reloaded =
        if is_changed { reload_running(global, &plan.config.location.path) } else { None };
    if args.json {
        print::json(&json::SetupReport::new(&plan, Some((&done, starts.as_ref().ok()))))?;
    } else {
        print::prose(&report::outcome_text(&plan, &done, starts.as_ref(), args.lock))?;
        if let Some(line) = reloaded {
            print::prose(&format!("\n{line}"))?;
        }
    }
    if !plan.imported.added.is_empty() && (args.lock || (may_ask && confirm_lock()?)) {
        let added = plan.imported.added.iter().map(|added| (&*added.toolbox, &*added.server));
        lock_added(global, &plan.config.location.path, &added.collect::<Vec<_>>())?;
    }
    Ok(if done.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn show(args: &Args, plan: &SetupPlan) -> Result<(), CommandError> {
    if args.json {
        print::json(&json::SetupReport::new(plan, None))
    } else {
        print::prose(&report::plan(plan))
    }
}
