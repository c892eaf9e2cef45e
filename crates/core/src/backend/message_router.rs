//! Routes a server's requests, log messages and notifications to the agents they are for.
//!
//! These messages don't name an agent, so the router infers it. It tracks the requests in flight,
//! the attached agents (reachable outside a request) and everyone who has ever used the process
//! ([`ProcessUsers`]), because a server may refer to any of them at any time. A server request goes
//! to the only agent with a request in flight, within that request. While all agents are idle, it
//! goes to the only attached one. Without any agent it waits for the first to come. If it could be
//! for several agents it is declined and the server is marked interactive
//! ([`MessageRouter::is_interactive`]): each agent then gets a dedicated connection. Notifications
//! ([`notifications`]) follow the same rule and otherwise go to the log.

mod notifications;
mod routing_table;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::backend::agent_handle::{AgentHandle, LogLevel};
use crate::backend::events;
use crate::backend::listing_reader::ListKinds;
use crate::backend::message_router::routing_table::{
    ActiveRequest, AttachedAgent, ResourceSubscriber, RoutingTable,
};
use crate::backend::principal::{AgentId, Principal, ProcessUsers};
use crate::backend::quota::SubscriptionLimitError;
use crate::backend::server_quota::ServerQuota;
use crate::backend::server_request::{AgentEvent, ServerRequest};
use crate::policy::ResourceScope;
use crate::telemetry::{QuotaKind, Redactor};
use mcp_workbench_settings::{CallerLimits, ServerLimits};
use mcp_workbench_wire::RpcOutcome;
use mcp_workbench_wire::code::{INVALID_REQUEST, METHOD_NOT_FOUND, UNAVAILABLE};
use mcp_workbench_wire::incoming::{IncomingMessage, IncomingRequest, Responder, error_object};
use mcp_workbench_wire::json;

pub(crate) use crate::backend::message_router::routing_table::{Grace, MessageRouter, task_key};

/// What a request to subscribe to a resource added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NewSubscription {
    /// Nothing: the agent was subscribed already.
    None,
    /// The resource's first subscriber.
    First,
    Further,
}

/// Also recognized by the start of a server: a program that sends back its input returns it.
pub(crate) const NOT_FOR_CLIENTS: &str = "the method is not defined for clients";
const AMBIGUOUS: &str = "the request could be for more than one agent";
/// Requests that servers send to clients (MCP 2025-11-25, `ServerRequest`), except `ping`.
const REQUESTS: [&str; 7] = [
    "elicitation/create",
    "roots/list",
    "sampling/createMessage",
    "tasks/cancel",
    "tasks/get",
    "tasks/list",
    "tasks/result",
];
/// The longest id of a server request, in bytes.
const MAX_ID: usize = 1024;
/// Maximum number of server requests that wait for an agent.
const MAX_WAITING: usize = 64;

pub(crate) struct InFlightRequest {
    router: Arc<MessageRouter>,
    principal: Principal,
    serial: u64,
    is_answered: AtomicBool,
}

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        let is_answered = *self.is_answered.get_mut();
        self.router.state(|state| {
            state.requests.retain(|entered| entered.serial != self.serial);
            state.process.has_abandoned_requests |= !is_answered;
        });
    }
}

impl InFlightRequest {
    /// Unless this is called, dropping the guard marks the request as abandoned.
    pub(crate) fn mark_answered(&self) {
        self.is_answered.store(true, Ordering::Relaxed);
    }

    pub(crate) fn principal(&self) -> &Principal {
        &self.principal
    }

    /// Secrets of the server's process, for redaction.
    pub(crate) fn secrets(&self) -> &Redactor {
        self.router.secrets()
    }

    /// Returns now while the agent has to answer a server request, else the time of its last
    /// answer.
    pub(crate) fn agent_active_at(&self) -> Option<Instant> {
        self.router.state(|state| {
            let entered = state.requests.iter().find(|entered| entered.serial == self.serial)?;
            if entered.questions > 0 { Some(Instant::now()) } else { entered.answered }
        })
    }
}

impl MessageRouter {
    pub(crate) fn new(
        server: String,
        has_roots: bool,
        is_sole: bool,
        secrets: Arc<Redactor>,
    ) -> Self {
        Self {
            server,
            is_labelled: true,
            has_roots,
            is_sole,
            secrets,
            quota: None,
            state: Mutex::default(),
            serials: AtomicU64::new(0),
            lists_changed: Notify::new(),
            subscriptions_changed: Notify::new(),
        }
    }

