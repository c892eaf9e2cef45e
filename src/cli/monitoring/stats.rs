//! `stats`: summarizes the audit log.

mod html;
mod since;
mod text;

use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::cli::args::GlobalArgs;
use crate::cli::gateways::{with_gateway, without_policy};
use crate::cli::monitoring::stats::text::{size, to_text};
use crate::cli::monitoring::unused_tools::{UnusedTool, build_patch, is_patched};
use crate::cli::output::error::CommandError;
use crate::cli::output::print;
use crate::cli::output::units::{ContextSize, format_count};
use mcp_workbench_config::{LoadError, LoadedConfig};
use mcp_workbench_core::gateway::Gateway;
use mcp_workbench_core::telemetry::stats::{
    AuditSummary, ClientStats, LoginStats, ModelStats, ReadStats, StatsBuilder, ToolStats,
    audit_files,
};

const EXAMPLES: &str = "\
Examples:
  mcp-workbench stats                      Summarize the configured audit log
  mcp-workbench stats --since 7d --json
  mcp-workbench stats --html > report.html
  mcp-workbench stats --patch              Print a patch without unused tools";

/// Summarize the audit log: usage, latency and failures
///
/// Reads the audit log and its rotated files. Finds unused tools through the cached tool lists and
/// starts no server. Tokens are estimates: one per 4.5 bytes.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Audit log [default: the configured one]
    file: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Only records since 30m, 24h or 7d ago, a date or a time
    #[arg(long, value_name = "TIME", value_parser = since::parse)]
    since: Option<String>,
    /// Print a `toolFilters` patch that removes unused tools
    #[arg(long, conflicts_with = "json")]
    patch: bool,
    /// Print a self-contained HTML report
    #[arg(long, conflicts_with_all = ["json", "patch"])]
    html: bool,
    /// Rows per table
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    top: usize,
}

#[derive(Default)]
struct ConfiguredTools {
    unused: Vec<UnusedTool>,
    /// The toolbox, server and number of visible tools.
    shown: Vec<(String, String, usize)>,
    /// Servers without a cached listing, as `toolbox/server`.
    unlisted: Vec<String>,
}

#[derive(Serialize)]
struct ToolRow<'a> {
    toolbox: &'a str,
    server: &'a str,
    tool: &'a str,
    calls: u64,
    failed: u64,
    denied: u64,
    outcomes: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p50_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p95_ms: Option<f64>,
    argument_bytes: u64,
    result_bytes: u64,
}

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

#[derive(Serialize)]
struct ClientRow<'a> {
    client: &'a str,
    sessions: u64,
    has_tool_search: bool,
    shown_bytes: u64,
    without_workbench_bytes: u64,
    saved_bytes: u64,
}

#[derive(Serialize)]
struct IncidentRow<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    caller: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    quota: Option<&'a str>,
    count: u64,
}

#[derive(Serialize)]
struct ReadRow<'a> {
    toolbox: &'a str,
    server: &'a str,
    resources: u64,
    prompts: u64,
    failed: u64,
    result_bytes: u64,
}

#[derive(Serialize)]
struct LoginRow<'a> {
    server: &'a str,
    /// The agent that owns the login; `None` for the machine's login.
    account: Option<&'a str>,
    signed_in: u64,
    renewed: u64,
    required: u64,
    /// `true` if the server required a sign-in in its last record.
    is_required: bool,
}

#[derive(Serialize)]
struct StatsReport<'a> {
    files: Vec<String>,
    from: &'a str,
    to: &'a str,
    calls: u64,
    agents: &'a [String],
    sessions: usize,
    tools: Vec<ToolRow<'a>>,
    models: Vec<ModelRow<'a>>,
    reads: Vec<ReadRow<'a>>,
    logins: Vec<LoginRow<'a>>,
    access_denials: Vec<IncidentRow<'a>>,
    limits_reached: Vec<IncidentRow<'a>>,
    never_used: &'a [UnusedTool],
    uncached_servers: &'a [String],
    clients: Vec<ClientRow<'a>>,
    saved_bytes: u64,
    estimated_tokens_saved: usize,
    sessions_without_client: u64,
    lost_records: u64,
    unreadable_lines: u64,
}

