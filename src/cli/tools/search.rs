//! `search`: finds the tools that match a query.

use std::process::ExitCode;

use clap_complete::engine::ArgValueCandidates;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::cli::args::{GlobalArgs, completion};
use crate::cli::gateways::with_gateway;
use crate::cli::output::print::to_raw_value;
use crate::cli::output::{Align, CommandError, Table, escape_to_line, format_count, print, quoted};
use crate::cli::servers::cached_listings::is_cached;
use crate::cli::servers::startup;
use crate::cli::tools::call_error::call_error;
use mcp_workbench_core::catalog::rank::{ScoreCutoff, absent_services_message};
use mcp_workbench_core::catalog::shorten;
use mcp_workbench_core::gateway::{AgentHandle, Gateway, RequestContext, ToolMatch, ToolQuery};
use mcp_workbench_settings::ToolboxConfig;

const EXAMPLES: &str = "\
Examples:
  mcp-workbench search \"github create issue\"         Find tools for one step
  mcp-workbench search \"read file\" \"send mail\"       Find tools for two steps
  mcp-workbench search \"add note\" --toolbox desk     Search one toolbox
  mcp-workbench search \"current time\" --json --full  Print definitions too";

/// In characters.
const MAX_ECHO: usize = 120;

/// Search for tools by what they do
///
/// Queries work best with the service, verb and object of one step, in English. With `--agent`,
/// finds only tools that this agent can use. Starts only servers without a cached tool list. Scores
/// range from 0 to 1 and are comparable between queries.
///
/// Fails if no query finds a tool.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// What you want to do, in a few words; each argument is one query
    #[arg(required = true, value_name = "QUERY")]
    queries: Vec<String>,
    /// Search only this toolbox
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(completion::toolboxes))]
    toolbox: Option<String>,
    /// Maximum number of tools per query
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = limit())]
    limit: u16,
    /// Print full descriptions and signatures (with --json, definitions)
    #[arg(long)]
    full: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn limit() -> clap::builder::RangedI64ValueParser<u16> {
    clap::value_parser!(u16).range(1..=1000)
}

#[derive(Serialize)]
struct QueryReport<'a> {
    query: &'a str,
    /// Well-known services that the query names but no server here provides.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    absent_services: &'a [String],
    tools: Vec<MatchRow<'a>>,
}

#[derive(Serialize)]
struct MatchRow<'a> {
    toolbox: &'a str,
    server: &'a str,
    tool: &'a str,
    /// The tool's name in `dynamic` mode.
    registered_name: &'a str,
    score: f64,
    signature: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    definition: Option<Box<RawValue>>,
}

/// Fails if no query finds a tool.
pub(crate) fn run(global: &GlobalArgs, args: &Args) -> Result<ExitCode, CommandError> {
    let config = global.read_for_start(|_, server| !is_cached(global, server))?.config;
    if config.toolboxes.is_empty() {
        print::note(&"no toolboxes: every server is disabled");
    }
    with_gateway(global, config, async |gateway| search(gateway, args).await)?
}

