//! `search`: the tools that fit what is wanted.

use std::process::ExitCode;

use clap_complete::engine::ArgValueCandidates;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::catalog::rank::{Finds, no_server_for};
use crate::catalog::shorten;
use crate::cli::cache;
use crate::cli::call;
use crate::cli::error::Error;
use crate::cli::list::verbatim;
use crate::cli::print::printable;
use crate::cli::servers::{self, Start};
use crate::cli::size::count;
use crate::cli::table::{Align, Table};
use crate::cli::{Global, complete, print, with_gateway};
use crate::gateway::{Found, Gateway, Presence, RequestContext, Sought};
use crate::settings::ToolboxConfig;

const EXAMPLES: &str = "\
Examples:
  mcp-workbench search \"github create issue\"            Find the tools for one step
  mcp-workbench search \"read file\" \"send mail\"          Find the tools for two
  mcp-workbench search \"add note\" --toolbox desk        Look in one toolbox alone
  mcp-workbench search \"what time is it\" --json --full  Print definitions too";

/// How much of a query a table repeats, in characters.
const MAX_ECHO: usize = 120;

/// Find tools by what is wanted of them
///
/// A query does best with the service, the verb and the object of one step, in English. What is
/// found is what there is for the agent that `--agent` names. Servers that have run before are not
/// started for it; all others are. Scores go from 0 to 1, and compare between queries. Fails where
/// no query finds anything.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// A few words on what is wanted; several queries are answered one after the other
    #[arg(required = true, value_name = "QUERY")]
    queries: Vec<String>,
    /// Look in this toolbox alone
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(complete::toolboxes))]
    toolbox: Option<String>,
    /// How many tools a query gives at most
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = limit())]
    limit: u16,
    /// Print whole descriptions and signatures, and with `--json` definitions
    #[arg(long)]
    full: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Reads how many tools are wanted.
fn limit() -> clap::builder::RangedI64ValueParser<u16> {
    clap::value_parser!(u16).range(1..=1000)
}

/// The finds of one query, for those who read JSON.
#[derive(Serialize)]
struct Answered<'a> {
    query: &'a str,
    /// The well-known services that it names and that no server here is called or about.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    absent_services: &'a [String],
    tools: Vec<Entry<'a>>,
}

/// One tool that was found, for those who read JSON.
#[derive(Serialize)]
struct Entry<'a> {
    toolbox: &'a str,
    server: &'a str,
    tool: &'a str,
    /// The name by which agents see it in `dynamic` mode.
    registered_name: &'a str,
    score: f64,
    signature: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    definition: Option<Box<RawValue>>,
}

/// Searches; fails where nothing is found at all.
pub(crate) fn run(global: &Global, args: &Args) -> Result<ExitCode, Error> {
    let config = global
        .read_to_start(|_, server| !cache::is_kept(global, server))?
        .map_err(Error::config)?
        .config;
    if config.toolboxes.is_empty() {
        print::note(&"there are no toolboxes: every server is disabled");
    }
    with_gateway(global, config, async |gateway| search(gateway, args).await)?
}

