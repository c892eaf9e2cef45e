//! `cache`: what is kept of servers' listings between runs.

use std::collections::HashSet;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use clap::Subcommand;
use serde::Serialize;

use crate::backend::{Fingerprint, Reach, Store, StoreEntry, Unusable, Whose};
use crate::cli::error::Error;
use crate::cli::servers;
use crate::cli::size::{count, number};
use crate::cli::table::{Align, Table};
use crate::cli::{Global, print, with_gateway, without_rules};
use crate::gateway::FailedServer;
use crate::settings::{Config, ServerConfig, ToolboxConfig};

const EXAMPLES: &str = "\
Examples:
  mcp-workbench cache list            Show what is kept, and how old it is
  mcp-workbench cache refresh         Start every server once and keep what it lists
  mcp-workbench cache clear           Remove all of it";

/// How much the clocks of a file system and of the machine may differ.
const CLOCKS: Duration = Duration::from_secs(2);

/// See, renew or remove what is kept of servers' listings
///
/// What a server lists is kept, so that it is known the next time before the server runs. It is
/// found out anew whenever the server runs, and nothing is lost with it but time.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show what is kept of each server
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Start every server, and keep what it lists
    Refresh {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove everything that is kept
    Clear,
}

/// The kept listing of one server.
#[derive(Debug, Serialize)]
struct Row {
    /// `None`: no server of the configuration is meant.
    toolbox: Option<String>,
    /// `None`: the file cannot be read.
    server: Option<String>,
    state: State,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resources: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompts: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    age_seconds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<Failure>,
    #[serde(skip)]
    since: Option<SystemTime>,
}

/// Why a listing could not be renewed.
#[derive(Debug, Serialize)]
struct Failure {
    reason: String,
    hint: String,
}

/// The state of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Kept,
    Missing,
    Damaged,
    OtherVersion,
    TooLarge,
}

impl State {
    fn as_str(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Missing => "missing",
            Self::Damaged => "damaged",
            Self::OtherVersion => "of another version",
            Self::TooLarge => "too large",
        }
    }
}

#[derive(Serialize)]
struct Report {
    folder: String,
    listings: Vec<Row>,
}

