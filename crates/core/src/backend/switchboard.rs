//! Whom a server means: its questions, logs and notices, and the agents they are for.
//!
//! *Theory of operation.* What a server says unasked does not say for whom. So every request that
//! is made for an agent is entered here while it runs, and an agent that can be told things at any
//! time is attached. A question goes to the one agent that has a request running, into that
//! request, or, when none runs, to the one agent that is attached. When it could be meant for more
//! than one agent it is declined, and the server is known as one that asks: from then on each
//! agent gets a connection of its own to it ([`Switchboard::asks`]). A question that comes before
//! anybody is there waits for the first who comes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::backend::agent::{AgentId, LogLevel, Presence, asks_for_roots};
use crate::backend::events;
use crate::backend::lists::Kinds;
use crate::backend::question::{Event, Question};
use crate::raw::{self, Raw};
use crate::wire::Outcome;
use crate::wire::incoming::{Incoming, Reply, Request, error_object};

/// JSON-RPC: nobody here knows this method.
const METHOD_NOT_FOUND: i64 = -32601;
/// JSON-RPC: the question cannot be dealt with now.
const INVALID_REQUEST: i64 = -32600;
/// How many questions may wait for an agent to come.
const MAX_WAITING: usize = 64;
/// The member of a notice that names its subscription's stream; it is not passed on.
const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

/// The switchboard of one server.
pub(crate) struct Switchboard {
    /// The server's name, which labels what it logs.
    server: String,
    /// `true` if it may know the agent's roots.
    has_roots: bool,
    state: Mutex<State>,
    serials: AtomicU64,
    /// Told when lists have changed.
    pub(crate) lists_changed: Notify,
    /// Told when other resources are subscribed to.
    pub(crate) subscriptions_changed: Notify,
}

#[derive(Default)]
struct State {
    requests: Vec<Entered>,
    attached: Vec<Presence>,
    waiting: Vec<Question>,
    subscriptions: HashMap<String, Vec<Subscriber>>,
    /// The tasks that agents want to hear of, and which agents.
    tasks: HashMap<String, Vec<AgentId>>,
    changed: Kinds,
    asks: bool,
    /// `true` if an agent was asked for its roots.
    knows_roots: bool,
}

/// One request that is running for an agent.
struct Entered {
    serial: u64,
    agent: AgentId,
    log: LogLevel,
    events: Option<events::Sender>,
    /// How many questions it waits for its agent to answer, and when the last was answered.
    questions: usize,
    answered: Option<Instant>,
}

struct Subscriber {
    agent: AgentId,
    /// The URI as the agent knows it.
    uri: String,
}

/// A request's place on the board; it leaves when this is dropped.
pub(crate) struct Entry {
    board: Arc<Switchboard>,
    serial: u64,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.board.state(|state| state.requests.retain(|entered| entered.serial != self.serial));
    }
}

impl Entry {
    /// The last time at which the request had a good reason to wait: now, while its agent is asked
    /// something, else when it last answered.
    pub(crate) fn patient_since(&self) -> Option<Instant> {
        self.board.state(|state| {
            let entered = state.requests.iter().find(|entered| entered.serial == self.serial)?;
            if entered.questions > 0 { Some(Instant::now()) } else { entered.answered }
        })
    }
}

impl Switchboard {
    pub(crate) fn new(server: String, has_roots: bool) -> Self {
        Self {
            server,
            has_roots,
            state: Mutex::default(),
            serials: AtomicU64::new(0),
            lists_changed: Notify::new(),
            subscriptions_changed: Notify::new(),
        }
    }

    fn state<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The server's name.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// Takes over who is there and what they want to hear of from the board of a server before
    /// this one.
    pub(crate) fn inherit(self: &Arc<Self>, other: &Self) {
        let (attached, subscriptions) = other.state(|state| {
            let subscriptions = state.subscriptions.iter().flat_map(|(uri, subscribers)| {
                subscribers.iter().map(|s| (s.agent, uri.clone(), s.uri.clone()))
            });
            (state.attached.clone(), subscriptions.collect::<Vec<_>>())
        });
        for agent in &attached {
            self.attach(agent);
        }
        for (agent, uri, as_known) in subscriptions {
            self.subscribe(agent, &uri, &as_known);
        }
    }

