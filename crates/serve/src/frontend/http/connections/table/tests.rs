use std::time::Duration;

use tokio::time::advance;

use super::*;
use crate::gateway::{Bytes, Payers};
use crate::observe::Observer;

/// A table, and the purses of two addresses.
fn stage() -> (Table, [Arc<Purse>; 2]) {
    let payers = Payers::new(&Arc::new(Observer::default()), Bytes::default());
    let purse = |address: &str| payers.purse(&Payer::new(None, address.parse().ok()));
    (Table::default(), [purse("10.0.0.1"), purse("10.0.0.2")])
}

fn has_ended(place: &Place) -> bool {
    place.gives_way.is_cancelled()
}

#[tokio::test(start_paused = true)]
async fn the_oldest_of_the_same_address_that_is_not_used_gives_way() {
    let (table, [ann, bob]) = stage();
    let others = table.take(&bob, [2, 9]);
    advance(Duration::from_secs(1)).await;
    let [first, second] = [table.take(&ann, [2, 9]), table.take(&ann, [2, 9])];
    first.is_used(true);
    advance(Duration::from_secs(1)).await;
    let third = table.take(&ann, [2, 9]);
    assert!(!third.is_kept());
    assert_eq!([&others, &first, &second].map(|place| has_ended(place)), [false, false, true]);
    assert_eq!(ann.count(Holding::Connections), 2);
    // Where all are used, there are the kept places.
    third.is_used(true);
    assert!(table.take(&ann, [2, 9]).is_kept());
    assert!(!table.take(&bob, [2, 9]).is_kept());
    first.is_used(false);
    assert!(!table.take(&ann, [2, 9]).is_kept());
    assert!(has_ended(&first));
}

#[tokio::test(start_paused = true)]
async fn of_all_one_of_whoever_has_most_gives_way() {
    let (table, [ann, bob]) = stage();
    let his = table.take(&bob, [9, 4]);
    advance(Duration::from_secs(1)).await;
    let hers: Vec<_> = (0..3).map(|_| table.take(&ann, [9, 4])).collect();
    let next = table.take(&bob, [9, 4]);
    assert!(!next.is_kept() && !has_ended(&his));
    assert_eq!(hers.iter().filter(|place| has_ended(place)).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn kept_places_go_to_the_newest() {
    let (table, _) = stage();
    let kept: Vec<_> = (0..=KEPT).map(|_| table.take_kept()).collect();
    let ended: Vec<_> = kept.iter().map(|place| has_ended(place)).collect();
    assert!(ended[0] && !ended[1..].contains(&true));
    drop(kept);
    assert_eq!(table.state().kept, 0);
    assert!(table.state().places.is_empty());
}
