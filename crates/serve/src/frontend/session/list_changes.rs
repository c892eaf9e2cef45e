//! Watches for list changes and notifies the agent.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use crate::exposure::{Exposure, ListMutability, startup};
use crate::frontend::session::{AgentSession, ClientSetup};
use crate::frontend::shown_lists::ListChanges;
use crate::gateway::{AgentHandle, Gateway};
use crate::name::ToolboxName;

const DEBOUNCE: Duration = Duration::from_millis(50);

/// How long a change notification waits for a tool list being built, which includes the change.
/// Clients may time out on slower lists.
const LIST_BUILD_TIMEOUT: Duration = Duration::from_secs(2);

/// Marks a tool list as being built until it is dropped.
pub(crate) struct ListBuildGuard<'a> {
    lists: &'a watch::Sender<usize>,
    since: Instant,
}

impl Drop for ListBuildGuard<'_> {
    fn drop(&mut self) {
        self.lists.send_modify(|lists| *lists -= 1);
    }
}

impl AgentSession {
    pub(crate) fn begin_list(&self) -> ListBuildGuard<'_> {
        self.lists_in_progress.send_modify(|lists| *lists += 1);
        ListBuildGuard { lists: &self.lists_in_progress, since: Instant::now() }
    }

    async fn lists_built(&self) {
        let mut being_made = self.lists_in_progress.subscribe();
        let _ = timeout(LIST_BUILD_TIMEOUT, being_made.wait_for(|lists| *lists == 0)).await;
    }

    /// Updates the shown lists before a list is sent, as the baseline for later changes. Notifies
    /// the agent of changes, except for tools contained in the list that `making` marks.
    pub(crate) async fn refresh(&self, exposure: &Exposure, making: Option<&ListBuildGuard<'_>>) {
        let snapshot = exposure.gateway().snapshot();
        let mut changed = self.state(|state| state.update(exposure, &snapshot));
        let is_newest = |gateway: &Arc<Gateway>| Arc::ptr_eq(gateway, exposure.gateway());
        let introduced = self.introduced.get();
        if making.is_some_and(|making| making.since.elapsed() < LIST_BUILD_TIMEOUT)
            && introduced.is_some_and(|it| is_newest(&it.gateway.borrow()))
        {
            changed.tools = false;
        }
        self.notify_list_changes(changed).await;
    }

    /// Notifies the agent of list changes, caused by servers or by a new configuration, until the
    /// gateway is gone.
    pub(super) async fn watch(&self, goes_on: bool) {
        let Some(ClientSetup { gateway, client, .. }) = self.introduced.get() else { return };
        let mut gateways = gateway.clone();
        let mut exposure = self.exposure_for(gateways.borrow_and_update().clone(), client);
        let mut snapshots = exposure.gateway().snapshots();
        // Loading cached listings isn't a change: they are part of the agent's first list.
        exposure.gateway().wait_for_stored_listings().await;
        if goes_on {
            self.lists_built().await;
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
                    before.gateway().move_agent(self.live.agent.id, exposure.gateway());
                    snapshots = exposure.gateway().snapshots();
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
                    self.lists_built().await;
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
            self.app.tasks.spawn(async move { startup::ensure_started(&exposure, &agent).await });
        } else if exposure.lists_server_tools(ListMutability::Mutable) {
            exposure.gateway().start_unlisted(opened, agent);
        }
    }

    pub(super) async fn notify_list_changes(&self, changed: ListChanges) {
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
}