    /// Enters a request that is made for an agent. `events` is where what belongs to it goes; with
    /// none, nobody can be asked.
    pub(crate) fn enter(
        self: &Arc<Self>,
        agent: AgentId,
        log: LogLevel,
        events: Option<&events::Sender>,
    ) -> Entry {
        let serial = self.serials.fetch_add(1, Ordering::Relaxed);
        let entered =
            Entered { serial, agent, log, events: events.cloned(), questions: 0, answered: None };
        let waiting = self.state(|state| {
            state.requests.push(entered);
            std::mem::take(&mut state.waiting)
        });
        for question in waiting {
            self.put(question);
        }
        Entry { board: Arc::clone(self), serial }
    }

    /// Attaches an agent that can be told things at any time.
    pub(crate) fn attach(self: &Arc<Self>, agent: &Presence) {
        if agent.standing.is_none() {
            return;
        }
        let waiting = self.state(|state| {
            if state.attached.iter().any(|attached| attached.id == agent.id) {
                return Vec::new();
            }
            state.attached.push(agent.clone());
            std::mem::take(&mut state.waiting)
        });
        for question in waiting {
            self.put(question);
        }
    }

    /// Forgets an agent that has left.
    pub(crate) fn detach(&self, agent: AgentId) {
        let had_subscriptions = self.state(|state| {
            state.attached.retain(|attached| attached.id != agent);
            let before = state.subscriptions.len() + state.tasks.len();
            for subscribers in state.subscriptions.values_mut() {
                subscribers.retain(|subscriber| subscriber.agent != agent);
            }
            state.subscriptions.retain(|_, subscribers| !subscribers.is_empty());
            for watchers in state.tasks.values_mut() {
                watchers.retain(|watcher| *watcher != agent);
            }
            state.tasks.retain(|_, watchers| !watchers.is_empty());
            before != state.subscriptions.len() + state.tasks.len()
        });
        if had_subscriptions {
            self.subscriptions_changed.notify_one();
        }
    }

    /// Returns `true` if the server asks its client questions, as far as is known.
    pub(crate) fn asks(&self) -> bool {
        self.has_roots || self.state(|state| state.asks)
    }

    /// Notes that an agent wants to hear of a resource; says whether it is the first.
    pub(crate) fn subscribe(&self, agent: AgentId, uri: &str, as_known: &str) -> bool {
        self.state(|state| {
            let subscribers = state.subscriptions.entry(uri.to_owned()).or_default();
            let is_first = subscribers.is_empty();
            if !subscribers.iter().any(|s| s.agent == agent && s.uri == as_known) {
                subscribers.push(Subscriber { agent, uri: as_known.to_owned() });
            }
            is_first
        })
    }

    /// Takes that back; says whether it was the last.
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

    /// Returns `true` if the server may know an agent's roots. This is asked once, for then the
    /// server is ended.
    pub(crate) fn take_knowledge_of_roots(&self) -> bool {
        self.state(|state| std::mem::take(&mut state.knows_roots))
    }

    /// Returns `true` if somebody wants to hear of a resource.
    pub(crate) fn has_subscriptions(&self) -> bool {
        self.state(|state| !state.subscriptions.is_empty())
    }

    /// The resources that somebody wants to hear of.
    pub(crate) fn subscriptions(&self) -> Vec<String> {
        let mut uris: Vec<_> = self.state(|state| state.subscriptions.keys().cloned().collect());
        uris.sort();
        uris
    }

    /// Notes that an agent wants to hear of a task.
    pub(crate) fn watch_task(&self, agent: AgentId, task: &str) {
        let is_first = self.state(|state| {
            let watchers = state.tasks.entry(task.to_owned()).or_default();
            watchers.push(agent);
            watchers.len() == 1
        });
        if is_first {
            self.subscriptions_changed.notify_one();
        }
    }

    /// The tasks that somebody wants to hear of.
    pub(crate) fn tasks(&self) -> Vec<String> {
        let mut tasks: Vec<_> = self.state(|state| state.tasks.keys().cloned().collect());
        tasks.sort();
        tasks
    }

