//! `lock`: records tool definitions in `workbench.lock` for review.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::ValueEnum;

use crate::catalog::{DefinitionDrift, DriftDetector};
use crate::cli::access::locking::{accept, package_record, recording, remarks, server_names};
use crate::cli::args::global::{GlobalArgs, print_warnings};
use crate::cli::diagnostics::definition_remarks::DefinitionRemarks;
use crate::cli::diagnostics::unpinned_packages;
use crate::cli::files::atomic_write;
use crate::cli::output::error::CommandError;
use crate::cli::output::print::{self, escape_to_line};
use crate::cli::output::units::format_count;
use crate::config::{self, ConfigLocation, ConfigOrigin, Finding};
use crate::name::ServerRef;
use crate::os;
use crate::settings::{Config, LockedDefinitions, LockedServer, Lockfile};

mod line_diff;
mod markdown;
mod report;
mod sarif;

use crate::cli::access::locking::recording::{LockRecording, ServerRecording};
use crate::cli::access::locking::remarks::ServerDefinitions;
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
#[derive(Debug, Default, clap::Args)]
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

struct LockPaths {
    config: ConfigLocation,
    lock: ConfigLocation,
}

/// Writes or compares the lock. With `--check`, exit code 1 means drift and 2 that the comparison
/// failed.
pub(crate) fn run(global: &GlobalArgs, args: &Args) -> Result<ExitCode, CommandError> {
    let done = run_inner(global, args);
    if args.check { done.map_err(CommandError::into_usage) } else { done }
}

/// Writes the lock next to a new configuration. If a lock exists, accepts only the `added` servers,
/// each given as toolbox and name.
pub(crate) fn lock_added(
    global: &GlobalArgs,
    config: &Path,
    added: &[(&str, &str)],
) -> Result<(), CommandError> {
    let global = GlobalArgs { config: Some(config.to_owned()), ..global.clone() };
    let mut args = Args::default();
    if LockPaths::find(&global)?.lock.path.exists() {
        let loaded = print_warnings(global.read_unlocked()?)?;
        let is_new = |at: &ServerRef| added.contains(&(at.toolbox.as_str(), at.server.as_str()));
        let new = server_names::names(&loaded.config).into_iter().filter(|(at, _)| is_new(at));
        args.accept = new.map(|(_, name)| name).collect();
        if args.accept.is_empty() {
            return Ok(());
        }
    }
    // Servers that failed to start have been reported already.
    run_inner(&global, &args).map(|_code| ())
}

fn run_inner(global: &GlobalArgs, args: &Args) -> Result<ExitCode, CommandError> {
    let place = LockPaths::find(global)?;
    for file in &args.report {
        ReportFormat::of_file(file)?;
    }
    let asks = args.check || args.diff || !args.accept.is_empty();
    let before = if asks {
        let lock = config::load_lockfile(&place.config).map_err(CommandError::config)?;
        lock.ok_or_else(|| place.missing_error())?
    } else {
        // An unreadable lock is overwritten.
        config::load_lockfile(&place.config).ok().flatten().unwrap_or_default()
    };
    let loaded = print_warnings(global.read_unlocked()?)?;
    if args.check || args.diff {
        let listed = recording::record_current(global, &loaded)?;
        let packages = package_record::identify_packages(&loaded.config);
        let report = DriftReport::new(&before, &listed, &packages, &place.lock.display_path);
        return show(args, &report.with_note(unpinned_note(&loaded.config, args.details)));
    }
    let accepted = accept::parse_accepts(&args.accept, &loaded)?;
    let recorded = recording::record_variants(global, &loaded, &before, |name| {
        accept::concerns(&accepted, name)
    })?;
    let next = if accepted.is_empty() {
        build_lock(&before, &recorded)
    } else {
        accept::apply_accepts(before.clone(), &recorded, &accepted)?
    };
    if let Some(loose) = unpinned_note(&loaded.config, args.details) {
        print::note(&format!("note: {loose}"));
    }
    write(args, &place, &before, &next, &recorded)
}

/// Returns a note about servers without a pinned package version, whose next start may run other
/// code.
fn unpinned_note(config: &Config, has_details: bool) -> Option<String> {
    let Finding { message, hint, .. } = unpinned_packages::findings(config, has_details)?;
    Some(format!("{message}{}", hint.map(|hint| format!(": {hint}")).unwrap_or_default()))
}

impl LockPaths {
    fn find(global: &GlobalArgs) -> Result<Self, CommandError> {
        let config = global.location()?.ok_or_else(|| {
            CommandError::usage("the embedded configuration has no lock file")
                .with_hint("use `--config FILE`")
        })?;
        let is_folder = config.path.is_dir();
        let lock = ConfigLocation {
            display_path: config::lockfile_path(&config.display_path, is_folder),
            path: config::lockfile_path(&config.path, is_folder),
            chosen_by: ConfigOrigin::Default,
        };
        Ok(Self { config, lock })
    }

