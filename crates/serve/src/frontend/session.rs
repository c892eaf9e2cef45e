//! The session of a connected agent: its opened toolboxes, its tool list, and the changes it was
//! notified of.

mod list_changes;
mod ownership;
mod push;
mod record;
mod runtime;

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;
use rmcp::model::ProtocolVersion;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::backend::RpcOutcome;
use crate::exposure::context_cost::{baseline_bytes, shown_bytes};
use crate::exposure::{
    Activation, ClientProfile, Exposure, ListMutability, SessionChoices, ToolMode,
};
use crate::frontend::AppState;
use crate::frontend::era::RequestMeta;
use crate::frontend::known_clients;
use crate::frontend::list_version::DeliveredVersion;
pub(crate) use crate::frontend::session::list_changes::ListBuildGuard;
#[cfg(test)]
pub(crate) use crate::frontend::session::ownership::OWNERSHIP_TTL;
use crate::frontend::session::runtime::{RecordOwnership, SessionRuntime};
use crate::frontend::shown_lists::{ListChanges, ShownLists};
use crate::gateway::{
    AgentHandle, Caller, CallerQuota, Gateway, GatewayLimitError, LogLevel, Snapshot,
};
use crate::json::RawJson;
use crate::name::ToolboxName;
use crate::state::SessionRecord as Record;
use crate::state::{ClientInfo, ClientIntroduction, ListDigests, SessionKey, Takeovers};
use crate::telemetry::ClientSummary;
use crate::wire::agent::Notifier;

pub(crate) struct AgentSession {
    app: AppState,
    mode: ToolMode,
    caller: Caller,
    /// Survives when the session is restored from its record.
    live: Arc<SessionRuntime>,
    /// `None` if the agent can't be notified.
    current: Option<CurrentSession>,
    introduced: OnceLock<ClientSetup>,
    state: Mutex<SessionState>,
    listed: DeliveredVersion,
    lists_in_progress: watch::Sender<usize>,
}

/// The current session of an agent. Restoring from the record replaces it.
type CurrentSession = Arc<Mutex<Weak<AgentSession>>>;

struct ClientSetup {
    introduction: ClientIntroduction,
    /// `true` if the client's revision has resource links in tool results (2025-06-18 and later).
    reads_links: bool,
    client: AgentClient,
    /// The gateway in use; it changes when the configuration is reloaded.
    gateway: watch::Receiver<Arc<Gateway>>,
    /// Cancelled when a restored session replaces this one.
    replaced: CancellationToken,
}

#[derive(Default)]
pub(crate) struct AgentClient {
    name: String,
    known: ClientProfile,
}

impl AgentClient {
    pub(crate) fn of(program: Option<&ClientInfo>) -> Self {
        let Some(program) = program else { return Self::default() };
        Self { name: program.name.clone(), known: known_clients::profile_for(program) }
    }
}

#[derive(Default)]
struct SessionState {
    chosen: Arc<SessionChoices>,
    shown: ShownLists,
    version: u64,
    /// The version that the client didn't list in time, if any.
    ignored: Option<u64>,
    subscriptions: BTreeSet<Arc<str>>,
    /// Digests of the lists last given. Empty unless another process could take the session over.
    digests: ListDigests,
    moves: Takeovers,
    /// The record last saved, to skip unchanged ones.
    saved: Option<Arc<Record>>,
}

impl SessionState {
    fn update(&mut self, exposure: &Exposure, snapshot: &Snapshot) -> ListChanges {
        let changed = self.shown.update(exposure, ListMutability::Mutable, &self.chosen, snapshot);
        self.version += u64::from(changed.tools);
        changed
    }

    /// Like `update`, after a new configuration replaced the one behind `before`.
    fn replace(&mut self, before: &Exposure, exposure: &Exposure) -> ListChanges {
        let Self { shown, chosen, .. } = self;
        let chosen = Arc::make_mut(chosen);
        let changed = shown.replace(before, exposure, ListMutability::Mutable, chosen);
        self.version += u64::from(changed.tools);
        changed
    }
}

