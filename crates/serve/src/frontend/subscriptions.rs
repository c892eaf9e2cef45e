//! `subscriptions/listen`, the long-lived request through which modern agents receive change
//! notifications (2026-07-28, basic/patterns/subscriptions).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::exposure::{Exposure, ListMutability, SessionChoices, startup};
use crate::frontend::era::RequestMeta;
use crate::frontend::handshake::{over_capacity, server_info};
use crate::frontend::name_resolution;
use crate::frontend::primitives::{call_error_outcome, subscribe_at_first};
use crate::frontend::request::{AgentRequest, send};
use crate::frontend::session::{AgentClient, AgentSession};
use crate::frontend::shown_lists::{ListChanges, ShownLists};
use mcp_workbench_core::backend::{RpcOutcome, events};
use mcp_workbench_core::gateway::{
    AgentEvent, AgentHandle, CallError, Gateway, SubscriptionLimitError,
};
use mcp_workbench_core::telemetry::QuotaKind;
use mcp_workbench_wire::ConnectionClosed;
use mcp_workbench_wire::code::INVALID_PARAMS;
use mcp_workbench_wire::incoming::{Responder, error_object};
use mcp_workbench_wire::json::{self, RawJson};

const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
/// Bytes for all other members of a filter.
const OTHER_MEMBERS: usize = 64 * 1024;
const EVENTS: usize = 256;
const DEBOUNCE: Duration = Duration::from_millis(50);

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SubscriptionFilter {
    tools_list_changed: bool,
    resources_list_changed: bool,
    prompts_list_changed: bool,
    resource_subscriptions: BTreeSet<String>,
    task_ids: BTreeSet<String>,
}

impl SubscriptionFilter {
    fn of(&self, changed: ListChanges) -> ListChanges {
        ListChanges {
            tools: changed.tools && self.tools_list_changed,
            resources: changed.resources && self.resources_list_changed,
            prompts: changed.prompts && self.prompts_list_changed,
        }
    }

    fn encode(&self) -> RawJson {
        let mut members = Map::new();
        let lists = [
            ("toolsListChanged", self.tools_list_changed),
            ("resourcesListChanged", self.resources_list_changed),
            ("promptsListChanged", self.prompts_list_changed),
        ];
        members.extend(
            lists
                .into_iter()
                .filter(|(_, is_wanted)| *is_wanted)
                .map(|(k, v)| (k.to_owned(), v.into())),
        );
        for (key, list) in
            [("resourceSubscriptions", &self.resource_subscriptions), ("taskIds", &self.task_ids)]
        {
            if !list.is_empty() {
                members.insert(key.to_owned(), json!(list));
            }
        }
        RawJson::encode(&Value::Object(members))
    }
}

pub(crate) async fn listen(
    session: Arc<AgentSession>,
    request: AgentRequest,
    responder: Responder,
) {
    let wanted = request.param("notifications");
    if wanted.is_some_and(|wanted| wanted.len() > longest_filter(&session)) {
        let limits = session.app().gateways.config().limits.per_caller;
        let most = limits.max_subscription_bytes;
        session.quota().report_limit_reached(QuotaKind::Subscriptions);
        let error = SubscriptionLimitError::Bytes { owner: session.quota().payer().clone(), most };
        return send(responder, call_error_outcome(&error.into())).await;
    }
    let Some(wanted) = wanted.and_then(|wanted| wanted.parse::<SubscriptionFilter>().ok()) else {
        let message = "`notifications` is missing or invalid";
        return send(responder, RpcOutcome::Error(error_object(INVALID_PARAMS, message, None)))
            .await;
    };
    let client = AgentClient::of(request.meta.client.as_ref());
    let capabilities = request.meta.capabilities.as_ref();
    let mut gateways = match session.app().gateways.subscribe(session.caller(), capabilities) {
        Ok(gateways) => gateways,
        Err(error) => return send(responder, over_capacity(error)).await,
    };
    let exposure = session.exposure_for(gateways.borrow_and_update().clone(), &client);
    startup::ensure_started(&exposure, &session.presence(&request.meta)).await;
    let (sender, events) = events::channel(EVENTS);
    let agent = session.presence(&request.meta).listener(sender);
    let mut listening = Subscription {
        session: &session,
        exposure,
        gateways,
        client,
        meta: &request.meta,
        agent: &agent,
        responder: &responder,
    };
    let ended = listening.run(wanted, events).await;
    session.app().gateways.remove_agent(agent.id);
    match ended {
        Ok(()) => {}
        Err(ListenError::Refused(refusal)) => return send(responder, refusal).await,
        Err(ListenError::Closed) => {
            tracing::debug!("the agent disconnected during its subscription");
        }
    }
    let meta = json!({"io.modelcontextprotocol/serverInfo": server_info()});
    let meta = RawJson::encode(&meta).with_member(SUBSCRIPTION_ID, responder.id());
    let complete = RawJson::encode(&"complete");
    let result = meta.map(|meta| json::object([("resultType", &complete), ("_meta", &meta)]));
    send(responder, RpcOutcome::from_edit(result)).await;
}

/// Returns the maximum bytes of a filter that can be within the caller's limits: each byte of a URI
/// takes up to six as JSON, and each entry three for its quotation marks and comma.
fn longest_filter(session: &AgentSession) -> usize {
    let limits = session.app().gateways.config().limits.per_caller;
    let text = limits.max_subscription_bytes.saturating_mul(6);
    text.saturating_add(limits.max_subscriptions.saturating_mul(3)).saturating_add(OTHER_MEMBERS)
}

