//! Whatever a server tells, and who hears it: changes of lists, resources, logs, tasks and what we
//! know nothing of.
//!
//! Lists are the server's, and everybody's. A resource is told of to those who subscribed to it, and a
//! task to whoever began it. All else goes to an agent if it can be meant for nobody else: no other
//! has used the process, and no other session of the same name could be meant. What is certain to be
//! nobody's goes to our log.

use std::collections::HashMap;
use std::sync::Arc;

use crate::backend::agent::{LogLevel, Presence, asks_for_roots};
use crate::backend::events;
use crate::backend::lists::Kinds;
use crate::backend::question::Event;
use crate::backend::switchboard::board::{
    Attached, Claim, Entered, State, Subscriber, Switchboard, Watcher,
};
use crate::backend::users::{AgentId, Users};
use crate::name::seen;
use crate::raw::Raw;

/// The member of a notice that names its subscription's stream; it is not passed on.
const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
/// How many tasks of a process are remembered.
const MAX_CLAIMS: usize = 100_000;
/// How much of what agents are not told our log has of one message, in characters.
const MAX_LOGGED: usize = 2000;
/// The most characters of what a server calls its logger.
const MAX_LOGGER: usize = 128;

impl Switchboard {
    /// Notes that the process runs a task for an agent, which is one of these.
    pub(crate) fn claim_task(&self, agent: &Presence, task: &str, holder: &Arc<str>) {
        self.state(|state| {
            if state.claims.len() >= MAX_CLAIMS {
                state.claims.clear();
            }
            let claim = state.claims.entry(task.to_owned()).or_insert_with(|| Claim {
                holder: Some(Arc::clone(holder)),
                principal: agent.principal(),
            });
            if claim.holder.as_ref() != Some(holder) {
                claim.holder = None;
            }
        });
    }

    /// Returns `true` unless the process runs such a task for somebody else.
    pub(crate) fn may_hold_task(&self, task: &str, holder: &str) -> bool {
        self.state(|state| {
            let claim = state.claims.get(task);
            claim.is_none_or(|claim| claim.holder.as_deref() == Some(holder))
        })
    }

    /// Notes that an agent wants to hear of a task that is its own.
    pub(crate) fn watch_task(&self, agent: &Presence, task: &str) {
        let watcher = Watcher { agent: agent.id, principal: agent.principal() };
        let is_first = self.state(|state| {
            let watchers = state.tasks.entry(task.to_owned()).or_default();
            watchers.push(watcher);
            watchers.len() == 1
        });
        if is_first {
            self.subscriptions_changed.notify_one();
        }
    }

    /// The most talkative level that is wanted of the process' log by those who use it, if that is
    /// another than it was asked for; it is asked for it from here on.
    pub(crate) fn take_wanted_log(&self) -> Option<Raw> {
        self.state(|state| {
            let State { attached, users, .. } = &*state;
            if !self.is_sole && *users == Users::Nobody {
                return None;
            }
            let hears = |agent: &&Presence| {
                self.is_sole || users.are_several() || users.are_only(&agent.principal())
            };
            let agents = attached.iter().map(|attached| &attached.agent);
            let wanted = agents.filter(hears).filter_map(|agent| agent.log().wanted()).min()?;
            (state.level.replace(wanted) != Some(wanted)).then(|| wanted.encode())
        })
    }

