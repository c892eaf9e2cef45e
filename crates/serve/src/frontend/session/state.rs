//! The lists that the client of a session has, and the choices that shape them.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::exposure::{Exposure, ListMutability, SessionChoices};
use crate::frontend::shown_lists::{ListChanges, ShownLists};
use mcp_workbench_core::gateway::Snapshot;
use mcp_workbench_core::state::{ListDigests, SessionRecord, Takeovers};

#[derive(Default)]
pub(super) struct SessionState {
    pub(super) chosen: Arc<SessionChoices>,
    pub(super) shown: ShownLists,
    pub(super) version: u64,
    /// The version that the client didn't list in time, if any.
    pub(super) ignored: Option<u64>,
    pub(super) subscriptions: BTreeSet<Arc<str>>,
    /// Digests of the lists last given. Empty unless another process could take the session over.
    pub(super) digests: ListDigests,
    pub(super) moves: Takeovers,
    /// The record last saved, to skip unchanged ones.
    pub(super) saved: Option<Arc<SessionRecord>>,
}

impl SessionState {
    pub(super) fn update(&mut self, exposure: &Exposure, snapshot: &Snapshot) -> ListChanges {
        let changed = self.shown.update(exposure, ListMutability::Mutable, &self.chosen, snapshot);
        self.version += u64::from(changed.tools);
        changed
    }

    /// Like `update`, after a new configuration replaced the one behind `before`.
    pub(super) fn replace(&mut self, before: &Exposure, exposure: &Exposure) -> ListChanges {
        let Self { shown, chosen, .. } = self;
        let chosen = Arc::make_mut(chosen);
        let changed = shown.replace(before, exposure, ListMutability::Mutable, chosen);
        self.version += u64::from(changed.tools);
        changed
    }
}