    /// Which lists have changed since this was last asked.
    pub(crate) fn take_changed(&self) -> Kinds {
        self.state(|state| std::mem::take(&mut state.changed))
    }

    /// Notes that lists have changed, or may have.
    pub(crate) fn changed(&self, kinds: Kinds) {
        self.state(|state| state.changed = state.changed.or(kinds));
        self.lists_changed.notify_one();
    }

    /// The most talkative log level that an attached agent has asked for, if one has.
    pub(crate) fn wanted_log(&self) -> Option<Raw> {
        let levels = self
            .state(|state| state.attached.iter().filter_map(|agent| agent.log().wanted()).min());
        levels.map(LogLevel::encode)
    }

    /// Takes what the server asks or tells.
    pub(crate) fn hear(self: &Arc<Self>, incoming: Incoming) {
        match incoming {
            Incoming::Request(request) => self.asked(request),
            Incoming::Notification { method, params } => self.told(&method, params),
        }
    }

    fn asked(self: &Arc<Self>, request: Request) {
        let Request { method, params, reply } = request;
        match method.as_str() {
            "ping" => reply.answer_later(Outcome::Result(raw::object([]))),
            "roots/list" if !self.has_roots => {
                decline(reply, METHOD_NOT_FOUND, "no roots are given to this server");
            }
            _ => {
                self.state(|state| {
                    state.asks = true;
                    state.knows_roots |= method == "roots/list";
                });
                self.put(Question::of_server(method, params, reply));
            }
        }
    }

