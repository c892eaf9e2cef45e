//! A new configuration in place of the one that is served: what of it is the same goes on.
//!
//! *Theory of operation.* A new [`Gateway`] is made beside the old one. A server that has the same
//! reference and is launched in the same way is taken over with its process, and the new writer
//! begins with what it has listed. Then the new gateway takes the old one's place: requests that
//! are under way end where they began, though a macro begins no further step, and the servers that
//! only the old one has end when nobody uses them. One that is launched in another way is another
//! server: it starts when the one before it has gone.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio_util::task::TaskTracker;

use crate::backend::{AgentId, BackendId, Urgency};
use crate::gateway::members::Server;
use crate::gateway::{Gateway, server_ref};
use crate::name::ServerRef;

impl Gateway {
    /// Prepares this gateway for the place of the one before it, which goes on until then. These
    /// are in use by any gateway from then on.
    pub(crate) fn follow(&self, before: &Self, in_use: &HashSet<BackendId>) {
        let old = before.backends();
        let previous = |at: &ServerRef| before.at(&at.toolbox, &at.server);
        let id_of = |server: &Server| server.shared.id();
        let is_kept = |(at, server): &(ServerRef, &Server)| {
            previous(at).is_some_and(|previous| id_of(previous) == id_of(server))
        };
        let mut adopted: HashSet<_> =
            self.referred().filter(is_kept).map(|(_, server)| id_of(server)).collect();
        for (at, server) in self.referred() {
            let id = id_of(server);
            if !adopted.insert(id) {
                continue;
            }
            // It may be one that was to end, or one from another place.
            server.shared.adopt(Arc::clone(server.spec()));
            // One that goes on elsewhere is not waited for.
            if let Some(previous) = previous(&at).filter(|p| !in_use.contains(&id_of(p)))
                && !old.contains(&id)
            {
                server.shared.follow(&previous.shared);
            }
        }
    }

    /// Ends what the gateway before this one had and nobody uses now that this one has taken its
    /// place, and starts what runs in other ways than it did.
    pub(crate) fn succeed(&self, before: &Self, in_use: &HashSet<BackendId>, tasks: &TaskTracker) {
        before.is_replaced.store(true, Ordering::Relaxed);
        let (old, new) = (before.backends(), self.backends());
        let mut ran = HashMap::new();
        for (at, server) in before.referred() {
            if !new.contains(&server.shared.id()) {
                ran.insert(at, server.shared.running().is_some());
                server.dismiss(in_use);
            }
        }
        for (at, server) in self.referred() {
            if ran.get(&at) == Some(&true) && !old.contains(&server.shared.id()) {
                let backend = server.shared.clone();
                tasks.spawn(async move {
                    // Whoever asks for it next is told why it does not start.
                    let _ = backend.ready(None, Urgency::Background).await;
                });
            }
        }
    }

    /// Lets an agent that now looks through `next` hear nothing more of the servers that it has not
    /// any more, and that go on for others, and nothing of resources that it may not have any more.
    pub fn hand_over(&self, agent: AgentId, next: &Self) {
        let kept = next.backends();
        for server in self.servers().filter(|server| !kept.contains(&server.shared.id())) {
            server.shared.detach(agent);
        }
        for (at, server) in next.referred() {
            server.shared.judge_again(agent, |uri| next.admit_subscription(&at, uri));
        }
    }

    /// The servers that can be started, in the order of the configuration.
    pub(crate) fn referred(&self) -> impl Iterator<Item = (ServerRef, &Server)> {
        let all = self.config.servers().map(|(t, s)| server_ref(&t.name, &s.name));
        all.filter_map(|at| Some((at.clone(), self.at(&at.toolbox, &at.server)?)))
    }

    /// The servers that it shares with others, or could.
    pub(crate) fn backends(&self) -> HashSet<BackendId> {
        self.servers().map(|server| server.shared.id()).collect()
    }
}