async fn search(gateway: &Gateway, args: &Args) -> Result<ExitCode, CommandError> {
    let toolbox = match &args.toolbox {
        Some(name) => Some(gateway.scope().toolbox(name).map_err(|error| call_error(&error))?),
        None => None,
    };
    let toolboxes: Vec<&ToolboxConfig> = match toolbox {
        Some(only) => vec![only],
        None => gateway.config().toolboxes.iter().collect(),
    };
    gateway.views().wait_for_stored_listings().await;
    let unknown = gateway.views().unlisted();
    let starts =
        startup::start_servers(gateway, &toolboxes, |server| unknown.contains(server)).await;
    let toolbox = toolbox.map(|toolbox| &toolbox.name);
    let limit = usize::from(args.limit);
    let queries = || args.queries.iter().map(String::as_str);
    let finds = ScoreCutoff::Relevant;
    let sought = queries().map(|query| ToolQuery { query, toolbox, server: None, finds, limit });
    let sought: Vec<_> = sought.collect();
    let all = gateway
        .search()
        .search_listed(&sought, &RequestContext::detached(&AgentHandle::new(None)))
        .await;
    let mut found = Vec::new();
    for (query, tools) in queries().zip(all) {
        found.push(QueryResult {
            query,
            tools,
            absent: gateway.search().absent_services(query).await,
        });
    }
    let has_found = found.iter().any(|answer| !answer.tools.is_empty());
    if args.json {
        print::json(&in_json(&found, args.full))?;
    } else if has_found {
        let texts: Vec<_> = found.iter().map(|answer| to_text(answer, args.full)).collect();
        print::prose(&texts.join("\n\n"))?;
    }
    startup::warn_of_failures(&starts);
    if has_found {
        return Ok(ExitCode::SUCCESS);
    }
    let queries = quoted(found.iter().map(QueryResult::echo), ", ");
    let error = CommandError::failed(format!("no tool matches {queries}"));
    let error = found
        .iter()
        .filter(|answer| !answer.absent.is_empty())
        .fold(error, |error, answer| error.with_cause(&absent_services_message(&answer.absent)));
    let error = error.with_hint("rephrase the query: service, verb and object of one step");
    if args.json {
        // The results are on stdout, as JSON.
        print::note(&error);
        return Ok(ExitCode::FAILURE);
    }
    Err(error)
}

struct QueryResult<'a> {
    query: &'a str,
    /// Best match first.
    tools: Vec<ToolMatch>,
    absent: Vec<String>,
}

impl QueryResult<'_> {
    fn echo(&self) -> String {
        shorten(&escape_to_line(self.query.trim()), MAX_ECHO)
    }
}

fn to_text(answer: &QueryResult<'_>, is_full: bool) -> String {
    let QueryResult { tools, absent, .. } = answer;
    let query = answer.echo();
    let Some(best) = tools.first() else {
        return format!("no tool matches `{query}`");
    };
    let remark = if !absent.is_empty() {
        format!("; {}", absent_services_message(absent))
    } else if best.fits_well() {
        String::new()
    } else {
        "; no close match".to_owned()
    };
    let head = format!("{} for `{query}`{remark}", format_count(tools.len(), "tool"));
    let mut table = Table::new([
        ("Score", Align::Right),
        ("Toolbox", Align::Left),
        ("Server", Align::Left),
        ("Tool", Align::Left),
        ("Description", Align::Left),
    ]);
    for found in tools {
        let tool = found.tool();
        let description = if is_full {
            let lines = tool.definition.description.iter().flat_map(|text| text.lines());
            lines.map(escape_to_line).collect::<Vec<_>>().join("\n")
        } else {
            escape_to_line(&tool.definition.summary().unwrap_or_default())
        };
        let name = if is_full { &tool.definition.signature() } else { &tool.id.tool };
        table.row([
            format!("{:.2}", found.rounded_score()),
            tool.id.toolbox.to_string(),
            tool.id.server.to_string(),
            escape_to_line(name),
            description,
        ]);
    }
    format!("{head}\n\n{table}")
}

fn in_json<'a>(found: &'a [QueryResult<'a>], is_full: bool) -> Vec<QueryReport<'a>> {
    let entry = |found: &'a ToolMatch| {
        let tool = found.tool();
        MatchRow {
            toolbox: tool.id.toolbox.as_str(),
            server: tool.id.server.as_str(),
            tool: &tool.id.tool,
            registered_name: tool.name.as_str(),
            score: found.rounded_score(),
            signature: tool.definition.signature(),
            description: tool.definition.summary(),
            definition: is_full.then(|| to_raw_value(&tool.definition.raw)),
        }
    };
    let of_query = |answer: &'a QueryResult<'a>| QueryReport {
        query: answer.query,
        absent_services: &answer.absent,
        tools: answer.tools.iter().map(entry).collect(),
    };
    found.iter().map(of_query).collect()
}
