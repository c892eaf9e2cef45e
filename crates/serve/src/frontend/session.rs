//! The state of one agent: the toolboxes it has opened, and the news it has been told of them.

mod adopted;
mod live;
mod record;
mod telling;
mod watching;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use rmcp::model::ProtocolVersion;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::backend::Outcome;
use crate::exposure::{Chosen, Exposure, Profile, Surface, Switch, ToolMode};
use crate::frontend::AppState;
use crate::frontend::era::RequestMeta;
use crate::frontend::listed::Listed;
use crate::frontend::profiles;
#[cfg(test)]
pub(crate) use crate::frontend::session::adopted::GOOD_FOR;
use crate::frontend::session::live::{Live, Place};
pub(crate) use crate::frontend::session::watching::Making;
use crate::frontend::shown::{Changed, Shown};
use crate::frontend::until::until;
use crate::gateway::{Caller, Crowded, Gateway, LogLevel, Presence, Purse, Snapshot};
use crate::name::ToolboxName;
use crate::observe::ClientProgram;
use crate::raw::Raw;
use crate::state::Session as Record;
use crate::state::{Introduction, Listings, Moves, Program, SessionKey};
use crate::wire::agent::Notifier;

/// One agent's session.
pub(crate) struct Session {
    app: AppState,
    /// How everything is presented to the agent for as long as it is there.
    mode: ToolMode,
    /// Who the agent is.
    caller: Caller,
    /// The live things beside its record.
    live: Arc<Live>,
    /// The one that goes on in its place, or itself; `None`: it cannot be told anything.
    current: Option<Current>,
    /// The introduction of a legacy agent, from its `initialize`.
    introduced: OnceLock<Introduced>,
    state: Mutex<State>,
    /// The newest state of the list that the agent has been given.
    listed: Listed,
    /// Counts the lists of tools that are being made for it.
    being_made: watch::Sender<usize>,
}

/// The session with an agent, which may be another one from one request to the next.
type Current = Arc<Mutex<Weak<Session>>>;

struct Introduced {
    introduction: Introduction,
    /// `true` if it knows links to resources in results.
    reads_links: bool,
    client: Client,
    /// The gateway that the agent looks through, as one configuration follows another.
    gateway: watch::Receiver<Arc<Gateway>>,
    /// Ends the watching, when another session takes the place of this one.
    is_replaced: CancellationToken,
}

/// An agent's program.
#[derive(Default)]
pub(crate) struct Client {
    name: String,
    known: Profile,
}

impl Client {
    /// The one that introduces itself so, or does not.
    pub(crate) fn of(program: Option<&Program>) -> Self {
        let Some(program) = program else { return Self::default() };
        Self { name: program.name.clone(), known: profiles::of(program) }
    }
}

#[derive(Default)]
struct State {
    chosen: Arc<Chosen>,
    /// The lists that the agent is shown, or will be when it lists again.
    shown: Shown,
    /// Counts the states of the agent's list of tools.
    version: u64,
    /// The state of the list that the agent was waited for in vain to list, if there is one.
    ignored: Option<u64>,
    /// The resources that it has subscribed to.
    subscriptions: BTreeSet<String>,
    /// The lists that it was given last, where another process may go on with it.
    given: Listings,
    /// When it was taken over.
    moves: Moves,
    /// The record that was put last.
    saved: Option<Arc<Record>>,
}

impl State {
    /// Brings what is shown up to date and says what of it has changed.
    fn update(&mut self, exposure: &Exposure, snapshot: &Snapshot) -> Changed {
        let changed = self.shown.update(exposure, Surface::Changing, &self.chosen, snapshot);
        self.version += u64::from(changed.tools);
        changed
    }

    /// Finds out what changes when another configuration takes the place of the one that `before`
    /// presents.
    fn replace(&mut self, before: &Exposure, exposure: &Exposure) -> Changed {
        let Self { shown, chosen, .. } = self;
        let chosen = Arc::make_mut(chosen);
        let changed = shown.replace(before, exposure, Surface::Changing, chosen);
        self.version += u64::from(changed.tools);
        changed
    }
}

