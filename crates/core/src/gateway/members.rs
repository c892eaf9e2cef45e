//! The servers of toolboxes, and which connection to one belongs to which agent.
//!
//! Agents share a server's process, unless it is to be each session's own. A server that asks its
//! client questions cannot say whom it means, so from then on each agent has one of its own: the
//! first keeps the one there is, if no other has used it. What an agent has for itself is counted
//! for its caller ([`Holding::Processes`]).

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::backend::{
    self, AgentId, AtLimit, Backend, BackendId, Held, Patience, Pool, Presence, Spec, StartFailure,
    Tie,
};
use crate::gateway::answers::Answers;
use crate::gateway::limiters::Limiter;
use crate::observe::{Holding, Meters, Payer};
use crate::settings::{Isolation, ServerConfig};

/// A server as one toolbox has it.
pub(crate) enum Member {
    /// It can be started.
    Server(Box<Server>),
    /// It can not.
    Unsupported(Arc<StartFailure>),
    /// It is none: its tools are macros. This is what is counted of them.
    Macros(Arc<Meters>),
}

/// A server that can be started.
pub(crate) struct Server {
    /// How long a call may take.
    pub(crate) patience: Patience,
    /// The counters of it.
    pub(crate) meters: Arc<Meters>,
    /// The connection that everybody shares, and whose listings everybody sees.
    pub(crate) shared: Backend,
    /// The limiter of its calls, if they are limited.
    pub(crate) limiter: Option<Arc<Limiter>>,
    /// Where its answers are kept, if they are.
    pub(crate) answers: Option<Answers>,
    /// How many connections one caller may have for itself, of all servers together.
    pub(crate) most_of_one: usize,
    spec: Arc<Spec>,
    is_shared: bool,
    /// `true` if each session has a connection of its own from the start.
    is_isolated: bool,
    /// The owner of all that belongs to an agent that has a name and no session. There is one such
    /// agent at most: those with other names look through other gateways.
    nameable: AgentId,
    /// The owners of its connections, for as long as the configuration has the server. They are made when an
    /// agent is to have a connection of its own: of what each named agent has for every server, that is rare.
    owners: OnceLock<Arc<Mutex<Owners>>>,
}

#[derive(Default)]
struct Owners {
    /// The agent that the shared connection belongs to, once it can be only one agent's.
    shared: Option<AgentId>,
    /// The place of that agent for it, where each session has a connection of its own.
    shared_place: Option<Held>,
    /// `true` if the shared connection has been a session's that is over, and is nobody's any more.
    is_spent: bool,
    others: HashMap<AgentId, Own>,
}

/// A connection of an agent's own, with the place that it takes of those that its caller may have.
struct Own {
    backend: Backend,
    _place: Option<Held>,
}

impl Server {
    /// A server as the configuration has it, `spec` being made of that.
    pub(crate) fn new(
        config: &ServerConfig,
        spec: Arc<Spec>,
        meters: Arc<Meters>,
        pool: &Pool,
    ) -> Self {
        let is_isolated = config.isolation == Isolation::Session;
        let is_shared = config.shared && !is_isolated;
        Self {
            patience: patience(config),
            meters,
            shared: pool.backend(Arc::clone(&spec), is_shared),
            limiter: None,
            answers: None,
            most_of_one: usize::MAX,
            spec,
            is_shared,
            is_isolated,
            nameable: AgentId::next(),
            owners: OnceLock::new(),
        }
    }

    /// Returns the same server with what the configuration says of it now; none if it is another one.
    pub(crate) fn renewed(&self, config: &ServerConfig, spec: &Arc<Spec>) -> Option<Self> {
        let is_isolated = config.isolation == Isolation::Session;
        let is_shared = config.shared && !is_isolated;
        if !self.spec.is_same_server(spec)
            || (self.is_shared, self.is_isolated) != (is_shared, is_isolated)
        {
            return None;
        }
        if self.spec != *spec {
            self.all(|backend| backend.adopt(Arc::clone(spec)));
        }
        Some(Self {
            patience: patience(config),
            meters: Arc::clone(&self.meters),
            shared: self.shared.clone(),
            limiter: None,
            answers: None,
            most_of_one: usize::MAX,
            spec: Arc::clone(spec),
            is_shared,
            is_isolated,
            nameable: self.nameable,
            owners: Arc::clone(self.owners.get_or_init(Arc::default)).into(),
        })
    }

    /// Ends the server as soon as it is not used, unless it is one of those in use elsewhere.
    pub(crate) fn dismiss(&self, in_use: &HashSet<BackendId>) {
        self.all(|backend| {
            if !in_use.contains(&backend.id()) {
                backend.dismiss();
            }
        });
    }

    /// Does something with each of its connections.
    pub(crate) fn all(&self, mut f: impl FnMut(&Backend)) {
        f(&self.shared);
        self.known_owners(|owners| owners.others.values().map(|own| &own.backend).for_each(f));
    }

    /// Returns its specification.
    pub(crate) fn spec(&self) -> &Arc<Spec> {
        &self.spec
    }

    /// Returns `true` if it may know the agent's roots.
    pub(crate) fn has_roots(&self) -> bool {
        self.spec.abilities.has_roots()
    }

