//! Whom a server means: its questions, logs and notices, and the agents they are for.
//!
//! *Theory of operation.* What a server says unasked does not say for whom. So every request that
//! is made for an agent is entered here while it runs, an agent that can be told things at any
//! time is attached, and it is remembered who has ever used the process ([`Users`]): it may speak of
//! any of them at any time. A question goes to the one agent that has a request running, into that
//! request, or, when none runs, to the one agent that is attached. When it could be meant for more
//! than one agent it is declined, and the server is known as one that asks: from then on each
//! agent gets a connection of its own to it ([`Switchboard::asks`]). A question that comes before
//! anybody is there waits for the first who comes. What it tells ([`telling`]) goes to an agent under
//! the same conditions, else to our log.

mod board;
mod telling;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::backend::agent::{LogLevel, Presence};
use crate::backend::events;
use crate::backend::lists::Kinds;
use crate::backend::question::{Event, Question};
use crate::backend::switchboard::board::{Attached, Entered, State, Subscriber};
use crate::backend::users::{AgentId, Principal, Users};
use crate::observe::Secrets;
use crate::policy::Hearing;
use crate::raw;
use crate::wire::Outcome;
use crate::wire::code::{INVALID_REQUEST, METHOD_NOT_FOUND};
use crate::wire::incoming::{Incoming, Reply, Request, error_object};

pub(crate) use crate::backend::switchboard::board::{Grace, Switchboard};

/// Why a question is declined that could be anybody's.
const AMBIGUOUS: &str = "it could be meant for more than one agent";
/// How many questions may wait for an agent to come.
const MAX_WAITING: usize = 64;

/// A request's place on the board; it leaves when this is dropped.
pub(crate) struct Entry {
    board: Arc<Switchboard>,
    principal: Principal,
    serial: u64,
    is_answered: AtomicBool,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let is_answered = *self.is_answered.get_mut();
        self.board.state(|state| {
            state.requests.retain(|entered| entered.serial != self.serial);
            state.has_strays |= !is_answered;
        });
    }
}

impl Entry {
    /// Notes that the server has done what was wanted of it.
    pub(crate) fn is_answered(&self) {
        self.is_answered.store(true, Ordering::Relaxed);
    }

    /// The agent that makes the request.
    pub(crate) fn principal(&self) -> &Principal {
        &self.principal
    }

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
    /// Nobody is there. `is_sole`: all agents that can come are one.
    pub(crate) fn new(
        server: String,
        has_roots: bool,
        is_sole: bool,
        secrets: Arc<Secrets>,
    ) -> Self {
        Self {
            server,
            is_labelled: true,
            has_roots,
            is_sole,
            secrets,
            state: Mutex::default(),
            serials: AtomicU64::new(0),
            lists_changed: Notify::new(),
            subscriptions_changed: Notify::new(),
        }
    }

