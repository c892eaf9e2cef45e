//! `list`: the tools of a toolbox, or of all.

use std::process::ExitCode;
use std::time::SystemTime;

use clap_complete::engine::ArgValueCandidates;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::cli::cache;
use crate::cli::call;
use crate::cli::error::Error;
use crate::cli::logins::{self, Used};
use crate::cli::print::printable;
use crate::cli::servers::{self, Start};
use crate::cli::size::{Size, count, number};
use crate::cli::table::{Align, Table};
use crate::cli::{Global, complete, print, with_gateway};
use crate::gateway::Gateway;
use crate::name::{AgentName, ServerRef};
use crate::raw::Raw;
use crate::settings::ToolboxConfig;
use crate::toolbox::ViewTool;

const EXAMPLES: &str = "\
Examples:
  mcp-workbench list                  List the tools of every toolbox
  mcp-workbench list desk             List the tools of one toolbox
  mcp-workbench list desk --json      Print their definitions too
  mcp-workbench list --refresh        Ask every server anew";

/// List the tools of a toolbox, or of all
///
/// Shows what servers have: the tools that the configuration lets through, and how large their
/// definitions are, for the agent that `--agent` names. Servers that have run before are not started for it; what they listed then is
/// kept. Tokens are an estimate, one for 4.5 bytes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The toolbox [default: all of them]
    #[arg(add = ArgValueCandidates::new(complete::toolboxes))]
    toolbox: Option<String>,
    /// Print JSON, definitions included
    #[arg(long)]
    json: bool,
    /// Start every server, whatever is kept of it
    #[arg(long)]
    refresh: bool,
}

/// One tool, for those who read JSON.
#[derive(Serialize)]
struct Entry<'a> {
    toolbox: &'a str,
    server: &'a str,
    tool: &'a str,
    /// The name by which agents see it in `dynamic` mode.
    registered_name: &'a str,
    #[serde(flatten)]
    size: Size,
    definition: Box<RawValue>,
}

/// One server that could not be started, for those who read JSON.
#[derive(Serialize)]
struct Failed<'a> {
    toolbox: &'a str,
    server: &'a str,
    reason: &'a str,
    hint: &'a str,
}

/// One server that was not started, for those who read JSON.
#[derive(Serialize)]
struct Kept<'a> {
    toolbox: &'a str,
    server: &'a str,
    age_seconds: u64,
}

/// The login that one server is used with, for those who read JSON.
#[derive(Serialize)]
struct LoginOf {
    toolbox: String,
    server: String,
    #[serde(flatten)]
    login: Used,
}

#[derive(Serialize)]
struct Listed<'a> {
    tools: Vec<Entry<'a>>,
    #[serde(flatten)]
    size: Size,
    failed: Vec<Failed<'a>>,
    #[serde(skip_serializing_if = "<[LoginOf]>::is_empty")]
    logins: &'a [LoginOf],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    kept: Vec<Kept<'a>>,
}

/// Lists; fails where no server could be started.
pub(crate) fn run(global: &Global, args: &Args) -> Result<ExitCode, Error> {
    let config = global
        .read_to_start(|_, server| args.refresh || !cache::is_kept(global, server))?
        .map_err(Error::config)?
        .config;
    let is_empty = config.toolboxes.is_empty();
    if is_empty {
        print::note(&"there are no toolboxes: every server is disabled");
    }
    if config.policy.has_rules() && !is_empty {
        let who = global.caller().agent.map_or_else(
            || "an agent without a name; `--agent` names another".to_owned(),
            |agent| format!("agent `{agent}`"),
        );
        print::note(&format!("what is shown is what there is for {who}"));
    }
    let agent = global.caller().agent;
    let logins = logins::Reader::new(global);
    with_gateway(global, config, async |gateway| {
        list(gateway, args, &logins, agent.as_ref()).await
    })?
}

/// The logins that the servers of these toolboxes are used with, of those that have ever wanted one.
async fn used(
    logins: &logins::Reader,
    toolboxes: &[&ToolboxConfig],
    agent: Option<&AgentName>,
) -> Vec<LoginOf> {
    let mut all = Vec::new();
    for toolbox in toolboxes {
        for server in &toolbox.servers {
            let login = logins.used(server, agent).await;
            let Some(login) = login.filter(|login| !login.is_unknown()) else { continue };
            let (toolbox, server) = (toolbox.name.to_string(), server.name.to_string());
            all.push(LoginOf { toolbox, server, login });
        }
    }
    all
}