impl AgentSession {
    /// Creates a session. Without a `notifier`, the agent can't receive messages outside of
    /// requests. Without a `key`, no record is saved.
    pub(crate) fn new(
        app: &AppState,
        caller: Caller,
        quota: Arc<CallerQuota>,
        notifier: Option<Notifier>,
        key: Option<SessionKey>,
    ) -> Arc<Self> {
        let place = key.map(|key| RecordOwnership::new(key, app));
        let (live, events) = SessionRuntime::new(app, &caller, quota, notifier, place);
        let mode = app.gateways.mode(&caller);
        let current = live.notifier.is_some().then(CurrentSession::default);
        let session = Self::with(live, current, caller, mode, SessionState::default());
        if let (Some(notifier), Some(current)) = (&session.live.notifier, &session.current) {
            let (notifier, current) = (notifier.clone(), Arc::clone(current));
            session.spawn(Self::tell_events(notifier, current, events));
        }
        session
    }

    fn with(
        live: Arc<SessionRuntime>,
        current: Option<CurrentSession>,
        caller: Caller,
        mode: ToolMode,
        state: SessionState,
    ) -> Arc<Self> {
        let session = Arc::new(Self {
            app: live.app.clone(),
            mode,
            caller,
            live,
            current,
            introduced: OnceLock::new(),
            state: Mutex::new(state),
            listed: DeliveredVersion::default(),
            lists_in_progress: watch::Sender::default(),
        });
        if let Some(current) = &session.current {
            let mut current = current.lock();
            *current = Arc::downgrade(&session);
        }
        session
    }

    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.app.tasks.spawn(self.live.ended.clone().run_until_cancelled_owned(Box::pin(work)));
    }

    pub(crate) fn initialize(
        self: &Arc<Self>,
        introduction: ClientIntroduction,
    ) -> Result<(), GatewayLimitError> {
        if let Some(guest) = &self.live.guest {
            guest.report_client(&introduction.client.name, &introduction.client.version);
        }
        self.attach_gateway(introduction, false)
    }

    /// Attaches the session to the gateway for this introduction, and watches it for changes. With
    /// `goes_on`, the agent is notified of changes that occur before the watch starts.
    fn attach_gateway(
        self: &Arc<Self>,
        introduction: ClientIntroduction,
        goes_on: bool,
    ) -> Result<(), GatewayLimitError> {
        let older = [ProtocolVersion::V_2024_11_05, ProtocolVersion::V_2025_03_26];
        let reads_links = !older.iter().any(|older| older.as_str() == introduction.protocol);
        let capabilities = Some(&introduction.capabilities);
        let gateway = self.app.gateways.subscribe(&self.caller, capabilities)?;
        let client = AgentClient::of(Some(&introduction.client));
        let is_replaced = CancellationToken::new();
        let over = is_replaced.clone();
        let introduced =
            ClientSetup { introduction, reads_links, client, gateway, replaced: is_replaced };
        if self.introduced.set(introduced).is_ok() {
            // Set the baseline without a notification: the client hasn't listed anything yet.
            let exposure = self.exposure(&RequestMeta::legacy());
            let snapshot = exposure.gateway().snapshot();
            self.state(|state| state.update(&exposure, &snapshot));
            self.record_client_program(&exposure);
            let watching = Arc::clone(self);
            let watching = over
                .run_until_cancelled_owned(Box::pin(async move { watching.watch(goes_on).await }));
            self.spawn(async move {
                let _replaced = watching.await;
            });
        }
        Ok(())
    }

    /// Reserves capacity for the capabilities in a modern request. Legacy clients did so in
    /// `initialize`.
    pub(crate) fn admit(&self, meta: &RequestMeta) -> Result<(), GatewayLimitError> {
        if !meta.is_modern && self.introduced.get().is_some() {
            return Ok(());
        }
        if let (Some(guest), Some(client)) = (&self.live.guest, &meta.client) {
            guest.report_client(&client.name, &client.version);
        }
        self.app.gateways.admit(&self.caller, meta.capabilities.as_ref())
    }

    pub(crate) fn exposure(&self, meta: &RequestMeta) -> Exposure {
        let gateways = &self.app.gateways;
        match (meta.is_modern, self.introduced.get()) {
            (false, Some(introduced)) => {
                self.exposure_for(introduced.gateway.borrow().clone(), &introduced.client)
            }
            (false, None) => {
                self.exposure_for(gateways.gateway_for(&self.caller, None), &AgentClient::default())
            }
            (true, _) => self.exposure_for(
                gateways.gateway_for(&self.caller, meta.capabilities.as_ref()),
                &AgentClient::of(meta.client.as_ref()),
            ),
        }
    }

    pub(crate) fn exposure_for(&self, gateway: Arc<Gateway>, client: &AgentClient) -> Exposure {
        Exposure::new(gateway, &client.name, client.known).with_mode(self.mode)
    }

    pub(crate) fn app(&self) -> &AppState {
        &self.app
    }

    pub(crate) fn quota(&self) -> &Arc<CallerQuota> {
        &self.live.quota
    }

    pub(crate) fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Returns the handle for messages from servers. A modern agent is reachable only within
    /// requests.
    pub(crate) fn presence(&self, meta: &RequestMeta) -> AgentHandle {
        if meta.is_modern {
            self.live.agent.without_session_events()
        } else {
            self.live.agent.clone()
        }
    }

    pub(crate) fn can_notify(&self) -> bool {
        self.live.notifier.is_some()
    }

    pub(crate) fn log(&self, meta: &RequestMeta) -> LogLevel {
        if meta.is_modern { meta.log.unwrap_or(LogLevel::OFF) } else { self.live.agent.log_level() }
    }

    fn capabilities<'a>(&'a self, meta: &'a RequestMeta) -> Option<&'a RawJson> {
        if meta.is_modern {
            meta.capabilities.as_ref()
        } else {
            self.introduced.get().map(|introduced| &introduced.introduction.capabilities)
        }
    }

    /// `true` if the client declared the capability for this server request.
    pub(crate) fn can_answer(&self, method: &str, meta: &RequestMeta) -> bool {
        let Some((needed @ ("elicitation" | "sampling" | "roots"), _)) = method.split_once('/')
        else {
            return true;
        };
        self.capabilities(meta).is_some_and(|all| all.member(needed).is_some())
    }

    pub(crate) fn reads_links(&self, meta: &RequestMeta) -> bool {
        meta.is_modern || self.introduced.get().is_none_or(|introduced| introduced.reads_links)
    }

    pub(crate) fn handle_notification(&self, method: &str, params: Option<&RawJson>) {
        match (method, self.introduced.get()) {
            ("notifications/initialized", _) => {}
            ("notifications/roots/list_changed", Some(introduced)) => {
                let gateway = introduced.gateway.borrow().clone();
                gateway.notify_roots_changed(&self.live.agent);
            }
            _ => tracing::debug!(method, ?params, "ignored notification"),
        }
    }

    /// Ends requests that only wait for changes, before the connection closes.
    pub(crate) fn close_subscriptions(&self) {
        self.live.closing.cancel();
    }

    pub(crate) fn end(&self) {
        self.live.end();
    }

    pub(crate) async fn closing(&self) {
        self.live.closing.cancelled().await;
    }

    fn state<T>(&self, f: impl FnOnce(&mut SessionState) -> T) -> T {
        f(&mut self.state.lock())
    }

    pub(crate) fn chosen(&self) -> (Arc<SessionChoices>, u64) {
        self.state(|state| (Arc::clone(&state.chosen), state.version))
    }

    /// Reports the client to telemetry, which estimates the tokens of tool definitions.
    fn record_client_program(&self, exposure: &Exposure) {
        if let (Some(guest), Some(introduced)) = (&self.live.guest, self.introduced.get()) {
            guest.set_client(ClientSummary {
                name: introduced.client.name.clone(),
                has_tool_search: exposure.profile().has_tool_search,
            });
        }
    }

    pub(crate) fn record_tools_given(&self, exposure: &Exposure, tools: &[RawJson]) {
        self.state(|state| state.shown.give(exposure, tools));
        self.record_list_given(|digests| &mut digests.tools, tools);
        if let Some(guest) = &self.live.guest {
            guest.record_tool_list(shown_bytes(exposure, tools), baseline_bytes(exposure));
            if exposure.starts_all_servers() {
                for toolbox in &exposure.gateway().config().toolboxes {
                    guest.record_toolbox_opened(&toolbox.name);
                }
            }
        }
    }

    pub(crate) fn record_definitions_sent(&self, outcome: &RpcOutcome, meta: &RequestMeta) {
        if let (Some(guest), RpcOutcome::Result(result)) = (&self.live.guest, outcome) {
            guest.record_definitions_sent(result.len(), baseline_bytes(&self.exposure(meta)));
        }
    }

    pub(crate) async fn record_listed(&self, version: u64) {
        self.listed.note(version);
        // The client was only slow: wait for it again next time.
        self.state(|state| state.ignored = state.ignored.filter(|ignored| *ignored > version));
        self.save().await;
    }

    /// Opens a toolbox and notifies the agent if its tool list changes.
    ///
    /// With `waits`, returns once the agent has listed its tools again, so that the model can use
    /// them in its next step. A client that doesn't list in time is not waited for again until it
    /// lists. Without `waits`, a tool call opened the toolbox, and its unlisted servers start in
    /// the background.
    ///
    /// Returns `false` if the agent should have listed its tools again and didn't.
    pub(crate) async fn open_toolbox(
        &self,
        exposure: &Exposure,
        toolbox: ToolboxName,
        waits: bool,
    ) -> bool {
        // A reload of the configuration may have removed it.
        let is_gone = exposure.gateway().toolbox(toolbox.as_str()).is_err();
        if exposure.starts_all_servers() || is_gone {
            return true;
        }
        if !waits && self.state(|state| state.chosen.opened.contains(&toolbox)) {
            return true; // `watch` reports later changes.
        }
        let snapshot = exposure.gateway().snapshot();
        let (is_new, changed, version) = self.state(|state| {
            let is_new = Arc::make_mut(&mut state.chosen).opened.insert(toolbox.clone());
            let changed = state.update(exposure, &snapshot);
            (is_new, changed, state.version)
        });
        if is_new && let Some(guest) = &self.live.guest {
            guest.record_toolbox_opened(&toolbox);
        }
        if is_new && !waits {
            // Only unlisted servers: the called one is listed, even if the call crashed it.
            self.start_unlisted_servers(exposure, &BTreeSet::from([toolbox]), &self.live.agent);
        }
        Box::pin(self.notify_and_wait(exposure, changed, version, waits)).await
    }

    /// Activates and deactivates primitives, and notifies the agent of changes. `waits` and the
    /// result are as for [`Self::open_toolbox`].
    pub(crate) async fn switch(
        &self,
        exposure: &Exposure,
        switched: Vec<Activation>,
        waits: bool,
    ) -> bool {
        let snapshot = exposure.gateway().snapshot();
        let (changed, version) = self.state(|state| {
            Arc::make_mut(&mut state.chosen).switch(switched);
            (state.update(exposure, &snapshot), state.version)
        });
        Box::pin(self.notify_and_wait(exposure, changed, version, waits)).await
    }

    pub(crate) async fn record_relist_hint(&self) {
        self.state(|state| Arc::make_mut(&mut state.chosen).is_told = true);
        self.save().await;
    }

    /// Notifies the agent of the changes up to `version`. With `waits`, returns once its model has
    /// that version, or `false` if the client doesn't list again.
    async fn notify_and_wait(
        &self,
        exposure: &Exposure,
        changed: ListChanges,
        version: u64,
        waits: bool,
    ) -> bool {
        self.save().await;
        // Subscribe before notifying, because the agent may list again immediately.
        let awaited = self.listed.awaited(version);
        self.notify_list_changes(changed).await;
        let Some(awaited) = awaited.filter(|_| waits) else { return true };
        if self.state(|state| state.ignored.is_some()) {
            return false;
        }
        let arrives = awaited.delivered(exposure.profile().settling).await;
        if !arrives {
            tracing::info!("the client did not list its tools again after a change");
            self.state(|state| state.ignored = Some(version));
            self.save().await;
        }
        arrives
    }
}
