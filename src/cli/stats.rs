//! `stats`: what the audit comes to.

mod html;
mod patch;
mod prose;
mod since;

use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::cli::error::Error;
use crate::cli::size::{Size, count};
use crate::cli::stats::patch::Server;
use crate::cli::stats::prose::{in_words, size};
use crate::cli::{Global, print, with_gateway, without_rules};
use crate::config::{Dialect, LoadError, Loaded};
use crate::gateway::Gateway;
use crate::observe::stats::{Client, LoginUse, Model, Reads, Stats, Summary, Tool, files};
use crate::settings::Config;

const EXAMPLES: &str = "\
Examples:
  mcp-workbench stats                   Fold the audit that the configuration names
  mcp-workbench stats --since 7d --json
  mcp-workbench stats --html > report.html
  mcp-workbench stats --patch           Print what leaves out the tools that were never used";

/// Fold the audit: what is used, what never, what is slow, what fails
///
/// Reads the audit file with all that were put aside. What was never used is known from what is kept
/// of servers' listings; nothing is started for it. Tokens are an estimate, one for 4.5 bytes.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The audit file [default: the one that the configuration names]
    file: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Leave out what is older: 30m, 24h, 7d, a date or a time
    #[arg(long, value_name = "TIME", value_parser = since::parse)]
    since: Option<String>,
    /// Print `toolFilters` that leave out what was never used, to merge into the configuration
    #[arg(long, conflicts_with = "json")]
    patch: bool,
    /// Print a page for a browser, which fetches nothing and runs nothing
    #[arg(long, conflicts_with_all = ["json", "patch"])]
    html: bool,
    /// How many tools each table has
    #[arg(long, value_name = "NUMBER", default_value_t = 10)]
    top: usize,
}

/// A tool that agents may use and that none has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Unused {
    pub(crate) toolbox: String,
    pub(crate) server: String,
    pub(crate) tool: String,
    #[serde(skip)]
    pub(crate) own_name: String,
    pub(crate) bytes: usize,
}

/// The configuration's tools, used or not.
#[derive(Default)]
struct Known {
    unused: Vec<Unused>,
    /// How many tools each server shows, by toolbox and server.
    shown: Vec<(String, String, usize)>,
    /// Servers of which nothing is kept.
    unlisted: Vec<String>,
}

/// One tool, for those who read JSON.
#[derive(Serialize)]
struct Row<'a> {
    toolbox: &'a str,
    server: &'a str,
    tool: &'a str,
    calls: u64,
    failed: u64,
    refused: u64,
    outcomes: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p50_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p95_ms: Option<f64>,
    argument_bytes: u64,
    result_bytes: u64,
}

/// One language model, for those who read JSON.
#[derive(Serialize)]
struct ModelRow<'a> {
    model: &'a str,
    requests: u64,
    failed: u64,
    tokens_read: u64,
    tokens_written: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    p50_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p95_ms: Option<f64>,
}

/// One client's program, for those who read JSON.
#[derive(Serialize)]
struct ClientRow<'a> {
    client: &'a str,
    sessions: u64,
    tool_search: bool,
    given_bytes: u64,
    without_workbench_bytes: u64,
    saved_bytes: u64,
}

/// Somebody who was not let in, or wanted to hold more than it may, for those who read JSON.
#[derive(Serialize)]
struct IncidentRow<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    who: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    what: Option<&'a str>,
    times: u64,
}

/// One server of which something was read, for those who read JSON.
#[derive(Serialize)]
struct ReadRow<'a> {
    toolbox: &'a str,
    server: &'a str,
    resources: u64,
    prompts: u64,
    failed: u64,
    result_bytes: u64,
}

/// One login at a server, for those who read JSON.
#[derive(Serialize)]
struct LoginRow<'a> {
    server: &'a str,
    /// The agent whose own it is; none for this machine's.
    account: Option<&'a str>,
    signed_in: u64,
    renewed: u64,
    wanted: u64,
    /// `true` if the server wanted a sign-in when it was last heard of.
    is_wanted: bool,
}

#[derive(Serialize)]
struct Report<'a> {
    files: Vec<String>,
    from: &'a str,
    to: &'a str,
    calls: u64,
    agents: &'a [String],
    sessions: usize,
    tools: Vec<Row<'a>>,
    models: Vec<ModelRow<'a>>,
    reads: Vec<ReadRow<'a>>,
    logins: Vec<LoginRow<'a>>,
    denied: Vec<IncidentRow<'a>>,
    limits: Vec<IncidentRow<'a>>,
    never_used: &'a [Unused],
    not_known: &'a [String],
    clients: Vec<ClientRow<'a>>,
    saved_bytes: u64,
    estimated_tokens_saved: usize,
    sessions_without_client: u64,
    lost_records: u64,
    unreadable_lines: u64,
}

