//! `lock`: records tool definitions in `workbench.lock` for review.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ValueEnum;

use crate::cli::access::locking::lock_writer::{self, LockPaths, WriteOptions, unpinned_note};
use crate::cli::access::locking::{package_record, recording};
use crate::cli::args::{GlobalArgs, print_warnings};
use crate::cli::output::{CommandError, print};

mod line_diff;
mod markdown;
mod report;
mod sarif;

use report::{CheckOutcome, DriftReport};

const EXAMPLES: &str = "\
Examples:
  mcp-workbench lock           Record the definitions of all servers
  mcp-workbench lock --check   Exit with 1 if a definition changed
  mcp-workbench lock --check --report drift.sarif --report drift.md
  mcp-workbench lock --accept github:create_issue";

/// Record tool definitions in workbench.lock for review
///
/// Writes `workbench.lock` next to the configuration: the full definitions of all tools, prompts and
/// resource templates, and the instructions of each server. The file has one member per line and no
/// secrets, to be committed and reviewed. Workbenches compare the definitions with it;
/// `onDefinitionChange` decides what happens to the ones that differ.
///
/// Starts every server three times: for clients with the fewest and with the most capabilities, and
/// in another time zone and locale. The file marks definitions that only some clients see, and text
/// that varies between runs. A server that fails to start keeps its previous record.
///
/// Also records the version and digest of each server's package, if known on this machine. Another
/// version is only a note; another digest of the same version is drift.
///
/// Prints findings about definitions that could mislead a model (hidden characters, instructions,
/// requests for secrets, look-alike names) and about unpinned packages. Findings don't change the
/// exit code.
///
/// With `--check`, exits with 0 if nothing differs, 1 on drift, and 2 if the comparison failed.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "independent flags")]
pub(crate) struct Args {
    /// Compare with workbench.lock; exit 1 on drift, write nothing
    #[arg(long, conflicts_with = "accept")]
    check: bool,
    /// Show the differences from workbench.lock, write nothing
    #[arg(long, conflicts_with = "accept")]
    diff: bool,
    /// Accept the current definitions of a server or one tool (repeatable)
    #[arg(long, value_name = "SERVER[:TOOL]")]
    accept: Vec<String>,
    /// List servers without a pinned version
    #[arg(long)]
    details: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Output format of --check
    #[arg(long, value_enum, hide_short_help = true, requires = "check", conflicts_with = "json")]
    format: Option<ReportFormat>,
    /// Also write the result of --check to a .sarif, .md, .json or .txt file
    #[arg(long, value_name = "FILE", hide_short_help = true, requires = "check")]
    report: Vec<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ReportFormat {
    /// Plain text
    Text,
    /// JSON
    Json,
    /// SARIF 2.1.0, for code scanning
    Sarif,
    /// Table for a pull request
    Markdown,
}

/// Writes or compares the lock. With `--check`, exit code 1 means drift and 2 that the comparison
/// failed.
pub(crate) fn run(global: &GlobalArgs, args: &Args) -> Result<ExitCode, CommandError> {
    if args.check || args.diff {
        let done = compare(global, args);
        return if args.check { done.map_err(CommandError::into_usage) } else { done };
    }
    let Args { accept, details, json, .. } = args;
    lock_writer::write_lock(global, accept, &WriteOptions { details: *details, json: *json })
}

impl ReportFormat {
    fn of_file(file: &Path) -> Result<Self, CommandError> {
        match file.extension().and_then(|ending| ending.to_str()) {
            Some("sarif") => Ok(Self::Sarif),
            Some("md" | "markdown") => Ok(Self::Markdown),
            Some("json") => Ok(Self::Json),
            Some("txt") => Ok(Self::Text),
            _ => Err(CommandError::usage(format!("unknown report format: `{}`", file.display()))
                .with_hint("use a file name that ends in .sarif, .md, .json or .txt")),
        }
    }

    fn text(self, report: &DriftReport) -> Result<String, CommandError> {
        match self {
            Self::Text => Ok(report.to_string()),
            Self::Json => print::pretty_json(report),
            Self::Sarif => print::pretty_json(&sarif::log(report)),
            Self::Markdown => Ok(markdown::page(report)),
        }
    }
}

fn compare(global: &GlobalArgs, args: &Args) -> Result<ExitCode, CommandError> {
    let place = LockPaths::find(global)?;
    for file in &args.report {
        ReportFormat::of_file(file)?;
    }
    let before = place.required_lock()?;
    let loaded = print_warnings(global.read_unlocked()?)?;
    let listed = recording::record_current(global, &loaded)?;
    let packages = package_record::identify_packages(&loaded.config);
    let report = DriftReport::new(&before, &listed, &packages, &place.lock.display_path);
    show(args, &report.with_note(unpinned_note(&loaded.config, args.details)))
}

fn show(args: &Args, report: &DriftReport) -> Result<ExitCode, CommandError> {
    for file in &args.report {
        let mut text = ReportFormat::of_file(file)?.text(report)?;
        text.push('\n');
        mcp_workbench_os::write_output(file, text).map_err(|error| {
            CommandError::failed(format!("failed to write `{}`", file.display())).because(&error)
        })?;
    }
    if args.diff {
        match line_diff::text(report) {
            text if text.is_empty() && !args.check => print::note(&report.to_string()),
            text => print::data(&text.trim_end())?,
        }
    }
    match args.format {
        _ if args.json => print::json(report)?,
        Some(ReportFormat::Json) => print::json(report)?,
        Some(format @ (ReportFormat::Sarif | ReportFormat::Markdown)) => {
            print::data(&format.text(report)?.trim_end())?;
        }
        _ if args.diff && !args.check => {}
        Some(ReportFormat::Text) | None => print::prose(&report.to_string())?,
    }
    Ok(match report.outcome() {
        CheckOutcome::InSync => ExitCode::SUCCESS,
        CheckOutcome::Drift => ExitCode::FAILURE,
        CheckOutcome::Unknown => ExitCode::from(2),
    })
}
