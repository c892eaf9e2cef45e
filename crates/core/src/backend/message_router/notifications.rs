//! Routing of a server's notifications.
//!
//! List changes concern every agent. Resource updates go to the subscribers, and task notifications
//! to the owner of the task. Any other notification goes to an agent only if no other agent has
//! used the process and no other session of the agent qualifies. Unroutable notifications go to the
//! log.

use std::collections::HashMap;
use std::sync::Arc;

use crate::backend::agent_handle::{AgentHandle, LogLevel, requests_roots};
use crate::backend::events;
use crate::backend::listing_reader::ListKinds;
use crate::backend::message_router::routing_table::{
    ActiveRequest, AttachedAgent, MessageRouter, ResourceSubscriber, TaskOwner, TaskSubscriber,
    task_key,
};
use crate::backend::principal::{AgentId, ProcessUsers};
use crate::backend::quota::SubscriptionLimitError;
use crate::backend::server_request::AgentEvent;
use mcp_workbench_names::untrusted_text;
use mcp_workbench_settings::CallerLimits;
use mcp_workbench_wire::json::{EditError, RawJson};

/// Metadata key of the subscription stream, which is removed before forwarding.
const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
/// Maximum number of tasks remembered per process.
const MAX_CLAIMS: usize = 100_000;
/// Maximum length of an unroutable message in the log, in characters.
const MAX_LOGGED: usize = 2000;
/// Maximum length of a `logger` value, in characters.
const MAX_LOGGER: usize = 128;

impl MessageRouter {
    /// Records that the process runs a task for the agents with the key `holder`.
    pub(crate) fn claim_task(&self, agent: &AgentHandle, task: &str, holder: &Arc<str>) {
        self.state(|state| {
            if state.tasks.claims.len() >= MAX_CLAIMS {
                state.tasks.claims.clear();
            }
            let claim =
                state.tasks.claims.entry(task_key(task).into_owned()).or_insert_with(|| {
                    TaskOwner { holder: Some(Arc::clone(holder)), principal: agent.principal() }
                });
            if claim.holder.as_ref() != Some(holder) {
                claim.holder = None;
            }
        });
    }

    /// Returns `true` unless the process runs such a task for another agent.
    pub(crate) fn may_hold_task(&self, task: &str, holder: &str) -> bool {
        self.state(|state| {
            let claim = state.tasks.claims.get(&*task_key(task));
            claim.is_none_or(|claim| claim.holder.as_deref() == Some(holder))
        })
    }

    pub(crate) fn watch_task(
        &self,
        agent: &AgentHandle,
        task: &str,
        limits: &CallerLimits,
    ) -> Result<(), SubscriptionLimitError> {
        let is_first = self.state(|state| {
            let watchers = state.tasks.watchers.get(task);
            if watchers.is_some_and(|all| all.iter().any(|one| one.agent == agent.id)) {
                return Ok(false);
            }
            let place = agent.subscribe(task.len(), limits)?;
            let principal = agent.principal();
            let watcher = TaskSubscriber { agent: agent.id, principal, _place: place };
            let watchers = state.tasks.watchers.entry(task.to_owned()).or_default();
            watchers.push(watcher);
            Ok(watchers.len() == 1)
        })?;
        if is_first {
            self.subscriptions_changed.notify_one();
        }
        Ok(())
    }

    /// Returns the most verbose log level that users of the process want, if it differs from the
    /// one last requested, and records it as requested.
    pub(crate) fn take_wanted_log(&self) -> Option<RawJson> {
        self.state(|state| {
            let (attached, users) = (&state.attached, &state.process.users);
            if !self.is_sole && *users == ProcessUsers::Nobody {
                return None;
            }
            let hears = |agent: &&AgentHandle| {
                self.is_sole || users.are_several() || users.are_only(&agent.principal())
            };
            let agents = attached.iter().map(|attached| &attached.agent);
            let wanted =
                agents.filter(hears).filter_map(|agent| agent.log_level().explicit()).min()?;
            (state.process.level.replace(wanted) != Some(wanted)).then(|| wanted.encode())
        })
    }

