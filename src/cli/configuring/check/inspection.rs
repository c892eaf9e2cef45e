//! What `check` finds out about the servers of a configuration.

use std::ffi::OsStr;
use std::path::Path;

use crate::cli::args::GlobalArgs;
use crate::cli::configuring::check::report::{CheckStatus, ServerRow};
use crate::cli::configuring::check::sandbox_reach::ServersReach;
use crate::cli::configuring::check::{
    definition_remarks, log_isolation, missing_programs, start_methods,
};
use crate::cli::diagnostics::definition_remarks::DefinitionRemarks;
use crate::cli::output::{ContextSize, format_count, print};
use crate::cli::servers::startup::{self, StartReport};
use mcp_workbench_core::gateway::{Gateway, Snapshot};
use mcp_workbench_core::policy::DriftAction;
use mcp_workbench_names::{ServerName, ServerRef, ToolboxName};
use mcp_workbench_settings::{Config, Launch, ServerConfig, ToolboxConfig};

pub(super) struct InspectionOptions {
    pub(super) connects: bool,
    pub(super) details: bool,
    /// Reports each server as soon as it has started or failed.
    pub(super) shows_progress: bool,
}

pub(super) struct ServerInspection {
    pub(super) servers: Vec<ServerRow>,
    /// Lists the access of server processes and, on request, how package runners' servers start.
    pub(super) reached: Vec<String>,
    pub(super) failures: Vec<String>,
    /// Warnings about hidden tools and definition drift.
    pub(super) hidden: Vec<String>,
    /// Warnings about servers whose log messages agents may miss, and about malformed entries.
    pub(super) server_warnings: Vec<mcp_workbench_config::Finding>,
    pub(super) definitions: Vec<DefinitionRemarks>,
}

/// Inspects the servers of a gateway, and starts them with `--connect`. `rules` is the full
/// configuration, or `None` if the check is for one agent.
pub(super) async fn inspect_servers(
    global: &GlobalArgs,
    options: &InspectionOptions,
    rules: Option<&Config>,
    gateway: &Gateway,
) -> ServerInspection {
    let (servers, mut reached, failures) = if options.connects {
        let mut reach = ServersReach::resolve(global, gateway.config(), options.details);
        let (mut rows, failures) = connect(gateway, options.shows_progress).await;
        reach.annotate(&mut rows);
        (rows, reach.lines, failures)
    } else {
        gateway.views().wait_for_stored_listings().await;
        let mut rows = configured(gateway.config());
        let failures = missing_programs::mark_missing(gateway.config(), &mut rows);
        let reach = options.details.then(|| ServersReach::resolve(global, gateway.config(), true));
        (rows, reach.map(|reach| reach.lines).unwrap_or_default(), failures)
    };
    if options.details {
        reached.extend(start_methods::lines(gateway));
    }
    let snapshot = gateway.snapshot();
    let rules = rules.filter(|_| options.connects);
    let mut server_warnings: Vec<_> =
        rules.map(|config| log_isolation::findings(config, &snapshot)).unwrap_or_default();
    if options.connects {
        server_warnings.extend(definition_remarks::violations(gateway.config(), &snapshot));
    }
    let definitions =
        options.connects.then(|| definition_remarks::look(gateway.config(), &snapshot));
    ServerInspection {
        servers,
        reached,
        failures,
        hidden: hidden_primitives(gateway.config(), &snapshot),
        server_warnings,
        definitions: definitions.unwrap_or_default(),
    }
}

fn configured(config: &Config) -> Vec<ServerRow> {
    let of = |toolbox: &ToolboxConfig, server: &ServerConfig| {
        let mut row = ServerRow::new(&toolbox.name, &server.name);
        match &server.launch {
            Launch::Stdio(launch) => {
                row.status = CheckStatus::Configured;
                row.command = Some(program(&launch.command));
            }
            Launch::Http(launch) => {
                row.status = CheckStatus::Configured;
                // The rest of a URL may contain a secret.
                row.command = Some(launch.url.origin().ascii_serialization());
            }
            Launch::Unsupported { reason, hint } => {
                row.status = CheckStatus::Unsupported;
                row.reason = Some(reason.clone());
                row.hint = Some(hint.clone());
            }
            Launch::Broken { reason, hint } => {
                row.status = CheckStatus::Failed;
                row.reason = Some(reason.clone());
                row.hint = Some(hint.clone());
            }
            Launch::Macros(macros) => {
                row.status = CheckStatus::Configured;
                row.command = Some(format_count(macros.len(), "macro"));
            }
        }
        row
    };
    let toolboxes = config.toolboxes.iter();
    toolboxes
        .flat_map(|toolbox| toolbox.servers.iter().map(move |server| of(toolbox, server)))
        .collect()
}

