//! Changes in what an agent is shown, and what is told it of them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use crate::exposure::{Exposure, Surface};
use crate::frontend::session::{Introduced, Session};
use crate::frontend::shown::Changed;
use crate::gateway::{Gateway, Presence};
use crate::name::ToolboxName;

/// Changes of lists within this time are told together.
const DEBOUNCE: Duration = Duration::from_millis(50);

/// How long changes of tools wait for a list of tools that is being made and has them too. A client may give up on
/// one that takes longer.
const MAKING: Duration = Duration::from_secs(2);

/// A list of tools that is being made for the agent, until this is dropped.
pub(crate) struct Making<'a> {
    lists: &'a watch::Sender<usize>,
    since: Instant,
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        self.lists.send_modify(|lists| *lists -= 1);
    }
}

impl Session {
    /// Takes note that a list of tools is being made for the agent.
    pub(crate) fn makes_list(&self) -> Making<'_> {
        self.being_made.send_modify(|lists| *lists += 1);
        Making { lists: &self.being_made, since: Instant::now() }
    }

    /// Waits until no list of tools is being made, for [`MAKING`] at most.
    async fn lists_are_made(&self) {
        let mut being_made = self.being_made.subscribe();
        // One that takes longer holds no news back.
        let _ = timeout(MAKING, being_made.wait_for(|lists| *lists == 0)).await;
    }

    /// Brings what the agent is shown up to date, before it is told a list: what it has seen is what
    /// later changes are measured by. It is told of what changes, but for tools that are in the list that
    /// is `making`.
    pub(crate) async fn refresh(&self, exposure: &Exposure, making: Option<&Making<'_>>) {
        let snapshot = exposure.gateway().snapshot();
        let mut changed = self.state(|state| state.update(exposure, &snapshot));
        let is_newest = |gateway: &Arc<Gateway>| Arc::ptr_eq(gateway, exposure.gateway());
        let introduced = self.introduced.get();
        if making.is_some_and(|making| making.since.elapsed() < MAKING)
            && introduced.is_some_and(|it| is_newest(&it.gateway.borrow()))
        {
            changed.tools = false;
        }
        self.tell(changed).await;
    }

    /// Tells the agent of changes in what it is shown, as servers change what they have, and as the
    /// configuration is read anew.
    pub(super) async fn watch(&self, goes_on: bool) {
        let Some(Introduced { gateway, client, .. }) = self.introduced.get() else { return };
        let mut gateways = gateway.clone();
        let mut exposure = self.present(gateways.borrow_and_update().clone(), client);
        let mut snapshots = exposure.gateway().snapshots();
        // What is known before anything runs is in the agent's first list, and no change.
        exposure.gateway().recalled().await;
        if goes_on {
            self.lists_are_made().await;
        }
        let known = snapshots.borrow_and_update().clone();
        let changed = self.state(|state| state.update(&exposure, &known));
        if goes_on {
            self.tell(changed).await;
        }
        loop {
            let changed = tokio::select! {
                biased;
                replaced = gateways.changed() => {
                    if replaced.is_err() {
                        return;
                    }
                    let next = self.present(gateways.borrow_and_update().clone(), client);
                    let before = std::mem::replace(&mut exposure, next);
                    before.gateway().hand_over(self.live.presence.id, exposure.gateway());
                    snapshots = exposure.gateway().snapshots();
                    snapshots.mark_unchanged();
                    let changed = self.state(|state| state.replace(&before, &exposure));
                    self.start_new(&exposure, &self.chosen().0.opened, &self.live.presence);
                    changed
                }
                changed = snapshots.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    sleep(DEBOUNCE).await;
                    self.lists_are_made().await;
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
            self.app.tasks.spawn(async move { exposure.start_everything(&agent).await });
        } else if exposure.shows_tools(Surface::Changing) {
            exposure.gateway().start_unlisted(opened, agent);
        }
    }

    pub(super) async fn tell(&self, changed: Changed) {
        let Some(notifier) = &self.live.notifier else { return };
        for method in changed.notices() {
            if notifier.notify(method, None).await.is_err() {
                tracing::debug!("the agent is gone");
            }
        }
        if changed != Changed::default() {
            self.save().await;
        }
    }
}