    pub(super) fn handle_notification(&self, method: &str, params: Option<RawJson>) {
        let Ok(params) = params.map(without_subscription).transpose() else {
            tracing::debug!(server = self.server, method, "dropped unreadable notification");
            return;
        };
        match method {
            "notifications/tools/list_changed" => {
                self.mark_lists_changed(ListKinds { tools: true, ..ListKinds::default() });
            }
            "notifications/resources/list_changed" => {
                self.mark_lists_changed(ListKinds { resources: true, ..ListKinds::default() });
            }
            "notifications/prompts/list_changed" => {
                self.mark_lists_changed(ListKinds { prompts: true, ..ListKinds::default() });
            }
            "notifications/resources/updated" => {
                if let Some(params) = params {
                    self.route_resource_update(&params);
                }
            }
            "notifications/message" => {
                if let Some(params) = params {
                    self.route_log_message(&params);
                }
            }
            "notifications/subscriptions/acknowledged" | "notifications/progress" => {
                tracing::debug!(server = self.server, method, "ignored notification");
            }
            // Anything else can't be forwarded as a notification.
            _ if method.starts_with("notifications/")
                && params.as_ref().is_none_or(|params| params.as_bytes().starts_with(b"{")) =>
            {
                if !self.has_roots && params.as_ref().is_some_and(requests_roots) {
                    tracing::debug!(
                        server = self.server,
                        method,
                        "ignored notification that requests roots"
                    );
                    return;
                }
                if method.starts_with("notifications/tasks") {
                    self.tell_of_task(method, params.as_ref());
                } else {
                    self.route_notification(method, |_| params.clone(), |_| true);
                }
            }
            _ => tracing::debug!(server = self.server, method, "ignored unknown notification"),
        }
    }