/// Does what is asked; a refresh fails where a server could not be started or its listing kept.
pub(crate) fn run(global: &Global, args: &Args) -> Result<ExitCode, Error> {
    let store = global.store().ok_or_else(|| {
        Error::wrong("there is no folder for what is kept")
            .hint("name one with `--cache-dir` or `MCP_WORKBENCH_CACHE`")
    })?;
    match args.command {
        Command::List { json } => {
            let config = without_rules(global.read()?.map_err(Error::config)?.config);
            show(&store, rows(&store, &config)?, json)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Refresh { json } => {
            let loaded = global.read_to_start(|_, _| true)?.map_err(Error::config)?;
            let config = without_rules(loaded.config);
            refresh(global, &store, &config, json)
        }
        Command::Clear => {
            let removed = store.clear().map_err(|error| unusable(&store, &error))?;
            let folder = store.folder().display();
            print::data(&format!("{} removed from {folder}", count(removed, "listing")))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Returns whether it is kept what a server lists, so that it need not be started for that.
pub(crate) fn is_kept(global: &Global, server: &ServerConfig) -> bool {
    let reach = Reach::of(server, &Whose::only(None)).ok();
    let store = global.store();
    let kept = reach.zip(store).and_then(|(reach, store)| store.look_up(&reach, server.protocol));
    kept.is_some_and(|entry| entry.record.is_ok())
}

fn refresh(global: &Global, store: &Store, config: &Config, json: bool) -> Result<ExitCode, Error> {
    let began = SystemTime::now() - CLOCKS;
    let starts = with_gateway(global, config.clone(), async |gateway| {
        let toolboxes: Vec<_> = gateway.config().toolboxes.iter().collect();
        servers::start(gateway, &toolboxes, |_| true).await
    })?;
    let mut rows = rows(store, config)?;
    let mut warnings = Vec::new();
    // The rows begin with the servers of the configuration, in the order in which those start.
    for (row, start) in rows.iter_mut().zip(&starts) {
        let is_renewed = row.state == State::Kept && row.since.is_some_and(|since| since >= began);
        match &start.failure {
            Some(FailedServer { reason, hint, .. }) => {
                row.failure = Some(Failure { reason: reason.clone(), hint: hint.clone() });
                warnings.extend(start.explanation());
            }
            None if is_renewed => {}
            None => {
                let reason = "its listing could not be written".to_owned();
                let hint = format!("see whether `{}` can be written to", store.folder().display());
                let (toolbox, server) = (&start.toolbox, &start.server);
                warnings.push(format!("`{toolbox}/{server}`: {reason}\n  hint: {hint}"));
                row.failure = Some(Failure { reason, hint });
            }
        }
    }
    show(store, rows, json)?;
    for warning in &warnings {
        print::note(&format!("warning: {warning}"));
    }
    Ok(if warnings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The kept listings of the configuration's servers, in its order; then those of others.
fn rows(store: &Store, config: &Config) -> Result<Vec<Row>, Error> {
    let mut meant: HashSet<Fingerprint> = HashSet::new();
    let mut rows = Vec::new();
    let mut row = |toolbox: &ToolboxConfig, server: &ServerConfig| {
        let reach = Reach::of(server, &Whose::only(None)).ok();
        let entry = reach.and_then(|reach| store.look_up(&reach, server.protocol));
        meant.extend(entry.as_ref().map(|entry| entry.fingerprint.clone()));
        let mut row = entry.map_or(Row::missing(), |entry| Row::new(&entry));
        row.toolbox = Some(toolbox.name.to_string());
        row.server = Some(server.name.to_string());
        row
    };
    for toolbox in &config.toolboxes {
        rows.extend(toolbox.launched().map(|server| row(toolbox, server)));
    }
    let entries = store.entries().map_err(|error| unusable(store, &error))?;
    let others = entries.iter().filter(|entry| !meant.contains(&entry.fingerprint));
    rows.extend(others.map(Row::new));
    Ok(rows)
}

impl Row {
    fn missing() -> Self {
        Self {
            toolbox: None,
            server: None,
            state: State::Missing,
            tools: None,
            resources: None,
            prompts: None,
            age_seconds: None,
            bytes: None,
            file: None,
            failure: None,
            since: None,
        }
    }

    fn new(entry: &StoreEntry) -> Self {
        let row = Self {
            age_seconds: Some(age(entry.since).as_secs()),
            bytes: Some(entry.bytes),
            file: Some(entry.fingerprint.to_string()),
            since: Some(entry.since),
            ..Self::missing()
        };
        match &entry.record {
            Ok(record) => Self {
                server: Some(record.server.clone()),
                state: State::Kept,
                tools: Some(record.listing.tools.len()),
                resources: Some(record.listing.resources.len()),
                prompts: Some(record.listing.prompts.len()),
                ..row
            },
            Err(Unusable::Damaged) => Self { state: State::Damaged, ..row },
            Err(Unusable::OtherVersion) => Self { state: State::OtherVersion, ..row },
            Err(Unusable::TooLarge) => Self { state: State::TooLarge, ..row },
        }
    }
}

fn show(store: &Store, rows: Vec<Row>, json: bool) -> Result<(), Error> {
    let folder = store.folder().display().to_string();
    if json {
        return print::json(&Report { folder, listings: rows });
    }
    let mut table = Table::new([
        ("Toolbox", Align::Left),
        ("Server", Align::Left),
        ("Tools", Align::Right),
        ("Resources", Align::Right),
        ("Prompts", Align::Right),
        ("Age", Align::Right),
        ("Bytes", Align::Right),
        ("State", Align::Left),
    ]);
    for row in &rows {
        let cell = |of: Option<usize>| of.map(number).unwrap_or_default();
        table.row([
            row.toolbox.clone().unwrap_or_else(|| "(no longer)".to_owned()),
            row.server.clone().unwrap_or_default(),
            cell(row.tools),
            cell(row.resources),
            cell(row.prompts),
            row.since.map(|since| in_words(age(since))).unwrap_or_default(),
            cell(row.bytes.and_then(|bytes| usize::try_from(bytes).ok())),
            row.state.as_str().to_owned(),
        ]);
    }
    // Entries that are launched alike have one listing.
    let files: HashSet<_> = rows.iter().filter_map(|row| row.file.as_ref()).collect();
    let summary = format!("{} in {folder}", count(files.len(), "listing"));
    if rows.is_empty() {
        print::data(&summary)
    } else {
        print::data(&format!("{table}\n\n{summary}"))
    }
}

/// How long ago something was; no time at all if clocks disagree.
pub(crate) fn age(since: SystemTime) -> Duration {
    since.elapsed().unwrap_or_default()
}

/// A time in its largest unit.
pub(crate) fn in_words(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..86_400 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

fn unusable(store: &Store, error: &std::io::Error) -> Error {
    let folder = store.folder().display();
    Error::failed(format!("what is kept in `{folder}` cannot be used")).because(&error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_told_in_its_largest_unit() {
        let told = [0, 59, 60, 7199, 86_399, 200_000].map(|s| in_words(Duration::from_secs(s)));
        assert_eq!(told, ["0 s", "59 s", "1 min", "1 h", "23 h", "2 d"]);
    }
}