impl Session {
    /// A session with an agent, which pays with `purse`; `notifier` is how it can be told what belongs to no request, and `key`
    /// where a record of it is kept.
    pub(crate) fn new(
        app: &AppState,
        caller: Caller,
        purse: Arc<Purse>,
        notifier: Option<Notifier>,
        key: Option<SessionKey>,
    ) -> Arc<Self> {
        let place = key.map(|key| Place::new(key, app));
        let (live, events) = Live::new(app, &caller, purse, notifier, place);
        let mode = app.gateways.mode(&caller);
        let current = live.notifier.is_some().then(Current::default);
        let session = Self::with(live, current, caller, mode, State::default());
        if let (Some(notifier), Some(current)) = (&session.live.notifier, &session.current) {
            let (notifier, current) = (notifier.clone(), Arc::clone(current));
            session.spawn(Self::tell_events(notifier, current, events));
        }
        session
    }

    fn with(
        live: Arc<Live>,
        current: Option<Current>,
        caller: Caller,
        mode: ToolMode,
        state: State,
    ) -> Arc<Self> {
        let session = Arc::new(Self {
            app: live.app.clone(),
            mode,
            caller,
            live,
            current,
            introduced: OnceLock::new(),
            state: Mutex::new(state),
            listed: Listed::default(),
            being_made: watch::Sender::default(),
        });
        if let Some(current) = &session.current {
            let mut current = current.lock().unwrap_or_else(PoisonError::into_inner);
            *current = Arc::downgrade(&session);
        }
        session
    }

