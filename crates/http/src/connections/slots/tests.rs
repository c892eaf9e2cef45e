use std::time::Duration;

use tokio::time::advance;

use super::*;
use mcp_workbench_core::gateway::{MemoryPools, QuotaRegistry};
use mcp_workbench_core::telemetry::Telemetry;

fn stage() -> (SlotTable, [Arc<CallerQuota>; 2]) {
    let quotas = QuotaRegistry::new(&Arc::new(Telemetry::default()), MemoryPools::default());
    let quota = |address: &str| quotas.quota_for(&QuotaOwner::new(None, address.parse().ok()));
    (SlotTable::default(), [quota("10.0.0.1"), quota("10.0.0.2")])
}

fn has_ended(slot: &ConnectionSlot) -> bool {
    slot.evicted.is_cancelled()
}

#[tokio::test(start_paused = true)]
async fn evicts_the_longest_idle_connection_of_an_address() {
    let (table, [ann, bob]) = stage();
    let others = table.take(&bob, [2, 9]);
    advance(Duration::from_secs(1)).await;
    let [first, second] = [table.take(&ann, [2, 9]), table.take(&ann, [2, 9])];
    first.set_in_use(true);
    advance(Duration::from_secs(1)).await;
    let third = table.take(&ann, [2, 9]);
    assert!(!third.is_reserved());
    assert_eq!([&others, &first, &second].map(|slot| has_ended(slot)), [false, false, true]);
    assert_eq!(ann.count(QuotaKind::Connections), 2);
    // If all are in use, only reserved slots are left.
    third.set_in_use(true);
    assert!(table.take(&ann, [2, 9]).is_reserved());
    assert!(!table.take(&bob, [2, 9]).is_reserved());
    first.set_in_use(false);
    assert!(!table.take(&ann, [2, 9]).is_reserved());
    assert!(has_ended(&first));
}

#[tokio::test(start_paused = true)]
async fn evicts_an_idle_connection_of_the_largest_holder() {
    let (table, [ann, bob]) = stage();
    let his = table.take(&bob, [9, 4]);
    advance(Duration::from_secs(1)).await;
    let hers: Vec<_> = (0..3).map(|_| table.take(&ann, [9, 4])).collect();
    let next = table.take(&bob, [9, 4]);
    assert!(!next.is_reserved() && !has_ended(&his));
    assert_eq!(hers.iter().filter(|slot| has_ended(slot)).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn evicts_the_oldest_reserved_slot() {
    let (table, _) = stage();
    let kept: Vec<_> = (0..=RESERVED_SLOTS).map(|_| table.take_kept()).collect();
    let ended: Vec<_> = kept.iter().map(|slot| has_ended(slot)).collect();
    assert!(ended[0] && !ended[1..].contains(&true));
    drop(kept);
    assert_eq!(table.state().kept, 0);
    assert!(table.state().places.is_empty());
}
