//! What the gateway's agents see: the current snapshot, and the states of servers that follow from
//! it.

use std::sync::Arc;
use std::time::SystemTime;

use tokio::sync::watch;

use crate::backend::RpcOutcome;
use crate::catalog::{Listing, ServerCapabilities, ToolDefinition};
use crate::gateway::argument_hints;
use crate::gateway::error::{CallError, FailedServer};
use crate::gateway::managed_server::{ManagedServer, ServerEntry};
use crate::gateway::scope::GatewayScope;
use crate::gateway::servers::Servers;
use crate::gateway::snapshot::Snapshot;
use crate::gateway::tool_files::{ToolFile, ToolFiles};
use mcp_workbench_names::{ServerRef, ToolId};
use mcp_workbench_settings::ToolboxConfig;
use mcp_workbench_wire::json::RawJson;

/// Maximum number of names that an error suggests.
pub(crate) const OFFERED: usize = 5;

/// Availability of a tool that is given by its server's own name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolAvailability {
    /// Listed and visible under this id.
    Shown(ToolId),
    /// Not listed yet, but allowed by policy.
    Unlisted,
    /// Hidden or nonexistent.
    Absent,
}

/// The tools, resources and prompts that the gateway's agents see.
pub struct Views {
    scope: Arc<GatewayScope>,
    servers: Arc<Servers>,
    snapshot: watch::Receiver<Arc<Snapshot>>,
    files: ToolFiles,
}

