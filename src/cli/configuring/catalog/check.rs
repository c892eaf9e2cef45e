//! `catalog check`: compares a catalog folder with the tools that its servers list.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;
use serde_json::Value;

use crate::cli::args::GlobalArgs;
use crate::cli::configuring::catalog::schema;
use crate::cli::gateways::{with_gateway, without_policy};
use crate::cli::output::{CommandError, format_count, print};
use crate::cli::servers::startup::listed_tools;
use crate::cli::servers::startup::{self, StartReport};
use mcp_workbench_config::read_catalog_tool;
use mcp_workbench_core::catalog::ToolDefinition;
use mcp_workbench_core::gateway::Gateway;
use mcp_workbench_names::ServerRef;
use mcp_workbench_settings::{CatalogFolder, CatalogService};

const EXAMPLES: &str = "\
Examples:
  mcp-workbench catalog check catalog
  mcp-workbench catalog check --strict   Fail if a tool has no file
  mcp-workbench catalog check --json";

/// Compare a catalog folder with the tools its servers list
///
/// Starts the servers of the catalog folder and reports missing tools, new tools, and tools with
/// different parameters.
///
/// Exits with 0 if the files match, and with 1 if they don't or a server failed to start. New tools
/// are only an error with `--strict`, because a catalog folder may omit tools.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Catalog folder [default: the configured one, or the only one here]
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Also exit 1 for tools that the catalog folder lacks
    #[arg(long)]
    strict: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct CatalogDifference {
    category: String,
    service: String,
    tool: String,
    kind: DifferenceKind,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    details: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum DifferenceKind {
    Gone,
    New,
    Parameters,
    Broken,
}

#[derive(Serialize)]
struct Report<'a> {
    folder: String,
    same: bool,
    differences: &'a [CatalogDifference],
    failed: &'a [String],
}

pub(crate) fn run(global: &GlobalArgs, args: &Args) -> Result<ExitCode, CommandError> {
    let found = match &args.folder {
        Some(folder) => Some(folder.clone()),
        None if global.config.is_none() => generated_folder(global)?,
        None => None,
    };
    let config = match &found {
        Some(folder) => {
            GlobalArgs { config: Some(folder.clone()), ..global.clone() }.load_for_start()?.config
        }
        None => global.load_for_start()?.config,
    };
    let Some(catalog) = config.navigator.catalog.clone() else {
        let error = CommandError::usage("the configuration has no catalog");
        return Err(error.with_hint(
            "pass a catalog folder, or generate one with `mcp-workbench catalog init DIR`",
        ));
    };
    let mut config = without_policy(config);
    for server in config.toolboxes.iter_mut().flat_map(|toolbox| &mut toolbox.servers) {
        server.include = None;
        server.overrides.clear();
    }
    let (differences, failed) =
        with_gateway(global, config, async |gateway| differences(gateway, &catalog).await)?;
    let has_failed = !failed.is_empty();
    let is_same = differences.is_empty() && !has_failed;
    if args.json {
        let folder = catalog.folder.display().to_string();
        let (differences, failed) = (differences.as_slice(), failed.as_slice());
        print::json(&Report { folder, same: is_same, differences, failed })?;
    } else {
        let mut sections = Vec::new();
        if !differences.is_empty() {
            let lines: Vec<_> = differences.iter().map(ToString::to_string).collect();
            sections.push(lines.join("\n"));
        }
        sections.extend(failed);
        let tools = services(&catalog).map(|(_, service)| service.tools.len()).sum();
        let tools = format_count(tools, "tool");
        sections.push(match differences.len() {
            0 if is_same => format!("the catalog matches its servers: {tools}, no differences"),
            0 => "no differences in the servers that started".to_owned(),
            n => format!("the catalog has {tools} and {}", format_count(n, "difference")),
        });
        print::prose(&sections.join("\n\n"))?;
    }
    let is_told_alone =
        |difference: &CatalogDifference| difference.kind == DifferenceKind::New && !args.strict;
    let is_good = !has_failed && differences.iter().all(is_told_alone);
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the only catalog folder here, unless the configuration has a catalog.
fn generated_folder(global: &GlobalArgs) -> Result<Option<PathBuf>, CommandError> {
    if let Ok(loaded) = global.read()
        && loaded.config.navigator.catalog.is_some()
    {
        return Ok(None);
    }
    let is_catalog = |folder: &PathBuf| folder.join("_config.yaml").is_file();
    let here = PathBuf::from(".");
    if is_catalog(&here) {
        return Ok(Some(here));
    }
    let inside = fs::read_dir(&here).map_err(CommandError::internal)?;
    let inside = inside.flatten().map(|entry| PathBuf::from(entry.file_name()));
    let mut found: Vec<_> = inside.filter(is_catalog).collect();
    found.sort();
    if found.len() > 1 {
        let names: Vec<_> = found.iter().map(|folder| format!("`{}`", folder.display())).collect();
        return Err(CommandError::usage("there are several catalog folders here")
            .with_hint(format!("name one of {}", names.join(", "))));
    }
    Ok(found.pop())
}

impl std::fmt::Display for CatalogDifference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { category, service, tool, kind, details } = self;
        let kind = match kind {
            DifferenceKind::Gone => "gone: the server does not list this tool".to_owned(),
            DifferenceKind::New => "new: the catalog has no file for this tool".to_owned(),
            DifferenceKind::Parameters => format!("parameters differ: {}", details.join("; ")),
            DifferenceKind::Broken => format!("invalid file: {}", details.join("; ")),
        };
        write!(f, "{category}/{service}/{tool}: {kind}")
    }
}

