//! Configuration reload: replaces a gateway without interrupting unchanged servers.
//!
//! A server with the same name and launch parameters keeps its process, and the new snapshot starts
//! with its listing. Requests in flight finish in the old gateway, but a macro starts no further
//! step there, and a call that waits for its confirmation is refused. Servers that only the old
//! gateway has stop once idle. A server with other launch parameters starts after its predecessor
//! has stopped.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio_util::task::TaskTracker;

use crate::backend::{AgentId, BackendId, StartPriority};
use crate::gateway::managed_server::ManagedServer;
use crate::gateway::{Gateway, server_ref};
use crate::name::ServerRef;

impl Gateway {
    /// Prepares to replace `before`, which continues to run. `in_use` holds the backends that any
    /// gateway uses after the reload.
    pub(crate) fn prepare_takeover(&self, before: &Self, in_use: &HashSet<BackendId>) {
        before.is_replaced.store(true, Ordering::Relaxed);
        let old = before.shared_backend_ids();
        let previous = |at: &ServerRef| before.managed_server(&at.toolbox, &at.server);
        let id_of = |server: &ManagedServer| server.shared.id();
        let is_kept = |(at, server): &(ServerRef, &ManagedServer)| {
            previous(at).is_some_and(|previous| id_of(previous) == id_of(server))
        };
        let mut adopted: HashSet<_> =
            self.servers_in_order().filter(is_kept).map(|(_, server)| id_of(server)).collect();
        for (at, server) in self.servers_in_order() {
            let id = id_of(server);
            if !adopted.insert(id) {
                continue;
            }
            // It may be about to stop, or come from another toolbox.
            server.shared.update_spec(Arc::clone(server.spec()));
            // A predecessor that stays in use elsewhere never stops, so don't wait for it.
            if let Some(previous) = previous(&at).filter(|p| !in_use.contains(&id_of(p)))
                && !old.contains(&id)
            {
                server.shared.start_after(&previous.shared);
            }
        }
    }

    /// Stops the backends that only `before` used, and restarts changed servers that were running.
    pub(crate) fn finish_takeover(
        &self,
        before: &Self,
        in_use: &HashSet<BackendId>,
        tasks: &TaskTracker,
    ) {
        let (old, new) = (before.shared_backend_ids(), self.shared_backend_ids());
        let mut ran = HashMap::new();
        for (at, server) in before.servers_in_order() {
            if !new.contains(&server.shared.id()) {
                ran.insert(at, server.shared.connection().is_some());
                server.dismiss(in_use);
            }
        }
        for (at, server) in self.servers_in_order() {
            if ran.get(&at) == Some(&true) && !old.contains(&server.shared.id()) {
                let backend = server.shared.clone();
                tasks.spawn(async move {
                    // The next request reports the failure.
                    let _ = backend.ensure_running(None, StartPriority::Background).await;
                });
            }
        }
    }

    /// Moves an agent to the gateway `next`: unsubscribes it from servers and resources that it
    /// lost.
    pub fn move_agent(&self, agent: AgentId, next: &Self) {
        let kept = next.shared_backend_ids();
        for server in self.managed_servers().filter(|server| !kept.contains(&server.shared.id())) {
            server.shared.detach(agent);
        }
        for (at, server) in next.servers_in_order() {
            server.shared.recheck_subscriptions(agent, |uri| next.admit_subscription(&at, uri));
        }
    }

    /// Returns the servers that can be started, in configuration order.
    pub(crate) fn servers_in_order(&self) -> impl Iterator<Item = (ServerRef, &ManagedServer)> {
        let all = self.config.servers().map(|(t, s)| server_ref(&t.name, &s.name));
        all.filter_map(|at| Some((at.clone(), self.managed_server(&at.toolbox, &at.server)?)))
    }

    pub(crate) fn shared_backend_ids(&self) -> HashSet<BackendId> {
        self.managed_servers().map(|server| server.shared.id()).collect()
    }
}
