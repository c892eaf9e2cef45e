//! `cache`: shows, refreshes or clears cached tool listings.

use std::collections::HashSet;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use clap::Subcommand;
use serde::Serialize;

use crate::cli::args::GlobalArgs;
use crate::cli::gateways::{with_gateway, without_policy};
use crate::cli::output::{
    Align, CommandError, Table, age, format_age, format_count, number, print,
};
use crate::cli::servers::startup;
use mcp_workbench_core::backend::{
    Fingerprint, ListingRecordError, ListingStore, LoginScope, ServerTransport, StoreEntry,
};
use mcp_workbench_core::gateway::FailedServer;
use mcp_workbench_settings::{Config, ServerConfig, ToolboxConfig};

const EXAMPLES: &str = "\
Examples:
  mcp-workbench cache list      Show what is cached, and its age
  mcp-workbench cache refresh   Start every server and update the cache
  mcp-workbench cache clear     Delete the cached tool lists";

/// Tolerated clock difference between the file system and the machine.
const CLOCK_SKEW: Duration = Duration::from_secs(2);

/// Show, refresh or clear cached tool lists
///
/// With a cached tool list, a workbench knows a server's tools before the server runs. The list is
/// updated whenever the server runs, so clearing the cache is safe.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: CacheCommand,
}