impl Views {
    pub(crate) fn new(
        scope: &Arc<GatewayScope>,
        servers: &Arc<Servers>,
        snapshot: watch::Receiver<Arc<Snapshot>>,
    ) -> Self {
        let files = ToolFiles::default();
        Self { scope: Arc::clone(scope), servers: Arc::clone(servers), snapshot, files }
    }

    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.borrow().clone()
    }

    pub fn snapshots(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.snapshot.clone()
    }

    /// Waits until the stored listings are loaded, which takes milliseconds. Starts no servers.
    pub async fn wait_for_stored_listings(&self) {
        // Fails only if the writer is gone, and then there is nothing to wait for.
        let _ = self.snapshots().wait_for(|snapshot| snapshot.has_loaded_store()).await;
    }

    /// Returns the servers without a current or stored listing, in configuration order, except
    /// those that can't be started at all. Call [`Self::wait_for_stored_listings`] first.
    pub fn unlisted(&self) -> Vec<ServerRef> {
        let snapshot = self.snapshot();
        let is_unlisted =
            |(_, server): &(ServerRef, &ManagedServer)| !snapshot.has_listed(server.shared.id());
        self.servers.servers_in_order().filter(is_unlisted).map(|(at, _)| at).collect()
    }

    /// Returns the servers shown with a stored listing and when that was last confirmed, in
    /// configuration order.
    pub fn stored_listings(&self) -> Vec<(ServerRef, SystemTime)> {
        let snapshot = self.snapshot();
        let since = |(server_ref, server): (ServerRef, &ManagedServer)| {
            Some((server_ref, snapshot.stored_at(server.shared.id())?))
        };
        self.servers.servers_in_order().filter_map(since).collect()
    }

    /// Returns the servers that were never listed, can't be started or have crashed, in
    /// configuration order.
    pub fn unavailable_servers(&self) -> Vec<ServerRef> {
        let snapshot = self.snapshot();
        let is_missing = |at: &ServerRef| match self.servers.entries().get(at) {
            Some(ServerEntry::Managed(server)) => {
                !snapshot.has_listed(server.shared.id()) || snapshot.has_crashed(at)
            }
            Some(ServerEntry::Macros(_)) => false,
            Some(ServerEntry::Unavailable(_)) | None => true,
        };
        self.scope.server_refs().filter(is_missing).collect()
    }

    /// Returns the servers of a toolbox that can't be started or whose last start failed, in
    /// configuration order.
    pub fn failed_servers_in(&self, toolbox: &ToolboxConfig) -> Vec<FailedServer> {
        let failures = self.servers.failed_servers().into_iter();
        let of_it = failures.filter(|(server, _)| server.toolbox == toolbox.name);
        of_it.map(|(_, failed)| failed).collect()
    }

    /// Returns `true` if all servers of a toolbox have a current or stored listing and none has
    /// failed since. Call [`Self::wait_for_stored_listings`] first.
    pub fn is_fully_listed(&self, toolbox: &ToolboxConfig) -> bool {
        self.unlisted().iter().all(|server| server.toolbox != toolbox.name)
            && self.failed_servers_in(toolbox).is_empty()
    }

    /// Returns `true` if all servers of a toolbox have a current listing and none has failed.
    pub fn is_current(&self, toolbox: &ToolboxConfig) -> bool {
        self.stored_listings().iter().all(|(server, _)| server.toolbox != toolbox.name)
            && self.is_fully_listed(toolbox)
    }

    /// Returns the running servers that declare tasks, in the order of the configuration.
    pub fn running_servers_with_tasks(&self) -> Vec<ServerRef> {
        let snapshot = self.snapshot();
        let mut running = self.servers.running_servers();
        running.retain(|at| {
            let view = snapshot.view(&at.toolbox);
            view.abilities_of(&at.server).is_some_and(ServerCapabilities::has_tasks)
        });
        running
    }

    /// Returns the visible listing of a server; empty if it is unknown or hidden.
    pub(crate) fn shown_listing(&self, at: &ServerRef) -> Arc<Listing> {
        let view = self.snapshot().view(&at.toolbox);
        view.part(at.server.as_str()).map(|part| Arc::clone(part.listing())).unwrap_or_default()
    }

    pub fn tool_availability(&self, own: &ToolId) -> ToolAvailability {
        let snapshot = self.snapshot();
        let is_listed = match self.servers.entries().get(&own.server_ref()) {
            Some(ServerEntry::Managed(server)) => snapshot.has_listed(server.shared.id()),
            // Macros are always listed.
            Some(ServerEntry::Macros(_)) => true,
            Some(ServerEntry::Unavailable(_)) | None => false,
        };
        if is_listed {
            let view = snapshot.view(&own.toolbox);
            let shown = view
                .tools_of(&own.server)
                .iter()
                .find(|tool| tool.server_definition.name == own.tool);
            return shown
                .map_or(ToolAvailability::Absent, |tool| ToolAvailability::Shown(tool.id.clone()));
        }
        if self.scope.policy.can_grant_unlisted(own, || self.scope.clock.now()) {
            ToolAvailability::Unlisted
        } else {
            ToolAvailability::Absent
        }
    }

    /// The same error for a hidden and a nonexistent tool, so that it doesn't reveal which.
    pub(crate) fn unknown_tool_error(&self, tool: &ToolId) -> CallError {
        let view = self.snapshot().view(&tool.toolbox);
        let of_server = view.tools_of(&tool.server).iter();
        let names: Vec<_> = of_server.map(|shown| shown.id.tool.as_str()).collect();
        let mut nearest = mcp_workbench_names::nearest(&tool.tool, names.iter().copied(), OFFERED);
        if nearest.is_empty() {
            nearest = names.into_iter().take(OFFERED).collect();
        }
        let nearest = nearest.into_iter().map(str::to_owned).collect();
        CallError::UnknownTool { wanted: tool.to_string(), nearest }
    }

    /// Appends a hint to an error if arguments violate the tool's schema: a text block in a tool
    /// result, `data.hint` in a JSON-RPC error. Other outcomes, and errors without a place for the
    /// hint, are returned unchanged.
    pub fn with_argument_hints(
        &self,
        tool: &ToolId,
        arguments: Option<&RawJson>,
        outcome: RpcOutcome,
    ) -> RpcOutcome {
        if !argument_hints::is_error(&outcome) {
            return outcome;
        }
        let view = self.snapshot().view(&tool.toolbox);
        let shown = view.tool(tool.server.as_str(), &tool.tool);
        let mismatches = shown.map(|shown| shown.mismatches(arguments)).unwrap_or_default();
        argument_hints::with_hints(tool, &mismatches, outcome)
    }

    /// Returns the definitions in some catalog files, in the order of `wanted`, each in the form a
    /// server would list it, or an error message.
    pub async fn read_tool_files(
        &self,
        wanted: Vec<ToolFile>,
    ) -> Vec<Result<Arc<ToolDefinition>, String>> {
        self.files.read_all(&self.scope.config, wanted).await
    }
}
