//! `search`: finds the tools that match a query.

use std::process::ExitCode;

use clap_complete::engine::ArgValueCandidates;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::cli::args::{GlobalArgs, completion};
use crate::cli::output::{Align, CommandError, Table, escape_to_line, format_count, print, quoted};
use crate::cli::servers::cached_listings::is_cached;
use crate::cli::servers::startup;
use crate::cli::tool_commands::{
    RunnerArgs, SearchCommand, SearchHit, SearchResult, run as run_command,
};
use mcp_workbench_core::catalog::rank::absent_services_message;
use mcp_workbench_core::catalog::shorten;

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
    #[command(flatten)]
    runner: RunnerArgs,
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
    signature: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    definition: Option<&'a RawValue>,
}

/// Fails if no query finds a tool.
pub(crate) fn run(global: &GlobalArgs, args: &Args) -> Result<ExitCode, CommandError> {
    let looked = global.read()?.config;
    if looked.toolboxes.is_empty() {
        print::note(&"no toolboxes: every server is disabled");
    }
    let command = SearchCommand {
        queries: args.queries.clone(),
        toolbox: args.toolbox.clone(),
        limit: args.limit,
        is_full: args.full,
    };
    let read_for_start =
        || Ok(global.read_for_start(|_, server| !is_cached(global, server))?.config);
    let report = run_command(global, &args.runner, &looked, &command, read_for_start)?;
    let found = &report.results;
    let has_found = found.iter().any(|answer| !answer.tools.is_empty());
    if args.json {
        print::json(&in_json(found))?;
    } else if has_found {
        let texts: Vec<_> = found.iter().map(|answer| to_text(answer, args.full)).collect();
        print::prose(&texts.join("\n\n"))?;
    }
    startup::warn_of_failures(&report.starts);
    if has_found {
        return Ok(ExitCode::SUCCESS);
    }
    let queries = quoted(found.iter().map(echo), ", ");
    let error = CommandError::failed(format!("no tool matches {queries}"));
    let error = found
        .iter()
        .filter(|answer| !answer.absent_services.is_empty())
        .fold(error, |error, answer| {
            error.with_cause(&absent_services_message(&answer.absent_services))
        });
    let error = error.with_hint("rephrase the query: service, verb and object of one step");
    if args.json {
        // The results are on stdout, as JSON.
        print::note(&error);
        return Ok(ExitCode::FAILURE);
    }
    Err(error)
}

fn echo(result: &SearchResult) -> String {
    shorten(&escape_to_line(result.query.trim()), MAX_ECHO)
}

fn to_text(result: &SearchResult, is_full: bool) -> String {
    let SearchResult { tools, absent_services, .. } = result;
    let query = echo(result);
    let Some(best) = tools.first() else {
        return format!("no tool matches `{query}`");
    };
    let remark = if !absent_services.is_empty() {
        format!("; {}", absent_services_message(absent_services))
    } else if best.fits_well {
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
    for tool in tools {
        let description = if is_full {
            let lines = tool.description.iter().flat_map(|text| text.lines());
            lines.map(escape_to_line).collect::<Vec<_>>().join("\n")
        } else {
            escape_to_line(tool.summary.as_deref().unwrap_or_default())
        };
        let name = if is_full { &tool.signature } else { &tool.tool };
        table.row([
            format!("{:.2}", tool.score),
            tool.toolbox.clone(),
            tool.server.clone(),
            escape_to_line(name),
            description,
        ]);
    }
    format!("{head}\n\n{table}")
}

fn in_json<'a>(found: &'a [SearchResult]) -> Vec<QueryReport<'a>> {
    fn row(tool: &SearchHit) -> MatchRow<'_> {
        MatchRow {
            toolbox: &tool.toolbox,
            server: &tool.server,
            tool: &tool.tool,
            registered_name: &tool.registered_name,
            score: tool.score,
            signature: &tool.signature,
            description: tool.summary.as_deref(),
            definition: tool.definition.as_deref(),
        }
    }

    let report = |result: &'a SearchResult| {
        let SearchResult { query, absent_services, tools } = result;
        QueryReport { query, absent_services, tools: tools.iter().map(row).collect() }
    };
    found.iter().map(report).collect()
}
