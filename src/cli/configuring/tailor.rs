//! `tailor`: derives a configuration for one task from a full one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;

use crate::authoring::tailor::{SelectionReason, TailorPlan, TailorRequest, ToolSelection, tailor};
use crate::cli::args::GlobalArgs;
use crate::cli::files::atomic_write;
use crate::cli::files::source_files::read_source;
use crate::cli::output::{CommandError, Table, format_count, print};
use crate::cli::runtime::current_folder;
use mcp_workbench_config::ConfigLocation;
use mcp_workbench_config::env::ProcessEnv;

const EXAMPLES: &str = "\
Examples:
  mcp-workbench tailor --task \"Add tests for the parser\" --output task.json
  mcp-workbench tailor --task \"Fix the login page\" --project-type frontend
  mcp-workbench tailor --task \"Ship 2.0\" --project-type payments-api \\
      --rules rules.json";

/// Generate a configuration with only the tools a task needs
///
/// Selects the tools that every task gets, those of the project type, and those for keywords in the
/// task description. Never adds a tool that the full configuration doesn't allow. The same input
/// always gives the same result.
///
/// The selection rules come from `--rules`, or else from `taskBasedToolSelection` in the full
/// configuration, or else are the built-in ones.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Task description
    #[arg(long, value_name = "TEXT")]
    task: String,
    /// Type or name of the project: api, frontend, testing, …
    #[arg(long, value_name = "TYPE")]
    project_type: Option<String>,
    /// Selection rules to use instead of the configured ones
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// Output file [default: stdout]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print JSON with chosen tools and reasons
    #[arg(long)]
    json: bool,
}

/// Fails if no tool is left.
pub(crate) fn run(global: &GlobalArgs, args: &Args) -> Result<ExitCode, CommandError> {
    let folder = current_folder()?;
    let full = mcp_workbench_config::discover(global.config.clone(), &ProcessEnv, &folder);
    let output = args
        .output
        .clone()
        .map(|path| mcp_workbench_config::locate(Some(path), &ProcessEnv, &folder));
    if output.as_ref().is_some_and(|output| is_same(&output.path, &full.path)) {
        let message = format!(
            "`--output` would overwrite the full configuration `{}`",
            full.display_path.display()
        );
        return Err(CommandError::usage(message).with_hint("choose another output file"));
    }
    let request = TailorRequest {
        full: read_source(&full.display_path, &full.path)?,
        folder: output.as_ref().and_then(|output| moved(&full.path, &output.path)),
        rules: args.rules.as_ref().map(|rules| read_source(rules, rules)).transpose()?,
        task: args.task.clone(),
        service: args.project_type.clone(),
    };
    let tailored = tailor(&request);
    let tailored = tailored.map_err(CommandError::invalid_config)?;
    if let (Some(output), Some(text)) = (&output, &tailored.text) {
        atomic_write::write_atomically(output, text, &[&full.path])?;
    }
    let report = report(&tailored, &full, output.as_ref());
    if args.json {
        print::json_unredacted(&in_json(&tailored, &full, output.as_ref()))?;
    } else {
        match &tailored.text {
            Some(text) if output.is_none() => {
                print::text_unredacted(&text.trim_end())?;
                print::note(&report);
            }
            Some(_) => print::prose(&report)?,
            None => print::note(&report),
        }
    }
    Ok(if tailored.text.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn is_same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| fs::canonicalize(path).ok();
    one == other || real(one).is_some_and(|one| real(other) == Some(one))
}

/// Returns the folder that relative paths of the full configuration start from, if the output goes
/// to another folder.
fn moved(full: &Path, output: &Path) -> Option<PathBuf> {
    let (from, to) = (full.parent()?, output.parent()?);
    (!is_same(from, to)).then(|| from.to_owned())
}

fn report(tailored: &TailorPlan, full: &ConfigLocation, output: Option<&ConfigLocation>) -> String {
    let mut sections = Vec::new();
    let from = full.display_path.display();
    if tailored.text.is_none() {
        sections.push(format!("error: `{from}` has no tools for this task"));
    } else {
        let wrote = output.map(|output| format!("wrote `{}`: ", output.display_path.display()));
        let tools = format_count(tailored.choices.len(), "tool");
        let servers = format_count(tailored.servers.len(), "server");
        sections.push(format!("{}{tools} from {servers}", wrote.unwrap_or_default()));
        sections.push(table(&tailored.choices).to_string());
    }
    let warnings = tailored.warnings.iter().map(|warning| format!("warning: {warning}"));
    let warnings: Vec<_> = warnings.collect();
    if !warnings.is_empty() {
        sections.push(warnings.join("\n"));
    }
    sections.join("\n\n")
}

fn table(choices: &[ToolSelection]) -> Table {
    let mut table = Table::left(["Server", "Tool", "Agents", "Reason"]);
    for choice in choices {
        let reasons: Vec<_> = choice.reasons.iter().map(ToString::to_string).collect();
        let agents = match (choice.agents.as_slice(), choice.except_agents.as_slice()) {
            ([], []) => "all".to_owned(),
            ([], others) => format!("all except {}", others.join(", ")),
            (agents, _) => agents.join(", "),
        };
        table.row([choice.server.clone(), choice.tool.clone(), agents, reasons.join("; ")]);
    }
    table
}

#[derive(Serialize)]
struct TailorReport<'a> {
    from: &'a Path,
    file: Option<&'a Path>,
    servers: &'a [String],
    tools: Vec<ChosenTool<'a>>,
    warnings: &'a [String],
    /// The generated configuration, unless it was written to a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
}

#[derive(Serialize)]
struct ChosenTool<'a> {
    server: &'a str,
    tool: &'a str,
    /// The only agents that can use the tool; empty for all.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    agents: &'a [String],
    /// The excluded agents, if all others can use the tool.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    all_but: &'a [String],
    reasons: Vec<ReasonRow<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "rule", rename_all = "snake_case")]
enum ReasonRow<'a> {
    EveryTask,
    ServiceType { name: &'a str, word: &'a str, service: &'a str },
    Pattern { name: &'a str, keyword: &'a str, found: &'a str },
}

impl<'a> From<&'a SelectionReason> for ReasonRow<'a> {
    fn from(reason: &'a SelectionReason) -> Self {
        match reason {
            SelectionReason::EveryTask => Self::EveryTask,
            SelectionReason::Service { kind, word, service } => {
                Self::ServiceType { name: kind, word, service }
            }
            SelectionReason::Keyword { pattern, keyword, found } => {
                Self::Pattern { name: pattern, keyword, found }
            }
        }
    }
}

fn in_json<'a>(
    tailored: &'a TailorPlan,
    full: &'a ConfigLocation,
    output: Option<&'a ConfigLocation>,
) -> TailorReport<'a> {
    let tool = |choice: &'a ToolSelection| ChosenTool {
        server: &choice.server,
        tool: &choice.tool,
        agents: &choice.agents,
        all_but: &choice.except_agents,
        reasons: choice.reasons.iter().map(ReasonRow::from).collect(),
    };
    TailorReport {
        from: &full.display_path,
        file: output
            .filter(|_| tailored.text.is_some())
            .map(|output| output.display_path.as_path()),
        servers: &tailored.servers,
        tools: tailored.choices.iter().map(tool).collect(),
        warnings: &tailored.warnings,
        text: tailored.text.as_deref().filter(|_| output.is_none()),
    }
}