/// Summarises the audit and prints the summary.
pub(crate) fn run(global: &Global, args: &Args) -> Result<ExitCode, Error> {
    let loaded = match global.read()? {
        Ok(loaded) => Some(loaded),
        // An audit can be read without.
        Err(LoadError::Missing(_)) if args.file.is_some() && !args.patch => None,
        Err(error) => return Err(Error::config(error)),
    };
    let named = || Some(loaded.as_ref()?.config.audit.as_ref()?.file.clone());
    let audit = args.file.clone().or_else(named).ok_or_else(|| {
        Error::failed("no calls are recorded: the configuration has no `audit`").hint(
            "write `\"audit\": {\"file\": \"audit.jsonl\"}` at its top to record them from now on, or \
             name the file of another audit",
        )
    })?;
    let files = files(&audit);
    if files.is_empty() {
        return Err(Error::failed(format!("there is no audit at `{}`", audit.display()))
            .hint("it is made when something is served with `audit` in the configuration"));
    }
    let stats = Stats::read(&files, args.since.as_deref()).map_err(Error::internal)?;
    let summary = stats.finish();
    let known = match &loaded {
        Some(Loaded { config, .. }) => {
            // What any agent may use counts, unless one is named.
            let is_of_one = global.caller().agent.is_some();
            let config = config.clone();
            let config = if is_of_one { config } else { without_rules(config) };
            with_gateway(global, config, async |gateway| {
                gateway.recalled().await;
                Known::new(gateway, &summary)
            })?
        }
        None => Known::default(),
    };
    if let (true, Some(loaded)) = (args.patch, &loaded) {
        return patch(global, loaded, &known);
    }
    if args.html {
        let patch = loaded.as_ref().filter(|loaded| is_patched(loaded));
        let patch = patch.map(|loaded| fragment(global, loaded, &known)).transpose()?.flatten();
        let page = html::page(&audit, &summary, &known, patch.as_ref());
        print::data(&page.into_string())?;
    } else if args.json {
        print::json(&report(&files, &summary, &known))?;
    } else {
        print::prose(&in_words(&audit, &summary, &known, args.top))?;
    }
    Ok(ExitCode::SUCCESS)
}

impl Known {
    fn new(gateway: &Gateway, summary: &Summary) -> Self {
        let mut known = Self::default();
        let snapshot = gateway.snapshot();
        for toolbox in &gateway.config().toolboxes {
            let view = snapshot.view(&toolbox.name);
            for server in toolbox.launched() {
                let tools = view.tools_of(&server.name);
                let (toolbox, server) = (toolbox.name.to_string(), server.name.to_string());
                if tools.is_empty() {
                    known.unlisted.push(format!("{toolbox}/{server}"));
                }
                let unused = tools.iter().filter(|tool| {
                    let called = summary.tool(&toolbox, &server, &tool.id.tool);
                    called.is_none_or(|called| called.calls == called.refused())
                });
                known.unused.extend(unused.map(|tool| Unused {
                    toolbox: toolbox.clone(),
                    server: server.clone(),
                    tool: tool.id.tool.clone(),
                    own_name: tool.own.name.clone(),
                    bytes: tool.definition.raw.len(),
                }));
                known.shown.push((toolbox, server, tools.len()));
            }
        }
        known
    }
}

/// Returns `true` if the file is one that a patch can be merged into.
fn is_patched(loaded: &Loaded) -> bool {
    matches!(loaded.dialect, Dialect::Native | Dialect::Client | Dialect::Modular)
}

/// The patch that leaves out what was never used; none if nothing is to be left out.
fn fragment(global: &Global, loaded: &Loaded, known: &Known) -> Result<Option<Value>, Error> {
    let text = std::fs::read_to_string(&global.config_file()?).map_err(Error::internal)?;
    let tree = jsonc_parser::parse_to_ast(
        text.trim_start_matches('\u{feff}'),
        &jsonc_parser::CollectOptions::default(),
        &jsonc_parser::ParseOptions::default(),
    );
    let read = tree.map_err(Error::internal)?.value.map(Value::from);
    let servers = servers(&loaded.config, known);
    Ok(patch::fragment(&read.unwrap_or_default(), &servers, &known.unused))
}

/// The patch that leaves out these tools of servers that show so many; none if the file cannot be patched.
pub(crate) fn fragment_of(
    global: &Global,
    loaded: &Loaded,
    unused: Vec<Unused>,
    shown: Vec<(String, String, usize)>,
) -> Result<Option<Value>, Error> {
    let known = Known { unused, shown, unlisted: Vec::new() };
    if is_patched(loaded) { fragment(global, loaded, &known) } else { Ok(None) }
}