    fn missing_error(&self) -> CommandError {
        CommandError::usage(format!("`{}` does not exist", self.lock.display_path.display()))
            .with_hint("run `mcp-workbench lock` to create it, then review and commit it")
    }
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

fn show(args: &Args, report: &DriftReport) -> Result<ExitCode, CommandError> {
    for file in &args.report {
        let mut text = ReportFormat::of_file(file)?.text(report)?;
        text.push('\n');
        os::write_output(file, text).map_err(|error| {
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

/// Builds a new lock. Servers that failed to start or are disabled keep their old record.
fn build_lock(before: &Lockfile, recorded: &LockRecording) -> Lockfile {
    let mut servers = BTreeMap::new();
    for (name, server) in &recorded.servers {
        servers.insert(name.clone(), Arc::new(server.clone()));
    }
    for name in recorded.failed.keys().chain(&recorded.disabled) {
        if let Some(server) = before.servers.get(name) {
            servers.insert(name.clone(), Arc::clone(server));
        }
    }
    Lockfile { servers }
}

fn write(
    args: &Args,
    place: &LockPaths,
    before: &Lockfile,
    next: &Lockfile,
    recorded: &LockRecording,
) -> Result<ExitCode, CommandError> {
    let text = config::render_lockfile(next);
    let old = os::read_input_text(&place.lock.path).ok();
    let is_same = old.as_deref() == Some(text.as_str());
    if !is_same {
        atomic_write::write_atomically(&place.lock, &text, &[&place.config.path])?;
    }
    for (name, why) in &recorded.failed {
        let kept = if next.servers.contains_key(name) {
            "its entry in the lock is unchanged"
        } else {
            "it is missing from the lock"
        };
        print::note(&format!("warning: `{name}` failed to start, so {kept}: {why}"));
    }
    for (name, unclear) in &recorded.unclear {
        for one in unclear {
            let why = "is not in the lock: its JSON has a duplicate member";
            print::note(&format!("warning: {one} of `{name}` {why}"));
        }
    }
    let texts = next.servers.iter().map(|(name, server)| {
        ServerDefinitions::of_locked(name, server, before.servers.get(name).map(|server| &**server))
    });
    let remarks = remarks::remarked(&texts.collect::<Vec<_>>());
    if args.json {
        print::json(&serde_json::json!({
            "file": place.lock.display_path,
            "written": !is_same,
            "servers": next.servers.len(),
            "failed": recorded.failed,
            "findings": remarks.iter().flat_map(DefinitionRemarks::rows).collect::<Vec<_>>(),
        }))?;
    } else {
        let said = if is_same { "is unchanged" } else { "was written" };
        let mut lines =
            vec![format!("`{}` {said}: {}", place.lock.display_path.display(), sums(next))];
        lines.extend(changes(before, next));
        lines.extend(volatile(next));
        lines.extend(remarks::remarks_text(&remarks).map(|remarks| format!("\n{remarks}\n")));
        if !is_same {
            lines.push(
                "Review and commit it, and run `mcp-workbench lock --check` in CI.".to_owned(),
            );
        }
        print::prose(&lines.join("\n"))?;
    }
    Ok(if recorded.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn sums(lock: &Lockfile) -> String {
    let all = |of: fn(&LockedServer) -> usize| lock.servers.values().map(|one| of(one)).sum();
    format!(
        "{} with {}, {}, {} and {}",
        format_count(lock.servers.len(), "server"),
        format_count(all(|one| one.tools.len()), "tool"),
        format_count(all(|one| one.prompts.len()), "prompt"),
        format_count(
            all(|one| one.resources.as_ref().map_or(0, LockedDefinitions::len)),
            "resource"
        ),
        format_count(all(|one| one.templates.len()), "resource template"),
    )
}

fn changes(before: &Lockfile, next: &Lockfile) -> Vec<String> {
    if before.servers.is_empty() {
        return Vec::new();
    }
    let gone = before.servers.keys().filter(|name| !next.servers.contains_key(*name));
    let gone = gone.map(|name| format!("  removed: `{name}`"));
    let others = next.servers.iter().filter_map(|(name, now)| match before.servers.get(name) {
        None => Some(format!("  added: `{name}`")),
        Some(old) if old != now => Some(format!("  changed: `{name}`")),
        Some(_) => None,
    });
    others.chain(gone).collect()
}

/// Lists definitions that vary between runs, and those that only some clients see.
fn volatile(lock: &Lockfile) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, server) in &lock.servers {
        for (kind, all) in server.kinds() {
            for (own, locked) in all {
                let own = escape_to_line(own);
                let whole = locked.ignore.iter().filter(|(_, words)| words.is_empty());
                for (at, _) in whole {
                    lines.push(format!(
                        "  not compared, varies between runs: `{at}` of {kind} `{own}` of `{name}`"
                    ));
                }
                if locked.ignore.iter().any(|(_, words)| !words.is_empty()) {
                    lines.push(format!(
                        "  some words vary between runs: {kind} `{own}` of `{name}`"
                    ));
                }
                if locked.is_conditional {
                    lines.push(format!("  only for some clients: {kind} `{own}` of `{name}`"));
                }
            }
        }
    }
    lines
}

fn drift(before: &Lockfile, listed: &ServerRecording, name: &str) -> Vec<DefinitionDrift> {
    let nothing = LockedServer::unreviewed();
    let locked = before.servers.get(name).map_or(&nothing, |locked| &**locked);
    DriftDetector::default().detect(locked, &listed.listing)
}
