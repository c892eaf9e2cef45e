//! Feed of a backend's changes, read by the snapshot writers.

use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::backend::{BackendChange, ChangeKind, VersionedListing};

#[derive(Default)]
pub(crate) struct ChangeFeed(Mutex<State>);

#[derive(Default)]
struct State {
    hearers: Vec<mpsc::Sender<BackendChange>>,
    last: Option<VersionedListing>,
}

impl ChangeFeed {
    fn state<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.0.lock())
    }

    /// Subscribes to later changes and returns the last listing.
    pub(crate) fn subscribe(
        &self,
        hearer: &mpsc::Sender<BackendChange>,
    ) -> Option<VersionedListing> {
        self.state(|state| {
            state.hearers.retain(|other| !other.is_closed());
            if !state.hearers.iter().any(|other| other.same_channel(hearer)) {
                state.hearers.push(hearer.clone());
            }
            state.last.clone()
        })
    }

    pub(crate) async fn publish(&self, changed: BackendChange) {
        let hearers = self.state(|state| {
            if let ChangeKind::Listed(listed) = &changed.change {
                state.last = Some(listed.clone());
            }
            state.hearers.clone()
        });
        for hearer in hearers {
            // Fails only if a gateway is gone.
            let _ = hearer.send(changed.clone()).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::backend::BackendId;
    use crate::catalog::Listing;

    #[tokio::test]
    async fn late_subscriber_gets_the_last_listing_and_each_later_change_once() {
        let reports = ChangeFeed::default();
        let listed = |version| {
            let change = ChangeKind::Listed(VersionedListing {
                version,
                listing: Arc::new(Listing::default()),
            });
            BackendChange { backend: BackendId(0), change }
        };
        let (gone, receiver) = mpsc::channel(1);
        assert!(reports.subscribe(&gone).is_none());
        drop(receiver);
        reports.publish(listed(1)).await;
        let (hearer, mut heard) = mpsc::channel(4);
        assert_eq!(reports.subscribe(&hearer).map(|listed| listed.version), Some(1));
        reports.subscribe(&hearer);
        assert_eq!(
            reports.state(|state| state.hearers.len()),
            1,
            "dropped subscribers are removed"
        );
        reports.publish(listed(2)).await;
        assert!(
            matches!(heard.recv().await.unwrap().change, ChangeKind::Listed(l) if l.version == 2)
        );
        assert!(heard.try_recv().is_err());
    }
}
