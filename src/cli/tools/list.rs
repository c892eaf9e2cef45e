//! `list`: lists the tools of one toolbox or of all.

use std::process::ExitCode;
use std::sync::Arc;

use clap_complete::engine::ArgValueCandidates;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::cli::args::{GlobalArgs, completion};
use crate::cli::output::{
    Align, CommandError, ContextSize, Table, age, escape_to_line, format_age, format_count, number,
    print, quoted,
};
use crate::cli::runtime::block_on;
use crate::cli::servers::cached_listings::is_cached;
use crate::cli::servers::login_summary::{self, LoginSummary};
use crate::cli::servers::startup::{self, StartReport};
use crate::cli::tool_commands::{
    ListCommand, ListReport, ListedTool, RunnerArgs, run as run_command,
};
use mcp_workbench_config::{Finding, LoadedConfig, ProjectStatus};
use mcp_workbench_core::policy::Policies;
use mcp_workbench_names::AgentName;
use mcp_workbench_settings::{Config, ToolboxConfig};

const EXAMPLES: &str = "\
Examples:
  mcp-workbench list               List the tools of every toolbox
  mcp-workbench list desk          List the tools of one toolbox
  mcp-workbench list desk --json   Print their definitions too
  mcp-workbench list --refresh     Start every server and update the cache";

/// List the tools of one toolbox, or of all
///
/// Shows the tools that the configuration allows and the size of their definitions; with `--agent`,
/// only the tools that this agent can use. Servers with a cached tool list aren't started. Tokens
/// are estimates: one per 4.5 bytes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Toolbox to list [default: all]
    #[arg(add = ArgValueCandidates::new(completion::toolboxes))]
    toolbox: Option<String>,
    /// Print JSON, including full definitions
    #[arg(long)]
    json: bool,
    /// Start every server instead of using cached tool lists
    #[arg(long)]
    refresh: bool,
    #[command(flatten)]
    runner: RunnerArgs,
}

#[derive(Serialize)]
struct ToolRow<'a> {
    toolbox: &'a str,
    server: &'a str,
    tool: &'a str,
    /// The name that agents see in `dynamic` mode.
    registered_name: &'a str,
    #[serde(flatten)]
    size: ContextSize,
    definition: &'a RawValue,
}

#[derive(Serialize)]
struct UnstartedServer<'a> {
    toolbox: &'a str,
    server: &'a str,
    reason: &'a str,
    hint: &'a str,
}

#[derive(Serialize)]
struct CachedServer<'a> {
    toolbox: &'a str,
    server: &'a str,
    age_seconds: u64,
}

#[derive(Serialize)]
struct ServerLogin {
    toolbox: String,
    server: String,
    #[serde(flatten)]
    login: LoginSummary,
}

#[derive(Serialize)]
struct JsonReport<'a> {
    tools: Vec<ToolRow<'a>>,
    #[serde(flatten)]
    size: ContextSize,
    failed: Vec<UnstartedServer<'a>>,
    #[serde(skip_serializing_if = "<[ServerLogin]>::is_empty")]
    logins: &'a [ServerLogin],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cached: Vec<CachedServer<'a>>,
}

/// Runs the command. Fails if no server could be listed.
pub(crate) fn run(global: &GlobalArgs, args: &Args) -> Result<ExitCode, CommandError> {
    let LoadedConfig { config, project, .. } = global.read()?;
    if let Some(project) = project {
        let ProjectStatus { file, toolboxes, .. } = &project;
        if let Some(Finding { message, hint, .. }) = project.finding() {
            let hint = hint.unwrap_or_default();
            print::note(&format!("warning: `{file}`: {message}\nhint: {hint}"));
        } else if !toolboxes.is_empty() {
            print::note(&format!("from `{file}`: {}", quoted(toolboxes, ", ")));
        }
    }
    let looked = Arc::new(config);
    if looked.toolboxes.is_empty() {
        print::note(&"no toolboxes: every server is disabled");
    }
    let agent = global.caller().agent;
    if looked.policy.has_rules() && !looked.toolboxes.is_empty() {
        let who = agent.as_ref().map_or_else(
            || "unnamed agents (use `--agent NAME` for another agent)".to_owned(),
            |agent| format!("agent `{agent}`"),
        );
        print::note(&format!("showing the tools of {who}"));
    }
    let command = ListCommand { toolbox: args.toolbox.clone(), is_refresh: args.refresh };
    // A running workbench keeps its servers, so only this process can start all of them again.
    let runner = RunnerArgs { standalone: args.runner.standalone || args.refresh };
    let read_for_start = || {
        let is_started = |_: &ToolboxConfig, server: &_| args.refresh || !is_cached(global, server);
        Ok(global.read_for_start(is_started)?.config)
    };
    let report = run_command(global, &runner, &looked, &command, read_for_start)?;
    let logins = block_on(used_logins(global, &looked, &report.toolboxes, agent.as_ref()))?;
    print_report(&report, &logins, args, agent.as_ref(), looked.policy.has_rules())
}

