//! `remove`: removes a server from the configuration.

use std::path::Path;
use std::process::ExitCode;

use clap_complete::engine::ArgValueCandidates;
use serde::Serialize;

use crate::authoring::edit::{ConfigText, remove_server};
use crate::cli::config_edit::{self, EditTarget};
use crate::cli::error::CommandError;
use crate::cli::{GlobalArgs, completion, print};

const EXAMPLES: &str = "\
Examples:
  mcp-workbench remove time
  mcp-workbench remove code/files --dry-run";

/// Take a server out of the configuration
///
/// Everything else stays as it is, comments included; a toolbox that has no other server goes too. Says where the server is still named, in rules,
/// overrides or macros; where the configuration could not be used without it, nothing is changed.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "independent flags")]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The server, or toolbox/server
    #[arg(add = ArgValueCandidates::new(completion::servers))]
    server: String,
    /// The toolbox that it is in
    #[arg(long, short, value_name = "NAME", add = ArgValueCandidates::new(completion::toolboxes))]
    toolbox: Option<String>,
    /// Change ~/.config/mcp-workbench/config.json
    #[arg(long, conflicts_with = "config")]
    user: bool,
    /// Remove it even where the configuration cannot be used without it
    #[arg(long)]
    force: bool,
    /// Show what would change, and change nothing
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
    /// The rules, overrides and macros that still name the server.
    named: Vec<Mention<'a>>,
}

#[derive(Serialize)]
struct Mention<'a> {
    path: &'a str,
    line: usize,
}

pub(crate) fn run(global: &GlobalArgs, args: &Args) -> Result<ExitCode, CommandError> {
    let target = EditTarget::find(global, args.user)?;
    let Some(before) = target.text.as_deref() else {
        let file = target.location.display_path.display();
        return Err(CommandError::usage(format!("there is no configuration at `{file}`")));
    };
    let (toolbox, server) = match (&args.toolbox, args.server.split_once('/')) {
        (None, Some((toolbox, server))) => (Some(toolbox), server),
        (toolbox, _) => (toolbox.as_deref(), args.server.as_str()),
    };
    let source = ConfigText { file: &target.location.path, text: before };
    let removed = remove_server(source, toolbox, server)
        .map_err(|error| config_edit::edit_error(error, &target))?;
    if !args.force {
        target.check(&removed.text, before).map_err(|error| {
            error.with_hint("mend what names it first, or `--force` removes it all the same")
        })?;
    }
    if !args.dry_run {
        target.write(&removed.text)?;
    }
    let shown = &target.location.display_path;
    if args.json {
        let named =
            removed.remaining_references.iter().map(|(path, line)| Mention { path, line: *line });
        print::json(&RemoveReport {
            file: shown,
            toolbox: &removed.toolbox,
            server,
            written: !args.dry_run,
            named: named.collect(),
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.dry_run {
        print::text_unredacted(&config_edit::unified_diff(shown, before, &removed.text))?;
    } else {
        let (toolbox, file) = (&removed.toolbox, shown.display());
        let what = if removed.removed_toolbox {
            format!("`{server}` with toolbox `{toolbox}`, which had no other server,")
        } else {
            format!("`{server}` of toolbox `{toolbox}`")
        };
        print::prose(&format!("removed {what} from `{file}`"))?;
    }
    for (path, line) in &removed.remaining_references {
        let file = shown.display();
        print::note(&format!("remark: `{path}` still names it ({file}:{line})"));
    }
    Ok(ExitCode::SUCCESS)
}