    /// Forwards log messages without the server's name in `logger`.
    pub(crate) fn unlabelled(self) -> Self {
        Self { is_labelled: false, ..self }
    }

    pub(crate) fn limited(self, quota: ServerQuota) -> Self {
        Self { quota: Some(quota), ..self }
    }

    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// Copies agents and resource subscriptions from the router of a replaced server.
    pub(crate) fn inherit(self: &Arc<Self>, other: &Self) {
        let (attached, subscriptions) = other.state(|state| {
            let subscriptions = state.subscriptions.iter().flat_map(|(uri, subscribers)| {
                subscribers.iter().map(|subscriber| (uri.clone(), subscriber.clone()))
            });
            (state.attached.clone(), subscriptions.collect::<Vec<_>>())
        });
        for AttachedAgent { agent, server } in &attached {
            self.attach(agent, server);
        }
        for (uri, subscriber) in subscriptions {
            self.state(|state| state.subscribe(&uri, subscriber));
        }
    }

    pub(crate) fn secrets(&self) -> &Arc<Redactor> {
        &self.secrets
    }

    /// Registers a new server process and returns its number. Its first users are the owner, the
    /// subscribers and the agents with requests in flight.
    pub(crate) fn begin_process(&self) -> u64 {
        self.state(|state| {
            let RoutingTable { requests, subscriptions, owner, .. } = &*state;
            let subscribers = subscriptions.values().flatten().map(|s| &s.principal);
            let mut users = ProcessUsers::default();
            for user in requests.iter().map(|r| &r.principal).chain(subscribers).chain(owner) {
                users.add(user);
            }
            state.process.users = users;
            state.tasks.claims.clear();
            state.process.has_abandoned_requests = false;
            state.process.level = None;
            state.process.number += 1;
            state.process.number
        })
    }

    pub(crate) fn users(&self) -> ProcessUsers {
        self.state(|state| state.process.users.clone())
    }

    /// Dedicates the server to an agent, across restarts; `false` if another has used the process.
    pub(crate) fn claim(&self, agent: &AgentHandle) -> bool {
        let principal = agent.principal();
        self.state(|state| {
            let is_free = state.owner.as_ref().is_none_or(|owner| *owner == principal);
            let is_ones = self.is_sole || (is_free && state.process.users.are_only(&principal));
            if is_ones {
                state.process.users.add(&principal);
                state.owner = Some(principal);
            }
            is_ones
        })
    }

    /// Releases the server from its owner. If the process must not be reused, calls `end` with the
    /// grace for requests in flight; if `end` returns `true`, later messages of that process are
    /// dropped.
    pub(crate) fn release(&self, end: impl FnOnce(Grace) -> bool) {
        self.state(|state| {
            let owner = state.owner.take();
            let patience = match (std::mem::take(&mut state.server_requests.knows_roots), owner) {
                (true, _) => Grace::None,
                (false, Some(Principal::Session(_))) => Grace::Endless,
                (false, _) => return,
            };
            if end(patience) {
                state.process.number += 1;
                state.process.users = ProcessUsers::Nobody;
            }
        });
    }

    /// Registers a request of an agent that knows the server as `server`. Without `events`, the
    /// agent gets no server requests.
    pub(crate) fn register_request(
        self: &Arc<Self>,
        agent: &AgentHandle,
        server: &Arc<str>,
        log: LogLevel,
        events: Option<&events::Sender>,
    ) -> InFlightRequest {
        let serial = self.serials.fetch_add(1, Ordering::Relaxed);
        let principal = agent.principal();
        let entered = ActiveRequest {
            serial,
            server: Arc::clone(server),
            agent: agent.connection_owner,
            principal: principal.clone(),
            log,
            events: events.cloned(),
            questions: 0,
            answered: None,
        };
        let waiting = self.state(|state| {
            state.process.users.add(&principal);
            state.requests.push(entered);
            std::mem::take(&mut state.server_requests.waiting)
        });
        for request in waiting {
            self.route_request(request);
        }
        InFlightRequest { router: Arc::clone(self), principal, serial, is_answered: false.into() }
    }

    /// Attaches an agent that is reachable outside requests and knows the server as `server`.
    pub(crate) fn attach(self: &Arc<Self>, agent: &AgentHandle, server: &Arc<str>) {
        if agent.session_events.is_none() {
            return;
        }
        let waiting = self.state(|state| {
            if state.attached.iter().any(|attached| attached.agent.id == agent.id) {
                return Vec::new();
            }
            state.attached.push(AttachedAgent { agent: agent.clone(), server: Arc::clone(server) });
            std::mem::take(&mut state.server_requests.waiting)
        });
        for request in waiting {
            self.route_request(request);
        }
    }

