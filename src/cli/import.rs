//! `import`: servers that other clients have, written into the configuration.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::cli::error::Error;
use crate::cli::replace;
use crate::cli::size::count;
use crate::cli::table::{Align, Table};
use crate::cli::{Global, print};
use crate::config::env::ProcessEnv;
use crate::config::import::{Added, Grade, Grouping, ImportPlan, Options, Source, plan};
use crate::config::{self, Location};

mod json;

const EXAMPLES: &str = "\
Examples:
  mcp-workbench import ~/.claude.json
  mcp-workbench import .vscode/mcp.json .cursor/mcp.json --toolbox dev
  mcp-workbench import ~/.config/Claude/claude_desktop_config.json --dry-run";

/// Add the servers of other clients to the configuration
///
/// Reads the files of Claude Code and Desktop, Cursor, VS Code, Windsurf, Gemini CLI, Zed,
/// opencode and others that have such a block, and writes or extends the configuration file. What
/// is there already stays as it is, comments included; what cannot be carried over is reported.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A file that has servers in it (can be repeated)
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Put all servers into this toolbox [default: a toolbox for each file]
    #[arg(long, value_name = "NAME", conflicts_with = "per_server")]
    toolbox: Option<String>,
    /// Make a toolbox of every server
    #[arg(long)]
    per_server: bool,
    /// Print the configuration instead of writing it
    #[arg(long)]
    dry_run: bool,
    /// Print JSON: what was added, and what there is to say
    #[arg(long)]
    json: bool,
}

/// Imports; fails where nothing could be carried over.
pub(crate) fn run(global: &Global, args: &Args) -> Result<ExitCode, Error> {
    let folder = std::env::current_dir().map_err(Error::internal)?;
    let target = config::locate(global.config.clone(), &ProcessEnv, &folder);
    let sources = args.files.iter().map(|file| read(file, file)).collect::<Result<Vec<_>, _>>()?;
    let existing = match target.path.try_exists() {
        Ok(false) => None,
        Ok(true) | Err(_) => Some(read(&target.shown, &target.path)?),
    };
    let grouping = if args.per_server { Grouping::Server } else { Grouping::File };
    let options = Options { grouping, toolbox: args.toolbox.clone() };
    let planned = plan(existing.as_ref(), &sources, &options);
    let planned = planned.map_err(|report| Error::config(config::LoadError::Invalid(report)))?;

    if !args.dry_run && !planned.added.is_empty() {
        let model = if existing.is_some() {
            vec![target.path.as_path()]
        } else {
            args.files.iter().map(PathBuf::as_path).collect()
        };
        replace::file(&target, &planned.text, &model)?;
    }
    let report = report(&planned, &target, existing.is_some(), args.dry_run);
    if args.json {
        print::json(&json::Import::new(&planned, &target, args.dry_run))?;
    } else if args.dry_run {
        print::data(&planned.text.trim_end())?;
        print::note(&report);
    } else {
        print::data(&report)?;
    }
    Ok(if nothing_came_of_it(&planned) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn read(shown: &Path, path: &Path) -> Result<Source, Error> {
    let text = fs::read_to_string(path).map_err(|error| {
        let error = Error::usage(format!("cannot read `{}`", shown.display()), &error);
        error.hint("correct the path; nothing was written")
    })?;
    Ok(Source { file: shown.display().to_string(), text })
}

/// Whether nothing was added and nothing was there already.
fn nothing_came_of_it(planned: &ImportPlan) -> bool {
    let is_there = |grade| grade == Grade::Exact;
    planned.added.is_empty() && !planned.findings.iter().any(|finding| is_there(finding.grade))
}

fn report(planned: &ImportPlan, target: &Location, is_extended: bool, is_dry: bool) -> String {
    let file = target.shown.display();
    let mut sections = Vec::new();
    if planned.added.is_empty() {
        sections.push(format!("nothing to add to `{file}`"));
    } else {
        let verb = match (is_extended, is_dry) {
            (true, false) => "extended",
            (false, false) => "wrote",
            (true, true) => "would extend",
            (false, true) => "would write",
        };
        let servers = count(planned.added.len(), "server");
        sections.push(format!("{verb} `{file}`: {servers} added"));
        sections.push(added(&planned.added).to_string());
    }
    if !planned.findings.is_empty() {
        let findings: Vec<_> = planned.findings.iter().map(ToString::to_string).collect();
        sections.push(findings.join("\n"));
    }
    if !planned.added.is_empty() && !is_dry {
        sections.push("hint: `mcp-workbench check --connect` tries them all".to_owned());
    }
    sections.join("\n\n")
}

fn added(added: &[Added]) -> Table {
    let mut table = Table::new([
        ("Toolbox", Align::Left),
        ("Server", Align::Left),
        ("From", Align::Left),
        ("Carried over", Align::Left),
    ]);
    for server in added {
        table.row([
            server.toolbox.clone(),
            server.server.clone(),
            server.file.clone(),
            server.grade.to_string(),
        ]);
    }
    table
}
