//! A setup, for those who read JSON.

use std::path::Path;

use serde::Serialize;

use crate::authoring::service::Manager;
use crate::cli::setup::carry::Done;
use crate::cli::setup::plan::{Client as Planned, Plan};
use crate::cli::size::Size;

/// The plan, and what came of it.
#[derive(Serialize)]
pub(super) struct Setup<'a> {
    configuration: &'a Path,
    /// `true` if it was carried out.
    done: bool,
    toolboxes: Vec<Toolbox<'a>>,
    new_secrets: usize,
    clients: Vec<Client<'a>>,
    unreadable: Vec<Unreadable<'a>>,
    /// The service that they share.
    #[serde(skip_serializing_if = "Option::is_none")]
    service: Option<Service<'a>>,
    /// The size of what each client reads at the start from now on.
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<&'a Size>,
}

#[derive(Serialize)]
struct Service<'a> {
    address: String,
    manager: Manager,
    name: &'a str,
    /// Variables that each client has for itself, so that none shares servers.
    variables: &'a [String],
}

#[derive(Serialize)]
struct Toolbox<'a> {
    name: &'a str,
    description: &'a str,
    servers: Vec<&'a str>,
    tools: usize,
    #[serde(flatten)]
    size: Size,
}

#[derive(Serialize)]
struct Client<'a> {
    id: &'static str,
    title: &'static str,
    file: &'a Path,
    /// The name of our entry.
    entry: Option<&'a str>,
    taken: Vec<&'a str>,
    left: Vec<Left<'a>>,
    /// `true` if its file differs from the plan, and it could be written if that was tried.
    changed: bool,
    /// Why it is as it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<&'a str>,
    /// The definitions of the tools that were taken over.
    before: Size,
}

#[derive(Serialize)]
struct Left<'a> {
    server: &'a str,
    reason: &'a str,
}

#[derive(Serialize)]
struct Unreadable<'a> {
    title: &'static str,
    file: &'a str,
    reason: &'a str,
}

impl<'a> Setup<'a> {
    pub(super) fn new(plan: &'a Plan, done: Option<(&'a Done, Option<&'a Size>)>) -> Self {
        let toolboxes = plan.proposed.iter().map(|proposed| Toolbox {
            name: &proposed.name,
            description: &proposed.description,
            servers: proposed.servers.iter().map(|(_, name)| name.as_str()).collect(),
            tools: proposed.tools,
            size: Size::of(proposed.bytes),
        });
        let failed = |place| {
            let failed = done.iter().flat_map(|(done, _)| &done.failed);
            failed.into_iter().find(|(other, _)| *other == place).map(|(_, why)| why.as_str())
        };
        let clients = plan.clients.iter().enumerate();
        let clients = clients.map(|(place, planned)| client(planned, failed(place)));
        let unreadable = plan.unreadable.iter();
        Self {
            configuration: &plan.target.path,
            done: done.is_some(),
            toolboxes: toolboxes.collect(),
            new_secrets: plan.new_secrets,
            clients: clients.collect(),
            unreadable: unreadable
                .map(|(title, file, reason)| Unreadable { title, file, reason })
                .collect(),
            service: plan.shared.as_ref().map(|shared| Service {
                address: shared.service.url(),
                manager: shared.service.manager,
                name: &shared.service.name,
                variables: &shared.variables,
            }),
            start: done.and_then(|(_, start)| start),
        }
    }
}

fn client<'a>(planned: &'a Planned, failed: Option<&'a str>) -> Client<'a> {
    let changed = planned.change.as_ref().ok();
    let taken = changed.iter().flat_map(|changed| &changed.taken);
    let left = planned.left.iter().map(|(server, reason)| Left { server, reason });
    Client {
        id: planned.file.program.id,
        title: planned.file.program.title,
        file: &planned.file.path,
        entry: changed.and_then(|changed| changed.entry.as_deref()),
        taken: taken.map(|taken| taken.name.as_str()).collect(),
        left: left.collect(),
        changed: planned.new_text().is_some() && failed.is_none(),
        problem: failed.or(planned.change.as_ref().err().map(String::as_str)),
        before: planned.size,
    }
}
