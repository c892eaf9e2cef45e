//! Starts servers for reports. A server is stopped once it is listed, so that few run at a time.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::cli::output::{Spinner, print};
use mcp_workbench_core::catalog::{ToolDefinition, shorten};
use mcp_workbench_core::gateway::{AgentHandle, FailedServer, Gateway, Snapshot, StartPriority};
use mcp_workbench_names::{ServerName, ServerRef, ToolboxName};
use mcp_workbench_settings::ToolboxConfig;

/// In characters.
const SPINNER: usize = 70;

#[derive(Deserialize, Serialize)]
pub(crate) struct StartReport {
    pub(crate) toolbox: ToolboxName,
    pub(crate) server: ServerName,
    /// The time until the tool list or the failure.
    pub(crate) took: Duration,
    pub(crate) failure: Option<FailedServer>,
}

impl StartReport {
    /// Returns the reason and the hint. All lines but the first are indented.
    pub(crate) fn failure_text(&self) -> Option<String> {
        let FailedServer { reason, hint, wants_sign_in, .. } = self.failure.as_ref()?;
        if *wants_sign_in {
            let (toolbox, server) = (&self.toolbox, &self.server);
            return Some(format!("`{toolbox}/{server}` requires sign-in\n  hint: {hint}"));
        }
        Some(format!(
            "`{}/{}` failed to start: {}\n  hint: {}",
            self.toolbox,
            self.server,
            reason.replace('\n', "\n    "),
            hint.replace('\n', "\n        "),
        ))
    }
}

/// Prints a line for each failed server, and how to see the details.
pub(crate) fn warn_of_failures(starts: &[StartReport]) {
    let mut failed = Vec::new();
    for start in starts {
        let Some(failure) = &start.failure else { continue };
        let place = format!("{}/{}", start.toolbox, start.server);
        let line = if failure.wants_sign_in {
            format!("`{place}` requires sign-in: {}", failure.hint)
        } else {
            failed.push(start);
            // The last lines of its stderr follow in the details.
            let reason = failure.reason.lines().next().unwrap_or_default();
            let reason = reason.split("; last lines of ").next().unwrap_or_default();
            format!("`{place}` failed to start: {}", reason.trim_end_matches(':'))
        };
        print::note(&format!("warning: {line}"));
    }
    match failed.as_slice() {
        [] => {}
        [only] => print::note(&format!(
            "hint: run `mcp-workbench check --connect {}/{}` to see the details",
            only.toolbox, only.server
        )),
        _ => print::note(&"hint: run `mcp-workbench check --connect` to see the details"),
    }
}

/// How to start servers for a report.
pub(crate) struct StartMode<S> {
    is_shared: bool,
    status: S,
}

impl<S: Fn(String)> StartMode<S> {
    /// `is_shared` if agents use the servers, too, so that they have to keep running. `status` shows
    /// the progress.
    pub(crate) fn new(is_shared: bool, status: S) -> Self {
        Self { is_shared, status }
    }
}

/// Starts the wanted servers, waits for each up to its configured timeout, and stops those that are
/// listed. Returns once the listings are cached.
pub(crate) async fn start_servers(
    gateway: &Gateway,
    toolboxes: &[&ToolboxConfig],
    is_wanted: impl Fn(&ServerRef) -> bool,
) -> Vec<StartReport> {
    start_servers_with(gateway, toolboxes, is_wanted, |_| {}).await
}

/// Like `start_servers`, and calls `look` before a server is stopped.
pub(crate) async fn start_servers_with(
    gateway: &Gateway,
    toolboxes: &[&ToolboxConfig],
    is_wanted: impl Fn(&ServerRef) -> bool,
    look: impl FnMut(&StartReport),
) -> Vec<StartReport> {
    let spinner = Spinner::new("");
    let mode = StartMode::new(false, |text: String| spinner.say(&text));
    start_all(gateway, toolboxes, is_wanted, mode, look).await
}

/// Like `start_servers`, as `mode` says.
pub(crate) async fn start_servers_in(
    gateway: &Gateway,
    toolboxes: &[&ToolboxConfig],
    is_wanted: impl Fn(&ServerRef) -> bool,
    mode: StartMode<impl Fn(String)>,
) -> Vec<StartReport> {
    start_all(gateway, toolboxes, is_wanted, mode, |_| {}).await
}

async fn start_all(
    gateway: &Gateway,
    toolboxes: &[&ToolboxConfig],
    is_wanted: impl Fn(&ServerRef) -> bool,
    mode: StartMode<impl Fn(String)>,
    mut look: impl FnMut(&StartReport),
) -> Vec<StartReport> {
    let mut starting = JoinSet::new();
    let mut waiting = Vec::new();
    let no_agent = AgentHandle::new(None);
    for toolbox in toolboxes {
        for server in &toolbox.servers {
            let server_ref =
                ServerRef { toolbox: toolbox.name.clone(), server: server.name.clone() };
            if !is_wanted(&server_ref) {
                continue;
            }
            let index = waiting.len();
            waiting.push(Some(format!("{}/{}", server_ref.toolbox, server_ref.server)));
            let start = gateway.startup().start(&server_ref, &no_agent, StartPriority::Background);
            let began = Instant::now();
            starting.spawn(async move {
                let failure = start.await.err();
                let ServerRef { toolbox, server } = server_ref;
                let start = StartReport { toolbox, server, took: began.elapsed(), failure };
                (index, start)
            });
        }
    }
    let mut starts = Vec::new();
    loop {
        let left: Vec<&str> = waiting.iter().flatten().map(String::as_str).collect();
        if !left.is_empty() {
            (mode.status)(shorten(&format!("waiting for {}", left.join(", ")), SPINNER));
        }
        match starting.join_next().await {
            None => break,
            Some(Ok((index, start))) => {
                look(&start);
                if !mode.is_shared {
                    gateway.servers().recycle_server(&start.toolbox, &start.server);
                }
                waiting[index] = None;
                starts.push((index, start));
            }
            Some(Err(error)) => tracing::error!(%error, "the task that starts a server failed"),
        }
    }
    gateway.servers().flush_listings().await;
    starts.sort_by_key(|(index, _)| *index);
    starts.into_iter().map(|(_, start)| start).collect()
}

/// Returns the tools of a server with their original definitions.
pub(crate) fn listed_tools(snapshot: &Snapshot, at: &ServerRef) -> Vec<Arc<ToolDefinition>> {
    let view = snapshot.view(&at.toolbox);
    view.tools_of(&at.server).iter().map(|tool| Arc::clone(&tool.server_definition)).collect()
}