    pub(super) fn told(&self, method: &str, params: Option<Raw>) {
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
                if method.starts_with("notifications/tasks") {
                    self.tell_of_task(method, params.as_ref());
                } else {
                    self.tell(method, |_| params.clone(), |_| true);
                }
            }
            _ => tracing::debug!(server = self.server, method, "not a notification of MCP"),
        }
    }

    fn updated(&self, params: &Raw) {
        let Some(uri) = params.member("uri").and_then(|uri| uri.parse::<String>().ok()) else {
            return;
        };
        self.state(|state| {
            // A server may tell of a resource below the one that was subscribed to. What an agent
            // hears then depends on its own subscriptions alone: the nearest of them.
            let is_meant = |known: &str| {
                let rest = uri.strip_prefix(known);
                rest.is_some_and(|r| r.is_empty() || r.starts_with('/') || known.ends_with('/'))
            };
            let mut nearest: HashMap<AgentId, (&str, Vec<&Subscriber>)> = HashMap::new();
            for (known, subscribers) in state.subscriptions.iter().filter(|(k, _)| is_meant(k)) {
                let may_hear = |one: &&Subscriber| {
                    *known == uri || one.hears.as_ref().is_none_or(|hears| hears.has(&uri))
                };
                for subscriber in subscribers.iter().filter(may_hear) {
                    let near = nearest.entry(subscriber.agent).or_insert((known, Vec::new()));
                    if known.len() > near.0.len() {
                        *near = (known, Vec::new());
                    }
                    if known == near.0 {
                        near.1.push(subscriber);
                    }
                }
            }
            for (known, subscriber) in
                nearest.values().flat_map(|(known, all)| all.iter().map(move |one| (*known, one)))
            {
                let params = if known == uri && subscriber.uri != uri {
                    let as_known = Raw::encode(&subscriber.uri);
                    params.with_member("uri", &as_known).unwrap_or_else(|| params.clone())
                } else {
                    params.clone()
                };
                let mut agents = state.attached.iter().map(|attached| &attached.agent);
                let agent = agents.find(|agent| agent.id == subscriber.agent);
                let method = "notifications/resources/updated".to_owned();
                let notice = Event::Notice { method, params: Some(params) };
                offer(agent.and_then(|agent| agent.standing.as_ref()), notice);
            }
        });
    }

    /// Passes a log message on under the server's name, which is the one that the agent knows it by.
    fn logged(&self, params: &Raw) {
        let level = LogLevel::of(params);
        let logger = params.member("logger").and_then(|logger| logger.parse::<String>().ok());
        let logger = logger.map(|logger| seen::named(&logger, MAX_LOGGER));
        let labelled = |server: &str| {
            if !self.is_labelled {
                return Some(without_subscription(params.clone()));
            }
            let label = match &logger {
                Some(logger) => format!("{server}/{logger}"),
                None => server.to_owned(),
            };
            params.with_member("logger", &Raw::encode(&label)).map(without_subscription)
        };
        self.tell("notifications/message", labelled, |wanted| wanted.hears(level));
    }

    /// Tells of a task those whose it is.
    fn tell_of_task(&self, method: &str, params: Option<&Raw>) {
        let task = params.and_then(|params| params.member("taskId"));
        let task = task.and_then(|task| task.parse::<String>().ok());
        let owner = self.state(|state| state.owner_of_task(task.as_deref()?));
        let Some(owner) = owner else {
            return self.tell(method, |_| params.cloned(), |_| true);
        };
        self.state(|state| {
            let agents = state.attached.iter().map(|attached| &attached.agent);
            for agent in agents.filter(|agent| agent.principal() == owner) {
                offer(agent.standing.as_ref(), notice(method, params));
            }
        });
    }

    /// Tells the one agent that can be meant: within its newest request where one runs. `params` are
    /// for somebody who knows the server by this name.
    fn tell(
        &self,
        method: &str,
        params: impl Fn(&str) -> Option<Raw>,
        hears: impl Fn(LogLevel) -> bool,
    ) {
        let notice =
            |server: &str| Event::Notice { method: method.to_owned(), params: params(server) };
        let is_told = self.state(|state| {
            let Some(agent) = state.meant(self.is_sole) else { return false };
            let is_its = |entered: &&Entered| entered.agent == agent && entered.events.is_some();
            if let Some(entered) = state.requests.iter().rev().find(is_its) {
                if hears(entered.log) {
                    offer(entered.events.as_ref(), notice(&entered.server));
                }
                return true;
            }
            for Attached { agent: attached, server } in &state.attached {
                if attached.owner == agent && hears(attached.log()) {
                    offer(attached.standing.as_ref(), notice(server));
                }
            }
            true
        });
        if !is_told {
            self.keep_in_log(method, params(&self.server).as_ref());
        }
    }

    /// Puts what could be meant for more than one agent into our log.
    fn keep_in_log(&self, method: &str, params: Option<&Raw>) {
        let server = &self.server;
        let is_news = self.state(|state| {
            let is_anybodys = state.users.are_several() || state.attached.len() > 1;
            is_anybodys && !std::mem::replace(&mut state.is_known_to_talk, true)
        });
        if is_news {
            tracing::info!(
                server,
                "it says what could be meant for more than one of its agents, and is heard here \
                 alone; with `\"isolation\": \"session\"` each agent has a process of its own and \
                 hears it"
            );
        }
        let said = params.map(Raw::as_str).unwrap_or_default();
        let said: String = self.secrets.redact_written(&said).chars().take(MAX_LOGGED).collect();
        tracing::info!(target: "server", server, method, "{said}");
    }
}

fn notice(method: &str, params: Option<&Raw>) -> Event {
    Event::Notice { method: method.to_owned(), params: params.cloned() }
}

fn offer(to: Option<&events::Sender>, notice: Event) {
    if to.is_some_and(|to| to.offer(notice).is_some()) {
        tracing::debug!("a notice that the agent does not take");
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
