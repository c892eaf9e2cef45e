//! `lock`: what servers say of themselves, in a file that is reviewed like code.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::ValueEnum;

use crate::catalog::{Comparison, Drifted};
use crate::cli::error::Error;
use crate::cli::global::noted;
use crate::cli::misleading::Remarks;
use crate::cli::print::printable;
use crate::cli::size::count;
use crate::cli::{Global, print, replace, versions};
use crate::config::{self, ChosenBy, Finding, Location};
use crate::name::ServerRef;
use crate::settings::{Config, Lock, LockedServer};

mod accept;
mod difference;
mod launch;
mod markdown;
mod names;
mod package;
mod record;
mod remarked;
mod report;
mod sarif;

use record::{Listed, Recorded};
use remarked::Texts;
use report::{Outcome, Report};

const EXAMPLES: &str = "\
Examples:
  mcp-workbench lock                    Write workbench.lock: what all servers say now
  mcp-workbench lock --check            Exit with 1 if a server says anything else
  mcp-workbench lock --check --report drift.sarif --report drift.md
  mcp-workbench lock --accept github:create_issue";

/// Keep what servers say of their tools in a file to review
///
/// Writes `workbench.lock` beside the configuration: the whole definition of every tool, prompt and
/// resource template, and each server's instructions, one member a line and without secrets, to be
/// committed and reviewed. What is served is compared with it; `definitions` in the configuration says
/// what becomes of what differs.
///
/// Every server is started, as by `check --connect`, three times: for clients that can do least and
/// most, and in another time zone and language. What only some clients are shown, and words that
/// differ from run to run, are marked in the file. A server that cannot be started keeps what the file
/// has of it.
///
/// The package that a server is run from is in the file with its version and digest, as far as this
/// machine knows them. Another version is a note; other bytes of the same version differ.
///
/// Definitions that could mislead a model (hidden characters, orders, requests for secrets, look-alike
/// names) are remarked on, and so is a server whose package has no version; that changes no exit code.
///
/// With `--check` exits with 0 if all is as in the file, 1 if something differs, 2 if that could not be
/// found out.
#[derive(Debug, Default, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Compare with the file, and write nothing
    #[arg(long, conflicts_with = "accept")]
    check: bool,
    /// Show what differs from the file, and write nothing
    #[arg(long, conflicts_with = "accept")]
    diff: bool,
    /// Take over what one server says, or one tool of it
    #[arg(long, value_name = "SERVER[:TOOL]")]
    accept: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// How --check prints what it has found
    #[arg(long, value_enum, hide_short_help = true, requires = "check", conflicts_with = "json")]
    format: Option<Format>,
    /// Write what --check has found into a file too: .sarif, .md or .json
    #[arg(long, value_name = "FILE", hide_short_help = true, requires = "check")]
    report: Vec<PathBuf>,
}

/// A form of what was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A text for people
    Text,
    /// JSON
    Json,
    /// SARIF 2.1.0, for code scanning
    Sarif,
    /// A table, for a pull request
    Markdown,
}

/// The files that the command is about.
struct Place {
    config: Location,
    lock: Location,
}

/// Locks, compares or shows; every failure but drift is that it could not be found out.
pub(crate) fn run(global: &Global, args: &Args) -> Result<ExitCode, Error> {
    let done = work(global, args);
    if args.check { done.map_err(Error::into_usage) } else { done }
}

/// Writes the lock beside a configuration that was just written; where there is one, takes over what the
/// servers that were `added` say, each given by its toolbox and name, and nothing else.
pub(crate) fn beside(global: &Global, config: &Path, added: &[(&str, &str)]) -> Result<(), Error> {
    let global = Global { config: Some(config.to_owned()), ..global.clone() };
    let mut args = Args::default();
    if Place::find(&global)?.lock.path.exists() {
        let loaded = noted(global.read_unlocked()?)?;
        let is_new = |at: &ServerRef| added.contains(&(at.toolbox.as_str(), at.server.as_str()));
        let new = names::names(&loaded.config).into_iter().filter(|(at, _)| is_new(at));
        args.accept = new.map(|(_, name)| name).collect();
        if args.accept.is_empty() {
            return Ok(());
        }
    }
    // Those that could not be started have been told of, and are tried again by whoever wants them.
    work(&global, &args).map(|_code| ())
}

