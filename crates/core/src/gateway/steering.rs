//! Steering: deeds of the user who runs a workbench, on its servers, whichever agents they are for: a server
//! has a process for each class of abilities, and may have one for each agent.

use std::collections::HashSet;

use foldhash::HashMap;
use tokio::task::JoinSet;

use crate::backend::{Backend, Condition, Error, Phase, Reach, Urgency};
use crate::gateway::error::failed;
use crate::gateway::gateways::Gateways;
use crate::gateway::{Caller, FailedServer, Gateway};
use crate::name::ServerRef;

/// The links to a server, and how it is reached.
#[derive(Default)]
struct Links {
    all: Vec<Backend>,
    /// The links that agents who are there would use.
    wanted: Vec<Backend>,
    reaches: Vec<Reach>,
}

impl Gateways {
    /// Returns the condition of each server that anybody may have looked at.
    pub fn conditions(&self) -> HashMap<ServerRef, Condition> {
        let mut conditions: HashMap<ServerRef, Condition> = HashMap::default();
        let mut seen = HashSet::new();
        let muted = self.pool().muted();
        for (gateway, _) in self.all() {
            for (at, server) in gateway.referred() {
                server.all(|backend| {
                    // A process that several look at is one.
                    if !seen.insert((at.clone(), backend.id())) {
                        return;
                    }
                    let mut condition = backend.condition();
                    condition.is_muted = muted.has(&server.spec().reach);
                    let known = conditions.remove(&at).unwrap_or_default();
                    conditions.insert(at.clone(), known.and(condition));
                });
            }
        }
        for (at, backend) in self.kept() {
            if seen.insert((at.clone(), backend.id())) {
                let known = conditions.remove(&at).unwrap_or_default();
                conditions.insert(at, known.and(backend.condition()));
            }
        }
        conditions
    }

    /// Starts a server for the agents that are there; if there is none, for the next one.
    pub async fn begin(&self, at: &ServerRef, caller: &Caller) -> Result<(), FailedServer> {
        self.start_links(at, self.links(at, Some(caller)).wanted).await
    }

    /// Ends a server, for everybody who shares its processes. It starts again when it is wanted.
    pub async fn halt(&self, at: &ServerRef) {
        halt(self.links(at, None).all).await;
    }

    /// Ends a server and starts again what ran of it.
    pub async fn restart(&self, at: &ServerRef, caller: &Caller) -> Result<(), FailedServer> {
        let Links { all, wanted, .. } = self.links(at, Some(caller));
        let running: Vec<_> = all
            .iter()
            .filter(|backend| backend.condition().phase >= Phase::Starting)
            .cloned()
            .collect();
        halt(all).await;
        self.start_links(at, if running.is_empty() { wanted } else { running }).await
    }

    /// Ends a server and lets nobody start it, or lets it be started again.
    pub async fn mute(&self, at: &ServerRef, is_muted: bool) {
        let links = self.links(at, None);
        for reach in &links.reaches {
            self.pool().muted().set(reach, is_muted);
        }
        if is_muted {
            halt(links.all).await;
        }
    }

    async fn start_links(&self, at: &ServerRef, links: Vec<Backend>) -> Result<(), FailedServer> {
        let mut starting = JoinSet::new();
        for backend in links {
            starting.spawn(async move { backend.ready(None, Urgency::Opening).await.map(drop) });
        }
        let mut started = Ok(());
        while let Some(one) = starting.join_next().await {
            let one = one.unwrap_or(Err(Error::ShuttingDown));
            started = started.and(one.map_err(|error| failed(&at.server, &error)));
        }
        started
    }

    /// Returns the links to a server; for a caller with those that would be used, if nobody is there.
    fn links(&self, at: &ServerRef, caller: Option<&Caller>) -> Links {
        let mut links = Links::default();
        for (gateway, is_followed) in self.all() {
            links.add(&gateway, at, is_followed);
        }
        if let Some(caller) = caller.filter(|_| links.wanted.is_empty()) {
            links.add(&self.at_hand(caller), at, true);
        }
        let kept = self.kept().into_iter().filter(|(kept, _)| kept == at);
        links.all.extend(kept.map(|(_, backend)| backend));
        links
    }
}

impl Links {
    fn add(&mut self, gateway: &Gateway, at: &ServerRef, is_wanted: bool) {
        let Some(server) = gateway.at(&at.toolbox, &at.server) else { return };
        let is_new = |links: &[Backend], backend: &Backend| {
            links.iter().all(|other| other.id() != backend.id())
        };
        server.all(|backend| {
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
        halting.spawn(async move { backend.halt().await });
    }
    while halting.join_next().await.is_some() {}
}
