//! The state of one agent: the toolboxes it has opened, and the news it has been told of them.

mod telling;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use rmcp::model::ProtocolVersion;
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::backend::{Outcome, events};
use crate::exposure::{Chosen, Exposure, Profile, Surface, Switch, ToolMode};
use crate::frontend::Host;
use crate::frontend::era::RequestMeta;
use crate::frontend::listed::Listed;
use crate::frontend::profiles::{self, Program};
use crate::frontend::shown::{Changed, Shown};
use crate::gateway::{Caller, Crowded, Gateway, LogLevel, Presence, Snapshot, Tie};
use crate::name::ToolboxName;
use crate::observe::{ClientProgram, Guest};
use crate::raw::Raw;
use crate::wire::agent::Notifier;

/// Changes of lists within this time are told together.
const DEBOUNCE: Duration = Duration::from_millis(50);

/// How much may wait for an agent that does not take what it is told.
const EVENTS: usize = 256;

/// One agent's session.
pub(crate) struct Session {
    host: Host,
    /// How everything is presented to the agent for as long as it is there.
    mode: ToolMode,
    /// Who the agent is.
    caller: Caller,
    /// The agent as servers can reach it.
    presence: Presence,
    notifier: Option<Notifier>,
    /// The introduction of a legacy agent, from its `initialize`.
    introduced: OnceLock<Introduced>,
    state: Mutex<State>,
    /// The count of what the agent is given, if it is there for longer than a request.
    guest: Option<Guest>,
    /// The newest state of the list that the agent has been given.
    listed: Listed,
    /// Cancelled when nothing more is read of the agent.
    is_leaving: CancellationToken,
    ended: CancellationToken,
}

struct Introduced {
    capabilities: Raw,
    /// `true` if it knows links to resources in results.
    reads_links: bool,
    client: Client,
    /// The gateway that the agent looks through, as one configuration follows another.
    gateway: watch::Receiver<Arc<Gateway>>,
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
    /// A session with an agent; `notifier` is how it can be told what belongs to no request.
    pub(crate) fn new(host: &Host, caller: Caller, notifier: Option<Notifier>) -> Arc<Self> {
        let (standing, events) = events::channel(EVENTS);
        let tie = match (&notifier, &caller.agent) {
            (Some(_), _) => Tie::Session,
            (None, Some(_)) => Tie::Name,
            (None, None) => Tie::Nothing,
        };
        let presence = Presence::new(notifier.is_some().then_some(standing)).tied_by(tie);
        let guest = notifier.is_some().then(|| host.gateways.welcome(&caller, presence.id));
        let session = Arc::new(Self {
            host: host.clone(),
            mode: host.gateways.mode(&caller),
            caller,
            presence,
            notifier,
            introduced: OnceLock::new(),
            state: Mutex::default(),
            guest,
            listed: Listed::default(),
            is_leaving: CancellationToken::new(),
            ended: CancellationToken::new(),
        });
        if session.notifier.is_some() {
            let telling = Arc::clone(&session);
            session.spawn(async move { telling.tell_events(events).await });
        }
        session
    }

