//! Resolves names to toolboxes, servers and tools, and suggests alternatives for unknown names.

use std::sync::Arc;

use crate::backend;
use crate::gateway::lens::qualified;
use crate::gateway::managed_server::ServerEntry;
use crate::gateway::open_toolbox::while_starting;
use crate::gateway::{
    CallError, Gateway, RequestContext, StartPriority, server_ref, wait_until_listed,
};
use crate::name::{self, ServerRef, ToolId};
use crate::settings::ToolboxConfig;

/// Maximum number of names that an error suggests.
const OFFERED: usize = 5;

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

impl Gateway {
    pub fn tool_availability(&self, own: &ToolId) -> ToolAvailability {
        let snapshot = self.snapshot();
        let is_listed = match self.server_entry(&own.toolbox, &own.server) {
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
        if self.policy.can_grant_unlisted(own, || self.clock.now()) {
            ToolAvailability::Unlisted
        } else {
            ToolAvailability::Absent
        }
    }

    /// Returns the toolbox named `name`, or an error that lists the known ones.
    pub fn toolbox(&self, name: &str) -> Result<&ToolboxConfig, CallError> {
        self.config.toolbox(name).ok_or_else(|| CallError::UnknownToolbox {
            wanted: name.to_owned(),
            known: self.config.toolboxes.iter().map(|t| t.name.to_string()).collect(),
        })
    }

    /// Splits a workbench URI into the server and the server's own resource URI.
    pub fn resolve_own_uri(&self, uri: &str) -> Option<(ServerRef, String)> {
        let mut servers = self.config.servers().map(|(t, s)| server_ref(&t.name, &s.name));
        servers.find_map(|at| {
            let own = uri.strip_prefix(&name::uri_prefix(&at))?.to_owned();
            Some((at, own))
        })
    }

    /// Resolves a registered name or `server:tool`. If no listed tool has the name, starts the
    /// unlisted servers that may have it.
    pub async fn resolve(
        &self,
        name: &str,
        context: &RequestContext<'_>,
    ) -> Result<ToolId, CallError> {
        self.wait_for_stored_listings().await;
        if let Some(tool) = self.snapshot().resolve_registered(name) {
            return Ok(tool.clone());
        }
        // Not verified: the call fails if the server lacks the tool.
        if let Some(tool) = qualified(&self.config, name).into_iter().next() {
            return Ok(tool);
        }
        let mut failure = None;
        for toolbox in &self.config.toolboxes {
            let servers = toolbox.servers.iter().map(|server| &server.name);
            for server in servers.filter(|server| name::may_belong_to(name, &toolbox.name, server))
            {
                let server_error = |error| CallError::Server { server: server.clone(), error };
                let backend = match self.server_entry(&toolbox.name, server) {
                    Some(ServerEntry::Managed(server)) => {
                        match server.backend(context.agent, &self.pool) {
                            Ok(own) => own.attach(context.agent),
                            Err(error) => {
                                failure = failure.or(Some(server_error(error)));
                                continue;
                            }
                        }
                        &server.shared
                    }
                    Some(ServerEntry::Unavailable(why)) => {
                        let error = backend::BackendError::StartFailed(Arc::clone(why));
                        failure = failure.or(Some(server_error(error)));
                        continue;
                    }
                    Some(ServerEntry::Macros(_)) | None => continue,
                };
                if self.snapshot().version(backend.id()) > 0 {
                    continue;
                }
                let agent = context.agent.clone();
                let started =
                    wait_until_listed(backend, self.snapshots(), agent, StartPriority::Call);
                match while_starting(server, context, started).await {
                    Ok(()) => {
                        if let Some(tool) = self.snapshot().resolve_registered(name) {
                            return Ok(tool.clone());
                        }
                    }
                    Err(error) => {
                        failure = failure.or(Some(server_error(error)));
                    }
                }
            }
        }
        if let Some(failure) = failure {
            return Err(failure);
        }
        let snapshot = self.snapshot();
        let names = snapshot.names().map(name::ExposedName::as_str);
        Err(CallError::UnknownTool {
            wanted: name.to_owned(),
            nearest: to_strings(name::nearest(name, names, OFFERED)),
        })
    }

    /// The same error for a hidden and a nonexistent tool, so that it doesn't reveal which.
    pub(crate) fn unknown_tool_error(&self, tool: &ToolId) -> CallError {
        let view = self.snapshot().view(&tool.toolbox);
        let of_server = view.tools_of(&tool.server).iter();
        let names: Vec<_> = of_server.map(|shown| shown.id.tool.as_str()).collect();
        let mut nearest = name::nearest(&tool.tool, names.iter().copied(), OFFERED);
        if nearest.is_empty() {
            nearest = names.into_iter().take(OFFERED).collect();
        }
        CallError::UnknownTool { wanted: tool.to_string(), nearest: to_strings(nearest) }
    }
}

fn to_strings(names: Vec<&str>) -> Vec<String> {
    names.into_iter().map(str::to_owned).collect()
}