fn work(global: &Global, args: &Args) -> Result<ExitCode, Error> {
    let place = Place::find(global)?;
    for file in &args.report {
        Format::of_file(file)?;
    }
    let asks = args.check || args.diff || !args.accept.is_empty();
    let before = if asks {
        let lock = config::load_lock(&place.config).map_err(Error::config)?;
        lock.ok_or_else(|| place.none())?
    } else {
        // What cannot be read is written anew.
        config::load_lock(&place.config).ok().flatten().unwrap_or_default()
    };
    let loaded = noted(global.read_unlocked()?)?;
    if args.check || args.diff {
        let listed = record::listed(global, &loaded)?;
        let packages = package::all(&loaded.config);
        let report = Report::new(&before, &listed, &packages, &place.lock.shown);
        return show(args, &report.noted(loose(&loaded.config)));
    }
    let accepted = accept::wanted(&args.accept, &loaded)?;
    let recorded =
        record::recorded(global, &loaded, &before, |name| accept::concerns(&accepted, name))?;
    let next = if accepted.is_empty() {
        whole(&before, &recorded)
    } else {
        accept::taken_over(before.clone(), &recorded, &accepted)?
    };
    if let Some(loose) = loose(&loaded.config) {
        print::note(&format!("note: {loose}"));
    }
    write(args, &place, &before, &next, &recorded)
}

/// Tells of servers whose package has no version, of which the lock cannot say what starts next time.
fn loose(config: &Config) -> Option<String> {
    let Finding { message, hint, .. } = versions::findings(config)?;
    Some(format!("{message}{}", hint.map(|hint| format!(": {hint}")).unwrap_or_default()))
}

impl Place {
    fn find(global: &Global) -> Result<Self, Error> {
        let config = global.location()?.ok_or_else(|| {
            Error::wrong("the embedded configuration has no lock")
                .hint("name a file with `--config`")
        })?;
        let is_folder = config.path.is_dir();
        let lock = Location {
            shown: config::lock_file(&config.shown, is_folder),
            path: config::lock_file(&config.path, is_folder),
            chosen_by: ChosenBy::Default,
        };
        Ok(Self { config, lock })
    }

    fn none(&self) -> Error {
        Error::wrong(format!("there is no `{}`", self.lock.shown.display()))
            .hint("`mcp-workbench lock` writes one: review it and commit it")
    }
}

impl Format {
    fn of_file(file: &Path) -> Result<Self, Error> {
        match file.extension().and_then(|ending| ending.to_str()) {
            Some("sarif") => Ok(Self::Sarif),
            Some("md" | "markdown") => Ok(Self::Markdown),
            Some("json") => Ok(Self::Json),
            Some("txt") => Ok(Self::Text),
            _ => Err(Error::wrong(format!("`{}` has none of the endings", file.display()))
                .hint("name a file that ends in .sarif, .md, .json or .txt")),
        }
    }

    fn text(self, report: &Report) -> Result<String, Error> {
        match self {
            Self::Text => Ok(report.to_string()),
            Self::Json => serde_json::to_string_pretty(report).map_err(Error::internal),
            Self::Sarif => {
                serde_json::to_string_pretty(&sarif::log(report)).map_err(Error::internal)
            }
            Self::Markdown => Ok(markdown::page(report)),
        }
    }
}

/// Tells what differs.
fn show(args: &Args, report: &Report) -> Result<ExitCode, Error> {
    for file in &args.report {
        let mut text = Format::of_file(file)?.text(report)?;
        text.push('\n');
        std::fs::write(file, text).map_err(|error| {
            Error::failed(format!("cannot write `{}`", file.display())).because(&error.to_string())
        })?;
    }
    if args.diff {
        match difference::text(report) {
            text if text.is_empty() && !args.check => print::note(&report.to_string()),
            text => print::data(&text.trim_end())?,
        }
    }
    match args.format {
        _ if args.json => print::json(report)?,
        Some(Format::Json) => print::json(report)?,
        Some(format @ (Format::Sarif | Format::Markdown)) => {
            print::data(&format.text(report)?.trim_end())?;
        }
        _ if args.diff && !args.check => {}
        Some(Format::Text) | None => print::prose(&report.to_string())?,
    }
    Ok(match report.outcome() {
        Outcome::InSync => ExitCode::SUCCESS,
        Outcome::Drift => ExitCode::FAILURE,
        Outcome::Unknown => ExitCode::from(2),
    })
}