    /// Runs something for as long as the session lasts.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.host.tasks.spawn(self.ended.clone().run_until_cancelled_owned(work));
    }

    /// Takes note of what a legacy agent says that it can do, and of what its program is called.
    pub(crate) fn introduce(
        self: &Arc<Self>,
        capabilities: &Raw,
        client: &Program,
        protocol: &ProtocolVersion,
    ) -> Result<(), Crowded> {
        if let Some(guest) = &self.guest {
            guest.is_called(&client.name);
        }
        let capabilities = capabilities.detached();
        let older = [ProtocolVersion::V_2024_11_05, ProtocolVersion::V_2025_03_26];
        let reads_links = !older.contains(protocol);
        let gateway = self.host.gateways.follow(&self.caller, Some(&capabilities))?;
        let (client, follower) = (Client::of(Some(client)), gateway.clone());
        let introduced = Introduced { capabilities, reads_links, client, gateway: follower };
        if self.introduced.set(introduced).is_ok() {
            // What is there already is no news to one that has not listed anything.
            let exposure = self.exposure(&RequestMeta::legacy());
            let snapshot = exposure.gateway().snapshot();
            self.state(|state| state.update(&exposure, &snapshot));
            self.is_program(&exposure);
            let watching = Arc::clone(self);
            self.spawn(async move { watching.watch().await });
        }
        Ok(())
    }

    /// Lets a request in that says for itself what its client can do, if there is room.
    pub(crate) fn admit(&self, meta: &RequestMeta) -> Result<(), Crowded> {
        if !meta.is_modern && self.introduced.get().is_some() {
            return Ok(());
        }
        self.host.gateways.admit(&self.caller, meta.capabilities.as_ref())
    }

    /// The exposure that a request of this session sees.
    pub(crate) fn exposure(&self, meta: &RequestMeta) -> Exposure {
        let gateways = &self.host.gateways;
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

    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    /// Who the agent is.
    pub(crate) fn caller(&self) -> &Caller {
        &self.caller
    }

    /// The agent as servers can reach it from a request: a modern one is told nothing unasked.
    pub(crate) fn presence(&self, meta: &RequestMeta) -> Presence {
        if meta.is_modern { self.presence.within_requests() } else { self.presence.clone() }
    }

    /// Returns `true` if the agent can be told things that belong to no request.
    pub(crate) fn can_be_told(&self) -> bool {
        self.notifier.is_some()
    }

    /// The level of servers' logs that a request of this session hears.
    pub(crate) fn log(&self, meta: &RequestMeta) -> LogLevel {
        if meta.is_modern { meta.log.unwrap_or(LogLevel::NOTHING) } else { self.presence.log() }
    }

    /// The agent's capabilities: from this request, or from when it began.
    fn capabilities<'a>(&'a self, meta: &'a RequestMeta) -> Option<&'a Raw> {
        if meta.is_modern {
            meta.capabilities.as_ref()
        } else {
            self.introduced.get().map(|introduced| &introduced.capabilities)
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
                gateway.pass_on_changed_roots(&self.presence);
            }
            _ => tracing::debug!(method, ?params, "a notification that concerns nobody"),
        }
    }

    /// Ends what waits for changes alone, for the agent will soon be gone.
    pub(crate) fn stop_listening(&self) {
        self.is_leaving.cancel();
    }

    /// Ends the session: what was for this agent alone ends with it.
    pub(crate) fn end(&self) {
        self.is_leaving.cancel();
        self.ended.cancel();
        self.host.gateways.leave(self.presence.id);
    }

    /// Resolves when the session has ended, or is about to.
    pub(crate) async fn leaving(&self) {
        self.is_leaving.cancelled().await;
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
        if let (Some(guest), Some(introduced)) = (&self.guest, self.introduced.get()) {
            guest.runs(ClientProgram {
                name: introduced.client.name.clone(),
                has_tool_search: exposure.profile().has_tool_search,
            });
        }
    }

    /// Takes note of the tools that the agent is given.
    pub(crate) fn gives(&self, exposure: &Exposure, tools: &[Raw]) {
        self.state(|state| state.shown.give(exposure, tools));
        if let Some(guest) = &self.guest {
            guest.listed(exposure.shown_bytes(tools), exposure.bytes_without_us());
        }
    }

    /// Takes note that the agent is told definitions in an answer.
    pub(crate) fn tells(&self, outcome: &Outcome) {
        if let (Some(guest), Outcome::Result(result)) = (&self.guest, outcome) {
            guest.told(result.len());
        }
    }

    /// Takes note that the agent has been given its list in this state.
    pub(crate) fn has_listed(&self, version: u64) {
        self.listed.note(version);
        // One that was merely slow is waited for again.
        self.state(|state| state.ignored = state.ignored.filter(|ignored| *ignored > version));
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
        if is_new && !waits {
            // The one that was called has been listed, and may have died of it.
            self.start_new(exposure, &BTreeSet::from([toolbox]), &self.presence);
        }
        self.tell_in_time(exposure, changed, version, waits).await
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
        self.tell_in_time(exposure, changed, version, waits).await
    }

    /// Takes note that the agent's model has been told that its client does not list again.
    pub(crate) fn is_told(&self) {
        self.state(|state| Arc::make_mut(&mut state.chosen).is_told = true);
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
        }
        arrives
    }

    /// Brings what the agent is shown up to date, before it is told a list: what it has seen is what
    /// later changes are measured by.
    pub(crate) async fn refresh(&self, exposure: &Exposure) {
        let snapshot = exposure.gateway().snapshot();
        let changed = self.state(|state| state.update(exposure, &snapshot));
        self.tell(changed).await;
    }

    /// Tells the agent of changes in what it is shown, as servers change what they have, and as the
    /// configuration is read anew.
    async fn watch(&self) {
        let Some(Introduced { gateway, client, .. }) = self.introduced.get() else { return };
        let mut gateways = gateway.clone();
        let mut exposure = self.present(gateways.borrow_and_update().clone(), client);
        let mut snapshots = exposure.gateway().snapshots();
        // What is known before anything runs is in the agent's first list, and no change.
        exposure.gateway().recalled().await;
        let known = snapshots.borrow_and_update().clone();
        self.state(|state| state.update(&exposure, &known));
        loop {
            let changed = tokio::select! {
                biased;
                replaced = gateways.changed() => {
                    if replaced.is_err() {
                        return;
                    }
                    let next = self.present(gateways.borrow_and_update().clone(), client);
                    let before = std::mem::replace(&mut exposure, next);
                    before.gateway().hand_over(self.presence.id, exposure.gateway());
                    snapshots = exposure.gateway().snapshots();
                    snapshots.mark_unchanged();
                    let changed = self.state(|state| state.replace(&before, &exposure));
                    self.start_new(&exposure, &self.chosen().0.opened, &self.presence);
                    changed
                }
                changed = snapshots.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    sleep(DEBOUNCE).await;
                    let snapshot = snapshots.borrow_and_update().clone();
                    self.state(|state| state.update(&exposure, &snapshot))
                }
            };
            self.tell(changed).await;
        }
    }

    /// Starts those servers of what the agent is shown that nothing is known of. It is told as each is
    /// listed; those that fail are reported when their toolbox is opened in words.
    pub(crate) fn start_new(
        &self,
        exposure: &Exposure,
        opened: &BTreeSet<ToolboxName>,
        agent: &Presence,
    ) {
        if exposure.starts_everything() {
            let (exposure, agent) = (exposure.clone(), agent.clone());
            self.host.tasks.spawn(async move { exposure.start_everything(&agent).await });
        } else if exposure.shows_tools(Surface::Changing) {
            exposure.gateway().start_unlisted(opened, agent);
        }
    }

    async fn tell(&self, changed: Changed) {
        let Some(notifier) = &self.notifier else { return };
        for method in changed.notices() {
            if notifier.notify(method, None).await.is_err() {
                tracing::debug!("the agent is gone");
            }
        }
    }
}

/// A session that nobody ends, such as that of a single request, ends when it is not needed any
/// more.
impl Drop for Session {
    fn drop(&mut self) {
        self.end();
    }
}