fn services(catalog: &CatalogFolder) -> impl Iterator<Item = (&str, &CatalogService)> {
    let categories = catalog.categories.iter();
    categories.flat_map(|category| category.services.iter().map(|s| (category.name.as_str(), s)))
}

async fn differences(
    gateway: &Gateway,
    catalog: &CatalogFolder,
) -> (Vec<CatalogDifference>, Vec<String>) {
    let wanted = |at: &ServerRef| services(catalog).any(|(_, service)| service.at == *at);
    let toolboxes: Vec<_> = gateway.config().toolboxes.iter().collect();
    let starts = startup::start_servers(gateway, &toolboxes, wanted).await;
    let snapshot = gateway.snapshot();
    let launch = |service: &CatalogService| {
        let toolbox = gateway.config().toolbox(service.at.toolbox.as_str())?;
        Some(&toolbox.server(service.at.server.as_str())?.launch)
    };
    let mut differences = Vec::new();
    for (category, service) in services(catalog) {
        let is_it = |start: &&StartReport| {
            start.toolbox == service.at.toolbox && start.server == service.at.server
        };
        if starts.iter().find(is_it).is_none_or(|start| start.failure.is_some()) {
            continue;
        }
        let listed = listed_tools(&snapshot, &service.at);
        let new = |tool: &str, kind, details| CatalogDifference {
            category: category.to_owned(),
            service: service.name.clone(),
            tool: tool.to_owned(),
            kind,
            details,
        };
        for tool in &service.tools {
            let found = listed.iter().find(|listed| listed.name == *tool);
            let differs = match found {
                None => Some(new(tool, DifferenceKind::Gone, Vec::new())),
                Some(found) => compared(catalog, service, found)
                    .map(|(kind, details)| new(tool, kind, details)),
            };
            differences.extend(differs);
        }
        // If several services share a server, only the first one reports its missing tools.
        let all = services(catalog).map(|(_, other)| other);
        let alike: Vec<_> = all.filter(|other| launch(other) == launch(service)).collect();
        if alike.first().is_some_and(|first| std::ptr::eq(*first, service)) {
            let known: HashSet<&String> = alike.iter().flat_map(|other| &other.tools).collect();
            let missing = listed.iter().filter(|listed| !known.contains(&listed.name));
            differences
                .extend(missing.map(|tool| new(&tool.name, DifferenceKind::New, Vec::new())));
        }
    }
    (differences, starts.iter().filter_map(StartReport::failure_text).collect())
}