async fn search(gateway: &Gateway, args: &Args) -> Result<ExitCode, Error> {
    let toolbox = match &args.toolbox {
        Some(name) => Some(gateway.toolbox(name).map_err(|error| call::explain(&error))?),
        None => None,
    };
    let toolboxes: Vec<&ToolboxConfig> = match toolbox {
        Some(only) => vec![only],
        None => gateway.config().toolboxes.iter().collect(),
    };
    gateway.recalled().await;
    let unknown = gateway.unlisted();
    let starts = servers::start(gateway, &toolboxes, |server| unknown.contains(server)).await;
    let toolbox = toolbox.map(|toolbox| &toolbox.name);
    let limit = usize::from(args.limit);
    let queries = || args.queries.iter().map(String::as_str);
    let finds = Finds::WhatFits;
    let sought = queries().map(|query| Sought { query, toolbox, server: None, finds, limit });
    let sought: Vec<_> = sought.collect();
    let all = gateway.find_tools(&sought, &RequestContext::nobody(&Presence::new(None))).await;
    let mut found = Vec::new();
    for (query, tools) in queries().zip(all) {
        found.push(Answer { query, tools, absent: gateway.absent_services(query).await });
    }
    let has_found = found.iter().any(|answer| !answer.tools.is_empty());
    if args.json {
        print::json(&in_json(&found, args.full))?;
    } else if has_found {
        let texts: Vec<_> = found.iter().map(|answer| in_words(answer, args.full)).collect();
        print::prose(&texts.join("\n\n"))?;
    }
    if has_found {
        // Who has found something mostly does not care about servers that are broken.
        starts.iter().filter(|start| start.failure.is_some()).for_each(mention);
        return Ok(ExitCode::SUCCESS);
    }
    for failure in starts.iter().filter_map(Start::explanation) {
        print::note(&format!("warning: {failure}"));
    }
    let queries: Vec<_> = found.iter().map(|answer| format!("`{}`", answer.echo())).collect();
    let error = Error::failed(format!("no tool fits {}", queries.join(", ")));
    let error = found
        .iter()
        .filter(|answer| !answer.absent.is_empty())
        .fold(error, |error, answer| error.because(&no_server_for(&answer.absent)));
    let error = error.hint("say it in other words: service, verb and object of one step");
    if args.json {
        // What was found is on standard output, as JSON.
        print::error(&error);
        return Ok(ExitCode::FAILURE);
    }
    Err(error)
}

/// The finds of one query.
struct Answer<'a> {
    query: &'a str,
    /// The tools, the best first.
    tools: Vec<Found>,
    /// The services that it names and that are not here.
    absent: Vec<String>,
}

impl Answer<'_> {
    /// The query as it is repeated.
    fn echo(&self) -> String {
        shorten(&printable(self.query.trim()), MAX_ECHO)
    }
}

/// Says in one line that a server has not been searched.
fn mention(start: &Start) {
    let Start { toolbox, server, .. } = start;
    print::note(&format!(
        "not searched: `{toolbox}/{server}`, which could not be started; \
         `mcp-workbench check --connect` says why"
    ));
}

fn in_words(answer: &Answer<'_>, is_full: bool) -> String {
    let Answer { tools, absent, .. } = answer;
    let query = answer.echo();
    let Some(best) = tools.first() else {
        return format!("nothing fits `{query}`");
    };
    let remark = if !absent.is_empty() {
        format!("; {}", no_server_for(absent))
    } else if best.fits_well() {
        String::new()
    } else {
        "; nothing fits well".to_owned()
    };
    let head = format!("{} for `{query}`{remark}", count(tools.len(), "tool"));
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
            lines.map(printable).collect::<Vec<_>>().join("\n")
        } else {
            printable(&tool.definition.summary().unwrap_or_default())
        };
        let name = if is_full { &tool.definition.signature() } else { &tool.id.tool };
        table.row([
            format!("{:.2}", found.rounded_score()),
            tool.id.toolbox.to_string(),
            tool.id.server.to_string(),
            printable(name),
            description,
        ]);
    }
    format!("{head}\n\n{table}")
}

fn in_json<'a>(found: &'a [Answer<'a>], is_full: bool) -> Vec<Answered<'a>> {
    let entry = |found: &'a Found| {
        let tool = found.tool();
        Entry {
            toolbox: tool.id.toolbox.as_str(),
            server: tool.id.server.as_str(),
            tool: &tool.id.tool,
            registered_name: tool.name.as_str(),
            score: found.rounded_score(),
            signature: tool.definition.signature(),
            description: tool.definition.summary(),
            definition: is_full.then(|| verbatim(&tool.definition.raw)),
        }
    };
    let of_query = |answer: &'a Answer<'a>| Answered {
        query: answer.query,
        absent_services: &answer.absent,
        tools: answer.tools.iter().map(entry).collect(),
    };
    found.iter().map(of_query).collect()
}
