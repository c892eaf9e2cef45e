//! The routing table: attached agents, requests in flight, and who a message can be for.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::backend::agent_handle::{AgentHandle, LogLevel};
use crate::backend::events;
use crate::backend::listing_reader::ListKinds;
use crate::backend::principal::{AgentId, Principal, ProcessUsers};
use crate::backend::quota::SubscriptionGuard;
use crate::backend::server_quota::ServerQuota;
use crate::backend::server_request::ServerRequest;
use crate::policy::ResourceScope;
use crate::telemetry::Redactor;

/// Bytes of a task ID that is stored as it is.
const LONGEST_TASK_KEY: usize = 256;

/// Grace period for requests in flight when a process has to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grace {
    /// The process ends immediately.
    None,
    /// The process ends once it is unused.
    Endless,
}

pub(crate) struct MessageRouter {
    pub(super) server: String,
    /// `true` if the server's log messages get its name as a label.
    pub(super) is_labelled: bool,
    /// `true` if the server may see the agent's roots.
    pub(super) has_roots: bool,
    /// `true` if the workbench serves a single agent.
    pub(super) is_sole: bool,
    /// Secrets that the server was given, which are redacted in the log.
    pub(super) secrets: Arc<Redactor>,
    /// The limits of the server. `None` for the default ones.
    pub(super) quota: Option<ServerQuota>,
    pub(super) state: Mutex<RoutingTable>,
    pub(super) serials: AtomicU64,
    pub(crate) lists_changed: Notify,
    pub(crate) subscriptions_changed: Notify,
}

#[derive(Default)]
pub(super) struct RoutingTable {
    pub(super) requests: Vec<ActiveRequest>,
    pub(super) attached: Vec<AttachedAgent>,
    pub(super) server_requests: ServerRequests,
    pub(super) subscriptions: HashMap<String, Vec<ResourceSubscriber>>,
    pub(super) tasks: TaskRoutes,
    pub(super) process: ProcessState,
    /// The agent that the server is dedicated to, across restarts.
    pub(super) owner: Option<Principal>,
    /// `true` once the log has mentioned unroutable messages.
    pub(super) has_warned_unroutable: bool,
    pub(super) changed: ListKinds,
}

#[derive(Default)]
pub(super) struct ServerRequests {
    pub(super) waiting: Vec<ServerRequest>,
    /// `true` if the server sends requests.
    pub(super) asks: bool,
    pub(super) knows_roots: bool,
}

#[derive(Default)]
pub(super) struct TaskRoutes {
    pub(super) watchers: HashMap<String, Vec<TaskSubscriber>>,
    pub(super) claims: HashMap<String, TaskOwner>,
}

/// The state of the current process of the server.
#[derive(Default)]
pub(super) struct ProcessState {
    pub(super) number: u64,
    pub(super) users: ProcessUsers,
    /// `true` if an agent has abandoned a request that the process may still work on.
    pub(super) has_abandoned_requests: bool,
    pub(super) level: Option<LogLevel>,
}

/// An agent that is reachable outside requests.
#[derive(Clone)]
pub(super) struct AttachedAgent {
    pub(super) agent: AgentHandle,
    /// Differs between agents, because entries of several names may share a process.
    pub(super) server: Arc<str>,
}

pub(super) struct ActiveRequest {
    pub(super) serial: u64,
    pub(super) server: Arc<str>,
    pub(super) agent: AgentId,
    pub(super) principal: Principal,
    pub(super) log: LogLevel,
    pub(super) events: Option<events::Sender>,
    /// Number of server requests that the agent has yet to answer.
    pub(super) questions: usize,
    pub(super) answered: Option<Instant>,
}

#[derive(Clone)]
pub(super) struct ResourceSubscriber {
    pub(super) agent: AgentId,
    pub(super) principal: Principal,
    pub(super) uri: String,
    /// The permitted resources; `None` if unrestricted.
    pub(super) hears: Option<ResourceScope>,
    /// `None` if the agent has no quota.
    pub(super) _place: Option<Arc<SubscriptionGuard>>,
}

