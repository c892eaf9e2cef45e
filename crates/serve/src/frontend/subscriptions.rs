//! Changes as a modern agent hears of them: through a request that stays open (2026-07-28,
//! basic/patterns/subscriptions).

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::backend::{Outcome, events};
use crate::exposure::{Chosen, Exposure, Surface};
use crate::frontend::asked::{Asked, send};
use crate::frontend::era::RequestMeta;
use crate::frontend::handshake::{crowded, ourselves};
use crate::frontend::primitives::subscribe_at_first;
use crate::frontend::resolve;
use crate::frontend::session::{Client, Session};
use crate::frontend::shown::{Changed, Shown};
use crate::gateway::{Event, Gateway, Presence};
use crate::raw::{self, Raw};
use crate::wire::Closed;
use crate::wire::code::INVALID_PARAMS;
use crate::wire::incoming::{Reply, error_object};

/// The member of `_meta` that names the subscription in each of its messages.
const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
/// How much may wait for an agent that does not take what it is told.
const EVENTS: usize = 256;
/// Changes of lists within this time are told together.
const DEBOUNCE: Duration = Duration::from_millis(50);

/// The changes that an agent wants to hear of.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Wanted {
    tools_list_changed: bool,
    resources_list_changed: bool,
    prompts_list_changed: bool,
    resource_subscriptions: Vec<String>,
    task_ids: Vec<String>,
}

impl Wanted {
    /// Picks the changes that are wanted.
    fn of(&self, changed: Changed) -> Changed {
        Changed {
            tools: changed.tools && self.tools_list_changed,
            resources: changed.resources && self.resources_list_changed,
            prompts: changed.prompts && self.prompts_list_changed,
        }
    }

    fn encode(&self) -> Raw {
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
        Raw::encode(&Value::Object(members))
    }
}

/// Tells the agent of what it wants to hear of until it cancels the request, or the session ends.
pub(crate) async fn listen(session: Arc<Session>, asked: Asked, reply: Reply) {
    let wanted = asked.param("notifications").and_then(|wanted| wanted.parse::<Wanted>().ok());
    let Some(wanted) = wanted else {
        let message = "`notifications` is missing, or is not what may be listened for";
        return send(reply, Outcome::Error(error_object(INVALID_PARAMS, message, None))).await;
    };
    let client = Client::of(asked.meta.client.as_ref());
    let capabilities = asked.meta.capabilities.as_ref();
    let mut gateways = match session.app().gateways.follow(session.caller(), capabilities) {
        Ok(gateways) => gateways,
        Err(error) => return send(reply, crowded(error)).await,
    };
    let exposure = session.present(gateways.borrow_and_update().clone(), &client);
    exposure.start_everything(&session.presence(&asked.meta)).await;
    let (sender, events) = events::channel(EVENTS);
    let presence = session.presence(&asked.meta).listener(sender);
    let mut listening = Listening {
        session: &session,
        exposure,
        gateways,
        client,
        meta: &asked.meta,
        presence: &presence,
        reply: &reply,
    };
    if listening.run(wanted, events).await.is_err() {
        tracing::debug!("the agent left while it listened");
    }
    session.app().gateways.leave(presence.id);
    let meta = json!({"io.modelcontextprotocol/serverInfo": ourselves()});
    let meta = Raw::encode(&meta).with_member(SUBSCRIPTION_ID, reply.id());
    let complete = Raw::encode(&"complete");
    let members = [("resultType", Some(&complete)), ("_meta", meta.as_ref())];
    let members = members.into_iter().filter_map(|(key, value)| Some((key, value?)));
    let result = raw::object(members);
    send(reply, Outcome::Result(result)).await;
}

struct Listening<'a> {
    session: &'a Session,
    /// The exposure that is listened to now, until another takes its place.
    exposure: Exposure,
    gateways: watch::Receiver<Arc<Gateway>>,
    client: Client,
    meta: &'a RequestMeta,
    presence: &'a Presence,
    reply: &'a Reply,
}

impl Listening<'_> {
    async fn run(
        &mut self,
        mut wanted: Wanted,
        mut events: events::Receiver,
    ) -> Result<(), Closed> {
        // What is shown is looked at before the agent is told that it is heard, so that nothing
        // falls between.
        let mut snapshots = self.exposure.gateway().snapshots();
        let mut shown = Shown::default();
        let mut chosen = Chosen::default();
        let surface = Surface::Constant;
        let snapshot = snapshots.borrow_and_update().clone();
        shown.update(&self.exposure, surface, &chosen, &snapshot);
        shown.give(&self.exposure, &self.exposure.tools(surface, &chosen));
        let uris = std::mem::take(&mut wanted.resource_subscriptions);
        for uri in uris {
            if self.subscribe(&uri).await {
                wanted.resource_subscriptions.push(uri);
            }
        }
        let tasks = std::mem::take(&mut wanted.task_ids);
        for task in tasks {
            let gateway = self.exposure.gateway();
            if let Some(server) = gateway.task(&task, self.presence, self.session.key()).await {
                gateway.watch_task(&server, &task, self.presence);
                wanted.task_ids.push(task);
            }
        }
        let accepted = raw::object([("notifications", &wanted.encode())]);
        self.tell("notifications/subscriptions/acknowledged", Some(accepted)).await?;
        loop {
            tokio::select! {
                () = self.reply.cancelled() => return Ok(()),
                () = self.session.leaving() => return Ok(()),
                replaced = self.gateways.changed() => {
                    if replaced.is_err() {
                        return Ok(());
                    }
                    let gateway = self.gateways.borrow_and_update().clone();
                    let next = self.session.present(gateway, &self.client);
                    let before = std::mem::replace(&mut self.exposure, next);
                    before.gateway().hand_over(self.presence.id, self.exposure.gateway());
                    snapshots = self.exposure.gateway().snapshots();
                    snapshots.mark_unchanged();
                    let changed = shown.replace(&before, &self.exposure, surface, &mut chosen);
                    drop(before);
                    self.session.start_new(&self.exposure, &chosen.opened, self.presence);
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
                    let changed = shown.update(&self.exposure, surface, &chosen, &snapshot);
                    for method in wanted.of(changed).notices() {
                        self.tell(method, None).await?;
                    }
                }
                Some(event) = events.recv() => self.pass_on(&wanted, event).await?,
            }
        }
    }

    async fn subscribe(&self, uri: &str) -> bool {
        let known = resolve::known(self.session, &self.exposure, self.meta, uri);
        let subscriber = (self.presence, self.session.caller());
        let known = known.unwrap_or_default();
        let subscribed = subscribe_at_first(self.exposure.gateway(), known, uri, subscriber).await;
        matches!(subscribed, Some(Ok(Outcome::Result(_))))
    }

    async fn pass_on(&self, wanted: &Wanted, event: Event) -> Result<(), Closed> {
        let Event::Notice { method, params } = event else { return Ok(()) };
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

    async fn tell(&self, method: &str, params: Option<Raw>) -> Result<(), Closed> {
        let params = params.unwrap_or_else(|| raw::object([]));
        let meta = params.member("_meta").unwrap_or_else(|| raw::object([]));
        let meta = meta.with_member(SUBSCRIPTION_ID, self.reply.id()).unwrap_or(meta);
        let params = params.with_member("_meta", &meta).unwrap_or(params);
        self.reply.notify(method, Some(params)).await
    }
}
