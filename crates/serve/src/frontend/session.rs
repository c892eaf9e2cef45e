//! The session of a connected agent: its opened toolboxes, its tool list, and the changes it was
//! notified of.

pub mod creation;
pub(crate) mod lists_in_progress;
pub mod ownership;
pub(crate) mod push;
mod runtime;
mod state;

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::model::ProtocolVersion;
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};

use crate::exposure::context_cost::{baseline_bytes, shown_bytes};
use crate::exposure::{
    Activation, ClientProfile, Exposure, ListMutability, SessionChoices, ToolMode, startup,
};
use crate::frontend::AppState;
use crate::frontend::era::RequestMeta;
use crate::frontend::known_clients;
use crate::frontend::list_version::DeliveredVersion;
use crate::frontend::session::lists_in_progress::{ListBuildGuard, ListsInProgress};
use crate::frontend::session::ownership::RecordOwnership;
use crate::frontend::session::runtime::SessionRuntime;
use crate::frontend::session::state::SessionState;
use crate::frontend::shown_lists::ListChanges;
use mcp_workbench_core::backend::RpcOutcome;
use mcp_workbench_core::gateway::{
    AgentHandle, Caller, CallerQuota, Gateway, GatewayLimitError, LogLevel,
};
use mcp_workbench_core::state::{
    Capacity, ClientInfo, ClientIntroduction, ListDigests, ListState, RecordKey, SessionKey,
    SessionRecord, StateRecord,
};
use mcp_workbench_core::telemetry::ClientSummary;
use mcp_workbench_names::ToolboxName;
use mcp_workbench_wire::json::RawJson;

const DEBOUNCE: Duration = Duration::from_millis(50);