/// Returns the logins of these toolboxes' servers, except those that have never required one.
async fn used_logins(
    global: &GlobalArgs,
    config: &Arc<Config>,
    toolboxes: &[String],
    agent: Option<&AgentName>,
) -> Vec<ServerLogin> {
    let logins = login_summary::LoginSummaryReader::new(global);
    let visible = Policies::new(Arc::clone(config)).visible_config(agent, None);
    let mut all = Vec::new();
    for toolbox in &visible.toolboxes {
        if !toolboxes.iter().any(|listed| listed == toolbox.name.as_str()) {
            continue;
        }
        for server in &toolbox.servers {
            let login = logins.stdio_login(server, agent).await;
            let Some(login) = login.filter(|login| !login.is_unknown()) else { continue };
            let (toolbox, server) = (toolbox.name.to_string(), server.name.to_string());
            all.push(ServerLogin { toolbox, server, login });
        }
    }
    all
}

fn print_report(
    report: &ListReport,
    logins: &[ServerLogin],
    args: &Args,
    agent: Option<&AgentName>,
    has_rules: bool,
) -> Result<ExitCode, CommandError> {
    let ListReport { toolboxes, tools, starts, cached } = report;
    let has_started = starts.iter().any(|start| start.failure.is_none());
    let has_listed = starts.is_empty() || has_started || !cached.is_empty();
    if args.json {
        print::json(&in_json(report, logins))?;
    } else if !toolboxes.is_empty() && has_listed {
        print::prose(&to_text(tools, toolboxes))?;
    }
    if let Some(oldest) = cached.iter().map(|(_, since)| age(*since)).max() {
        print::note(&format!(
            "{} not started: showing cached tool lists up to {} old (use `--refresh` to update)",
            format_count(cached.len(), "server"),
            format_age(oldest),
        ));
    }
    // Errors of started servers, printed below, already mention the login.
    let is_started = |it: &ServerLogin| {
        starts
            .iter()
            .any(|start| start.toolbox.as_str() == it.toolbox && start.server.as_str() == it.server)
    };
    for ServerLogin { toolbox, server, login } in logins.iter().filter(|it| !is_started(it)) {
        if login.wants_sign_in() || login.account.is_some() {
            print::note(&format!("login for `{toolbox}/{server}`: {}", login.to_text()));
        }
    }
    if tools.is_empty() && has_listed && has_rules {
        let who = agent.map_or("an unnamed agent".to_owned(), |agent| format!("agent `{agent}`"));
        print::note(&format!(
            "{who} can't use any tool{}; `mcp-workbench explain` says why",
            if args.toolbox.is_some() { " of this toolbox" } else { "" },
        ));
    }
    startup::warn_of_failures(starts);
    Ok(if has_listed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn size(tool: &ListedTool) -> ContextSize {
    ContextSize::of(tool.bytes)
}

fn to_text(tools: &[ListedTool], toolboxes: &[String]) -> String {
    let mut table = Table::new([
        ("Toolbox", Align::Left),
        ("Server", Align::Left),
        ("Tool", Align::Left),
        ("Bytes", Align::Right),
        ("Tokens", Align::Right),
        ("Description", Align::Left),
    ]);
    for tool in tools {
        table.row([
            tool.toolbox.clone(),
            tool.server.clone(),
            escape_to_line(&tool.tool),
            number(size(tool).bytes()),
            number(size(tool).tokens()),
            escape_to_line(&tool.summary),
        ]);
    }
    let place = match toolboxes {
        [only] => format!("toolbox `{only}`"),
        all => format_count(all.len(), "toolbox"),
    };
    let total: ContextSize = tools.iter().map(size).sum();
    let summary = format!("{} in {place}: {total}", format_count(tools.len(), "tool"));
    if tools.is_empty() { summary } else { format!("{table}\n\n{summary}") }
}

fn in_json<'a>(report: &'a ListReport, logins: &'a [ServerLogin]) -> JsonReport<'a> {
    let cached = report.cached.iter().map(|(server, since)| CachedServer {
        toolbox: server.toolbox.as_str(),
        server: server.server.as_str(),
        age_seconds: age(*since).as_secs(),
    });
    let tool = |tool: &'a ListedTool| ToolRow {
        toolbox: &tool.toolbox,
        server: &tool.server,
        tool: &tool.tool,
        registered_name: &tool.registered_name,
        size: size(tool),
        definition: &tool.definition,
    };
    let failed = |start: &'a StartReport| {
        let failure = start.failure.as_ref()?;
        Some(UnstartedServer {
            toolbox: start.toolbox.as_str(),
            server: start.server.as_str(),
            reason: &failure.reason,
            hint: &failure.hint,
        })
    };
    JsonReport {
        tools: report.tools.iter().map(tool).collect(),
        size: report.tools.iter().map(size).sum(),
        failed: report.starts.iter().filter_map(failed).collect(),
        logins,
        cached: cached.collect(),
    }
}