    fn owners<T>(&self, f: impl FnOnce(&mut Owners) -> T) -> T {
        let owners = self.owners.get_or_init(Arc::default);
        f(&mut owners.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The owners, if there have been any.
    fn known_owners<T>(&self, f: impl FnOnce(&mut Owners) -> T) -> Option<T> {
        self.owners.get().map(|_| self.owners(f))
    }

    /// Returns `true` if each session has a connection of its own from the start.
    pub(crate) fn is_isolated(&self) -> bool {
        self.is_isolated
    }

    /// Returns `true` if an agent has a connection of its own, which keeps its session apart.
    pub(crate) fn is_apart_for(&self, agent: &Presence) -> bool {
        let owner = self.owner(agent);
        let has_own = |owners: &mut Owners| {
            owners.shared == Some(owner) || owners.others.contains_key(&owner)
        };
        self.is_isolated && self.known_owners(has_own) == Some(true)
    }

    /// Returns the owner of the connection that an agent uses, where each has its own.
    fn owner(&self, agent: &Presence) -> AgentId {
        if self.is_isolated && agent.tie == Tie::Name { self.nameable } else { agent.owner }
    }

    /// The connection that an agent uses; an error where nobody can say which is its own, and where
    /// its caller has as many for itself as it may.
    pub(crate) fn backend(&self, agent: &Presence, pool: &Pool) -> Result<Backend, backend::Error> {
        // Who only listens is not asked, and is to hear of what is done on the agent's connection.
        if agent.is_listener() {
            return Ok(self.used_by(agent));
        }
        if self.is_isolated && agent.tie == Tie::Nothing {
            return Err(backend::Error::StartFailed(Arc::new(nobodys())));
        }
        if !self.is_isolated && !self.shared.asks() {
            return Ok(self.shared.clone());
        }
        let owner = self.owner(agent);
        self.owners(|owners| {
            if let Some(own) = owners.others.get(&owner) {
                return Ok(own.backend.clone());
            }
            if !owners.is_spent && owners.shared.is_none_or(|it| it == owner) {
                if self.is_isolated && owners.shared_place.is_none() {
                    owners.shared_place = self.take_place(agent)?;
                }
                if self.shared.claim(agent) {
                    owners.shared = Some(owner);
                    return Ok(self.shared.clone());
                }
                owners.shared_place = None;
            }
            let place = self.take_place(agent)?;
            // What the shared one says from now on is not for it.
            self.shared.detach(agent.id);
            // What it lists is what the shared one lists, so nobody needs to hear of it.
            let backend = pool.backend(Arc::clone(&self.spec), false);
            owners.others.insert(owner, Own { backend: backend.clone(), _place: place });
            Ok(backend)
        })
    }

    /// Takes a place for a connection of an agent's own, of those that its caller may have.
    fn take_place(&self, agent: &Presence) -> Result<Option<Held>, backend::Error> {
        let Some(purse) = agent.purse() else { return Ok(None) };
        let place = purse.take(Holding::Processes, self.most_of_one).map_err(|AtLimit| {
            backend::Error::StartFailed(Arc::new(too_many(purse.payer(), self.most_of_one)))
        })?;
        Ok(Some(place))
    }

    /// Forgets an agent that has left, and ends what only it used.
    pub(crate) fn leave(&self, agent: AgentId) {
        self.shared.detach(agent);
        self.known_owners(|owners| {
            if owners.shared == Some(agent) {
                owners.shared = None;
                owners.shared_place = None;
                if self.is_isolated {
                    owners.is_spent = true;
                    self.shared.retire();
                } else {
                    self.shared.vacate();
                }
            }
            owners.others.remove(&agent);
            for other in owners.others.values() {
                other.backend.detach(agent);
            }
        });
    }

    /// The connection that an agent uses already, or would if it were asked nothing.
    pub(crate) fn used_by(&self, agent: &Presence) -> Backend {
        let owner = self.owner(agent);
        self.known_owners(|owners| owners.others.get(&owner).map(|own| own.backend.clone()))
            .flatten()
            .unwrap_or_else(|| self.shared.clone())
    }
}

/// How long a call of a server may take.
fn patience(config: &ServerConfig) -> Patience {
    Patience { quiet: config.call_timeout, in_all: config.total_call_timeout }
}

/// Why a caller is given no further connection of its own.
fn too_many(payer: &Payer, most: usize) -> StartFailure {
    StartFailure::new(
        format!(
            "{most} processes of servers are for {payer} alone, and there may be no more \
             (`limits.perCaller.maxProcesses`)"
        ),
        "end sessions that are not needed any more, or raise \
               `limits.perCaller.maxProcesses`"
            .to_owned(),
    )
}

/// Why an isolated server is not for an agent without a session and a name.
fn nobodys() -> StartFailure {
    StartFailure::new(
        "it keeps its sessions apart (`\"isolation\": \"session\"`), and this request \
                 belongs to none"
            .to_owned(),
        "come with a session, in a revision of the protocol that has them (2025-11-25), or \
               with a name"
            .to_owned(),
    )
}

#[cfg(test)]
mod tests;
