//! Who hears of what happens to a backend: the writers of snapshots that show it.

use std::sync::{Mutex, PoisonError};

use tokio::sync::mpsc;

use crate::backend::{Change, Changed, Listed};

/// The listeners of one backend, and its last listing.
#[derive(Default)]
pub(crate) struct Reports(Mutex<State>);

#[derive(Default)]
struct State {
    hearers: Vec<mpsc::Sender<Changed>>,
    last: Option<Listed>,
}

impl Reports {
    fn state<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Lets somebody hear of everything that happens from now on; what there was before is
    /// returned.
    pub(crate) fn hear(&self, hearer: &mpsc::Sender<Changed>) -> Option<Listed> {
        self.state(|state| {
            state.hearers.retain(|other| !other.is_closed());
            if !state.hearers.iter().any(|other| other.same_channel(hearer)) {
                state.hearers.push(hearer.clone());
            }
            state.last.clone()
        })
    }

    /// Tells everybody.
    pub(crate) async fn tell(&self, changed: Changed) {
        let hearers = self.state(|state| {
            if let Change::Listed(listed) = &changed.change {
                state.last = Some(listed.clone());
            }
            state.hearers.clone()
        });
        for hearer in hearers {
            // Refused only when a gateway is gone, and then nobody needs to know.
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
    async fn who_comes_late_gets_what_was_listed_and_hears_the_rest_once() {
        let reports = Reports::default();
        let listed = |version| {
            let change = Change::Listed(Listed { version, listing: Arc::new(Listing::default()) });
            Changed { backend: BackendId(0), change }
        };
        let (gone, receiver) = mpsc::channel(1);
        assert!(reports.hear(&gone).is_none());
        drop(receiver);
        reports.tell(listed(1)).await;
        let (hearer, mut heard) = mpsc::channel(4);
        assert_eq!(reports.hear(&hearer).map(|listed| listed.version), Some(1));
        reports.hear(&hearer);
        assert_eq!(reports.state(|state| state.hearers.len()), 1, "who is gone is forgotten");
        reports.tell(listed(2)).await;
        assert!(matches!(heard.recv().await.unwrap().change, Change::Listed(l) if l.version == 2));
        assert!(heard.try_recv().is_err());
    }
}