    pub(crate) fn detach(&self, agent: AgentId) {
        let had_subscriptions = self.state(|state| {
            state.attached.retain(|attached| attached.agent.id != agent);
            let before = state.subscriptions.len() + state.tasks.watchers.len();
            for subscribers in state.subscriptions.values_mut() {
                subscribers.retain(|subscriber| subscriber.agent != agent);
            }
            state.subscriptions.retain(|_, subscribers| !subscribers.is_empty());
            for watchers in state.tasks.watchers.values_mut() {
                watchers.retain(|watcher| watcher.agent != agent);
            }
            state.tasks.watchers.retain(|_, watchers| !watchers.is_empty());
            before != state.subscriptions.len() + state.tasks.watchers.len()
        });
        if had_subscriptions {
            self.subscriptions_changed.notify_one();
        }
    }

    /// Returns `true` if the server may see roots or has sent requests to its client.
    pub(crate) fn is_interactive(&self) -> bool {
        self.has_roots || self.state(|state| state.server_requests.asks)
    }

    /// Subscribes an agent to a resource.
    pub(crate) fn subscribe(
        &self,
        agent: &AgentHandle,
        uri: &str,
        as_known: &str,
        hears: Option<&ResourceScope>,
        limits: &CallerLimits,
    ) -> Result<NewSubscription, SubscriptionLimitError> {
        let principal = agent.principal();
        self.state(|state| {
            state.process.users.add(&principal);
            if state.is_subscribed(agent.id, uri, as_known) {
                return Ok(NewSubscription::None);
            }
            let place = agent.subscribe(as_known.len(), limits)?.map(Arc::new);
            let (uri_known, hears) = (as_known.to_owned(), hears.cloned());
            let subscriber = ResourceSubscriber {
                agent: agent.id,
                principal,
                uri: uri_known,
                hears,
                _place: place,
            };
            let is_first = !state.subscriptions.contains_key(uri);
            state.subscribe(uri, subscriber);
            Ok(if is_first { NewSubscription::First } else { NewSubscription::Further })
        })
    }

    /// Drops an agent's subscriptions that `judge` rejects. Returns the URIs without subscribers.
    pub(crate) fn recheck_subscriptions(
        &self,
        agent: AgentId,
        judge: impl Fn(&str) -> Option<Option<ResourceScope>>,
    ) -> Vec<String> {
        let ended = self.state(|state| {
            let mut ended = Vec::new();
            state.subscriptions.retain(|uri, subscribers| {
                subscribers.retain_mut(|subscriber| {
                    if subscriber.agent != agent {
                        return true;
                    }
                    let judged = judge(uri);
                    let goes_on = judged.is_some();
                    subscriber.hears = judged.flatten();
                    goes_on
                });
                if subscribers.is_empty() {
                    ended.push(uri.clone());
                }
                !subscribers.is_empty()
            });
            ended
        });
        if !ended.is_empty() {
            self.subscriptions_changed.notify_one();
        }
        ended
    }

    /// Returns `true` if that was the resource's last subscriber.
    pub(crate) fn unsubscribe(&self, agent: AgentId, uri: &str) -> bool {
        self.state(|state| {
            let Some(subscribers) = state.subscriptions.get_mut(uri) else { return false };
            subscribers.retain(|subscriber| subscriber.agent != agent);
            let is_last = subscribers.is_empty();
            if is_last {
                state.subscriptions.remove(uri);
            }
            is_last
        })
    }

    pub(crate) fn has_subscriptions(&self) -> bool {
        self.state(|state| !state.subscriptions.is_empty())
    }

    pub(crate) fn subscriptions(&self) -> Vec<String> {
        let mut uris: Vec<_> = self.state(|state| state.subscriptions.keys().cloned().collect());
        uris.sort();
        uris
    }

    pub(crate) fn tasks(&self) -> Vec<String> {
        let mut tasks: Vec<_> = self.state(|state| state.tasks.watchers.keys().cloned().collect());
        tasks.sort();
        tasks
    }

    pub(crate) fn take_changed(&self) -> ListKinds {
        self.state(|state| std::mem::take(&mut state.changed))
    }

    pub(crate) fn mark_lists_changed(&self, kinds: ListKinds) {
        self.state(|state| state.changed = state.changed.or(kinds));
        self.lists_changed.notify_one();
    }