pub(crate) fn run(global: &GlobalArgs, args: &Args) -> Result<ExitCode, CommandError> {
    let loaded = match global.try_read()? {
        Ok(loaded) => Some(loaded),
        // `stats FILE` works without a configuration.
        Err(LoadError::Missing(_)) if args.file.is_some() && !args.patch => None,
        Err(error) => return Err(CommandError::config(error)),
    };
    let named = || Some(loaded.as_ref()?.config.audit.as_ref()?.file.clone());
    let audit = args.file.clone().or_else(named).ok_or_else(|| {
        CommandError::failed("audit logging is off: the configuration has no `audit`").with_hint(
            "add `\"audit\": {\"file\": \"audit.jsonl\"}` to the configuration, run `mcp-workbench setup \
             --audit` to do that for your clients, or name an audit log",
        )
    })?;
    let files = audit_files(&audit);
    if files.is_empty() {
        return Err(CommandError::failed(format!("no audit log at `{}`", audit.display()))
            .with_hint("`mcp-workbench serve` creates it if the configuration has `audit`"));
    }
    let stats =
        StatsBuilder::read(&files, args.since.as_deref()).map_err(CommandError::internal)?;
    let summary = stats.finish();
    if summary.from.is_empty() && summary.unreadable > 0 && args.since.is_none() {
        let lines = format_count(usize::try_from(summary.unreadable).unwrap_or(usize::MAX), "line");
        let problem =
            format!("`{}` isn't an audit log: unknown records in {lines}", audit.display());
        return Err(CommandError::failed(problem)
            .with_hint("the key `audit.file` of the configuration names the audit log"));
    }
    let known = match &loaded {
        Some(LoadedConfig { config, .. }) => {
            // Without `--agent`, the tools that any agent can use count.
            let is_of_one = global.caller().agent.is_some();
            let config = config.clone();
            let config = if is_of_one { config } else { without_policy(config) };
            with_gateway(global, config, async |gateway| {
                gateway.views().wait_for_stored_listings().await;
                ConfiguredTools::new(gateway, &summary)
            })?
        }
        None => ConfiguredTools::default(),
    };
    if let (true, Some(loaded)) = (args.patch, &loaded) {
        return patch(global, loaded, &known);
    }
    if args.html {
        let patch = loaded.as_ref().filter(|loaded| is_patched(loaded));
        let patch = patch
            .map(|loaded| build_patch(global, loaded, &known.unused, &known.shown))
            .transpose()?
            .flatten();
        let page = html::page(&audit, &summary, &known, patch.as_ref());
        print::data(&page.into_string())?;
    } else if args.json {
        print::json(&report(&files, &summary, &known))?;
    } else {
        print::prose(&to_text(&audit, &summary, &known, args.top))?;
    }
    Ok(ExitCode::SUCCESS)
}

impl ConfiguredTools {
    fn new(gateway: &Gateway, summary: &AuditSummary) -> Self {
        let mut known = Self::default();
        let snapshot = gateway.snapshot();
        for toolbox in &gateway.config().toolboxes {
            let view = snapshot.view(&toolbox.name);
            for server in toolbox.launchable_servers() {
                let tools = view.tools_of(&server.name);
                let (toolbox, server) = (toolbox.name.to_string(), server.name.to_string());
                if tools.is_empty() {
                    known.unlisted.push(format!("{toolbox}/{server}"));
                }
                let unused = tools.iter().filter(|tool| {
                    let called = summary.tool(&toolbox, &server, &tool.id.tool);
                    called.is_none_or(|called| called.calls == called.denied())
                });
                known.unused.extend(unused.map(|tool| UnusedTool {
                    toolbox: toolbox.clone(),
                    server: server.clone(),
                    tool: tool.id.tool.clone(),
                    own_name: tool.server_definition.name.clone(),
                    bytes: tool.definition.raw.len(),
                }));
                known.shown.push((toolbox, server, tools.len()));
            }
        }
        known
    }
}