    /// Puts a question to the agent it is meant for.
    fn put(self: &Arc<Self>, question: Question) {
        let refused = self.state(|state| {
            let mut agents: Vec<_> = state.requests.iter().map(|entered| entered.agent).collect();
            agents.sort_unstable();
            agents.dedup();
            match agents.as_slice() {
                [_] => {
                    let entered = state.requests.iter_mut().rev().find(|e| e.events.is_some());
                    let Some(entered) = entered else {
                        return Some((question, "nobody can be asked"));
                    };
                    entered.questions += 1;
                    let board = Arc::clone(self);
                    let serial = entered.serial;
                    let question = question.and_then(move || board.answered(serial));
                    send(entered.events.as_ref(), question)
                }
                [] => match state.attached.as_slice() {
                    [agent] => send(agent.standing.as_ref(), question),
                    [] if state.waiting.len() < MAX_WAITING => {
                        state.waiting.push(question);
                        None
                    }
                    [] => Some((question, "nobody is there to be asked")),
                    _ => Some((question, "it could be meant for more than one agent")),
                },
                _ => Some((question, "it could be meant for more than one agent")),
            }
        });
        if let Some((question, reason)) = refused {
            tracing::debug!(server = self.server, method = question.method, "declined: {reason}");
            question.decline(INVALID_REQUEST, reason);
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

    fn told(&self, method: &str, params: Option<Raw>) {
        match method {
            "notifications/tools/list_changed" => {
                self.changed(Kinds { tools: true, ..Kinds::default() });
            }
            "notifications/resources/list_changed" => {
                self.changed(Kinds { resources: true, ..Kinds::default() });
            }
            "notifications/prompts/list_changed" => {
                self.changed(Kinds { prompts: true, ..Kinds::default() });
            }
            "notifications/resources/updated" => {
                if let Some(params) = params.map(without_subscription) {
                    self.updated(&params);
                }
            }
            "notifications/message" => {
                if let Some(params) = params {
                    self.logged(&params);
                }
            }
            "notifications/subscriptions/acknowledged" | "notifications/progress" => {
                tracing::debug!(server = self.server, method, "passed over");
            }
            // What has not the form of a notification is of no use to anybody.
            _ if method.starts_with("notifications/")
                && params.as_ref().is_none_or(|params| params.as_bytes().starts_with(b"{")) =>
            {
                if !self.has_roots && params.as_ref().is_some_and(asks_for_roots) {
                    tracing::debug!(server = self.server, method, "asks for roots");
                    return;
                }
                let params = params.map(without_subscription);
                self.tell(method, params.as_ref(), |_| true);
            }
            _ => tracing::debug!(server = self.server, method, "not a notification of MCP"),
        }
    }

    fn updated(&self, params: &Raw) {
        let Some(uri) = params.member("uri").and_then(|uri| uri.parse::<String>().ok()) else {
            return;
        };
        self.state(|state| {
            // A server may tell of a resource below the one that was subscribed to.
            let is_below = |known: &str| {
                let rest = uri.strip_prefix(known);
                rest.is_some_and(|rest| rest.starts_with('/') || known.ends_with('/'))
            };
            let subscribers = state.subscriptions.get(&uri).or_else(|| {
                let known = state.subscriptions.keys().filter(|known| is_below(known));
                state.subscriptions.get(known.max_by_key(|known| known.len())?)
            });
            for subscriber in subscribers.into_iter().flatten() {
                let params = if subscriber.uri == uri || !state.subscriptions.contains_key(&uri) {
                    params.clone()
                } else {
                    let known = Raw::encode(&subscriber.uri);
                    params.with_member("uri", &known).unwrap_or_else(|| params.clone())
                };
                let attached = state.attached.iter().find(|agent| agent.id == subscriber.agent);
                let notice = Event::Notice {
                    method: "notifications/resources/updated".to_owned(),
                    params: Some(params),
                };
                tell(attached.and_then(|agent| agent.standing.as_ref()), notice);
            }
        });
    }

    /// Passes a log message on under the server's name.
    fn logged(&self, params: &Raw) {
        let level = LogLevel::of(params);
        let logger = params.member("logger").and_then(|logger| logger.parse::<String>().ok());
        let label = match logger {
            Some(logger) => format!("{}/{logger}", self.server),
            None => self.server.clone(),
        };
        let labelled = params.with_member("logger", &Raw::encode(&label));
        let params = labelled.map(without_subscription);
        self.tell("notifications/message", params.as_ref(), |wanted| wanted.hears(level));
    }

    /// Tells every agent that is there, each once: within its newest request where one runs.
    fn tell(&self, method: &str, params: Option<&Raw>, hears: impl Fn(LogLevel) -> bool) {
        let notice = || Event::Notice { method: method.to_owned(), params: params.cloned() };
        self.state(|state| {
            let mut told = Vec::new();
            for entered in state.requests.iter().rev().filter(|e| e.events.is_some()) {
                if !told.contains(&entered.agent) {
                    told.push(entered.agent);
                    if hears(entered.log) {
                        tell(entered.events.as_ref(), notice());
                    }
                }
            }
            for agent in state.attached.iter().filter(|agent| !told.contains(&agent.id)) {
                if hears(agent.log()) {
                    tell(agent.standing.as_ref(), notice());
                }
            }
        });
    }
}

fn without_subscription(params: Raw) -> Raw {
    if memchr::memmem::find(params.as_bytes(), SUBSCRIPTION_ID.as_bytes()).is_none() {
        return params;
    }
    let meta = params.member("_meta").and_then(|meta| meta.without_member(SUBSCRIPTION_ID));
    match meta {
        Some(meta) if meta.as_bytes() == b"{}" => params.without_member("_meta").unwrap_or(params),
        Some(meta) => params.with_member("_meta", &meta).unwrap_or(params),
        None => params,
    }
}

/// Hands a question over, or gives it back with the reason why not.
fn send(to: Option<&events::Sender>, question: Question) -> Option<(Question, &'static str)> {
    let Some(to) = to else { return Some((question, "nobody can be asked")) };
    match to.offer(Event::Question(question))? {
        Event::Question(question) => Some((question, "the agent takes nothing at the moment")),
        Event::Progress(_) | Event::Notice { .. } => None,
    }
}

fn tell(to: Option<&events::Sender>, notice: Event) {
    if to.is_some_and(|to| to.offer(notice).is_some()) {
        tracing::debug!("a notice that the agent does not take");
    }
}

fn decline(reply: Reply, code: i64, reason: &str) {
    reply.answer_later(Outcome::Error(error_object(code, reason, None)));
}

#[cfg(test)]
mod tests;
