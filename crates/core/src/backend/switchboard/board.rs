//! The board itself: who is there, what runs, and whom what a process says can be meant for.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::backend::agent::{LogLevel, Presence};
use crate::backend::events;
use crate::backend::lists::Kinds;
use crate::backend::question::Question;
use crate::backend::users::{AgentId, Principal, Users};
use crate::observe::Secrets;
use crate::policy::Hearing;

/// How long a process may go on that is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grace {
    /// Not at all.
    None,
    /// For as long as it is used.
    Endless,
}

/// The switchboard of one server.
pub(crate) struct Switchboard {
    /// The server's name, which labels what it logs.
    pub(super) server: String,
    /// `true` if what it logs is passed on with that label.
    pub(super) is_labelled: bool,
    /// `true` if it may know the agent's roots.
    pub(super) has_roots: bool,
    /// `true` if all agents that can come are one.
    pub(super) is_sole: bool,
    /// The secrets that it was given, which are in no line of our log.
    pub(super) secrets: Arc<Secrets>,
    pub(super) state: Mutex<State>,
    pub(super) serials: AtomicU64,
    /// Told when lists have changed.
    pub(crate) lists_changed: Notify,
    /// Told when other resources are subscribed to.
    pub(crate) subscriptions_changed: Notify,
}

#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct State {
    pub(super) requests: Vec<Entered>,
    pub(super) attached: Vec<Attached>,
    pub(super) waiting: Vec<Question>,
    pub(super) subscriptions: HashMap<String, Vec<Subscriber>>,
    /// The tasks that agents want to hear of, and which agents.
    pub(super) tasks: HashMap<String, Vec<Watcher>>,
    /// The tasks that the process has begun, and for whom.
    pub(super) claims: HashMap<String, Claim>,
    /// Counts the processes.
    pub(super) process: u64,
    /// Who has used this one.
    pub(super) users: Users,
    /// `true` if an agent gave a request up, whose server may still be at it.
    pub(super) has_strays: bool,
    /// The one agent that it is for, once it can be only one's, whichever process it is.
    pub(super) owner: Option<Principal>,
    /// The level of its log that the process was asked for.
    pub(super) level: Option<LogLevel>,
    /// `true` once the log says that it has what agents are not told.
    pub(super) is_known_to_talk: bool,
    pub(super) changed: Kinds,
    pub(super) asks: bool,
    /// `true` if an agent was asked for its roots.
    pub(super) knows_roots: bool,
}

/// An agent that can be told things at any time.
#[derive(Clone)]
pub(super) struct Attached {
    pub(super) agent: Presence,
    /// The server's name as the agent knows it: entries of several names may share a process.
    pub(super) server: Arc<str>,
}

/// One request that is running for an agent.
pub(super) struct Entered {
    pub(super) serial: u64,
    /// The server's name as the agent knows it.
    pub(super) server: Arc<str>,
    pub(super) agent: AgentId,
    pub(super) principal: Principal,
    pub(super) log: LogLevel,
    pub(super) events: Option<events::Sender>,
    /// How many questions it waits for its agent to answer, and when the last was answered.
    pub(super) questions: usize,
    pub(super) answered: Option<Instant>,
}

#[derive(Clone)]
pub(super) struct Subscriber {
    pub(super) agent: AgentId,
    pub(super) principal: Principal,
    /// The URI as the agent knows it.
    pub(super) uri: String,
    /// The resources that it may hear of; `None`: all.
    pub(super) hears: Option<Hearing>,
}

/// An agent that wants to hear of a task.
pub(super) struct Watcher {
    pub(super) agent: AgentId,
    pub(super) principal: Principal,
}

/// A task, as somebody's.
pub(super) struct Claim {
    /// The name of those who may ask after it; `None`: nobody, for several were given its id.
    pub(super) holder: Option<Arc<str>>,
    pub(super) principal: Principal,
}

impl Switchboard {
    pub(super) fn state<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl State {
    /// The agents that have requests running.
    pub(super) fn running(&self) -> Vec<AgentId> {
        let mut agents: Vec<_> = self.requests.iter().map(|entered| entered.agent).collect();
        agents.sort_unstable();
        agents.dedup();
        agents
    }

    pub(super) fn subscribe(&mut self, uri: &str, subscriber: Subscriber) -> bool {
        let subscribers = self.subscriptions.entry(uri.to_owned()).or_default();
        let is_first = subscribers.is_empty();
        if !subscribers.iter().any(|s| s.agent == subscriber.agent && s.uri == subscriber.uri) {
            subscribers.push(subscriber);
        }
        is_first
    }

    /// Returns `true` if nobody but this one has used the process; of those whom nothing tells apart, if
    /// none has left it anything to do.
    pub(super) fn is_certain(&self, principal: &Principal) -> bool {
        self.users.are_only(principal) && (*principal != Principal::Nobody || !self.has_strays)
    }

    /// Returns `true` if what a server asks or says is for the one agent that has requests running. It
    /// does so for requests that run; so among sessions that nothing tells apart it is enough that
    /// nobody else has left it anything to do.
    pub(super) fn is_of_its_request(&self, is_sole: bool, agent: AgentId) -> bool {
        let principal = self.requests.iter().find(|e| e.agent == agent).map(|e| &e.principal);
        is_sole
            || principal.is_some_and(|principal| self.is_certain(principal))
            || (self.users == Users::Nameless && !self.has_strays && self.claims.is_empty())
    }

    /// The one agent that whatever the process says can be meant for, if that is certain.
    pub(super) fn meant(&self, is_sole: bool) -> Option<AgentId> {
        let is_only = |principal: &Principal| is_sole || self.is_certain(principal);
        match self.running().as_slice() {
            [agent] => self.is_of_its_request(is_sole, *agent).then_some(*agent),
            [] => {
                let attached = self.attached.iter().map(|attached| &attached.agent);
                let mut agents = attached.filter(|agent| is_only(&agent.principal()));
                let first = agents.next()?.owner;
                agents.all(|agent| agent.owner == first).then_some(first)
            }
            _ => None,
        }
    }

    /// The agent that a task is for, where that is certain.
    pub(super) fn owner_of_task(&self, task: &str) -> Option<Principal> {
        if let Some(claim) = self.claims.get(task) {
            return claim.holder.as_ref().map(|_| claim.principal.clone());
        }
        let (first, others) = self.tasks.get(task)?.split_first()?;
        let is_same = others.iter().all(|watcher| watcher.principal == first.principal);
        is_same.then(|| first.principal.clone())
    }
}
