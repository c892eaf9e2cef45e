//! The open event streams of the admin page.
//!
//! A caller's new stream closes its oldest one at its limit. If there are too many streams in all,
//! an operator's closes the oldest one of the others, so nobody can keep operators out.

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio_util::sync::CancellationToken;

use mcp_workbench_core::gateway::{CallerQuota, QuotaGuard};
use mcp_workbench_core::telemetry::{QuotaKind, QuotaOwner};

/// Maximum number of streams of all callers.
pub(crate) const MAX_VIEWERS: usize = 256;

#[derive(Default)]
pub(crate) struct ViewerTable(Mutex<State>);

#[derive(Default)]
struct State {
    /// Oldest first.
    open: Vec<Viewer>,
    next: u64,
}

struct Viewer {
    number: u64,
    owner: QuotaOwner,
    is_operator: bool,
    replaced: CancellationToken,
    _guard: Option<QuotaGuard>,
}

/// The place of one stream, until it is dropped.
pub(crate) struct ViewerSlot {
    table: Arc<ViewerTable>,
    number: u64,
    /// Cancelled when another stream takes this place.
    pub(crate) replaced: CancellationToken,
}

impl ViewerTable {
    /// Takes a place, of which the caller can have `most` as an operator and `most` otherwise.
    /// Returns `None` if there is none in all.
    pub(crate) fn enter(
        self: &Arc<Self>,
        quota: &Arc<CallerQuota>,
        is_operator: bool,
        most: usize,
    ) -> Option<ViewerSlot> {
        let mut state = self.state();
        let own =
            |viewer: &Viewer| viewer.owner == *quota.payer() && viewer.is_operator == is_operator;
        if state.open.iter().filter(|viewer| own(viewer)).count() >= most {
            quota.report_limit_reached(QuotaKind::Viewers);
            state.close_oldest(own);
        } else if state.open.len() >= MAX_VIEWERS {
            quota.report_limit_reached(QuotaKind::Viewers);
            let has_room = is_operator
                && (state.close_oldest(|viewer| !viewer.is_operator)
                    || state.close_oldest(|_| true));
            if !has_room {
                return None;
            }
        }
        let replaced = CancellationToken::new();
        let number = state.next;
        state.next += 1;
        state.open.push(Viewer {
            number,
            owner: quota.payer().clone(),
            is_operator,
            replaced: replaced.clone(),
            _guard: quota.try_acquire(QuotaKind::Viewers, usize::MAX).ok(),
        });
        drop(state);
        Some(ViewerSlot { table: Arc::clone(self), number, replaced })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }
}

impl State {
    fn close_oldest(&mut self, is_meant: impl Fn(&Viewer) -> bool) -> bool {
        let Some(at) = self.open.iter().position(is_meant) else { return false };
        self.open.remove(at).replaced.cancel();
        true
    }
}

impl Drop for ViewerSlot {
    fn drop(&mut self) {
        self.table.state().open.retain(|viewer| viewer.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    use mcp_workbench_core::gateway::{MemoryPools, QuotaRegistry};
    use mcp_workbench_core::telemetry::Telemetry;

    fn quota(quotas: &QuotaRegistry, number: usize) -> Arc<CallerQuota> {
        let address = Ipv4Addr::from(u32::try_from(number).unwrap());
        quotas.quota_for(&QuotaOwner::Address(address.into()))
    }

    #[test]
    fn newer_viewer_of_a_caller_replaces_its_oldest() {
        let quotas = QuotaRegistry::new(&Arc::new(Telemetry::default()), MemoryPools::default());
        let (table, eve, ann) = (Arc::default(), quota(&quotas, 1), quota(&quotas, 2));
        let enter = |quota, is_operator| ViewerTable::enter(&table, quota, is_operator, 2).unwrap();
        let (other, operator) = (enter(&ann, false), enter(&eve, true));
        let eves = [enter(&eve, false), enter(&eve, false)];
        assert!(eves.iter().all(|slot| !slot.replaced.is_cancelled()), "one below the limit");
        let newest = enter(&eve, false);
        assert!(eves[0].replaced.is_cancelled() && !eves[1].replaced.is_cancelled());
        assert_eq!(eve.count(QuotaKind::Viewers), 3);
        drop((eves, newest));
        assert_eq!(eve.count(QuotaKind::Viewers), 1);
        assert!(!other.replaced.is_cancelled() && !operator.replaced.is_cancelled());
    }

    #[test]
    fn operator_gets_in_if_all_places_are_taken() {
        let quotas = QuotaRegistry::new(&Arc::new(Telemetry::default()), MemoryPools::default());
        let table = Arc::new(ViewerTable::default());
        let crowd: Vec<_> = (0..MAX_VIEWERS)
            .map(|number| table.enter(&quota(&quotas, number), false, 1).unwrap())
            .collect();
        let late = quota(&quotas, MAX_VIEWERS);
        assert!(table.enter(&late, false, 1).is_none());
        let operators: Vec<_> =
            (0..MAX_VIEWERS).map(|_| table.enter(&late, true, MAX_VIEWERS + 1).unwrap()).collect();
        assert!(crowd.iter().all(|slot| slot.replaced.is_cancelled()));
        let newest = table.enter(&late, true, MAX_VIEWERS + 1);
        assert!(newest.is_some() && operators[0].replaced.is_cancelled());
        assert!(!operators[1].replaced.is_cancelled());
    }
}