    /// Handles a message of a process; messages of earlier processes are dropped.
    pub(crate) fn dispatch(self: &Arc<Self>, process: u64, incoming: IncomingMessage) {
        if self.state(|state| state.process.number != process) {
            return;
        }
        match incoming {
            IncomingMessage::Request(request) => self.handle_request(request),
            IncomingMessage::Notification { method, params } => {
                self.handle_notification(&method, params);
            }
        }
    }

    fn handle_request(self: &Arc<Self>, request: IncomingRequest) {
        let IncomingRequest { method, params, responder } = request;
        let limits = self.quota.as_ref().map_or_else(ServerLimits::default, |quota| quota.limits);
        match method.as_str() {
            "ping" => responder.try_respond(RpcOutcome::Result(json::object([]))),
            method if !REQUESTS.contains(&method) => {
                decline(responder, METHOD_NOT_FOUND, NOT_FOR_CLIENTS);
            }
            _ if responder.id().len() > MAX_ID => {
                decline(responder, INVALID_REQUEST, "the id of the request is too long");
            }
            _ if responder.open_requests() > limits.max_open_requests => {
                if let Some(quota) = &self.quota {
                    quota.report_limit_reached(QuotaKind::ServerRequests);
                }
                decline(responder, UNAVAILABLE, "too many requests of this server are unanswered");
            }
            "roots/list" if !self.has_roots => {
                decline(responder, METHOD_NOT_FOUND, "roots are not available to this server");
            }
            _ => {
                self.state(|state| {
                    state.server_requests.asks = true;
                    state.server_requests.knows_roots |= method == "roots/list";
                });
                self.route_request(ServerRequest::from_server(method, params, responder));
            }
        }
    }

    fn route_request(self: &Arc<Self>, request: ServerRequest) {
        let refused = self.state(|state| match state.running().as_slice() {
            [] => state.put_outside(self.is_sole, request),
            [agent] if state.is_recipient(self.is_sole, *agent) => {
                let entered = state.requests.iter_mut().rev().find(|e| e.events.is_some());
                let Some(entered) = entered else {
                    return Some((request, "the client cannot receive requests"));
                };
                entered.questions += 1;
                let router = Arc::clone(self);
                let serial = entered.serial;
                let request = request.on_answered(move || router.answered(serial));
                send(entered.events.as_ref(), request)
            }
            _ => Some((request, AMBIGUOUS)),
        });
        if let Some((request, reason)) = refused {
            tracing::debug!(
                server = self.server,
                method = request.method,
                "declined a server request: {reason}"
            );
            request.decline(INVALID_REQUEST, reason);
        }
    }

    fn answered(&self, serial: u64) {
        self.state(|state| {
            if let Some(entered) = state.requests.iter_mut().find(|e| e.serial == serial) {
                entered.questions -= 1;
                entered.answered = Some(Instant::now());
            }
        });
    }
}

impl RoutingTable {
    /// Routes a server request to the only attached agent, or queues it until one comes.
    fn put_outside(
        &mut self,
        is_sole: bool,
        request: ServerRequest,
    ) -> Option<(ServerRequest, &'static str)> {
        match self.attached.as_slice() {
            [AttachedAgent { agent, .. }] => {
                let principal = agent.principal();
                if !is_sole && !self.process.users.are_only(&principal) {
                    return Some((request, AMBIGUOUS));
                }
                self.process.users.add(&principal);
                send(agent.session_events.as_ref(), request)
            }
            [] if self.process.users != ProcessUsers::Nobody && !is_sole => {
                Some((request, AMBIGUOUS))
            }
            [] if self.server_requests.waiting.len() < MAX_WAITING => {
                self.server_requests.waiting.push(request);
                None
            }
            [] => Some((request, "no client is connected, and too many requests are waiting")),
            _ => Some((request, AMBIGUOUS)),
        }
    }
}

/// Sends a request to an agent; returns it with the reason if that fails.
fn send(
    to: Option<&events::Sender>,
    request: ServerRequest,
) -> Option<(ServerRequest, &'static str)> {
    let Some(to) = to else { return Some((request, "the client cannot receive requests")) };
    match to.try_send(request.into())? {
        AgentEvent::Request(request) => Some((*request, "the queue of the client is full")),
        AgentEvent::Progress(_) | AgentEvent::Notification { .. } => None,
    }
}

fn decline(responder: Responder, code: i64, reason: &str) {
    responder.try_respond(RpcOutcome::Error(error_object(code, reason, None)));
}

#[cfg(test)]
mod tests;