    fn route_resource_update(&self, params: &RawJson) {
        let Some(raw_uri) = params.member("uri") else { return };
        let Ok(uri) = raw_uri.parse::<String>() else { return };
        self.state(|state| {
            // A server may report a resource below the subscribed one. The agent's nearest
            // subscription counts; other agents' subscriptions must not make a difference.
            let is_meant = |known: &str| {
                let rest = uri.strip_prefix(known);
                rest.is_some_and(|r| r.is_empty() || r.starts_with('/') || known.ends_with('/'))
            };
            let mut nearest: HashMap<AgentId, (&str, Vec<&ResourceSubscriber>)> = HashMap::new();
            for (known, subscribers) in state.subscriptions.iter().filter(|(k, _)| is_meant(k)) {
                let may_hear = |one: &&ResourceSubscriber| {
                    *known == uri || one.hears.as_ref().is_none_or(|hears| hears.contains(&uri))
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
                let as_known = RawJson::encode(&subscriber.uri);
                let is_renamed = known == uri && subscriber.uri != uri;
                // Also leaves only one of repeated members: the one that was routed by.
                let params =
                    params.with_member("uri", if is_renamed { &as_known } else { &raw_uri });
                let Ok(params) = params else { continue };
                let mut agents = state.attached.iter().map(|attached| &attached.agent);
                let agent = agents.find(|agent| agent.id == subscriber.agent);
                let method = "notifications/resources/updated".to_owned();
                let notice = AgentEvent::Notification { method, params: Some(params) };
                offer(agent.and_then(|agent| agent.session_events.as_ref()), notice);
            }
        });
    }

    fn route_log_message(&self, params: &RawJson) {
        let level = LogLevel::of(params);
        let logger = params.member("logger").and_then(|logger| logger.parse::<String>().ok());
        let logger = logger.map(|logger| untrusted_text::display_name(&logger, MAX_LOGGER));
        let labelled = |server: &str| {
            if !self.is_labelled {
                return Some(params.clone());
            }
            let label = match &logger {
                Some(logger) => format!("{server}/{logger}"),
                None => server.to_owned(),
            };
            params.with_member("logger", &RawJson::encode(&label)).ok()
        };
        self.route_notification("notifications/message", labelled, |wanted| wanted.allows(level));
    }

    fn tell_of_task(&self, method: &str, params: Option<&RawJson>) {
        let task = params.and_then(|params| params.member("taskId"));
        let task = task.and_then(|task| task.parse::<String>().ok());
        let owner = self.state(|state| state.owner_of_task(task.as_deref()?));
        let Some(owner) = owner else {
            return self.route_notification(method, |_| params.cloned(), |_| true);
        };
        self.state(|state| {
            let agents = state.attached.iter().map(|attached| &attached.agent);
            for agent in agents.filter(|agent| agent.principal() == owner) {
                offer(agent.session_events.as_ref(), notice(method, params));
            }
        });
    }

    /// Sends a notification to its only possible recipient: within its newest request in flight, if
    /// any. `params` builds the parameters from the agent's name for the server.
    fn route_notification(
        &self,
        method: &str,
        params: impl Fn(&str) -> Option<RawJson>,
        hears: impl Fn(LogLevel) -> bool,
    ) {
        let notice = |server: &str| AgentEvent::Notification {
            method: method.to_owned(),
            params: params(server),
        };
        let is_told = self.state(|state| {
            let Some(agent) = state.sole_recipient(self.is_sole) else { return false };
            let is_its =
                |entered: &&ActiveRequest| entered.agent == agent && entered.events.is_some();
            if let Some(entered) = state.requests.iter().rev().find(is_its) {
                if hears(entered.log) {
                    offer(entered.events.as_ref(), notice(&entered.server));
                }
                return true;
            }
            for AttachedAgent { agent: attached, server } in &state.attached {
                if attached.connection_owner == agent && hears(attached.log_level()) {
                    offer(attached.session_events.as_ref(), notice(server));
                }
            }
            true
        });
        if !is_told {
            self.log_unroutable(method, params(&self.server).as_ref());
        }
    }

    fn log_unroutable(&self, method: &str, params: Option<&RawJson>) {
        let server = &self.server;
        let is_news = self.state(|state| {
            let is_anybodys = state.process.users.are_several() || state.attached.len() > 1;
            is_anybodys && !std::mem::replace(&mut state.has_warned_unroutable, true)
        });
        if is_news {
            tracing::info!(
                server,
                "a notification could belong to more than one agent and is only logged; set \
                 `\"isolation\": \"session\"` to give each agent its own process"
            );
        }
        let said = params.map(RawJson::as_str).unwrap_or_default();
        let said: String = self.secrets.redact_json_text(&said).chars().take(MAX_LOGGED).collect();
        tracing::info!(target: "server", server, method, "{said}");
    }
}

fn notice(method: &str, params: Option<&RawJson>) -> AgentEvent {
    AgentEvent::Notification { method: method.to_owned(), params: params.cloned() }
}

fn offer(to: Option<&events::Sender>, notice: AgentEvent) {
    if to.is_some_and(|to| to.try_send(notice).is_some()) {
        tracing::debug!("notification dropped: the agent's queue is full");
    }
}

/// Removes the server's subscription id, and all but the first of repeated `_meta` members.
fn without_subscription(params: RawJson) -> Result<RawJson, EditError> {
    let Some(meta) = params.member("_meta") else { return Ok(params) };
    let is_object = meta.as_bytes().starts_with(b"{");
    let bare = if is_object { meta.without_member(SUBSCRIPTION_ID)? } else { meta.clone() };
    if bare.as_bytes() == b"{}" && bare != meta {
        return params.without_member("_meta");
    }
    params.with_member("_meta", &bare)
}
