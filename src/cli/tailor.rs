//! `tailor`: the configuration for one task, out of a full one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;

use crate::authoring::import::Source;
use crate::authoring::tailor::{Choice, Reason, Request, Tailored, tailor};
use crate::cli::error::Error;
use crate::cli::replace;
use crate::cli::size::count;
use crate::cli::table::{Align, Table};
use crate::cli::{Global, print};
use crate::config::env::ProcessEnv;
use crate::config::{self, LoadError, Location};

const EXAMPLES: &str = "\
Examples:
  mcp-workbench tailor --task \"Add tests for the parser\" --output task.json
  mcp-workbench tailor --task \"Fix the login page\" --service-type frontend
  mcp-workbench tailor --task \"Ship 2.0\" --service-type payments-api --rules ours.json";

/// Write the configuration for one task, out of a full one
///
/// Takes of the full configuration what the task needs: the tools that every task gets, those of
/// the service that it is done on, and those of the words in its description. What the full
/// configuration does not let through is never added. The result is the same for the same input.
///
/// The rules are those of `--rules`, else those of the full configuration
/// (`taskBasedToolSelection`), else those that the program carries.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The work that is to be done
    #[arg(long, value_name = "TEXT")]
    task: String,
    /// The kind of the service that it is done on, or its name: api, frontend, testing, …
    #[arg(long, value_name = "TYPE")]
    service_type: Option<String>,
    /// Rules in place of the others
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// Where to write it [default: standard output]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print JSON: what was chosen and why
    #[arg(long)]
    json: bool,
}

/// Tailors; fails where nothing is left.
pub(crate) fn run(global: &Global, args: &Args) -> Result<ExitCode, Error> {
    let folder = std::env::current_dir().map_err(Error::internal)?;
    let full = config::find(global.config.clone(), &ProcessEnv, &folder);
    let output = args.output.clone().map(|path| config::locate(Some(path), &ProcessEnv, &folder));
    if output.as_ref().is_some_and(|output| is_same(&output.path, &full.path)) {
        let message = format!("`{}` is the full configuration", full.shown.display());
        return Err(Error::wrong(message).hint("write the result to another file"));
    }
    let request = Request {
        full: read(&full.shown, &full.path)?,
        folder: output.as_ref().and_then(|output| moved(&full.path, &output.path)),
        rules: args.rules.as_ref().map(|rules| read(rules, rules)).transpose()?,
        task: args.task.clone(),
        service: args.service_type.clone(),
    };
    let tailored = tailor(&request);
    let tailored = tailored.map_err(|report| Error::config(LoadError::Invalid(report)))?;
    if let (Some(output), Some(text)) = (&output, &tailored.text) {
        replace::file(output, text, &[&full.path])?;
    }
    let report = report(&tailored, &full, output.as_ref());
    if args.json {
        print::json_of_config(&in_json(&tailored, &full, output.as_ref()))?;
    } else {
        match &tailored.text {
            Some(text) if output.is_none() => {
                print::config(&text.trim_end())?;
                print::note(&report);
            }
            Some(_) => print::prose(&report)?,
            None => print::note(&report),
        }
    }
    Ok(if tailored.text.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn read(shown: &Path, path: &Path) -> Result<Source, Error> {
    let text = fs::read_to_string(path).map_err(|error| {
        let error = Error::usage(format!("cannot read `{}`", shown.display()), &error);
        error.hint("correct the path; nothing was written")
    })?;
    Ok(Source { file: shown.display().to_string(), text })
}

fn is_same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| fs::canonicalize(path).ok();
    one == other || real(one).is_some_and(|one| real(other) == Some(one))
}

/// The folder that the paths of a configuration start at, if another does not stand there too.
fn moved(full: &Path, output: &Path) -> Option<PathBuf> {
    let (from, to) = (full.parent()?, output.parent()?);
    (!is_same(from, to)).then(|| from.to_owned())
}

fn report(tailored: &Tailored, full: &Location, output: Option<&Location>) -> String {
    let mut sections = Vec::new();
    let from = full.shown.display();
    if tailored.text.is_none() {
        sections.push(format!("error: `{from}` has nothing of what the task needs"));
    } else {
        let wrote = output.map(|output| format!("wrote `{}`: ", output.shown.display()));
        let tools = count(tailored.choices.len(), "tool");
        let servers = count(tailored.servers.len(), "server");
        sections.push(format!("{}{tools} of {servers}", wrote.unwrap_or_default()));
        sections.push(table(&tailored.choices).to_string());
    }
    let warnings = tailored.warnings.iter().map(|warning| format!("warning: {warning}"));
    let warnings: Vec<_> = warnings.collect();
    if !warnings.is_empty() {
        sections.push(warnings.join("\n"));
    }
    sections.join("\n\n")
}

fn table(choices: &[Choice]) -> Table {
    let mut table = Table::new([
        ("Server", Align::Left),
        ("Tool", Align::Left),
        ("For", Align::Left),
        ("Why", Align::Left),
    ]);
    for choice in choices {
        let reasons: Vec<_> = choice.reasons.iter().map(ToString::to_string).collect();
        let agents = match (choice.agents.as_slice(), choice.all_but.as_slice()) {
            ([], []) => "all".to_owned(),
            ([], others) => format!("all but {}", others.join(", ")),
            (agents, _) => agents.join(", "),
        };
        table.row([choice.server.clone(), choice.tool.clone(), agents, reasons.join("; ")]);
    }
    table
}

/// The whole outcome, for those who read JSON.
#[derive(Serialize)]
struct Outcome<'a> {
    from: &'a Path,
    file: Option<&'a Path>,
    servers: &'a [String],
    tools: Vec<Chosen<'a>>,
    warnings: &'a [String],
    /// The text that would have been written, where no file was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
}

#[derive(Serialize)]
struct Chosen<'a> {
    server: &'a str,
    tool: &'a str,
    /// The only agents that may have it; empty: all.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    agents: &'a [String],
    /// The agents that may not have it, where it is for all others.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    all_but: &'a [String],
    reasons: Vec<Why<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "rule", rename_all = "snake_case")]
enum Why<'a> {
    EveryTask,
    ServiceType { name: &'a str, word: &'a str, service: &'a str },
    Pattern { name: &'a str, keyword: &'a str, found: &'a str },
}

impl<'a> From<&'a Reason> for Why<'a> {
    fn from(reason: &'a Reason) -> Self {
        match reason {
            Reason::EveryTask => Self::EveryTask,
            Reason::Service { kind, word, service } => {
                Self::ServiceType { name: kind, word, service }
            }
            Reason::Keyword { pattern, keyword, found } => {
                Self::Pattern { name: pattern, keyword, found }
            }
        }
    }
}

fn in_json<'a>(
    tailored: &'a Tailored,
    full: &'a Location,
    output: Option<&'a Location>,
) -> Outcome<'a> {
    let tool = |choice: &'a Choice| Chosen {
        server: &choice.server,
        tool: &choice.tool,
        agents: &choice.agents,
        all_but: &choice.all_but,
        reasons: choice.reasons.iter().map(Why::from).collect(),
    };
    Outcome {
        from: &full.shown,
        file: output.filter(|_| tailored.text.is_some()).map(|output| output.shown.as_path()),
        servers: &tailored.servers,
        tools: tailored.choices.iter().map(tool).collect(),
        warnings: &tailored.warnings,
        text: tailored.text.as_deref().filter(|_| output.is_none()),
    }
}