    /// Passes on what the server logs as it is: there is no other whose it could be.
    pub(crate) fn unlabelled(self) -> Self {
        Self { is_labelled: false, ..self }
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
                subscribers.iter().map(|subscriber| (uri.clone(), subscriber.clone()))
            });
            (state.attached.clone(), subscriptions.collect::<Vec<_>>())
        });
        for Attached { agent, server } in &attached {
            self.attach(agent, server);
        }
        for (uri, subscriber) in subscriptions {
            self.state(|state| state.subscribe(&uri, subscriber));
        }
    }

    /// The secrets that the server was given.
    pub(crate) fn secrets(&self) -> &Arc<Secrets> {
        &self.secrets
    }

    /// Takes note of another process, whose number comes back: those alone have used it who wait for
    /// it, and whose subscriptions it takes over.
    pub(crate) fn begin_process(&self) -> u64 {
        self.state(|state| {
            let State { requests, subscriptions, owner, .. } = &*state;
            let subscribers = subscriptions.values().flatten().map(|s| &s.principal);
            let mut users = Users::default();
            for user in requests.iter().map(|r| &r.principal).chain(subscribers).chain(owner) {
                users.add(user);
            }
            state.users = users;
            state.claims.clear();
            state.has_strays = false;
            state.level = None;
            state.process += 1;
            state.process
        })
    }

    /// The principals that have used the process.
    pub(crate) fn users(&self) -> Users {
        self.state(|state| state.users.clone())
    }

    /// Makes the server somebody's alone, whichever process it is; `false` if another one has used
    /// it.
    pub(crate) fn claim(&self, agent: &Presence) -> bool {
        let principal = agent.principal();
        self.state(|state| {
            let is_free = state.owner.as_ref().is_none_or(|owner| *owner == principal);
            let is_ones = self.is_sole || (is_free && state.users.are_only(&principal));
            if is_ones {
                state.users.add(&principal);
                state.owner = Some(principal);
            }
            is_ones
        })
    }

    /// Lets it be anybody's again whose owner has left. `end` is asked to end the process where that is
    /// not for the next one, and told whether it may wait for what is under way; if it does, the process
    /// is heard no more.
    pub(crate) fn vacate(&self, end: impl FnOnce(Grace) -> bool) {
        self.state(|state| {
            let owner = state.owner.take();
            let patience = match (std::mem::take(&mut state.knows_roots), owner) {
                (true, _) => Grace::None,
                (false, Some(Principal::Nameless(_))) => Grace::Endless,
                (false, _) => return,
            };
            if end(patience) {
                state.process += 1;
                state.users = Users::Nobody;
            }
        });
    }

    /// Enters a request that is made for an agent, who knows the server by this name. `events` is
    /// where what belongs to it goes; with none, nobody can be asked.
    pub(crate) fn enter(
        self: &Arc<Self>,
        agent: &Presence,
        server: &Arc<str>,
        log: LogLevel,
        events: Option<&events::Sender>,
    ) -> Entry {
        let serial = self.serials.fetch_add(1, Ordering::Relaxed);
        let principal = agent.principal();
        let entered = Entered {
            serial,
            server: Arc::clone(server),
            agent: agent.owner,
            principal: principal.clone(),
            log,
            events: events.cloned(),
            questions: 0,
            answered: None,
        };
        let waiting = self.state(|state| {
            state.users.add(&principal);
            state.requests.push(entered);
            std::mem::take(&mut state.waiting)
        });
        for question in waiting {
            self.put(question);
        }
        Entry { board: Arc::clone(self), principal, serial, is_answered: false.into() }
    }

    /// Attaches an agent that can be told things at any time, and knows the server by this name.
    pub(crate) fn attach(self: &Arc<Self>, agent: &Presence, server: &Arc<str>) {
        if agent.standing.is_none() {
            return;
        }
        let waiting = self.state(|state| {
            if state.attached.iter().any(|attached| attached.agent.id == agent.id) {
                return Vec::new();
            }
            state.attached.push(Attached { agent: agent.clone(), server: Arc::clone(server) });
            std::mem::take(&mut state.waiting)
        });
        for question in waiting {
            self.put(question);
        }
    }

    /// Forgets an agent that has left.
    pub(crate) fn detach(&self, agent: AgentId) {
        let had_subscriptions = self.state(|state| {
            state.attached.retain(|attached| attached.agent.id != agent);
            let before = state.subscriptions.len() + state.tasks.len();
            for subscribers in state.subscriptions.values_mut() {
                subscribers.retain(|subscriber| subscriber.agent != agent);
            }
            state.subscriptions.retain(|_, subscribers| !subscribers.is_empty());
            for watchers in state.tasks.values_mut() {
                watchers.retain(|watcher| watcher.agent != agent);
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
    pub(crate) fn subscribe(
        &self,
        agent: &Presence,
        uri: &str,
        as_known: &str,
        hears: Option<&Hearing>,
    ) -> bool {
        let principal = agent.principal();
        self.state(|state| {
            state.users.add(&principal);
            let (uri_known, hears) = (as_known.to_owned(), hears.cloned());
            let subscriber = Subscriber { agent: agent.id, principal, uri: uri_known, hears };
            state.subscribe(uri, subscriber)
        })
    }

    /// Has an agent hear of those resources alone that `judge` lets it; returns those that nobody wants to
    /// hear of any more.
    pub(crate) fn judge_again(
        &self,
        agent: AgentId,
        judge: impl Fn(&str) -> Option<Option<Hearing>>,
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

    /// Takes what the process with this number asks or tells.
    pub(crate) fn hear(self: &Arc<Self>, process: u64, incoming: Incoming) {
        if self.state(|state| state.process != process) {
            return;
        }
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
        let refused = self.state(|state| match state.running().as_slice() {
            [] => state.put_outside(self.is_sole, question),
            [agent] if state.is_of_its_request(self.is_sole, *agent) => {
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
            _ => Some((question, AMBIGUOUS)),
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
}

impl State {
    /// Puts a question to the one agent that is there, or lets it wait for the first.
    fn put_outside(
        &mut self,
        is_sole: bool,
        question: Question,
    ) -> Option<(Question, &'static str)> {
        match self.attached.as_slice() {
            [Attached { agent, .. }] => {
                let principal = agent.principal();
                if !is_sole && !self.users.are_only(&principal) {
                    return Some((question, AMBIGUOUS));
                }
                self.users.add(&principal);
                send(agent.standing.as_ref(), question)
            }
            [] if self.users != Users::Nobody && !is_sole => Some((question, AMBIGUOUS)),
            [] if self.waiting.len() < MAX_WAITING => {
                self.waiting.push(question);
                None
            }
            [] => Some((question, "nobody is there to be asked")),
            _ => Some((question, AMBIGUOUS)),
        }
    }
}

/// Hands a question over, or gives it back with the reason why not.
fn send(to: Option<&events::Sender>, question: Question) -> Option<(Question, &'static str)> {
    let Some(to) = to else { return Some((question, "nobody can be asked")) };
    match to.offer(question.into())? {
        Event::Question(question) => Some((*question, "the agent takes nothing at the moment")),
        Event::Progress(_) | Event::Notice { .. } => None,
    }
}

fn decline(reply: Reply, code: i64, reason: &str) {
    reply.answer_later(Outcome::Error(error_object(code, reason, None)));
}

#[cfg(test)]
mod tests;