pub(super) struct TaskSubscriber {
    pub(super) agent: AgentId,
    pub(super) principal: Principal,
    pub(super) _place: Option<SubscriptionGuard>,
}

pub(super) struct TaskOwner {
    /// Key of the agents that may query the task; `None` if several were given the same ID.
    pub(super) holder: Option<Arc<str>>,
    pub(super) principal: Principal,
}

/// Returns the key under which a task is stored: its ID, or a digest of a long one.
pub(crate) fn task_key(id: &str) -> Cow<'_, str> {
    if id.len() <= LONGEST_TASK_KEY {
        return id.into();
    }
    let (mut key, digest) = ([0; 16], Sha256::digest(id));
    key.copy_from_slice(&digest[..16]);
    format!("{:032x}", u128::from_be_bytes(key)).into()
}

impl MessageRouter {
    pub(super) fn state<T>(&self, f: impl FnOnce(&mut RoutingTable) -> T) -> T {
        f(&mut self.state.lock())
    }
}

impl RoutingTable {
    pub(super) fn running(&self) -> Vec<AgentId> {
        let mut agents: Vec<_> = self.requests.iter().map(|entered| entered.agent).collect();
        agents.sort_unstable();
        agents.dedup();
        agents
    }

    pub(super) fn is_subscribed(&self, agent: AgentId, uri: &str, as_known: &str) -> bool {
        let subscribers = self.subscriptions.get(uri).into_iter().flatten();
        subscribers.into_iter().any(|one| one.agent == agent && one.uri == as_known)
    }

    /// Adds a subscriber, unless it is subscribed already.
    pub(super) fn subscribe(&mut self, uri: &str, subscriber: ResourceSubscriber) {
        if !self.is_subscribed(subscriber.agent, uri, &subscriber.uri) {
            self.subscriptions.entry(uri.to_owned()).or_default().push(subscriber);
        }
    }

    /// Returns `true` if only this principal has used the process. Anonymous requests are
    /// indistinguishable, so they must not have left an abandoned one either.
    pub(super) fn is_sole_user(&self, principal: &Principal) -> bool {
        self.process.users.are_only(principal)
            && (*principal != Principal::Anonymous || !self.process.has_abandoned_requests)
    }

    /// Returns `true` if a message belongs to the request in flight of this agent, the only one
    /// with any. Several anonymous sessions may have used the process if none of them has left it a
    /// task or an abandoned request.
    pub(super) fn is_recipient(&self, is_sole: bool, agent: AgentId) -> bool {
        let principal = self.requests.iter().find(|e| e.agent == agent).map(|e| &e.principal);
        is_sole
            || principal.is_some_and(|principal| self.is_sole_user(principal))
            || (self.process.users == ProcessUsers::SeveralAnonymous
                && !self.process.has_abandoned_requests
                && self.tasks.claims.is_empty())
    }

    /// Returns the only agent that a notification can be for, if there is exactly one.
    pub(super) fn sole_recipient(&self, is_sole: bool) -> Option<AgentId> {
        let is_only = |principal: &Principal| is_sole || self.is_sole_user(principal);
        match self.running().as_slice() {
            [agent] => self.is_recipient(is_sole, *agent).then_some(*agent),
            [] => {
                let attached = self.attached.iter().map(|attached| &attached.agent);
                let mut agents = attached.filter(|agent| is_only(&agent.principal()));
                let first = agents.next()?.connection_owner;
                agents.all(|agent| agent.connection_owner == first).then_some(first)
            }
            _ => None,
        }
    }

    /// Returns the agent that a task belongs to, if that is unambiguous.
    pub(super) fn owner_of_task(&self, task: &str) -> Option<Principal> {
        if let Some(claim) = self.tasks.claims.get(&*task_key(task)) {
            return claim.holder.as_ref().map(|_| claim.principal.clone());
        }
        let (first, others) = self.tasks.watchers.get(task)?.split_first()?;
        let is_same = others.iter().all(|watcher| watcher.principal == first.principal);
        is_same.then(|| first.principal.clone())
    }
}
