//! What belongs to one agent: the toolboxes it has opened, and what it has been told of them.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::task::TaskTracker;

use crate::exposure::Exposure;
use crate::gateway::{Origin, Snapshot};
use crate::name::ToolboxName;
use crate::toolbox::View;
use crate::wire::agent::Notifier;

/// How long an agent gets to list its tools again. One that does not is not waited for again.
const RELISTING: Duration = Duration::from_secs(2);
/// What a client needs after it has the new list before it can use it.
const SETTLING: Duration = Duration::from_millis(50);
/// Changes of lists within this time are told together.
const DEBOUNCE: Duration = Duration::from_millis(50);

/// One agent's session.
pub(crate) struct Session {
    exposure: Exposure,
    notifier: Notifier,
    tasks: TaskTracker,
    state: Mutex<State>,
    /// The newest state of the list that the agent has been given.
    listed: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    opened: BTreeSet<ToolboxName>,
    /// What the agent's list shows of each opened toolbox, or will when it lists again.
    shown: HashMap<ToolboxName, Arc<View>>,
    /// Counts the states of the agent's list.
    version: u64,
    /// The state of the list that the agent was waited for in vain to list, if there is one.
    ignored: Option<u64>,
}

impl State {
    /// Brings what is shown up to date and says whether that changed anything.
    fn update(&mut self, snapshot: &Snapshot) -> bool {
        let mut has_changed = false;
        for toolbox in &self.opened {
            let view = snapshot.view(toolbox);
            let is_same = self
                .shown
                .get(toolbox)
                .is_some_and(|shown| Arc::ptr_eq(shown, &view) || shown.shows_the_same_as(&view));
            if !is_same {
                has_changed |= !view.tools.is_empty() || self.shown.contains_key(toolbox);
                self.shown.insert(toolbox.clone(), view);
            }
        }
        self.version += u64::from(has_changed);
        has_changed
    }
}

impl Session {
    pub(crate) fn new(exposure: Exposure, notifier: Notifier, tasks: TaskTracker) -> Self {
        let (listed, _) = watch::channel(0);
        Self { exposure, notifier, tasks, state: Mutex::default(), listed }
    }

    pub(crate) fn exposure(&self) -> &Exposure {
        &self.exposure
    }

    fn state<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The toolboxes that are open, and which state of the list that makes.
    pub(crate) fn opened(&self) -> (BTreeSet<ToolboxName>, u64) {
        self.state(|state| (state.opened.clone(), state.version))
    }

    /// Takes note that the agent has been given its list in this state.
    pub(crate) fn has_listed(&self, version: u64) {
        self.listed.send_if_modified(|listed| {
            let is_newer = *listed < version;
            *listed = version.max(*listed);
            is_newer
        });
        // One that was merely slow is waited for again.
        self.state(|state| state.ignored = state.ignored.filter(|ignored| *ignored > version));
    }

    /// Opens a toolbox for this agent and tells it where that changes its list. With `waits`, it
    /// returns once the agent has listed its tools again, so that it can use them in its next
    /// step; an agent that lets the time go by is not waited for again until it lists after all.
    /// Without, the toolbox is opened by a call of one of its tools, and its other servers start
    /// behind that.
    pub(crate) async fn open(&self, toolbox: ToolboxName, waits: bool) {
        if !self.exposure.changes_lists() {
            return;
        }
        let snapshot = self.exposure.gateway().snapshot();
        let (is_new, has_changed, version, ignores_changes) = self.state(|state| {
            let is_new = state.opened.insert(toolbox.clone());
            (is_new, state.update(&snapshot), state.version, state.ignored.is_some())
        });
        if is_new && !waits {
            self.start_behind(toolbox);
        }
        if has_changed {
            self.tell().await;
        }
        if !waits || ignores_changes {
            return;
        }
        let mut listed = self.listed.subscribe();
        if *listed.borrow() >= version {
            return;
        }
        if timeout(RELISTING, listed.wait_for(|listed| *listed >= version)).await.is_ok() {
            sleep(SETTLING).await;
        } else {
            tracing::info!("the agent does not list again when its tools change");
            self.state(|state| state.ignored = Some(version));
        }
    }

    /// Starts what of a toolbox is not running yet. The agent is told as each server is listed.
    fn start_behind(&self, toolbox: ToolboxName) {
        let gateway = Arc::clone(self.exposure.gateway());
        self.tasks.spawn(async move {
            if let Ok(toolbox) = gateway.toolbox(toolbox.as_str()) {
                // Those that fail are reported when the toolbox is opened in words.
                gateway.open(toolbox, Origin::default()).await;
            }
        });
    }

    /// Tells the agent of changes in opened toolboxes, as servers change what they have.
    pub(crate) async fn watch(&self) {
        let mut snapshots = self.exposure.gateway().snapshots();
        while snapshots.changed().await.is_ok() {
            sleep(DEBOUNCE).await;
            let snapshot = snapshots.borrow_and_update().clone();
            if self.state(|state| state.update(&snapshot)) {
                self.tell().await;
            }
        }
    }

    async fn tell(&self) {
        if self.notifier.notify("notifications/tools/list_changed", None).await.is_err() {
            tracing::debug!("the agent is gone");
        }
    }
}
