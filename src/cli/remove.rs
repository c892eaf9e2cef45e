//! `remove`: a server less in the configuration.

use std::path::Path;
use std::process::ExitCode;

use clap_complete::engine::ArgValueCandidates;
use serde::Serialize;

use crate::authoring::edit::{Text, remove};
use crate::cli::edit::{self, Target};
use crate::cli::error::Error;
use crate::cli::{Global, complete, print};

const EXAMPLES: &str = "\
Examples:
  mcp-workbench remove time
  mcp-workbench remove code/files --dry-run";

/// Take a server out of the configuration
///
/// Everything else stays as it is, comments included; a toolbox that has no other server goes too. Says where the server is still named, in rules,
/// overrides or macros; where the configuration could not be used without it, nothing is changed.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The server, or toolbox/server
    #[arg(add = ArgValueCandidates::new(complete::servers))]
    server: String,
    /// The toolbox that it is in
    #[arg(long, short, value_name = "NAME", add = ArgValueCandidates::new(complete::toolboxes))]
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

/// A removed server in JSON.
#[derive(Serialize)]
struct Report<'a> {
    file: &'a Path,
    toolbox: &'a str,
    server: &'a str,
    written: bool,
    /// Where it is still named.
    named: Vec<Mention<'a>>,
}

#[derive(Serialize)]
struct Mention<'a> {
    path: &'a str,
    line: usize,
}

/// Removes.
pub(crate) fn run(global: &Global, args: &Args) -> Result<ExitCode, Error> {
    let target = Target::find(global, args.user)?;
    let Some(before) = target.text.as_deref() else {
        let file = target.location.shown.display();
        return Err(Error::wrong(format!("there is no configuration at `{file}`")));
    };
    let (toolbox, server) = match (&args.toolbox, args.server.split_once('/')) {
        (None, Some((toolbox, server))) => (Some(toolbox), server),
        (toolbox, _) => (toolbox.as_deref(), args.server.as_str()),
    };
    let source = Text { file: &target.location.path, text: before };
    let removed = remove(source, toolbox, server).map_err(|error| edit::explain(error, &target))?;
    if !args.force {
        target.check(&removed.text, before).map_err(|error| {
            error.hint("mend what names it first, or `--force` removes it all the same")
        })?;
    }
    if !args.dry_run {
        target.write(&removed.text)?;
    }
    let shown = &target.location.shown;
    if args.json {
        let named = removed.mentions.iter().map(|(path, line)| Mention { path, line: *line });
        print::json(&Report {
            file: shown,
            toolbox: &removed.toolbox,
            server,
            written: !args.dry_run,
            named: named.collect(),
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.dry_run {
        print::config(&edit::difference(shown, before, &removed.text))?;
    } else {
        let (toolbox, file) = (&removed.toolbox, shown.display());
        let what = if removed.is_toolbox_gone {
            format!("`{server}` with toolbox `{toolbox}`, which had no other server,")
        } else {
            format!("`{server}` of toolbox `{toolbox}`")
        };
        print::prose(&format!("removed {what} from `{file}`"))?;
    }
    for (path, line) in &removed.mentions {
        let file = shown.display();
        print::note(&format!("remark: `{path}` still names it ({file}:{line})"));
    }
    Ok(ExitCode::SUCCESS)
}