async fn list(
    gateway: &Gateway,
    args: &Args,
    logins: &logins::Reader,
    agent: Option<&AgentName>,
) -> Result<ExitCode, Error> {
    let toolboxes: Vec<&ToolboxConfig> = match &args.toolbox {
        Some(name) => vec![gateway.toolbox(name).map_err(|e| call::explain(&e))?],
        None => gateway.config().toolboxes.iter().collect(),
    };
    gateway.recalled().await;
    let mut kept = if args.refresh { Vec::new() } else { gateway.remembered() };
    kept.retain(|(server, _)| toolboxes.iter().any(|toolbox| toolbox.name == server.toolbox));
    let is_kept = |wanted: &ServerRef| kept.iter().any(|(server, _)| server == wanted);
    let starts = servers::start(gateway, &toolboxes, |server| !is_kept(server)).await;
    let has_started = starts.iter().any(|start| start.failure.is_none());
    let has_listed = starts.is_empty() || has_started || !kept.is_empty();
    let snapshot = gateway.snapshot();
    let views: Vec<_> = toolboxes.iter().map(|t| snapshot.view(&t.name)).collect();
    let tools: Vec<&ViewTool> = views.iter().flat_map(|view| view.tools()).collect();
    let logins = used(logins, &toolboxes, agent).await;
    if args.json {
        print::json(&in_json(&tools, &starts, &kept, &logins))?;
    } else if !toolboxes.is_empty() && has_listed {
        print::prose(&in_words(&tools, &toolboxes))?;
    }
    if let Some(oldest) = kept.iter().map(|(_, since)| cache::age(*since)).max() {
        print::note(&format!(
            "{} not started and shown as last listed, {} ago at most; `--refresh` asks anew",
            count(kept.len(), "server"),
            cache::in_words(oldest),
        ));
    }
    // Whoever was started says it below.
    let is_started = |it: &LoginOf| {
        starts
            .iter()
            .any(|start| start.toolbox.as_str() == it.toolbox && start.server.as_str() == it.server)
    };
    for LoginOf { toolbox, server, login } in logins.iter().filter(|it| !is_started(it)) {
        if login.is_wanted() || login.account.is_some() {
            print::note(&format!("login at `{toolbox}/{server}`: {}", login.in_words()));
        }
    }
    let failures = starts.iter().filter_map(Start::explanation);
    for failure in failures {
        print::note(&format!("warning: {failure}"));
    }
    Ok(if has_listed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn size(tool: &ViewTool) -> Size {
    Size::of(tool.definition.raw.len())
}

fn in_words(tools: &[&ViewTool], toolboxes: &[&ToolboxConfig]) -> String {
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
            printable(&tool.id.tool),
            number(size(tool).bytes()),
            number(size(tool).tokens()),
            printable(&tool.definition.summary().unwrap_or_default()),
        ]);
    }
    let place = match toolboxes {
        [only] => format!("toolbox `{}`", only.name),
        all => count(all.len(), "toolbox"),
    };
    let total: Size = tools.iter().map(|tool| size(tool)).sum();
    let summary = format!("{} in {place}: {total}", count(tools.len(), "tool"));
    if tools.is_empty() { summary } else { format!("{table}\n\n{summary}") }
}

fn in_json<'a>(
    tools: &[&'a ViewTool],
    starts: &'a [Start],
    kept: &'a [(ServerRef, SystemTime)],
    logins: &'a [LoginOf],
) -> Listed<'a> {
    let kept = kept.iter().map(|(server, since)| Kept {
        toolbox: server.toolbox.as_str(),
        server: server.server.as_str(),
        age_seconds: cache::age(*since).as_secs(),
    });
    let tool = |tool: &&'a ViewTool| Entry {
        toolbox: tool.id.toolbox.as_str(),
        server: tool.id.server.as_str(),
        tool: &tool.id.tool,
        registered_name: tool.name.as_str(),
        size: size(tool),
        definition: verbatim(&tool.definition.raw),
    };
    let failed = |start: &'a Start| {
        let failure = start.failure.as_ref()?;
        Some(Failed {
            toolbox: start.toolbox.as_str(),
            server: start.server.as_str(),
            reason: &failure.reason,
            hint: &failure.hint,
        })
    };
    Listed {
        tools: tools.iter().map(tool).collect(),
        size: tools.iter().map(|tool| size(tool)).sum(),
        failed: starts.iter().filter_map(failed).collect(),
        logins,
        kept: kept.collect(),
    }
}

/// Raw text as a part of a larger JSON text; what was read as JSON always is.
pub(crate) fn verbatim(raw: &Raw) -> Box<RawValue> {
    raw.parse().unwrap_or_else(|_| RawValue::NULL.to_owned())
}
