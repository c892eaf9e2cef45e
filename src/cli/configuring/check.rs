//! `check`: validates the configuration and, with `--connect`, tests its servers.

use std::process::ExitCode;
use std::sync::Arc;

use clap_complete::engine::ArgValueCandidates;

use crate::cli::args::{GlobalArgs, completion, print_warnings};
use crate::cli::diagnostics::definition_remarks::DefinitionRemarks;
use crate::cli::diagnostics::{config_remarks, unpinned_packages};
use crate::cli::gateways::{with_gateway, without_policy};
use crate::cli::output::{CommandError, Symptom, format_count, print, quoted};
use crate::cli::servers::server_names::{all_names, is_named};
use crate::cli::servers::value_sources::FetchAll;
use mcp_workbench_config::{Dialect, LoadError, LoadedConfig, ProjectStatus, Severity};
use mcp_workbench_core::policy::Policies;
use mcp_workbench_names::{AgentName, ToolboxName};
use mcp_workbench_settings::{Config, ServerConfig, ToolboxConfig};

mod access_summary;
mod definition_remarks;
mod inspection;
mod log_isolation;
mod missing_programs;
mod powerless_agents;
mod report;
mod sandbox_reach;
mod shared_store;
mod start_methods;
mod tables;
mod tls;

use inspection::{InspectionOptions, ServerInspection, inspect_servers};
use report::{CheckReport, CheckStatus, ProblemRow, ProjectRow, ServerRow};
use tables::{configured_table, started_table, summary};

const EXAMPLES: &str = "\
Examples:
  mcp-workbench check                    Validate; start nothing
  mcp-workbench check --connect          Start and test every server
  mcp-workbench check --connect git      Start and test one
  mcp-workbench check --config other.json --json
  mcp-workbench check --config catalog   Validate a catalog folder";