fn program(command: &str) -> String {
    let name = Path::new(command).file_name();
    name.map_or(command.into(), OsStr::to_string_lossy).into()
}

/// Starts all servers. Tells of each as soon as it has started or failed, if there are several.
async fn connect(gateway: &Gateway, is_shown: bool) -> (Vec<ServerRow>, Vec<String>) {
    let toolboxes: Vec<_> = gateway.config().toolboxes.iter().collect();
    let servers = toolboxes.iter().map(|toolbox| toolbox.servers.len()).sum::<usize>();
    let tell = |start: &StartReport| {
        if is_shown && servers > 1 {
            let outcome = match &start.failure {
                None => "started",
                Some(failure) if failure.wants_sign_in => "requires sign-in",
                Some(_) => "failed",
            };
            let (toolbox, server, ms) = (&start.toolbox, &start.server, start.took.as_millis());
            print::progress(&format!("`{toolbox}/{server}` {outcome} after {ms} ms"));
        }
    };
    let starts = startup::start_servers_with(gateway, &toolboxes, |_| true, tell).await;
    let snapshot = gateway.snapshot();
    let mut servers = configured(gateway.config());
    for (row, start) in servers.iter_mut().zip(&starts) {
        if row.status == CheckStatus::Configured {
            row.start_ms = Some(start.took.as_millis());
        }
        match &start.failure {
            None => {
                let (tools, size) = shown(&snapshot, &start.toolbox, &start.server);
                row.status = CheckStatus::Started;
                row.tools = Some(tools);
                row.size = Some(size);
            }
            Some(failure) => {
                if row.status == CheckStatus::Configured {
                    row.status = if failure.wants_sign_in {
                        CheckStatus::SignInRequired
                    } else {
                        CheckStatus::Failed
                    };
                }
                row.reason = Some(failure.reason.clone());
                row.hint = Some(failure.hint.clone());
            }
        }
    }
    (servers, starts.iter().filter_map(StartReport::failure_text).collect())
}

/// Returns warnings about tools that are hidden: by another one of the same name, by a macro that
/// calls a missing tool, or by definition drift.
fn hidden_primitives(config: &Config, snapshot: &Snapshot) -> Vec<String> {
    let eclipsed = config.toolboxes.iter().flat_map(|toolbox| {
        let view = snapshot.view(&toolbox.name);
        let eclipsed = view.parts().iter().flat_map(|part| {
            part.eclipsed.iter().map(|(own, name)| {
                let place = format!("{}/{}", toolbox.name, part.server());
                format!("tool `{own}` of `{place}` is hidden: the name `{name}` is taken")
            })
        });
        eclipsed.collect::<Vec<_>>()
    });
    let discarded = snapshot.namespaced().discarded.iter().map(ToString::to_string);
    let lacking = snapshot.unavailable_macros().iter().map(ToString::to_string);
    eclipsed.chain(discarded).chain(lacking).chain(drifted(config, snapshot)).collect()
}

fn drifted(config: &Config, snapshot: &Snapshot) -> Vec<String> {
    let drifted = config.servers().filter_map(|(toolbox, server)| {
        let at = ServerRef { toolbox: toolbox.name.clone(), server: server.name.clone() };
        let judged = snapshot.drift(&at)?;
        let becomes = match judged.action {
            DriftAction::Serve => "agents still see them",
            DriftAction::Quarantine => "new and changed ones are hidden",
            DriftAction::Deny => "the server is blocked",
        };
        let definitions = format_count(judged.drift.len(), "definition");
        let verb = if judged.drift.len() == 1 { "differs" } else { "differ" };
        Some(format!(
            "{definitions} of `{}/{}` {verb} from `workbench.lock`; {becomes} \
             (`onDefinitionChange`). Review with `mcp-workbench lock --diff`, accept with `{}`",
            toolbox.name,
            server.name,
            judged.accepting()
        ))
    });
    drifted.collect()
}

/// Returns the number of a server's tools that an agent sees, and the size of their definitions.
fn shown(snapshot: &Snapshot, toolbox: &ToolboxName, server: &ServerName) -> (usize, ContextSize) {
    let view = snapshot.view(toolbox);
    let tools = view.tools_of(server).iter();
    let sizes: Vec<_> = tools.map(|tool| ContextSize::of(tool.definition.raw.len())).collect();
    (sizes.len(), sizes.into_iter().sum())
}