fn patch(global: &Global, loaded: &Loaded, known: &Known) -> Result<ExitCode, Error> {
    let file = &loaded.file;
    if !is_patched(loaded) {
        return Err(Error::failed(format!("`{file}` is not JSON, so it cannot be patched"))
            .hint("`mcp-workbench import` makes a configuration of it"));
    }
    match fragment(global, loaded, known)? {
        Some(fragment) => {
            print::json_of_config(&fragment)?;
            let tools = count(known.unused.len(), "tool");
            let size: Size = known.unused.iter().map(|tool| Size::of(tool.bytes)).sum();
            print::note(&format!(
                "merged into `{file}` this leaves out {tools} that were never used: {size}"
            ));
        }
        None => print::note(&"nothing is to be left out"),
    }
    if !known.unlisted.is_empty() {
        print::note(&not_known(known));
    }
    Ok(ExitCode::SUCCESS)
}

fn servers<'a>(config: &'a Config, known: &Known) -> Vec<Server<'a>> {
    let shown = known.shown.iter().filter_map(|(toolbox, server, tools)| {
        let toolbox = config.toolbox(toolbox)?;
        let config = toolbox.server(server)?;
        Some(Server { toolbox: toolbox.name.as_str(), config, tools: *tools })
    });
    shown.collect()
}

fn not_known(known: &Known) -> String {
    format!(
        "nothing is known of {}: `mcp-workbench cache refresh` finds out what there is",
        known.unlisted.join(", ")
    )
}

fn report<'a>(files: &[PathBuf], summary: &'a Summary, known: &'a Known) -> Report<'a> {
    let row = |tool: &'a Tool| Row {
        toolbox: &tool.toolbox,
        server: &tool.server,
        tool: &tool.name,
        calls: tool.calls,
        failed: tool.failed(),
        refused: tool.refused(),
        outcomes: tool.outcomes().map(|(word, count)| (word.to_owned(), count.into())).collect(),
        p50_ms: tool.percentile(50),
        p95_ms: tool.percentile(95),
        argument_bytes: tool.argument_bytes,
        result_bytes: tool.result_bytes,
    };
    let model = |model: &'a Model| ModelRow {
        model: &model.name,
        requests: model.requests,
        failed: model.failed,
        tokens_read: model.tokens_read,
        tokens_written: model.tokens_written,
        p50_ms: model.percentile(50),
        p95_ms: model.percentile(95),
    };
    let client = |client: &'a Client| ClientRow {
        client: &client.name,
        sessions: client.sessions,
        tool_search: client.has_tool_search,
        given_bytes: client.given_bytes,
        without_workbench_bytes: client.without_bytes,
        saved_bytes: client.saved_bytes,
    };
    let read = |reads: &'a Reads| ReadRow {
        toolbox: &reads.toolbox,
        server: &reads.server,
        resources: reads.resources,
        prompts: reads.prompts,
        failed: reads.failed,
        result_bytes: reads.result_bytes,
    };
    let login = |login: &'a LoginUse| LoginRow {
        server: &login.server,
        account: Some(login.account.as_str()).filter(|account| !account.is_empty()),
        signed_in: login.signed_in,
        renewed: login.renewed,
        wanted: login.wanted,
        is_wanted: login.is_wanted,
    };
    Report {
        files: files.iter().map(|file| file.display().to_string()).collect(),
        from: &summary.from,
        to: &summary.to,
        calls: summary.calls(),
        agents: &summary.agents,
        sessions: summary.sessions,
        tools: summary.tools.iter().map(row).collect(),
        models: summary.models.iter().map(model).collect(),
        reads: summary.reads.iter().map(read).collect(),
        logins: summary.logins.iter().map(login).collect(),
        denied: incidents(summary, false),
        limits: incidents(summary, true),
        never_used: &known.unused,
        not_known: &known.unlisted,
        clients: summary.clients.iter().map(client).collect(),
        saved_bytes: summary.saved_bytes(),
        estimated_tokens_saved: size(summary.saved_bytes()).tokens(),
        sessions_without_client: summary.unclear_sessions,
        lost_records: summary.lost,
        unreadable_lines: summary.unreadable,
    }
}

/// Everybody who was not let in, or everybody who was at a limit.
fn incidents(summary: &Summary, of_limits: bool) -> Vec<IncidentRow<'_>> {
    let meant = summary.incidents.iter().filter(|(incident, _)| incident.is_limit == of_limits);
    let row = meant.map(|(incident, times)| {
        let cause = Some(incident.cause.as_str());
        let (why, what) = if of_limits { (None, cause) } else { (cause, None) };
        IncidentRow { who: &incident.who, why, what, times: *times }
    });
    row.collect()
}
