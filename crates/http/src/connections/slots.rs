//! Connection slots, and the eviction of idle connections.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use mcp_workbench_core::gateway::{CallerQuota, QuotaGuard};
use mcp_workbench_core::telemetry::{QuotaKind, QuotaOwner};

/// Slots for health checks when all connections are in use.
const RESERVED_SLOTS: usize = 16;

#[derive(Default)]
pub(crate) struct SlotTable {
    state: Arc<Mutex<SlotState>>,
}

#[derive(Default)]
struct SlotState {
    places: HashMap<u64, SlotEntry>,
    next: u64,
    kept: usize,
}

struct SlotEntry {
    owner: Option<QuotaOwner>,
    idle: IdleSince,
    gives_way: CancellationToken,
    /// Counts the connection toward the quota of its address.
    _held: Option<QuotaGuard>,
}

/// When the connection became idle; `None` while it is in use. Every request updates it, so each
/// connection has its own lock.
type IdleSince = Arc<Mutex<Option<Instant>>>;

pub(crate) struct ConnectionSlot {
    state: Arc<Mutex<SlotState>>,
    number: u64,
    is_kept: bool,
    idle: IdleSince,
    evicted: CancellationToken,
}

impl SlotTable {
    fn state(&self) -> MutexGuard<'_, SlotState> {
        self.state.lock()
    }

    /// Takes a slot, limited to `of_one` for the address and `in_all` in total. At a limit, evicts
    /// an idle connection. If all are in use, the slot is a reserved one.
    pub(crate) fn take(
        &self,
        quota: &Arc<CallerQuota>,
        [of_one, in_all]: [usize; 2],
    ) -> Arc<ConnectionSlot> {
        let mut state = self.state();
        let owner = quota.payer();
        if quota.count(QuotaKind::Connections) >= of_one {
            quota.report_limit_reached(QuotaKind::Connections);
            if !state.evict_idle(|other| other == owner) {
                return self.enter_reserved(state);
            }
        } else if state.places.len() - state.kept >= in_all {
            quota.report_limit_reached(QuotaKind::Connections);
            let greediest = state.greediest();
            if !state.evict_idle(|other| Some(other) == greediest.as_ref()) {
                return self.enter_reserved(state);
            }
        }
        let guard = quota.try_acquire(QuotaKind::Connections, usize::MAX).ok();
        self.enter(state, Some(owner.clone()), guard)
    }

    /// Takes a reserved slot, and evicts the oldest of them if there are too many.
    pub(crate) fn take_kept(&self) -> Arc<ConnectionSlot> {
        self.enter_reserved(self.state())
    }

    fn enter_reserved(&self, mut state: MutexGuard<'_, SlotState>) -> Arc<ConnectionSlot> {
        if state.kept >= RESERVED_SLOTS {
            let kept = state.places.iter().filter(|(_, entry)| entry.owner.is_none());
            let oldest = kept.map(|(number, _)| *number).min();
            state.end(oldest);
        }
        self.enter(state, None, None)
    }

    fn enter(
        &self,
        mut state: MutexGuard<'_, SlotState>,
        owner: Option<QuotaOwner>,
        guard: Option<QuotaGuard>,
    ) -> Arc<ConnectionSlot> {
        let number = state.next;
        state.next += 1;
        let is_kept = owner.is_none();
        state.kept += usize::from(is_kept);
        let gives_way = CancellationToken::new();
        let idle = Arc::new(Mutex::new(Some(Instant::now())));
        let entry = SlotEntry {
            owner,
            idle: Arc::clone(&idle),
            gives_way: gives_way.clone(),
            _held: guard,
        };
        state.places.insert(number, entry);
        Arc::new(ConnectionSlot {
            state: Arc::clone(&self.state),
            number,
            is_kept,
            idle,
            evicted: gives_way,
        })
    }
}

impl SlotState {
    /// Evicts the matching connection that has been idle longest.
    fn evict_idle(&mut self, is_meant: impl Fn(&QuotaOwner) -> bool) -> bool {
        let meant =
            self.places.iter().filter(|(_, entry)| entry.owner.as_ref().is_some_and(&is_meant));
        let idle = meant.filter_map(|(number, entry)| Some(((*entry.idle.lock())?, *number)));
        let oldest = idle.min().map(|(_, number)| number);
        self.end(oldest)
    }

    /// Returns the address with the most idle connections.
    fn greediest(&self) -> Option<QuotaOwner> {
        let mut counts: HashMap<&QuotaOwner, usize> = HashMap::new();
        for entry in self.places.values().filter(|entry| entry.idle.lock().is_some()) {
            if let Some(owner) = &entry.owner {
                *counts.entry(owner).or_default() += 1;
            }
        }
        counts.into_iter().max_by_key(|(_, count)| *count).map(|(owner, _)| owner.clone())
    }

    fn end(&mut self, number: Option<u64>) -> bool {
        let Some(entry) = number.and_then(|number| self.places.remove(&number)) else {
            return false;
        };
        self.kept -= usize::from(entry.owner.is_none());
        entry.gives_way.cancel();
        true
    }
}

impl ConnectionSlot {
    pub(crate) fn is_reserved(&self) -> bool {
        self.is_kept
    }

    pub(crate) async fn evicted(&self) {
        self.evicted.cancelled().await;
    }

    /// Waits for `time` or until evicted. Meanwhile, the connection counts as idle.
    pub(crate) async fn pause(&self, time: Duration) {
        self.set_in_use(false);
        // The caller continues in either case.
        let _ = timeout(time, self.evicted()).await;
        self.set_in_use(true);
    }

    pub(crate) fn set_in_use(&self, is_used: bool) {
        *self.idle.lock() = (!is_used).then(Instant::now);
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut state = self.state.lock();
        if let Some(entry) = state.places.remove(&self.number) {
            state.kept -= usize::from(entry.owner.is_none());
            drop(state);
            drop(entry);
        }
    }
}

#[cfg(test)]
mod tests;
