//! `setup status`: shows which clients use the workbench, and their other servers.

use std::path::Path;
use std::process::ExitCode;

use serde::Serialize;
use serde_json::Value;

use crate::authoring::service::ServiceManager;
use crate::authoring::setup::client_file_editor::ClientFileEditor;
use crate::cli::args::GlobalArgs;
use crate::cli::onboarding::setup::clients::{self, InstalledClients};
use crate::cli::onboarding::setup::{plan, state_dir};
use crate::cli::output::{CommandError, Table, print};
use crate::cli::runtime::{block_on, current_folder};
use crate::cli::servers::background_service;
use mcp_workbench_config::env::ProcessEnv;
use mcp_workbench_os::Platform;

/// Show which clients use the workbench, and their other servers
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct ClientStatus {
    client: &'static str,
    file: String,
    entry: Option<String>,
    servers: Vec<String>,
    /// Those of the servers that the client doesn't start.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    disabled: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

#[derive(Debug, Serialize)]
struct SetupStatus {
    configuration: String,
    exists: bool,
    /// The files that `setup undo` would change.
    undo: Vec<String>,
    clients: Vec<ClientStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service: Option<ServiceStatus>,
}

#[derive(Debug, Serialize)]
struct ServiceStatus {
    address: String,
    manager: ServiceManager,
    name: String,
    runs: bool,
}

pub(super) fn run(global: &GlobalArgs, args: &Args) -> Result<ExitCode, CommandError> {
    let folder = current_folder()?;
    let target = plan::target(global, &folder)?;
    let journal = state_dir::journal()?.unwrap_or_default();
    let InstalledClients { files, unreadable } =
        clients::find(Platform::THIS, &ProcessEnv, &folder, &[]);
    let mut states: Vec<ClientStatus> = Vec::new();
    for file in files {
        let text = file.text.as_deref().unwrap_or_default();
        let (entries, problem) = match ClientFileEditor::for_client(file.program).entries(text) {
            Ok(entries) => (entries, None),
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        let path = file.path.display().to_string();
        let record = journal.files.iter().find(|record| record.path == path);
        let entry = record.and_then(|record| Some(record.entry.as_ref()?.0.clone()));
        let entry = entry.filter(|name| entries.iter().any(|(other, _)| other == name));
        let is_off = |value: &Value| {
            value.get("disabled") == Some(&Value::Bool(true))
                || value.get("enabled") == Some(&Value::Bool(false))
        };
        let disabled = entries.iter().filter(|(_, value)| is_off(value));
        let disabled = disabled.map(|(name, _)| name.clone()).collect();
        let servers = entries.into_iter().map(|(name, _)| name);
        let servers = servers.filter(|name| Some(name) != entry.as_ref()).collect();
        states.push(ClientStatus {
            client: file.program.title,
            file: file.shown,
            entry,
            servers,
            disabled,
            problem,
        });
    }
    states.extend(unreadable.into_iter().map(|(program, file, why)| ClientStatus {
        client: program.title,
        file,
        entry: None,
        servers: Vec::new(),
        disabled: Vec::new(),
        problem: Some(why),
    }));
    let status = SetupStatus {
        configuration: target.display_path.display().to_string(),
        exists: target.path.exists(),
        undo: journal.files.iter().map(|record| record.path.clone()).collect(),
        clients: states,
        service: service_of(&target.path)?,
    };
    if args.json {
        print::json(&status)?;
    } else {
        print::prose(&report(&status))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn service_of(config: &Path) -> Result<Option<ServiceStatus>, CommandError> {
    let Some(service) = background_service::read(config)? else { return Ok(None) };
    let runs = block_on(background_service::is_listening(&service))?;
    let address = service.url();
    Ok(Some(ServiceStatus { address, manager: service.manager, name: service.name, runs }))
}

fn report(status: &SetupStatus) -> String {
    let mut table = Table::left(["Client", "File", "Workbench", "Other servers"]);
    for ClientStatus { client, file, entry, servers, disabled, problem } in &status.clients {
        let entry = match (entry, problem) {
            (Some(name), _) => format!("yes, as `{name}`"),
            (None, Some(_)) => "unknown".to_owned(),
            (None, None) => "no".to_owned(),
        };
        let others = problem.clone().unwrap_or_else(|| {
            let shown = servers.iter().map(|name| {
                let mark = if disabled.contains(name) { " (disabled)" } else { "" };
                format!("{name}{mark}")
            });
            shown.collect::<Vec<_>>().join(", ")
        });
        let cells = [
            (*client).to_owned(),
            print::escape_to_line(file),
            entry,
            print::escape_to_line(&others),
        ];
        table.row(cells);
    }
    let there = if status.exists { "" } else { " (not created yet)" };
    let hints = if status.undo.is_empty() {
        "hint: run `mcp-workbench setup` to set up these clients"
    } else {
        "hint: run `mcp-workbench setup` again to move newly added servers to the workbench\n\
         hint: run `mcp-workbench setup undo` to undo everything"
    };
    let service = status.service.as_ref().map(|service| {
        let state = if service.runs { "running" } else { "not running" };
        let name = &service.name;
        let manager = match service.manager {
            ServiceManager::Systemd => format!("systemd: `{name}`"),
            ServiceManager::Launchd => format!("launchd: `{name}`"),
            ServiceManager::TaskScheduler => format!("Task Scheduler: `{name}`"),
            ServiceManager::Unmanaged => "started by clients when needed".to_owned(),
        };
        format!("\nbackground service: {}, {state} ({manager})", service.address)
    });
    let service = service.unwrap_or_default();
    format!("configuration: `{}`{there}{service}\n\n{table}\n\n{hints}", status.configuration)
}