/// Validate the configuration; with --connect, test its servers
///
/// Without `--connect`, starts no server and runs no commands for secret values. Reports invalid
/// entries and missing programs; with cached tool lists, also colliding names and rules that match
/// no tool. Reads the tool files of a catalog folder and the files of `http.tls`, too.
///
/// With `--connect`, starts every server once, in parallel, and reports its tools, the size of their
/// definitions and its startup time. Also tests the shared store. A failing server doesn't affect
/// the others. Tokens are estimates: one per 4.5 bytes.
///
/// With `--agent`, reports what this agent can use. Findings about definitions that could mislead a
/// model (hidden characters, instructions, requests for secrets, look-alike names) don't change the
/// exit code.
///
/// Exits with 0 if everything is valid, 1 if a server or the store failed or an entry or a file is
/// invalid, and 2 if the configuration can't be used.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Start every server, or only these, and report the result
    #[arg(long, value_name = "SERVER", num_args = 0.., add = ArgValueCandidates::new(completion::servers))]
    connect: Option<Vec<String>>,
    /// List servers without a pinned version or a sandbox, and which ones start directly
    #[arg(long)]
    details: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(global: &GlobalArgs, args: &Args) -> Result<ExitCode, CommandError> {
    let loaded = if args.json {
        match args.read(global)? {
            Ok(loaded) => loaded,
            Err(LoadError::Invalid(report)) => {
                print::json(&CheckReport::invalid(&report))?;
                return Ok(ExitCode::from(2));
            }
            Err(error) => return Err(CommandError::config(error)),
        }
    } else {
        print_warnings(args.read(global)?)?
    };
    let is_broken = loaded.has_errors();
    let LoadedConfig { config, dialect, mut disabled, mut findings, file, project, .. } = loaded;
    let agent = global.caller().agent;
    let mut service = if agent.is_some() { Vec::new() } else { access_summary::lines(&config) };
    service.extend(project.as_ref().map(project_line));
    // Without an agent, checks all servers; with one, only those that it may use.
    let rules = agent.is_none().then(|| config.clone());
    let config = if agent.is_some() { config } else { without_policy(config) };
    if agent.is_some() {
        disabled.clear();
    }
    let all_servers = count_servers(&config);
    let config = match args.named_servers() {
        None => config,
        Some(names) => {
            disabled.clear();
            only_named(config, names)?
        }
    };
    let config = Arc::new(config);
    let seen = Policies::new(Arc::clone(&config)).visible_config(agent.as_ref(), None);
    let mut files = tools_of_catalog(global, &seen, dialect)?;
    if let Some(config) = &rules {
        let (line, faults) = check_tls_and_store(config, args.connects())?;
        service.extend(line);
        files.extend(faults);
    }
    let has_broken = files.iter().any(|finding| finding.severity == Severity::Error);
    report_findings(args, &mut findings, &file, files);
    let mode = seen.mode.as_str();
    let head = headline(&file, dialect, agent.as_ref(), !(is_broken || has_broken), &seen);
    let all = format_count(all_servers, "server");
    let tested =
        args.named_servers().map(|_| format!("\ntested {} of {all}", count_servers(&seen)));
    let head = head + &tested.unwrap_or_default();
    let options = args.inspection_options();
    let ServerInspection { mut servers, reached, failures, hidden, server_warnings, definitions } =
        with_gateway(global, Arc::unwrap_or_clone(config), async |gateway| {
            inspect_servers(global, &options, rules.as_ref(), gateway).await
        })?;
    let mut warnings = match &rules {
        Some(config) => config_warnings(global, args, config)?,
        None => Vec::new(),
    };
    warnings.extend(server_warnings);
    if !args.json {
        warnings.extend(definitions.iter().flat_map(DefinitionRemarks::findings));
    }
    report_findings(args, &mut findings, &file, warnings);
    servers.extend(disabled.iter().map(|(toolbox, server)| ServerRow::new(toolbox, server)));
    let has_failed = (args.connects() && !failures.is_empty()) || has_broken || is_broken;
    if args.json {
        print::json(&CheckReport {
            file: &file,
            is_valid: true,
            dialect: Some(dialect.as_str()),
            mode: Some(mode),
            project: project.as_ref().map(ProjectRow::new),
            errors: ProblemRow::of(&findings, Severity::Error),
            warnings: ProblemRow::of(&findings, Severity::Warning),
            servers,
            hidden,
            findings: definitions.iter().flat_map(DefinitionRemarks::rows).collect(),
            more_findings: definitions.iter().map(DefinitionRemarks::hidden_count).sum(),
        })?;
    } else {
        let mut sections = vec![head];
        sections.extend(nothing_to_serve(&servers));
        if args.connects() {
            sections.push(started_table(&servers).to_string());
            sections.push(summary(&servers));
        } else {
            sections.push(configured_table(&servers).to_string());
        }
        sections.extend((!reached.is_empty()).then(|| reached.join("\n")));
        if !service.is_empty() {
            sections.push(service.join("\n"));
        }
        sections.extend(hidden.iter().map(|what| format!("warning: {what}")));
        sections.extend(failures);
        if servers.iter().any(|row| row.status == CheckStatus::Failed) {
            sections.push(Symptom::ServerDoesNotStart.to_string());
        }
        print::prose(&sections.join("\n\n"))?;
    }
    Ok(if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

impl Args {
    fn inspection_options(&self) -> InspectionOptions {
        InspectionOptions {
            connects: self.connects(),
            details: self.details,
            shows_progress: !self.json,
        }
    }

    fn connects(&self) -> bool {
        self.connect.is_some()
    }

    /// Returns the servers to test, if not all are.
    fn named_servers(&self) -> Option<&[String]> {
        self.connect.as_deref().filter(|names| !names.is_empty())
    }

    /// Reads the configuration. Commands for secret values run only with `--connect`, which starts
    /// the servers that need them.
    fn read(&self, global: &GlobalArgs) -> Result<Result<LoadedConfig, LoadError>, CommandError> {
        match self.connect.as_deref() {
            None => global.try_read(),
            Some([]) => global.read_with_values(&FetchAll),
            Some(names) => global
                .try_read_for_start(|toolbox, server| is_selected(names, &toolbox.name, server)),
        }
    }
}

/// Returns the warnings about the whole configuration.
fn config_warnings(
    global: &GlobalArgs,
    args: &Args,
    config: &Config,
) -> Result<Vec<mcp_workbench_config::Finding>, CommandError> {
    let mut found = config_remarks::findings(global, config)?;
    found.extend(powerless_agents::findings(config));
    // Only on request: most configurations start without pinned versions.
    if args.connects() || args.details {
        found.extend(unpinned_packages::findings(config, args.details));
    }
    Ok(found)
}

fn count_servers(config: &Config) -> usize {
    config.toolboxes.iter().map(|toolbox| toolbox.launchable_servers().count()).sum()
}

fn is_selected(names: &[String], toolbox: &ToolboxName, server: &ServerConfig) -> bool {
    names.iter().any(|name| is_named(toolbox.as_str(), server.name.as_str(), name))
}

/// Removes all other servers.
fn only_named(mut config: Config, names: &[String]) -> Result<Config, CommandError> {
    let all = all_names(&config);
    if let Some(unknown) = names.iter().find(|name| !all.contains(name)) {
        let near = mcp_workbench_names::nearest(unknown, all.iter().map(String::as_str), 1);
        return Err(CommandError::usage(format!("no server `{unknown}`"))
            .suggesting(&near, "run `mcp-workbench check` to see all servers"));
    }
    for toolbox in &mut config.toolboxes {
        let ToolboxConfig { name, servers, .. } = toolbox;
        servers.retain(|server| is_selected(names, name, server));
    }
    config.toolboxes.retain(|toolbox| !toolbox.servers.is_empty());
    Ok(config)
}

/// Returns the first line of the report.
fn headline(
    file: &str,
    dialect: Dialect,
    agent: Option<&AgentName>,
    is_valid: bool,
    seen: &Config,
) -> String {
    let owner = dialect.program_name().map(|owner| format!(" (a file of {owner})"));
    format!(
        "`{file}`{} {}{}: {}, {}, mode `{}`",
        owner.unwrap_or_default(),
        if is_valid { "is valid" } else { "has errors" },
        agent.map(|agent| format!(" for agent `{agent}`")).unwrap_or_default(),
        format_count(seen.toolboxes.len(), "toolbox"),
        format_count(count_servers(seen), "server"),
        seen.mode.as_str(),
    )
}

fn project_line(project: &ProjectStatus) -> String {
    let ProjectStatus { file, state, toolboxes, rules, .. } = project;
    let adds = (!toolboxes.is_empty()).then(|| format!("adds {}", quoted(toolboxes, ", ")));
    let narrows =
        (!rules.is_empty()).then(|| format!("narrows access with {}", quoted(rules, ", ")));
    let effects: Vec<String> = adds.into_iter().chain(narrows).collect();
    let sign = if effects.is_empty() { "" } else { ": " };
    format!("project file `{file}` ({}){sign}{}", state.as_str(), effects.join("; "))
}

/// Prints findings, or collects them in `kept` for the JSON report.
fn report_findings(
    args: &Args,
    kept: &mut Vec<mcp_workbench_config::Finding>,
    file: &str,
    findings: Vec<mcp_workbench_config::Finding>,
) {
    if args.json {
        kept.extend(findings);
    } else if !findings.is_empty() {
        print::note(&mcp_workbench_config::ConfigReport { file: file.to_owned(), findings });
    }
}

/// Checks TLS files and the shared store. Returns a line on the store, if it was probed, and the
/// problems found.
fn check_tls_and_store(
    config: &Config,
    connects: bool,
) -> Result<(Option<String>, Vec<mcp_workbench_config::Finding>), CommandError> {
    let (line, fault) = match shared_store::probe_store(config, connects)? {
        Ok(line) => (line, None),
        Err(fault) => (None, Some(fault)),
    };
    Ok((line, tls::tls_finding(config).into_iter().chain(fault).collect()))
}

fn nothing_to_serve(servers: &[ServerRow]) -> Option<String> {
    let is_off = servers.iter().all(|server| server.status == CheckStatus::Disabled);
    let why =
        if servers.is_empty() { "no servers are configured" } else { "every server is disabled" };
    is_off.then(|| format!("nothing to serve: {why}"))
}

/// Checks the tool files of a catalog, which `serve` reads only when needed.
fn tools_of_catalog(
    global: &GlobalArgs,
    config: &Config,
    dialect: Dialect,
) -> Result<Vec<mcp_workbench_config::Finding>, CommandError> {
    let Some(catalog) = &config.navigator.catalog else { return Ok(Vec::new()) };
    if dialect == Dialect::Catalog {
        return Ok(mcp_workbench_config::check_catalog_tools(catalog, ""));
    }
    let file = global.config_file()?;
    let inside = file.parent().and_then(|folder| catalog.folder.strip_prefix(folder).ok());
    let shown = inside.unwrap_or(&catalog.folder).display().to_string();
    Ok(mcp_workbench_config::check_catalog_tools(catalog, &shown))
}
