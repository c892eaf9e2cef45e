//! The servers of toolboxes, and which connection to one belongs to which agent.
//!
//! Agents share a server's process. A server that asks its client questions cannot say whom it
//! means, so each agent has one of its own: the first keeps the one there is.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::backend::{self, AgentId, Backend, Pool, Presence, Spec};
use crate::config::ServerConfig;
use crate::gateway::caching::Answers;
use crate::gateway::limiting::Bound;
use crate::observe::Meters;

/// A server as one toolbox has it.
pub(crate) enum Member {
    /// It can be started.
    Server(Box<Server>),
    /// It can not.
    Unsupported(Arc<backend::StartFailure>),
}

/// A server that can be started.
pub(crate) struct Server {
    pub(crate) call_timeout: Duration,
    /// What is counted of it.
    pub(crate) meters: Arc<Meters>,
    /// What everybody sees comes from here.
    pub(crate) shared: Backend,
    /// What calls of it are limited by, if they are.
    pub(crate) bound: Option<Arc<Bound>>,
    /// Where its answers are kept, if they are.
    pub(crate) answers: Option<Answers>,
    spec: Arc<Spec>,
    is_shared: bool,
    /// Whose is what, for as long as the configuration has the server.
    owners: Arc<Mutex<Owners>>,
}

#[derive(Default)]
struct Owners {
    /// Whose the shared connection is, once it can be only one agent's.
    shared: Option<AgentId>,
    others: HashMap<AgentId, Backend>,
}

impl Server {
    /// A server as the configuration has it, `spec` being made of that.
    pub(crate) fn new(
        config: &ServerConfig,
        spec: Arc<Spec>,
        meters: Arc<Meters>,
        pool: &Pool,
    ) -> Self {
        let is_shared = config.shared;
        let shared = pool.backend(Arc::clone(&spec), is_shared);
        let owners = Arc::default();
        let call_timeout = config.call_timeout;
        Self { call_timeout, meters, shared, bound: None, answers: None, spec, is_shared, owners }
    }

    /// The same server with what the configuration says of it now; none if it is another one.
    pub(crate) fn renewed(&self, config: &ServerConfig, spec: &Arc<Spec>) -> Option<Self> {
        if !self.spec.is_same_server(spec) || self.is_shared != config.shared {
            return None;
        }
        if self.spec != *spec {
            self.all(|backend| backend.adopt(Arc::clone(spec)));
        }
        Some(Self {
            call_timeout: config.call_timeout,
            meters: Arc::clone(&self.meters),
            shared: self.shared.clone(),
            bound: None,
            answers: None,
            spec: Arc::clone(spec),
            is_shared: self.is_shared,
            owners: Arc::clone(&self.owners),
        })
    }

    /// Ends the server as soon as it is not used.
    pub(crate) fn dismiss(&self) {
        self.all(Backend::dismiss);
    }

    fn all(&self, mut f: impl FnMut(&Backend)) {
        f(&self.shared);
        self.owners(|owners| owners.others.values().for_each(f));
    }

    /// What it is made of.
    pub(crate) fn spec(&self) -> &Arc<Spec> {
        &self.spec
    }

    /// Whether it may know the agent's roots.
    pub(crate) fn has_roots(&self) -> bool {
        self.spec.has_roots
    }

    fn owners<T>(&self, f: impl FnOnce(&mut Owners) -> T) -> T {
        f(&mut self.owners.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The connection that an agent uses.
    pub(crate) fn backend(&self, agent: &Presence, pool: &Pool) -> Backend {
        // Who only listens is not asked, and is to hear of what is done on the agent's connection.
        if agent.is_listener() {
            return self.used_by(agent);
        }
        if !self.shared.asks() {
            return self.shared.clone();
        }
        self.owners(|owners| {
            if *owners.shared.get_or_insert(agent.id) == agent.id {
                return self.shared.clone();
            }
            let other = owners.others.entry(agent.id).or_insert_with(|| {
                // What the shared one says from now on is not for it.
                self.shared.detach(agent.id);
                // What it lists is what the shared one lists, so nobody needs to hear of it.
                pool.backend(Arc::clone(&self.spec), false)
            });
            other.clone()
        })
    }

    /// Forgets an agent that has left, and ends what only it used.
    pub(crate) fn leave(&self, agent: AgentId) {
        self.shared.detach(agent);
        self.owners(|owners| {
            if owners.shared == Some(agent) {
                owners.shared = None;
                self.shared.forget_roots();
            }
            owners.others.remove(&agent);
            for other in owners.others.values() {
                other.detach(agent);
            }
        });
    }

    /// The connection that an agent uses already, or would if it were asked nothing.
    pub(crate) fn used_by(&self, agent: &Presence) -> Backend {
        self.owners(|owners| owners.others.get(&agent.owner).cloned())
            .unwrap_or_else(|| self.shared.clone())
    }
}
