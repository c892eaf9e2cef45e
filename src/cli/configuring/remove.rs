//! `remove`: removes a server from the configuration.

use std::path::Path;
use std::process::ExitCode;

use clap_complete::engine::ArgValueCandidates;
use serde::Serialize;

use crate::authoring::edit::{ConfigText, remove_server};
use crate::cli::args::{GlobalArgs, completion};
use crate::cli::files::config_edit::{self, EditTarget};
use crate::cli::output::{CommandError, print};
use crate::cli::servers::running_workbenches::reload_running;

const EXAMPLES: &str = "\
Examples:
  mcp-workbench remove time
  mcp-workbench remove code/files --dry-run";

/// Remove a server from the configuration
///
/// Everything else in the file stays as it is, including comments. A toolbox without servers is
/// removed, too. Lists the rules, overrides and macros that still name the server; if the
/// configuration would become invalid, nothing is changed.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "independent flags")]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Server, as `server` or `toolbox/server`
    #[arg(add = ArgValueCandidates::new(completion::servers))]
    server: String,
    /// Toolbox of the server
    #[arg(long, short, value_name = "NAME", add = ArgValueCandidates::new(completion::toolboxes))]
    toolbox: Option<String>,
    /// Edit ~/.config/mcp-workbench/config.json
    #[arg(long, conflicts_with = "config")]
    user: bool,
    /// Remove it even if the configuration becomes invalid
    #[arg(long)]
    force: bool,
    /// Show the change as a diff, write nothing
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct RemoveReport<'a> {
    file: &'a Path,
    toolbox: &'a str,
    server: &'a str,
    written: bool,
    /// The rules, overrides and macros that still refer to the server.
    references: Vec<Reference<'a>>,
}

#[derive(Serialize)]
struct Reference<'a> {
    path: &'a str,
    line: usize,
}

pub(crate) fn run(global: &GlobalArgs, args: &Args) -> Result<ExitCode, CommandError> {
    let target = EditTarget::find(global, args.user)?;
    let Some(before) = target.text.as_deref() else {
        let file = target.location.display_path.display();
        return Err(CommandError::usage(format!("no configuration at `{file}`")));
    };
    let source = ConfigText { file: &target.location.path, text: before };
    let (mut toolbox, mut server) = (args.toolbox.as_deref(), args.server.as_str());
    // A name can contain a slash, too.
    if let (None, Some((first, second))) = (toolbox, server.split_once('/'))
        && remove_server(source, None, server).is_err()
    {
        (toolbox, server) = (Some(first), second);
    }
    let removed = remove_server(source, toolbox, server)
        .map_err(|error| config_edit::edit_error(error, &target))?;
    // Without servers, a configuration counts as invalid, but the user can still add some.
    let is_emptied = removed.was_last && removed.remaining_references.is_empty();
    if !args.force && !is_emptied {
        target
            .check(&removed.text, before)
            .map_err(|error| error.with_hint("fix the references first, or use `--force`"))?;
    }
    if !args.dry_run {
        target.write(&removed.text)?;
    }
    let reloaded = if args.dry_run { None } else { reload_running(global, &target.location.path) };
    let shown = &target.location.display_path;
    if args.json {
        let references =
            removed.remaining_references.iter().map(|(path, line)| Reference { path, line: *line });
        print::json(&RemoveReport {
            file: shown,
            toolbox: &removed.toolbox,
            server,
            written: !args.dry_run,
            references: references.collect(),
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.dry_run {
        config_edit::print_diff(shown, before, &removed.text)?;
    } else {
        let (toolbox, file) = (&removed.toolbox, shown.display());
        let removed = if removed.removed_toolbox {
            format!("`{server}` and the now empty toolbox `{toolbox}` from `{file}`")
        } else {
            format!("`{server}` from toolbox `{toolbox}` in `{file}`")
        };
        let lines: Vec<_> = [format!("removed {removed}")].into_iter().chain(reloaded).collect();
        print::prose(&lines.join("\n"))?;
    }
    if is_emptied {
        print::note(
            &"hint: the configuration has no server now: run `mcp-workbench add NAME -- COMMAND` to \
              add one",
        );
    }
    for (path, line) in &removed.remaining_references {
        let file = shown.display();
        print::note(&format!("warning: `{path}` still refers to `{server}` ({file}:{line})"));
    }
    Ok(ExitCode::SUCCESS)
}
