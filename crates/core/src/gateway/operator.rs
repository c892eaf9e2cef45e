//! Operator actions on servers: start, stop, restart, pause and resume, for all agents. A server
//! has a backend for each capability set and may have one for each agent.

use std::collections::HashSet;

use foldhash::HashMap;
use tokio::task::JoinSet;

use crate::backend::{Backend, BackendError, BackendStatus, Phase, ServerTransport, StartPriority};
use crate::gateway::error::failed;
use crate::gateway::registry::GatewayRegistry;
use crate::gateway::{Caller, FailedServer, Gateway};
use crate::name::ServerRef;

#[derive(Default)]
struct ServerBackends {
    all: Vec<Backend>,
    /// The backends that connected agents would use.
    wanted: Vec<Backend>,
    reaches: Vec<ServerTransport>,
}

impl GatewayRegistry {
    /// Returns the combined status of each server's backends.
    pub fn backend_statuses(&self) -> HashMap<ServerRef, BackendStatus> {
        let mut conditions: HashMap<ServerRef, BackendStatus> = HashMap::default();
        let mut seen = HashSet::new();
        let paused = self.pool().paused();
        for (gateway, _) in self.all() {
            for (at, server) in gateway.servers_in_order() {
                server.for_each_backend(|backend| {
                    // Gateways share backends: count each once.
                    if !seen.insert((at.clone(), backend.id())) {
                        return;
                    }
                    let mut condition = backend.status();
                    condition.is_paused = paused.has(&server.spec().reach);
                    let known = conditions.remove(&at).unwrap_or_default();
                    conditions.insert(at.clone(), known.and(condition));
                });
            }
        }
        for (at, backend) in self.eager_backends() {
            if seen.insert((at.clone(), backend.id())) {
                let known = conditions.remove(&at).unwrap_or_default();
                conditions.insert(at, known.and(backend.status()));
            }
        }
        conditions
    }

    /// Starts a server for the connected agents, or else for the next one of `caller`.
    pub async fn start_server(&self, at: &ServerRef, caller: &Caller) -> Result<(), FailedServer> {
        self.start_links(at, self.links(at, Some(caller)).wanted).await
    }

    /// Stops a server for everyone. The next request starts it again.
    pub async fn stop_server(&self, at: &ServerRef) {
        halt(self.links(at, None).all).await;
    }

    /// Stops a server, then starts the backends that were running.
    pub async fn restart(&self, at: &ServerRef, caller: &Caller) -> Result<(), FailedServer> {
        let ServerBackends { all, wanted, .. } = self.links(at, Some(caller));
        let running: Vec<_> = all
            .iter()
            .filter(|backend| backend.status().phase >= Phase::Starting)
            .cloned()
            .collect();
        halt(all).await;
        self.start_links(at, if running.is_empty() { wanted } else { running }).await
    }

    /// Stops a server and prevents further starts, or allows them again.
    pub async fn set_paused(&self, at: &ServerRef, is_paused: bool) {
        let links = self.links(at, None);
        for reach in &links.reaches {
            self.pool().paused().set(reach, is_paused);
        }
        if is_paused {
            halt(links.all).await;
        }
    }

    async fn start_links(&self, at: &ServerRef, links: Vec<Backend>) -> Result<(), FailedServer> {
        let mut starting = JoinSet::new();
        for backend in links {
            starting.spawn(async move {
                backend.ensure_running(None, StartPriority::Opening).await.map(drop)
            });
        }
        let mut started = Ok(());
        while let Some(one) = starting.join_next().await {
            let one = one.unwrap_or(Err(BackendError::ShuttingDown));
            started = started.and(one.map_err(|error| failed(&at.server, &error)));
        }
        started
    }

    /// Returns the backends of a server. If no agent is connected, includes those that `caller`
    /// would use.
    fn links(&self, at: &ServerRef, caller: Option<&Caller>) -> ServerBackends {
        let mut links = ServerBackends::default();
        for (gateway, is_followed) in self.all() {
            links.add(&gateway, at, is_followed);
        }
        if let Some(caller) = caller.filter(|_| links.wanted.is_empty()) {
            links.add(&self.any_gateway_for(caller), at, true);
        }
        let kept = self.eager_backends().into_iter().filter(|(kept, _)| kept == at);
        links.all.extend(kept.map(|(_, backend)| backend));
        links
    }
}

impl ServerBackends {
    fn add(&mut self, gateway: &Gateway, at: &ServerRef, is_wanted: bool) {
        let Some(server) = gateway.managed_server(&at.toolbox, &at.server) else { return };
        let is_new = |links: &[Backend], backend: &Backend| {
            links.iter().all(|other| other.id() != backend.id())
        };
        server.for_each_backend(|backend| {
            if is_new(&self.all, backend) {
                self.all.push(backend.clone());
            }
        });
        if is_wanted && is_new(&self.wanted, &server.shared) {
            self.wanted.push(server.shared.clone());
        }
        if !self.reaches.contains(&server.spec().reach) {
            self.reaches.push(server.spec().reach.clone());
        }
    }
}

async fn halt(links: Vec<Backend>) {
    let mut halting = JoinSet::new();
    for backend in links {
        halting.spawn(async move { backend.stop().await });
    }
    while halting.join_next().await.is_some() {}
}