/// A session of an agent: its choices, its lists, and its connections to agent and servers.
pub struct AgentSession {
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
    lists_in_progress: ListsInProgress,
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

impl AgentSession {
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
            lists_in_progress: ListsInProgress::default(),
        });
        if let Some(current) = &session.current {
            let mut current = current.lock();
            *current = Arc::downgrade(&session);
        }
        session
    }

    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let work = self.live.ended.clone().run_until_cancelled_owned(Box::pin(work));
        self.app.tasks.spawn(work.instrument(self.span().clone()));
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
    pub fn admit(&self, meta: &RequestMeta) -> Result<(), GatewayLimitError> {
        if !meta.is_modern && self.introduced.get().is_some() {
            return Ok(());
        }
        if let (Some(guest), Some(client)) = (&self.live.guest, &meta.client) {
            guest.report_client(&client.name, &client.version);
        }
        self.app.gateways.admit(&self.caller, meta.capabilities.as_ref())
    }

    pub fn exposure(&self, meta: &RequestMeta) -> Exposure {
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

    pub fn span(&self) -> &Span {
        &self.live.span
    }

    pub fn quota(&self) -> &Arc<CallerQuota> {
        &self.live.quota
    }

    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Returns the handle for messages from servers. A modern agent is reachable only within
    /// requests.
    pub fn presence(&self, meta: &RequestMeta) -> AgentHandle {
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

    /// Returns the name that the client program reports; empty if it reports none.
    pub(crate) fn client_name<'a>(&'a self, meta: &'a RequestMeta) -> &'a str {
        match (&meta.client, self.introduced.get()) {
            (Some(client), _) => &client.name,
            (None, Some(introduced)) => &introduced.client.name,
            (None, None) => "",
        }
    }

    pub(crate) fn reads_links(&self, meta: &RequestMeta) -> bool {
        meta.is_modern || self.introduced.get().is_none_or(|introduced| introduced.reads_links)
    }

    pub fn handle_notification(&self, method: &str, params: Option<&RawJson>) {
        let _entered = self.span().enter();
        match (method, self.introduced.get()) {
            ("notifications/initialized", _) => {}
            ("notifications/roots/list_changed", Some(introduced)) => {
                let gateway = introduced.gateway.borrow().clone();
                gateway.servers().notify_roots_changed(&self.live.agent);
            }
            _ => tracing::debug!(method, ?params, "ignored notification"),
        }
    }

    /// Ends requests that only wait for changes, before the connection closes.
    pub(crate) fn close_subscriptions(&self) {
        self.live.closing.cancel();
    }

    pub fn end(&self) {
        self.live.end();
    }

    /// Ends the session here. Its record stays if another process could take it over.
    pub fn release(&self) {
        if self.live.ownership.is_shared() {
            self.live.ownership.keep_record(true);
        }
        self.end();
    }

    pub fn ownership(&self) -> &RecordOwnership {
        &self.live.ownership
    }

    /// `None` if the session lasts for one request.
    pub(crate) fn key(&self) -> Option<&SessionKey> {
        self.live.ownership.key()
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
                has_tool_search: exposure.profile().hides_definitions(),
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

    /// Records the digest of a list given to the agent, if another process could take the session
    /// over. Returns whether one could.
    pub(crate) fn record_list_given(
        &self,
        which: impl FnOnce(&mut ListDigests) -> &mut Option<String>,
        entries: &[RawJson],
    ) -> bool {
        let is_shared = self.live.ownership.is_shared();
        if is_shared {
            let digest = ListDigests::digest(entries);
            self.state(|state| *which(&mut state.digests) = Some(digest));
        }
        is_shared
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

    pub(crate) fn begin_list(&self) -> ListBuildGuard<'_> {
        self.lists_in_progress.begin()
    }

    /// Updates the shown lists before a list is sent, as the baseline for later changes. Notifies
    /// the agent of changes, except for tools contained in the list that `making` marks.
    pub(crate) async fn refresh(&self, exposure: &Exposure, making: Option<&ListBuildGuard<'_>>) {
        let snapshot = exposure.gateway().snapshot();
        let mut changed = self.state(|state| state.update(exposure, &snapshot));
        let is_newest = |gateway: &Arc<Gateway>| Arc::ptr_eq(gateway, exposure.gateway());
        let introduced = self.introduced.get();
        if making.is_some_and(ListBuildGuard::is_awaited)
            && introduced.is_some_and(|it| is_newest(&it.gateway.borrow()))
        {
            changed.tools = false;
        }
        self.notify_list_changes(changed).await;
    }

    /// Notifies the agent of list changes, caused by servers or by a new configuration, until the
    /// gateway is gone.
    async fn watch(&self, goes_on: bool) {
        let Some(ClientSetup { gateway, client, .. }) = self.introduced.get() else { return };
        let mut gateways = gateway.clone();
        let mut exposure = self.exposure_for(gateways.borrow_and_update().clone(), client);
        let mut snapshots = exposure.gateway().views().snapshots();
        // Loading cached listings isn't a change: they are part of the agent's first list.
        exposure.gateway().views().wait_for_stored_listings().await;
        if goes_on {
            self.lists_in_progress.built().await;
        }
        let known = snapshots.borrow_and_update().clone();
        let changed = self.state(|state| state.update(&exposure, &known));
        if goes_on {
            self.notify_list_changes(changed).await;
        }
        loop {
            let changed = tokio::select! {
                biased;
                replaced = gateways.changed() => {
                    if replaced.is_err() {
                        return;
                    }
                    let next = self.exposure_for(gateways.borrow_and_update().clone(), client);
                    let before = std::mem::replace(&mut exposure, next);
                    before.gateway().access().move_agent(self.live.agent.id, exposure.gateway().access());
                    snapshots = exposure.gateway().views().snapshots();
                    snapshots.mark_unchanged();
                    let changed = self.state(|state| state.replace(&before, &exposure));
                    self.start_unlisted_servers(&exposure, &self.chosen().0.opened, &self.live.agent);
                    changed
                }
                changed = snapshots.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    sleep(DEBOUNCE).await;
                    self.lists_in_progress.built().await;
                    let snapshot = snapshots.borrow_and_update().clone();
                    self.state(|state| state.update(&exposure, &snapshot))
                }
            };
            self.notify_list_changes(changed).await;
        }
    }

    /// Starts the servers of opened toolboxes that have no cached listing, without waiting. The
    /// agent is notified as each one is listed. Opening a toolbox reports those that failed.
    pub(crate) fn start_unlisted_servers(
        &self,
        exposure: &Exposure,
        opened: &BTreeSet<ToolboxName>,
        agent: &AgentHandle,
    ) {
        if exposure.starts_all_servers() {
            let (exposure, agent) = (exposure.clone(), agent.clone());
            let start = async move { startup::ensure_started(&exposure, &agent).await };
            self.app.tasks.spawn(start.in_current_span());
        } else if exposure.lists_server_tools(ListMutability::Mutable) {
            exposure.gateway().startup().start_unlisted(opened, agent);
        }
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
        let is_gone = exposure.gateway().scope().toolbox(toolbox.as_str()).is_err();
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

    async fn notify_list_changes(&self, changed: ListChanges) {
        let Some(notifier) = &self.live.notifier else { return };
        for method in changed.notices() {
            if notifier.notify(method, None).await.is_err() {
                tracing::debug!("the agent has disconnected");
            }
        }
        if changed != ListChanges::default() {
            self.save().await;
        }
    }

    /// Saves the record if the session may have isolated servers, whose state a takeover would
    /// lose.
    pub(crate) async fn save_if_isolated(&self) {
        let Some(introduced) = self.introduced.get().filter(|_| self.live.ownership.is_shared())
        else {
            return;
        };
        let keeps_apart = introduced.gateway.borrow().servers().has_isolated_servers();
        if keeps_apart {
            self.save().await;
        }
    }

    pub(crate) async fn save(&self) {
        let Some(key) = self.key() else { return };
        let Some(record) = self.changed_record() else { return };
        let store = self.app.gateways.store();
        let (place, record) = (RecordKey::Session(key.clone()), StateRecord::Session(record));
        let put = store.put(place, record, Capacity::UNLIMITED).await;
        self.live.ownership.note(put.is_stored());
        if self.live.ended.is_cancelled() {
            self.live.ownership.remove_record(&self.app.tasks);
        }
    }

    fn changed_record(&self) -> Option<Arc<SessionRecord>> {
        let introduced = self.introduced.get();
        let (isolated, configuration) = match introduced {
            Some(introduced) if self.live.ownership.is_shared() => {
                let apart =
                    introduced.gateway.borrow().servers().isolated_servers_of(&self.live.agent);
                let lost = self.live.agent.lost();
                (
                    apart.into_iter().chain(lost).collect(),
                    self.app.gateways.fingerprint().to_string(),
                )
            }
            _ => Default::default(),
        };
        self.state(|state| {
            let record = SessionRecord {
                agent: self.caller.agent.clone(),
                toolbox: self.caller.toolbox.clone(),
                subject: self.caller.subject.clone(),
                mode: self.mode.as_str().to_owned(),
                introduction: introduced.map(|introduced| introduced.introduction.clone()),
                chosen: SessionChoices::clone(&state.chosen),
                lists: ListState {
                    is_given: state.shown.has_given_tools(),
                    is_current: self.listed.has(state.version),
                    is_ignored: state.ignored.is_some(),
                    digests: state.digests.clone(),
                },
                subscriptions: state.subscriptions.clone(),
                log_level: self.live.agent.log_level().as_str().map(str::to_owned),
                isolated,
                configuration,
                moves: state.moves.clone(),
                tenure: self.live.ownership.tenure().clone(),
            };
            if state.saved.as_deref() == Some(&record) {
                return None;
            }
            let record = Arc::new(record);
            state.saved = Some(Arc::clone(&record));
            Some(record)
        })
    }

    pub(crate) async fn record_subscription(&self, uri: &str, is_on: bool) {
        self.state(|state| {
            if is_on {
                state.subscriptions.insert(uri.into());
            } else {
                state.subscriptions.remove(uri);
            }
        });
        self.save().await;
    }
}
