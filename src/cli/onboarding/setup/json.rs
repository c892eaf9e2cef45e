//! The JSON output of `setup`.

use std::path::Path;

use serde::Serialize;

use crate::authoring::service::ServiceManager;
use crate::cli::onboarding::setup::apply::ApplyOutcome;
use crate::cli::onboarding::setup::client_plan::ClientPlan as Planned;
use crate::cli::onboarding::setup::plan::SetupPlan;
use crate::cli::onboarding::setup::startup_size::StartupSizes;
use crate::cli::onboarding::toolbox_proposal::{ToolboxProposal, ToolboxRow};
use crate::cli::output::ContextSize;

#[derive(Serialize)]
pub(super) struct SetupReport<'a> {
    configuration: &'a Path,
    /// `true` if the plan was applied.
    applied: bool,
    toolboxes: Vec<ToolboxRow<'a>>,
    new_secrets: usize,
    /// The audit log that the setup turns on.
    #[serde(skip_serializing_if = "Option::is_none")]
    audit_log: Option<String>,
    /// The rules of clients that are carried over, or not.
    rules: &'a [String],
    clients: Vec<Client<'a>>,
    unreadable: Vec<Unreadable<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service: Option<Service<'a>>,
}

#[derive(Serialize)]
struct Service<'a> {
    address: String,
    manager: ServiceManager,
    name: &'a str,
    /// Variables that differ between clients, and so keep them from sharing servers.
    variables: &'a [String],
}

#[derive(Serialize)]
struct Client<'a> {
    id: &'static str,
    title: &'static str,
    file: &'a Path,
    entry: Option<&'a str>,
    removed: Vec<&'a str>,
    skipped: Vec<SkippedServer<'a>>,
    /// `true` if the file needed a change and writing it did not fail.
    changed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<&'a str>,
    /// The tool definitions of the servers that the workbench replaces.
    size_before: ContextSize,
    /// The tool definitions and instructions that the client's model now reads at startup.
    #[serde(skip_serializing_if = "Option::is_none")]
    size_now: Option<ContextSize>,
}

#[derive(Serialize)]
struct SkippedServer<'a> {
    server: &'a str,
    reason: &'a str,
}

#[derive(Serialize)]
struct Unreadable<'a> {
    title: &'static str,
    file: &'a str,
    reason: &'a str,
}

impl<'a> SetupReport<'a> {
    pub(super) fn new(
        plan: &'a SetupPlan,
        done: Option<(&'a ApplyOutcome, Option<&StartupSizes>)>,
    ) -> Self {
        let failed = |index| {
            let failed = done.iter().flat_map(|(done, _)| &done.failed);
            failed.into_iter().find(|(other, _)| *other == index).map(|(_, why)| why.as_str())
        };
        let clients = plan.clients.iter().enumerate();
        let sizes = done.and_then(|(_, starts)| starts);
        let clients = clients.map(|(index, planned)| Client {
            size_now: sizes.and_then(|sizes| sizes.get(planned.file.program.id).copied()?),
            ..client(planned, failed(index))
        });
        let unreadable = plan.unreadable.iter();
        Self {
            configuration: &plan.config.location.path,
            applied: done.is_some(),
            toolboxes: plan.imported.proposed.iter().map(ToolboxProposal::row).collect(),
            new_secrets: plan.secrets.new_count,
            audit_log: plan.new_audit_log(),
            rules: &plan.imported.rules,
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
        }
    }
}

fn client<'a>(planned: &'a Planned, failed: Option<&'a str>) -> Client<'a> {
    let changed = planned.change.as_ref().ok();
    let removed = changed.iter().flat_map(|changed| &changed.removed);
    let skipped = planned.skipped.iter().map(|(server, reason)| SkippedServer { server, reason });
    Client {
        id: planned.file.program.id,
        title: planned.file.program.title,
        file: &planned.file.path,
        entry: changed.and_then(|changed| changed.entry.as_deref()),
        removed: removed.map(|removed| removed.name.as_str()).collect(),
        skipped: skipped.collect(),
        changed: planned.new_text().is_some() && failed.is_none(),
        problem: failed.or(planned.change.as_ref().err().map(String::as_str)),
        size_before: planned.size,
        size_now: None,
    }
}
