//! `setup status`: which clients start the workbench, and what they start beside it.

use std::path::Path;
use std::process::ExitCode;

use serde::Serialize;

use crate::authoring::service::Manager;
use crate::authoring::setup::servers::Place;
use crate::cli::error::Error;
use crate::cli::setup::clients::{self, Here};
use crate::cli::setup::{kept, plan};
use crate::cli::table::{Align, Table};
use crate::cli::{Global, block_on, print, service};
use crate::config::env::ProcessEnv;
use crate::os::Platform;

/// Show which clients start the workbench, and what they start beside it
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// One client's file.
#[derive(Debug, Serialize)]
struct State {
    client: &'static str,
    file: String,
    /// The name of our entry.
    entry: Option<String>,
    /// Everything else that it starts.
    servers: Vec<String>,
    /// Why nothing is known of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

/// Everything there is to say.
#[derive(Debug, Serialize)]
struct Status {
    configuration: String,
    exists: bool,
    /// Files that `undo` would change.
    undo: Vec<String>,
    clients: Vec<State>,
    /// The service that they share, if one was set up.
    #[serde(skip_serializing_if = "Option::is_none")]
    service: Option<ServiceState>,
}

/// The service.
#[derive(Debug, Serialize)]
struct ServiceState {
    address: String,
    manager: Manager,
    name: String,
    runs: bool,
}

/// Shows it.
pub(super) fn run(global: &Global, args: &Args) -> Result<ExitCode, Error> {
    let folder = std::env::current_dir().map_err(Error::internal)?;
    let target = plan::target(global, &folder)?;
    let journal = kept::journal()?.unwrap_or_default();
    let Here { files, unreadable } = clients::find(Platform::THIS, &ProcessEnv, &folder, &[]);
    let mut states: Vec<State> = Vec::new();
    for file in files {
        let text = file.text.as_deref().unwrap_or_default();
        let (entries, problem) = match Place::of(file.program).entries(text) {
            Ok(entries) => (entries, None),
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        let path = file.path.display().to_string();
        let record = journal.files.iter().find(|record| record.path == path);
        let entry = record.and_then(|record| Some(record.entry.as_ref()?.0.clone()));
        let entry = entry.filter(|name| entries.iter().any(|(other, _)| other == name));
        let servers = entries.into_iter().map(|(name, _)| name);
        let servers = servers.filter(|name| Some(name) != entry.as_ref()).collect();
        states.push(State {
            client: file.program.title,
            file: file.shown,
            entry,
            servers,
            problem,
        });
    }
    states.extend(unreadable.into_iter().map(|(program, file, why)| State {
        client: program.title,
        file,
        entry: None,
        servers: Vec::new(),
        problem: Some(why),
    }));
    let status = Status {
        configuration: target.shown.display().to_string(),
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

fn service_of(config: &Path) -> Result<Option<ServiceState>, Error> {
    let Some(service) = service::read(config)? else { return Ok(None) };
    let runs = block_on(service::answers(&service))?;
    let address = service.url();
    Ok(Some(ServiceState { address, manager: service.manager, name: service.name, runs }))
}

fn report(status: &Status) -> String {
    let mut table = Table::new([
        ("Client", Align::Left),
        ("File", Align::Left),
        ("Workbench", Align::Left),
        ("Other servers", Align::Left),
    ]);
    for State { client, file, entry, servers, problem } in &status.clients {
        let entry = match (entry, problem) {
            (Some(name), _) => format!("as `{name}`"),
            (None, Some(_)) => "?".to_owned(),
            (None, None) => "no".to_owned(),
        };
        let others = problem.clone().unwrap_or_else(|| servers.join(", "));
        let cells =
            [(*client).to_owned(), print::printable(file), entry, print::printable(&others)];
        table.row(cells);
    }
    let there = if status.exists { "" } else { ", which is not there yet" };
    let undo = if status.undo.is_empty() {
        "hint: `mcp-workbench setup` puts the workbench into them"
    } else {
        "hint: `mcp-workbench setup` takes over what has come since, `setup undo` takes all of it back"
    };
    let service = status.service.as_ref().map(|service| {
        let runs = if service.runs { "runs" } else { "does not run" };
        let name = &service.name;
        let by = match service.manager {
            Manager::Systemd => format!("systemd has it as `{name}`"),
            Manager::Launchd => format!("launchd has it as `{name}`"),
            Manager::Tasks => format!("the task scheduler has it as `{name}`"),
            Manager::Nobody => "clients start it when they want it".to_owned(),
        };
        format!("\nservice: {} {runs}; {by}", service.address)
    });
    let service = service.unwrap_or_default();
    format!("configuration: `{}`{there}{service}\n\n{table}\n\n{undo}", status.configuration)
}