/// Compares the catalog file of a tool with the server's definition. Returns `None` if they agree.
fn compared(
    catalog: &CatalogFolder,
    service: &CatalogService,
    listed: &ToolDefinition,
) -> Option<(DifferenceKind, Vec<String>)> {
    match read_catalog_tool(&catalog.folder, &service.file(&listed.name), &listed.name) {
        Ok(tool) => {
            let details = parameters(&tool.schema, &schema(listed));
            (!details.is_empty()).then_some((DifferenceKind::Parameters, details))
        }
        Err(report) => {
            let found = report.findings.iter().map(|finding| {
                let (line, column) = finding.position.unwrap_or((1, 1));
                format!("{line}:{column}: {}", finding.message)
            });
            Some((DifferenceKind::Broken, found.collect()))
        }
    }
}

fn parameters(ours: &Value, theirs: &Value) -> Vec<String> {
    let names = |schema: &Value| -> BTreeSet<String> {
        let properties = schema.get("properties").and_then(Value::as_object);
        properties.into_iter().flat_map(|all| all.keys().cloned()).collect()
    };
    let required = |schema: &Value| -> BTreeSet<String> {
        let required = schema.get("required").and_then(Value::as_array);
        let names = required.into_iter().flatten().filter_map(Value::as_str);
        names.map(str::to_owned).collect()
    };
    let kind = |schema: &Value, name: &str| {
        let kinds = schema.get("properties")?.get(name)?.get("type")?;
        let mut kinds = kinds.as_array().cloned().unwrap_or_else(|| vec![kinds.clone()]);
        kinds.sort_by_key(Value::to_string);
        Some(kinds)
    };
    let (our_names, their_names) = (names(ours), names(theirs));
    let (ours_required, theirs_required) = (required(ours), required(theirs));
    let mut details = Vec::new();
    details.extend(our_names.difference(&their_names).map(|name| format!("`{name}` was removed")));
    details.extend(their_names.difference(&our_names).map(|name| {
        let required = if theirs_required.contains(name) { " (required)" } else { "" };
        format!("`{name}` was added{required}")
    }));
    for name in our_names.intersection(&their_names) {
        match (ours_required.contains(name), theirs_required.contains(name)) {
            (true, false) => details.push(format!("`{name}` is now optional")),
            (false, true) => details.push(format!("`{name}` is now required")),
            _ => {}
        }
        let (ours, theirs) = (kind(ours, name), kind(theirs, name));
        if ours != theirs {
            let word = |kinds: Option<Vec<Value>>| match kinds {
                Some(kinds) => {
                    let kinds: Vec<_> = kinds.iter().filter_map(Value::as_str).collect();
                    kinds.join(" or ")
                }
                None => "any type".to_owned(),
            };
            details.push(format!("`{name}` changed from {} to {}", word(ours), word(theirs)));
        }
    }
    details
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn compares_parameters_by_name_type_and_required() {
        let ours = json!({
            "type": "object",
            "properties": { "a": { "type": "string" }, "b": { "type": "integer" }, "old": {},
                            "same": { "type": ["null", "string"] } },
            "required": ["a"],
        });
        let theirs = json!({
            "type": "object",
            "properties": { "a": { "type": "string" }, "b": { "type": "number" }, "new": {},
                            "same": { "type": ["string", "null"], "description": "d" } },
            "required": ["b", "new"],
        });
        assert_eq!(
            parameters(&ours, &theirs),
            [
                "`old` was removed",
                "`new` was added (required)",
                "`a` is now optional",
                "`b` is now required",
                "`b` changed from integer to number"
            ]
        );
        assert_eq!(parameters(&theirs, &theirs), Vec::<String>::new());
    }
}