#[derive(Debug, Subcommand)]
enum CacheCommand {
    /// Show the cached tool list of each server
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Start every server and update its cached tool list
    Refresh {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Delete all cached tool lists
    Clear,
}

#[derive(Debug, Serialize)]
struct CachedListingRow {
    /// `None` if the listing belongs to no configured server.
    toolbox: Option<String>,
    /// `None` if the file is unreadable.
    server: Option<String>,
    state: CacheState,
    /// `None` without a usable listing.
    #[serde(flatten)]
    counts: Option<ListingCounts>,
    /// `None` without a file.
    #[serde(flatten)]
    stored: Option<StoredFile>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<RefreshFailure>,
}

#[derive(Debug, Serialize)]
struct ListingCounts {
    tools: usize,
    resources: usize,
    prompts: usize,
}

#[derive(Debug, Serialize)]
struct StoredFile {
    age_seconds: u64,
    bytes: u64,
    file: String,
    #[serde(skip)]
    since: SystemTime,
}

#[derive(Debug, Serialize)]
struct RefreshFailure {
    reason: String,
    hint: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum CacheState {
    Cached,
    Missing,
    Damaged,
    OtherVersion,
    TooLarge,
}

impl CacheState {
    fn as_str(self) -> &'static str {
        match self {
            Self::Cached => "cached",
            Self::Missing => "missing",
            Self::Damaged => "damaged",
            Self::OtherVersion => "old format",
            Self::TooLarge => "too large",
        }
    }
}

#[derive(Serialize)]
struct Report {
    folder: String,
    listings: Vec<CachedListingRow>,
}

/// Runs the subcommand. A refresh fails if a server doesn't start or its listing can't be written.
pub(crate) fn run(global: &GlobalArgs, args: &Args) -> Result<ExitCode, CommandError> {
    let store = global.store().ok_or_else(|| {
        CommandError::usage("cannot locate the cache directory")
            .with_hint("set `--cache-dir` or `WORKBENCH_CACHE_DIR`")
    })?;
    match args.command {
        CacheCommand::List { json } => {
            let config = without_policy(global.read()?.config);
            show(&store, rows(&store, &config)?, json)?;
            Ok(ExitCode::SUCCESS)
        }
        CacheCommand::Refresh { json } => {
            let loaded = global.read_for_start(|_, _| true)?;
            let config = without_policy(loaded.config);
            refresh(global, &store, &config, json)
        }
        CacheCommand::Clear => {
            let removed = store.clear().map_err(|error| unusable(&store, &error))?;
            let folder = store.folder().display();
            let removed = format_count(removed, "cached tool list");
            print::data(&format!("deleted {removed} from {folder}"))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn refresh(
    global: &GlobalArgs,
    store: &ListingStore,
    config: &Config,
    json: bool,
) -> Result<ExitCode, CommandError> {
    let began = SystemTime::now() - CLOCK_SKEW;
    let starts = with_gateway(global, config.clone(), async |gateway| {
        let toolboxes: Vec<_> = gateway.config().toolboxes.iter().collect();
        startup::start_servers(gateway, &toolboxes, |_| true).await
    })?;
    let mut rows = rows(store, config)?;
    let mut warnings = Vec::new();
    // The first rows are the configured servers, in start order.
    for (row, start) in rows.iter_mut().zip(&starts) {
        let is_renewed = row.state == CacheState::Cached
            && row.stored.as_ref().is_some_and(|stored| stored.since >= began);
        match &start.failure {
            Some(FailedServer { reason, hint, .. }) => {
                row.failure = Some(RefreshFailure { reason: reason.clone(), hint: hint.clone() });
                warnings.extend(start.failure_text());
            }
            None if is_renewed => {}
            None => {
                let reason = "failed to write its tool list".to_owned();
                let hint = format!("check that `{}` is writable", store.folder().display());
                let (toolbox, server) = (&start.toolbox, &start.server);
                warnings.push(format!("`{toolbox}/{server}`: {reason}\n  hint: {hint}"));
                row.failure = Some(RefreshFailure { reason, hint });
            }
        }
    }
    show(store, rows, json)?;
    for warning in &warnings {
        print::note(&format!("warning: {warning}"));
    }
    Ok(if warnings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the listings of configured servers in configuration order, then all others.
fn rows(store: &ListingStore, config: &Config) -> Result<Vec<CachedListingRow>, CommandError> {
    let mut meant: HashSet<Fingerprint> = HashSet::new();
    let mut rows = Vec::new();
    let mut row = |toolbox: &ToolboxConfig, server: &ServerConfig| {
        let reach = ServerTransport::from_config(server, &LoginScope::only(None)).ok();
        let entry = reach.and_then(|reach| store.look_up(&reach, server.protocol));
        meant.extend(entry.as_ref().map(|entry| entry.fingerprint.clone()));
        let mut row =
            entry.map_or(CachedListingRow::missing(), |entry| CachedListingRow::new(&entry));
        row.toolbox = Some(toolbox.name.to_string());
        row.server = Some(server.name.to_string());
        row
    };
    for toolbox in &config.toolboxes {
        rows.extend(toolbox.launchable_servers().map(|server| row(toolbox, server)));
    }
    let entries = store.entries().map_err(|error| unusable(store, &error))?;
    let others = entries.iter().filter(|entry| !meant.contains(&entry.fingerprint));
    rows.extend(others.map(CachedListingRow::new));
    Ok(rows)
}

impl CachedListingRow {
    fn missing() -> Self {
        Self {
            toolbox: None,
            server: None,
            state: CacheState::Missing,
            counts: None,
            stored: None,
            failure: None,
        }
    }

    fn new(entry: &StoreEntry) -> Self {
        let stored = StoredFile {
            age_seconds: age(entry.since).as_secs(),
            bytes: entry.bytes,
            file: entry.fingerprint.to_string(),
            since: entry.since,
        };
        let row = Self { stored: Some(stored), ..Self::missing() };
        match &entry.record {
            Ok(record) => Self {
                server: Some(record.server.clone()),
                state: CacheState::Cached,
                counts: Some(ListingCounts {
                    tools: record.listing.tools.len(),
                    resources: record.listing.resources.len(),
                    prompts: record.listing.prompts.len(),
                }),
                ..row
            },
            Err(ListingRecordError::Damaged) => Self { state: CacheState::Damaged, ..row },
            Err(ListingRecordError::OtherVersion) => {
                Self { state: CacheState::OtherVersion, ..row }
            }
            Err(ListingRecordError::TooLarge) => Self { state: CacheState::TooLarge, ..row },
        }
    }
}

fn show(store: &ListingStore, rows: Vec<CachedListingRow>, json: bool) -> Result<(), CommandError> {
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
        let count = |of: fn(&ListingCounts) -> usize| {
            row.counts.as_ref().map(|counts| number(of(counts))).unwrap_or_default()
        };
        let stored = row.stored.as_ref();
        let bytes = stored.and_then(|stored| usize::try_from(stored.bytes).ok());
        table.row([
            row.toolbox.clone().unwrap_or_else(|| "(not configured)".to_owned()),
            row.server.clone().unwrap_or_default(),
            count(|counts| counts.tools),
            count(|counts| counts.resources),
            count(|counts| counts.prompts),
            stored.map(|stored| format_age(age(stored.since))).unwrap_or_default(),
            bytes.map(number).unwrap_or_default(),
            row.state.as_str().to_owned(),
        ]);
    }
    // Servers with the same launch share a listing.
    let files: HashSet<_> =
        rows.iter().filter_map(|row| Some(&row.stored.as_ref()?.file)).collect();
    let summary = format!("{} in {folder}", format_count(files.len(), "cached tool list"));
    if rows.is_empty() {
        print::data(&summary)
    } else {
        print::data(&format!("{table}\n\n{summary}"))
    }
}

fn unusable(store: &ListingStore, error: &std::io::Error) -> CommandError {
    let folder = store.folder().display();
    CommandError::failed(format!("failed to use the cache in `{folder}`")).because(error)
}
