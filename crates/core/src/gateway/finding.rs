//! The meaning of a name: a toolbox, or a tool that may have to be listed first; and what to offer
//! for a name that means nothing.

use std::sync::Arc;

use crate::backend;
use crate::gateway::lens::qualified;
use crate::gateway::members::Member;
use crate::gateway::opening::while_starting;
use crate::gateway::{CallError, Gateway, RequestContext, Urgency, listed, server_ref};
use crate::name::{self, ServerRef, ToolId};
use crate::policy::Traits;
use crate::settings::ToolboxConfig;

/// The most names that an error offers.
const OFFERED: usize = 5;

/// How a tool stands that is known by its server's own name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Its server has listed it, and it may be seen, by this identity.
    Shown(ToolId),
    /// Its server has not been listed yet; policy lets it through by its name.
    Unlisted,
    /// It is not there for the agent.
    Absent,
}

impl Gateway {
    /// How a tool stands, by its server's own name for it, whether or not that has been listed.
    pub fn standing(&self, own: &ToolId) -> Standing {
        let snapshot = self.snapshot();
        let is_listed = match self.member(&own.toolbox, &own.server) {
            Some(Member::Server(server)) => snapshot.has_listed(server.shared.id()),
            // Nobody has to ask which there are.
            Some(Member::Macros(_)) => true,
            Some(Member::Unsupported(_)) | None => false,
        };
        if is_listed {
            let view = snapshot.view(&own.toolbox);
            let shown = view.tools_of(&own.server).iter().find(|tool| tool.own.name == own.tool);
            return shown.map_or(Standing::Absent, |tool| Standing::Shown(tool.id.clone()));
        }
        let decided = self.policy.decide(own, Traits::default(), || self.clock.now());
        if decided.is_ok() { Standing::Unlisted } else { Standing::Absent }
    }

    /// The toolbox called `name`.
    pub fn toolbox(&self, name: &str) -> Result<&ToolboxConfig, CallError> {
        self.config.toolbox(name).ok_or_else(|| CallError::UnknownToolbox {
            wanted: name.to_owned(),
            known: self.config.toolboxes.iter().map(|t| t.name.to_string()).collect(),
        })
    }

    /// Returns the server that an address of ours names, and its own address for the resource.
    pub fn addressed(&self, uri: &str) -> Option<(ServerRef, String)> {
        let mut servers = self.config.servers().map(|(t, s)| server_ref(&t.name, &s.name));
        servers.find_map(|at| {
            let own = uri.strip_prefix(&name::uri_prefix(&at))?.to_owned();
            Some((at, own))
        })
    }

    /// The tool that a registered name or `server:tool` means. A name of a server that has never been listed is
    /// found by starting the servers that may have it.
    pub async fn resolve(
        &self,
        name: &str,
        context: &RequestContext<'_>,
    ) -> Result<ToolId, CallError> {
        self.recalled().await;
        if let Some(tool) = self.snapshot().resolve(name) {
            return Ok(tool.clone());
        }
        // Whoever calls it finds out whether its server has it.
        if let Some(tool) = qualified(&self.config, name).into_iter().next() {
            return Ok(tool);
        }
        let mut failure = None;
        for toolbox in &self.config.toolboxes {
            let servers = toolbox.servers.iter().map(|server| &server.name);
            for server in servers.filter(|server| name::may_belong_to(name, &toolbox.name, server))
            {
                let server_error = |error| CallError::Server { server: server.clone(), error };
                let backend = match self.member(&toolbox.name, server) {
                    Some(Member::Server(server)) => {
                        match server.backend(context.agent, &self.pool) {
                            Ok(own) => own.attach(context.agent),
                            Err(error) => {
                                failure = failure.or(Some(server_error(error)));
                                continue;
                            }
                        }
                        &server.shared
                    }
                    Some(Member::Unsupported(why)) => {
                        let error = backend::Error::StartFailed(Arc::clone(why));
                        failure = failure.or(Some(server_error(error)));
                        continue;
                    }
                    Some(Member::Macros(_)) | None => continue,
                };
                if self.snapshot().version(backend.id()) > 0 {
                    continue;
                }
                let agent = context.agent.clone();
                let started = listed(backend, self.snapshots(), agent, Urgency::Call);
                match while_starting(server, context, started).await {
                    Ok(()) => {
                        if let Some(tool) = self.snapshot().resolve(name) {
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

    /// Says the same of a tool that is forbidden and of one that does not exist.
    pub(crate) fn unknown_tool(&self, tool: &ToolId) -> CallError {
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