fn patch(
    global: &GlobalArgs,
    loaded: &LoadedConfig,
    known: &ConfiguredTools,
) -> Result<ExitCode, CommandError> {
    let file = &loaded.file;
    if !is_patched(loaded) {
        return Err(CommandError::failed(format!("`{file}` is not JSON, so it cannot be patched"))
            .with_hint("run `mcp-workbench import` to create a JSON configuration from it"));
    }
    match build_patch(global, loaded, &known.unused, &known.shown)? {
        Some(fragment) => {
            print::json_unredacted(&fragment)?;
            let tools = format_count(known.unused.len(), "tool");
            let size: ContextSize =
                known.unused.iter().map(|tool| ContextSize::of(tool.bytes)).sum();
            print::note(&format!(
                "merge this into `{file}` to remove {tools} that were never used ({size})"
            ));
        }
        None => print::note(&"no unused tools"),
    }
    if !known.unlisted.is_empty() {
        print::note(&unlisted_note(known));
    }
    Ok(ExitCode::SUCCESS)
}

fn unlisted_note(known: &ConfiguredTools) -> String {
    format!(
        "no cached tool list of {}; run `mcp-workbench cache refresh`",
        known.unlisted.join(", ")
    )
}

fn report<'a>(
    files: &[PathBuf],
    summary: &'a AuditSummary,
    known: &'a ConfiguredTools,
) -> StatsReport<'a> {
    let row = |tool: &'a ToolStats| ToolRow {
        toolbox: &tool.toolbox,
        server: &tool.server,
        tool: &tool.name,
        calls: tool.calls,
        failed: tool.failed(),
        denied: tool.denied(),
        outcomes: tool.outcomes().map(|(word, count)| (word.to_owned(), count.into())).collect(),
        p50_ms: tool.percentile(50),
        p95_ms: tool.percentile(95),
        argument_bytes: tool.argument_bytes,
        result_bytes: tool.result_bytes,
    };
    let model = |model: &'a ModelStats| ModelRow {
        model: &model.name,
        requests: model.requests,
        failed: model.failed,
        tokens_read: model.tokens_read,
        tokens_written: model.tokens_written,
        p50_ms: model.percentile(50),
        p95_ms: model.percentile(95),
    };
    let client = |client: &'a ClientStats| ClientRow {
        client: &client.name,
        sessions: client.sessions,
        has_tool_search: client.has_tool_search,
        shown_bytes: client.shown_bytes,
        without_workbench_bytes: client.without_workbench_bytes,
        saved_bytes: client.saved_bytes,
    };
    let read = |reads: &'a ReadStats| ReadRow {
        toolbox: &reads.toolbox,
        server: &reads.server,
        resources: reads.resources,
        prompts: reads.prompts,
        failed: reads.failed,
        result_bytes: reads.result_bytes,
    };
    let login = |login: &'a LoginStats| LoginRow {
        server: &login.server,
        account: Some(login.account.as_str()).filter(|account| !account.is_empty()),
        signed_in: login.signed_in,
        renewed: login.renewed,
        required: login.required,
        is_required: login.is_required,
    };
    StatsReport {
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
        access_denials: incidents(summary, false),
        limits_reached: incidents(summary, true),
        never_used: &known.unused,
        uncached_servers: &known.unlisted,
        clients: summary.clients.iter().map(client).collect(),
        saved_bytes: summary.saved_bytes(),
        estimated_tokens_saved: size(summary.saved_bytes()).tokens(),
        sessions_without_client: summary.unclear_sessions,
        lost_records: summary.lost,
        unreadable_lines: summary.unreadable,
    }
}

/// Returns the callers that reached a limit, or else those that were rejected.
fn incidents(summary: &AuditSummary, of_limits: bool) -> Vec<IncidentRow<'_>> {
    let meant = summary.incidents.iter().filter(|(incident, _)| incident.is_limit == of_limits);
    let row = meant.map(|(incident, times)| {
        let cause = Some(incident.cause.as_str());
        let (reason, quota) = if of_limits { (None, cause) } else { (cause, None) };
        IncidentRow { caller: &incident.who, reason, quota, count: *times }
    });
    row.collect()
}