enum ListenError {
    Closed,
    /// The caller has too many subscriptions.
    Refused(RpcOutcome),
}

impl From<ConnectionClosed> for ListenError {
    fn from(ConnectionClosed: ConnectionClosed) -> Self {
        Self::Closed
    }
}

struct Subscription<'a> {
    session: &'a AgentSession,
    exposure: Exposure,
    gateways: watch::Receiver<Arc<Gateway>>,
    client: AgentClient,
    meta: &'a RequestMeta,
    agent: &'a AgentHandle,
    responder: &'a Responder,
}

impl Subscription<'_> {
    async fn run(
        &mut self,
        mut wanted: SubscriptionFilter,
        mut events: events::Receiver,
    ) -> Result<(), ListenError> {
        // Take the baseline before acknowledging, so that no change in between is missed.
        let mut snapshots = self.exposure.gateway().views().snapshots();
        let mut shown = ShownLists::default();
        let mut chosen = SessionChoices::default();
        let mutability = ListMutability::Fixed;
        let snapshot = snapshots.borrow_and_update().clone();
        shown.update(&self.exposure, mutability, &chosen, &snapshot);
        shown.give(&self.exposure, &self.exposure.tools(mutability, &chosen));
        let uris = std::mem::take(&mut wanted.resource_subscriptions);
        for uri in uris {
            if self.subscribe(&uri).await? {
                wanted.resource_subscriptions.insert(uri);
            }
        }
        let tasks = std::mem::take(&mut wanted.task_ids);
        for task in tasks {
            let gateway = self.exposure.gateway();
            if let Some(server) =
                gateway.tasks().task_server(&task, self.agent, self.session.key()).await
            {
                let watched = gateway.servers().watch_task(&server, &task, self.agent);
                watched.map_err(|error| ListenError::Refused(call_error_outcome(&error)))?;
                wanted.task_ids.insert(task);
            }
        }
        let accepted = json::object([("notifications", &wanted.encode())]);
        self.tell("notifications/subscriptions/acknowledged", Some(accepted)).await?;
        loop {
            tokio::select! {
                () = self.responder.cancelled() => return Ok(()),
                () = self.session.closing() => return Ok(()),
                replaced = self.gateways.changed() => {
                    if replaced.is_err() {
                        return Ok(());
                    }
                    let gateway = self.gateways.borrow_and_update().clone();
                    let next = self.session.exposure_for(gateway, &self.client);
                    let before = std::mem::replace(&mut self.exposure, next);
                    before.gateway().access().move_agent(self.agent.id, self.exposure.gateway().access());
                    snapshots = self.exposure.gateway().views().snapshots();
                    snapshots.mark_unchanged();
                    let changed = shown.replace(&before, &self.exposure, mutability, &mut chosen);
                    drop(before);
                    self.session.start_unlisted_servers(&self.exposure, &chosen.opened, self.agent);
                    for method in wanted.of(changed).notices() {
                        self.tell(method, None).await?;
                    }
                }
                changed = snapshots.changed() => {
                    if changed.is_err() {
                        return Ok(());
                    }
                    sleep(DEBOUNCE).await;
                    let snapshot = snapshots.borrow_and_update().clone();
                    let changed = shown.update(&self.exposure, mutability, &chosen, &snapshot);
                    for method in wanted.of(changed).notices() {
                        self.tell(method, None).await?;
                    }
                }
                Some(event) = events.recv() => self.pass_on(&wanted, event).await?,
            }
        }
    }

    /// Returns whether the server accepted the subscription.
    async fn subscribe(&self, uri: &str) -> Result<bool, ListenError> {
        let known = name_resolution::resource_owners(self.session, &self.exposure, self.meta, uri);
        let subscriber = (self.agent, self.session.caller());
        let known = known.unwrap_or_default();
        let subscribed = subscribe_at_first(self.exposure.gateway(), known, uri, subscriber).await;
        match subscribed {
            Some(Err(error @ CallError::TooManySubscriptions(_))) => {
                Err(ListenError::Refused(call_error_outcome(&error)))
            }
            subscribed => Ok(matches!(subscribed, Some(Ok(RpcOutcome::Result(_))))),
        }
    }

    async fn pass_on(
        &self,
        wanted: &SubscriptionFilter,
        event: AgentEvent,
    ) -> Result<(), ConnectionClosed> {
        let AgentEvent::Notification { method, params } = event else { return Ok(()) };
        let is_wanted = match method.as_str() {
            "notifications/resources/updated" => true,
            "notifications/tasks" => {
                let task = params.as_ref().and_then(|params| params.member("taskId"));
                let task: Option<String> = task.and_then(|task| task.parse().ok());
                task.is_some_and(|task| wanted.task_ids.contains(&task))
            }
            _ => false,
        };
        if is_wanted { self.tell(&method, params).await } else { Ok(()) }
    }

    async fn tell(&self, method: &str, params: Option<RawJson>) -> Result<(), ConnectionClosed> {
        let params = params.unwrap_or_else(|| json::object([]));
        let meta = params.member("_meta").unwrap_or_else(|| json::object([]));
        let meta = meta.with_member(SUBSCRIPTION_ID, self.responder.id());
        match meta.and_then(|meta| params.with_member("_meta", &meta)) {
            Ok(params) => self.responder.notify(method, Some(params)).await,
            Err(error) => {
                tracing::debug!(method, %error, "dropped notification of a subscription");
                Ok(())
            }
        }
    }
}