    /// Runs something for as long as the session lasts.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.app.tasks.spawn(until(&self.live.ended, work));
    }

    /// Takes note of what a legacy agent says that it can do, and of what its program is called.
    pub(crate) fn introduce(self: &Arc<Self>, introduction: Introduction) -> Result<(), Crowded> {
        if let Some(guest) = &self.live.guest {
            guest.is_called(&introduction.client.name);
        }
        self.follow(introduction, false)
    }

    /// Looks through the gateway of an agent that introduces itself so, and watches what changes there.
    /// One that `goes_on` is told of all that differs from what it is shown now.
    fn follow(self: &Arc<Self>, introduction: Introduction, goes_on: bool) -> Result<(), Crowded> {
        let older = [ProtocolVersion::V_2024_11_05, ProtocolVersion::V_2025_03_26];
        let reads_links = !older.iter().any(|older| older.as_str() == introduction.protocol);
        let capabilities = Some(&introduction.capabilities);
        let gateway = self.app.gateways.follow(&self.caller, capabilities)?;
        let client = Client::of(Some(&introduction.client));
        let is_replaced = CancellationToken::new();
        let over = is_replaced.clone();
        let introduced = Introduced { introduction, reads_links, client, gateway, is_replaced };
        if self.introduced.set(introduced).is_ok() {
            // What is there already is no news to one that has not listed anything.
            let exposure = self.exposure(&RequestMeta::legacy());
            let snapshot = exposure.gateway().snapshot();
            self.state(|state| state.update(&exposure, &snapshot));
            self.is_program(&exposure);
            let watching = Arc::clone(self);
            let watching = until(&over, async move { watching.watch(goes_on).await });
            self.spawn(async move {
                let _replaced = watching.await;
            });
        }
        Ok(())
    }

    /// Lets a request in that says for itself what its client can do, if there is room.
    pub(crate) fn admit(&self, meta: &RequestMeta) -> Result<(), Crowded> {
        if !meta.is_modern && self.introduced.get().is_some() {
            return Ok(());
        }
        self.app.gateways.admit(&self.caller, meta.capabilities.as_ref())
    }

    /// The exposure that a request of this session sees.
    pub(crate) fn exposure(&self, meta: &RequestMeta) -> Exposure {
        let gateways = &self.app.gateways;
        match (meta.is_modern, self.introduced.get()) {
            (false, Some(introduced)) => {
                self.present(introduced.gateway.borrow().clone(), &introduced.client)
            }
            (false, None) => self.present(gateways.of(&self.caller, None), &Client::default()),
            (true, _) => self.present(
                gateways.of(&self.caller, meta.capabilities.as_ref()),
                &Client::of(meta.client.as_ref()),
            ),
        }
    }

    /// A gateway as such a client sees it.
    pub(crate) fn present(&self, gateway: Arc<Gateway>, client: &Client) -> Exposure {
        Exposure::new(gateway, &client.name, client.known).in_mode(self.mode)
    }

    pub(crate) fn app(&self) -> &AppState {
        &self.app
    }

    /// The counts of everything that the agent holds.
    pub(crate) fn purse(&self) -> &Arc<Purse> {
        &self.live.purse
    }

    /// Who the agent is.
    pub(crate) fn caller(&self) -> &Caller {
        &self.caller
    }

    /// The agent as servers can reach it from a request: a modern one is told nothing unasked.
    pub(crate) fn presence(&self, meta: &RequestMeta) -> Presence {
        if meta.is_modern {
            self.live.presence.within_requests()
        } else {
            self.live.presence.clone()
        }
    }

    /// Returns `true` if the agent can be told things that belong to no request.
    pub(crate) fn can_be_told(&self) -> bool {
        self.live.notifier.is_some()
    }

    /// The level of servers' logs that a request of this session hears.
    pub(crate) fn log(&self, meta: &RequestMeta) -> LogLevel {
        if meta.is_modern {
            meta.log.unwrap_or(LogLevel::NOTHING)
        } else {
            self.live.presence.log()
        }
    }

    /// The agent's capabilities: from this request, or from when it began.
    fn capabilities<'a>(&'a self, meta: &'a RequestMeta) -> Option<&'a Raw> {
        if meta.is_modern {
            meta.capabilities.as_ref()
        } else {
            self.introduced.get().map(|introduced| &introduced.introduction.capabilities)
        }
    }

    /// Returns `true` if the agent said that it can answer such a question.
    pub(crate) fn can_answer(&self, method: &str, meta: &RequestMeta) -> bool {
        let Some((needed @ ("elicitation" | "sampling" | "roots"), _)) = method.split_once('/')
        else {
            return true;
        };
        self.capabilities(meta).is_some_and(|all| all.member(needed).is_some())
    }

    /// Returns `true` if the agent knows links to resources in results.
    pub(crate) fn reads_links(&self, meta: &RequestMeta) -> bool {
        meta.is_modern || self.introduced.get().is_none_or(|introduced| introduced.reads_links)
    }

    /// Returns `true` if the agent said that it has any extension of the protocol.
    pub(crate) fn speaks_extensions(&self, meta: &RequestMeta) -> bool {
        let beyond = ["extensions", "experimental"];
        self.capabilities(meta)
            .is_some_and(|all| beyond.iter().any(|key| all.member(key).is_some()))
    }

    /// Takes a notification of the agent.
    pub(crate) fn hears(&self, method: &str, params: Option<&Raw>) {
        match (method, self.introduced.get()) {
            ("notifications/initialized", _) => {}
            ("notifications/roots/list_changed", Some(introduced)) => {
                let gateway = introduced.gateway.borrow().clone();
                gateway.pass_on_changed_roots(&self.live.presence);
            }
            _ => tracing::debug!(method, ?params, "a notification that concerns nobody"),
        }
    }

    /// Ends what waits for changes alone, for the agent will soon be gone.
    pub(crate) fn stop_listening(&self) {
        self.live.is_leaving.cancel();
    }

    /// Ends the session: what was for this agent alone ends with it.
    pub(crate) fn end(&self) {
        self.live.end();
    }

    /// Resolves when the session has ended, or is about to.
    pub(crate) async fn leaving(&self) {
        self.live.is_leaving.cancelled().await;
    }

    fn state<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The choices of the agent, and the number of the state that they make of its list.
    pub(crate) fn chosen(&self) -> (Arc<Chosen>, u64) {
        self.state(|state| (Arc::clone(&state.chosen), state.version))
    }

    /// Takes note of what the agent's program is, for the account of what its model is shown.
    fn is_program(&self, exposure: &Exposure) {
        if let (Some(guest), Some(introduced)) = (&self.live.guest, self.introduced.get()) {
            guest.runs(ClientProgram {
                name: introduced.client.name.clone(),
                has_tool_search: exposure.profile().has_tool_search,
            });
        }
    }

    /// Takes note of the tools that the agent is given.
    pub(crate) fn gives(&self, exposure: &Exposure, tools: &[Raw]) {
        self.state(|state| state.shown.give(exposure, tools));
        self.has_given(|given| &mut given.tools, tools);
        if let Some(guest) = &self.live.guest {
            guest.listed(exposure.shown_bytes(tools), exposure.bytes_without_us());
            if exposure.starts_everything() {
                for toolbox in &exposure.gateway().config().toolboxes {
                    guest.opened(&toolbox.name);
                }
            }
        }
    }

    /// Takes note that the agent is told definitions in an answer.
    pub(crate) fn tells(&self, outcome: &Outcome) {
        if let (Some(guest), Outcome::Result(result)) = (&self.live.guest, outcome) {
            guest.told(result.len());
        }
    }

    /// Takes note that the agent has been given its list in this state.
    pub(crate) async fn has_listed(&self, version: u64) {
        self.listed.note(version);
        // One that was merely slow is waited for again.
        self.state(|state| state.ignored = state.ignored.filter(|ignored| *ignored > version));
        self.save().await;
    }

    /// Opens a toolbox for this agent and tells it where that changes its list. With `waits`, it
    /// returns once the agent has listed its tools again, so that it can use them in its next
    /// step; an agent that lets the time go by is not waited for again until it lists after all.
    /// Without, the toolbox is opened by a call of one of its tools, and those of its servers that
    /// nothing is known of start behind that. Returns `false` if the agent was to list its tools again
    /// and did not.
    pub(crate) async fn open(
        &self,
        exposure: &Exposure,
        toolbox: ToolboxName,
        waits: bool,
    ) -> bool {
        // It may be gone, if the configuration was read anew meanwhile.
        let is_gone = exposure.gateway().toolbox(toolbox.as_str()).is_err();
        if exposure.starts_everything() || is_gone {
            return true;
        }
        if !waits && self.state(|state| state.chosen.opened.contains(&toolbox)) {
            return true; // What it shows is kept up to date by itself.
        }
        let snapshot = exposure.gateway().snapshot();
        let (is_new, changed, version) = self.state(|state| {
            let is_new = Arc::make_mut(&mut state.chosen).opened.insert(toolbox.clone());
            let changed = state.update(exposure, &snapshot);
            (is_new, changed, state.version)
        });
        if is_new && let Some(guest) = &self.live.guest {
            guest.opened(&toolbox);
        }
        if is_new && !waits {
            // The one that was called has been listed, and may have died of it.
            self.start_new(exposure, &BTreeSet::from([toolbox]), &self.live.presence);
        }
        Box::pin(self.tell_in_time(exposure, changed, version, waits)).await
    }

    /// Switches tools and resources for this agent, and tells it of what that changes; with
    /// `waits`, and what it returns, as for [`Self::open`].
    pub(crate) async fn switch(
        &self,
        exposure: &Exposure,
        switched: Vec<Switch>,
        waits: bool,
    ) -> bool {
        let snapshot = exposure.gateway().snapshot();
        let (changed, version) = self.state(|state| {
            Arc::make_mut(&mut state.chosen).switch(switched);
            (state.update(exposure, &snapshot), state.version)
        });
        Box::pin(self.tell_in_time(exposure, changed, version, waits)).await
    }

    /// Takes note that the agent's model has been told that its client does not list again.
    pub(crate) async fn is_told(&self) {
        self.state(|state| Arc::make_mut(&mut state.chosen).is_told = true);
        self.save().await;
    }

    /// Tells the agent of changes that lead to this version of its list. With `waits`, it returns once
    /// the agent's model has that version, if the agent lists again when it is told to; `false` if it
    /// does not.
    async fn tell_in_time(
        &self,
        exposure: &Exposure,
        changed: Changed,
        version: u64,
        waits: bool,
    ) -> bool {
        self.save().await;
        // Before it is told, for it may have listed again before we go on.
        let awaited = self.listed.awaited(version);
        self.tell(changed).await;
        let Some(awaited) = awaited.filter(|_| waits) else { return true };
        if self.state(|state| state.ignored.is_some()) {
            return false;
        }
        let arrives = awaited.arrives(exposure.profile().settling).await;
        if !arrives {
            tracing::info!("the agent does not list again when its tools change");
            self.state(|state| state.ignored = Some(version));
            self.save().await;
        }
        arrives
    }
}
