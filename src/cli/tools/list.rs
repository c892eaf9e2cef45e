//! `list`: lists the tools of one toolbox or of all.

use std::process::ExitCode;
use std::time::SystemTime;

use clap_complete::engine::ArgValueCandidates;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::cli::args::{GlobalArgs, completion};
use crate::cli::gateways::with_gateway;
use crate::cli::output::print::to_raw_value;
use crate::cli::output::{
    Align, CommandError, ContextSize, Table, age, escape_to_line, format_age, format_count, number,
    print, quoted,
};
use crate::cli::servers::cached_listings::is_cached;
use crate::cli::servers::login_summary::{self, LoginSummary};
use crate::cli::servers::startup::{self, StartReport};
use crate::cli::tools::call_error::call_error;
use mcp_workbench_config::{Finding, LoadedConfig, ProjectStatus};
use mcp_workbench_core::gateway::Gateway;
use mcp_workbench_core::toolbox::ExposedTool;
use mcp_workbench_names::{AgentName, ServerRef};
use mcp_workbench_settings::ToolboxConfig;

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
}

#[derive(Serialize)]
struct ListedTool<'a> {
    toolbox: &'a str,
    server: &'a str,
    tool: &'a str,
    /// The name that agents see in `dynamic` mode.
    registered_name: &'a str,
    #[serde(flatten)]
    size: ContextSize,
    definition: Box<RawValue>,
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
struct ListReport<'a> {
    tools: Vec<ListedTool<'a>>,
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
    let LoadedConfig { config, project, .. } =
        global.read_for_start(|_, server| args.refresh || !is_cached(global, server))?;
    if let Some(project) = project {
        let ProjectStatus { file, toolboxes, .. } = &project;
        if let Some(Finding { message, hint, .. }) = project.finding() {
            let hint = hint.unwrap_or_default();
            print::note(&format!("warning: `{file}`: {message}\nhint: {hint}"));
        } else if !toolboxes.is_empty() {
            print::note(&format!("from `{file}`: {}", quoted(toolboxes, ", ")));
        }
    }
    let is_empty = config.toolboxes.is_empty();
    if is_empty {
        print::note(&"no toolboxes: every server is disabled");
    }
    if config.policy.has_rules() && !is_empty {
        let who = global.caller().agent.map_or_else(
            || "unnamed agents (use `--agent NAME` for another agent)".to_owned(),
            |agent| format!("agent `{agent}`"),
        );
        print::note(&format!("showing the tools of {who}"));
    }
    let agent = global.caller().agent;
    let logins = login_summary::LoginSummaryReader::new(global);
    let has_rules = config.policy.has_rules();
    with_gateway(global, config, async |gateway| {
        list(gateway, args, &logins, agent.as_ref(), has_rules).await
    })?
}

/// Returns the logins of these toolboxes' servers, except those that have never required one.
async fn used(
    logins: &login_summary::LoginSummaryReader,
    toolboxes: &[&ToolboxConfig],
    agent: Option<&AgentName>,
) -> Vec<ServerLogin> {
    let mut all = Vec::new();
    for toolbox in toolboxes {
        for server in &toolbox.servers {
            let login = logins.stdio_login(server, agent).await;
            let Some(login) = login.filter(|login| !login.is_unknown()) else { continue };
            let (toolbox, server) = (toolbox.name.to_string(), server.name.to_string());
            all.push(ServerLogin { toolbox, server, login });
        }
    }
    all
}

async fn list(
    gateway: &Gateway,
    args: &Args,
    logins: &login_summary::LoginSummaryReader,
    agent: Option<&AgentName>,
    has_rules: bool,
) -> Result<ExitCode, CommandError> {
    let toolboxes: Vec<&ToolboxConfig> = match &args.toolbox {
        Some(name) => vec![gateway.scope().toolbox(name).map_err(|e| call_error(&e))?],
        None => gateway.config().toolboxes.iter().collect(),
    };
    gateway.views().wait_for_stored_listings().await;
    let mut kept = if args.refresh { Vec::new() } else { gateway.views().stored_listings() };
    kept.retain(|(server, _)| toolboxes.iter().any(|toolbox| toolbox.name == server.toolbox));
    let is_kept = |wanted: &ServerRef| kept.iter().any(|(server, _)| server == wanted);
    let starts = startup::start_servers(gateway, &toolboxes, |server| !is_kept(server)).await;
    let has_started = starts.iter().any(|start| start.failure.is_none());
    let has_listed = starts.is_empty() || has_started || !kept.is_empty();
    let snapshot = gateway.snapshot();
    let views: Vec<_> = toolboxes.iter().map(|t| snapshot.view(&t.name)).collect();
    let tools: Vec<&ExposedTool> = views.iter().flat_map(|view| view.tools()).collect();
    let logins = used(logins, &toolboxes, agent).await;
    if args.json {
        print::json(&in_json(&tools, &starts, &kept, &logins))?;
    } else if !toolboxes.is_empty() && has_listed {
        print::prose(&to_text(&tools, &toolboxes))?;
    }
    if let Some(oldest) = kept.iter().map(|(_, since)| age(*since)).max() {
        print::note(&format!(
            "{} not started: showing cached tool lists up to {} old (use `--refresh` to update)",
            format_count(kept.len(), "server"),
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
    startup::warn_of_failures(&starts);
    Ok(if has_listed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn size(tool: &ExposedTool) -> ContextSize {
    ContextSize::of(tool.definition.raw.len())
}

fn to_text(tools: &[&ExposedTool], toolboxes: &[&ToolboxConfig]) -> String {
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
            tool.id.toolbox.to_string(),
            tool.id.server.to_string(),
            escape_to_line(&tool.id.tool),
            number(size(tool).bytes()),
            number(size(tool).tokens()),
            escape_to_line(&tool.definition.summary().unwrap_or_default()),
        ]);
    }
    let place = match toolboxes {
        [only] => format!("toolbox `{}`", only.name),
        all => format_count(all.len(), "toolbox"),
    };
    let total: ContextSize = tools.iter().map(|tool| size(tool)).sum();
    let summary = format!("{} in {place}: {total}", format_count(tools.len(), "tool"));
    if tools.is_empty() { summary } else { format!("{table}\n\n{summary}") }
}

fn in_json<'a>(
    tools: &[&'a ExposedTool],
    starts: &'a [StartReport],
    kept: &'a [(ServerRef, SystemTime)],
    logins: &'a [ServerLogin],
) -> ListReport<'a> {
    let kept = kept.iter().map(|(server, since)| CachedServer {
        toolbox: server.toolbox.as_str(),
        server: server.server.as_str(),
        age_seconds: age(*since).as_secs(),
    });
    let tool = |tool: &&'a ExposedTool| ListedTool {
        toolbox: tool.id.toolbox.as_str(),
        server: tool.id.server.as_str(),
        tool: &tool.id.tool,
        registered_name: tool.name.as_str(),
        size: size(tool),
        definition: to_raw_value(&tool.definition.raw),
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
    ListReport {
        tools: tools.iter().map(tool).collect(),
        size: tools.iter().map(|tool| size(tool)).sum(),
        failed: starts.iter().filter_map(failed).collect(),
        logins,
        cached: kept.collect(),
    }
}