/// The lock of all that was recorded; of what could not be started, as it was before.
fn whole(before: &Lock, recorded: &Recorded) -> Lock {
    let mut servers = BTreeMap::new();
    for (name, server) in &recorded.servers {
        servers.insert(name.clone(), Arc::new(server.clone()));
    }
    for name in recorded.failed.keys().chain(&recorded.disabled) {
        if let Some(server) = before.servers.get(name) {
            servers.insert(name.clone(), Arc::clone(server));
        }
    }
    Lock { servers }
}

fn write(
    args: &Args,
    place: &Place,
    before: &Lock,
    next: &Lock,
    recorded: &Recorded,
) -> Result<ExitCode, Error> {
    let text = config::write_lock(next);
    let old = std::fs::read_to_string(&place.lock.path).ok();
    let is_same = old.as_deref() == Some(text.as_str());
    if !is_same {
        replace::file(&place.lock, &text, &[&place.config.path])?;
    }
    for (name, why) in &recorded.failed {
        let kept = if next.servers.contains_key(name) {
            "it keeps what the file has of it"
        } else {
            "it is not in the file"
        };
        print::note(&format!("warning: `{name}` could not be started, and {kept}: {why}"));
    }
    for (name, unclear) in &recorded.unclear {
        for one in unclear {
            let why = "is not clear, for a member stands in it twice: it is not in the file";
            print::note(&format!("warning: {one} of `{name}` {why}"));
        }
    }
    let texts = next.servers.iter().map(|(name, server)| {
        Texts::of_locked(name, server, before.servers.get(name).map(|server| &**server))
    });
    let remarks = remarked::remarked(&texts.collect::<Vec<_>>());
    if args.json {
        print::json(&serde_json::json!({
            "file": place.lock.shown,
            "written": !is_same,
            "servers": next.servers.len(),
            "failed": recorded.failed,
            "remarks": remarks.iter().flat_map(Remarks::rows).collect::<Vec<_>>(),
        }))?;
    } else {
        let said = if is_same { "is as it was" } else { "was written" };
        let mut lines = vec![format!("`{}` {said}: {}", place.lock.shown.display(), sums(next))];
        lines.extend(changes(before, next));
        lines.extend(volatile(next));
        lines.extend(remarked::told(&remarks).map(|remarks| format!("\n{remarks}\n")));
        if !is_same {
            lines.push(
                "Review it, commit it, and have CI run `mcp-workbench lock --check`.".to_owned(),
            );
        }
        print::prose(&lines.join("\n"))?;
    }
    Ok(if recorded.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn sums(lock: &Lock) -> String {
    let all = |of: fn(&LockedServer) -> usize| lock.servers.values().map(|one| of(one)).sum();
    format!(
        "{} with {}, {} and {}",
        count(lock.servers.len(), "server"),
        count(all(|one| one.tools.len()), "tool"),
        count(all(|one| one.prompts.len()), "prompt"),
        count(all(|one| one.templates.len()), "resource template"),
    )
}

/// The servers that are others than before, if there were some.
fn changes(before: &Lock, next: &Lock) -> Vec<String> {
    if before.servers.is_empty() {
        return Vec::new();
    }
    let gone = before.servers.keys().filter(|name| !next.servers.contains_key(*name));
    let gone = gone.map(|name| format!("  gone: `{name}`"));
    let others = next.servers.iter().filter_map(|(name, now)| match before.servers.get(name) {
        None => Some(format!("  new: `{name}`")),
        Some(old) if old != now => Some(format!("  changed: `{name}`")),
        Some(_) => None,
    });
    others.chain(gone).collect()
}

/// The definitions that differ from run to run, and those that only some clients are shown.
fn volatile(lock: &Lock) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, server) in &lock.servers {
        for (kind, all) in server.kinds() {
            for (own, locked) in all {
                let own = printable(own);
                let whole = locked.ignore.iter().filter(|(_, words)| words.is_empty());
                for (at, _) in whole {
                    lines.push(format!("  not compared, for it differs from run to run: `{at}` of {kind} `{own}` of `{name}`"));
                }
                if locked.ignore.iter().any(|(_, words)| !words.is_empty()) {
                    lines.push(format!(
                        "  some words differ from run to run: {kind} `{own}` of `{name}`"
                    ));
                }
                if locked.is_conditional {
                    lines.push(format!("  for some clients alone: {kind} `{own}` of `{name}`"));
                }
            }
        }
    }
    lines
}

/// Compares one server with the lock.
fn drift(before: &Lock, listed: &Listed, name: &str) -> Vec<Drifted> {
    let nothing = LockedServer::default();
    let locked = before.servers.get(name).map_or(&nothing, |locked| &**locked);
    Comparison::default().drift(locked, &listed.listing)
}
