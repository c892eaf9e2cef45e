//! Background access to the listing store: one blocking operation at a time.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::backend::BackendSpec;
use crate::backend::listing_store::{ListingRecord, ListingStore, ProtocolHint};

/// Maximum delay before a listing is written.
const SAVE_DELAY: Duration = Duration::from_millis(250);

/// A server's listing that waits to be written.
#[derive(Clone, Default)]
pub(crate) struct PendingSave(Arc<Mutex<Option<ListingRecord>>>);

impl PendingSave {
    fn slot(&self) -> MutexGuard<'_, Option<ListingRecord>> {
        self.0.lock()
    }
}

pub(crate) struct ListingStoreWorker {
    store: Arc<ListingStore>,
    tasks: TaskTracker,
    /// Pending writes. The tracker is closed so that `wait` returns once it is empty.
    on_the_way: TaskTracker,
    /// Cancelled to write pending listings without delay.
    hurry: CancellationToken,
    /// Held during store operations, so that they never occupy more than one blocking thread.
    turn: sync::Mutex<()>,
}

impl ListingStoreWorker {
    pub(crate) fn new(
        store: Arc<ListingStore>,
        tasks: TaskTracker,
        shutdown: &CancellationToken,
    ) -> Self {
        let (on_the_way, hurry) = (TaskTracker::new(), shutdown.child_token());
        on_the_way.close();
        Self { store, tasks, on_the_way, hurry, turn: sync::Mutex::default() }
    }

    /// Schedules a write of this server's listing, replacing one that still waits. The write is
    /// delayed until `quiet` resolves, so that it doesn't slow down servers that are starting, but
    /// at most by `SAVE_DELAY`; [`Self::flush`] and shutdown end the delay.
    pub(crate) fn schedule_save(
        self: &Arc<Self>,
        spec: &Arc<BackendSpec>,
        outgoing: &PendingSave,
        record: ListingRecord,
        quiet: impl Future<Output = ()> + Send + 'static,
    ) {
        if outgoing.slot().replace(record).is_some() {
            return;
        }
        let (worker, spec, outgoing) = (Arc::clone(self), Arc::clone(spec), outgoing.clone());
        let keep = move |store: &ListingStore| {
            let Some(record) = outgoing.slot().take() else { return };
            if let Err(error) = store.save(&spec.reach, spec.protocol, &record) {
                let server = &spec.label;
                tracing::debug!(server, %error, "failed to cache the tool list");
            }
        };
        self.tasks.spawn(self.on_the_way.track_future(async move {
            let _ = timeout(SAVE_DELAY, worker.hurry.run_until_cancelled(quiet)).await;
            worker.run(keep).await;
        }));
    }

    /// Writes all pending listings and waits for them.
    pub(crate) async fn flush(&self) {
        self.hurry.cancel();
        self.on_the_way.wait().await;
    }

    /// Returns the protocol that last worked with this server.
    pub(crate) async fn way(&self, spec: &Arc<BackendSpec>) -> Option<ProtocolHint> {
        if let Some(looked_up) = self.store.cached_hint(&spec.reach, spec.protocol) {
            return looked_up.found;
        }
        let spec = Arc::clone(spec);
        let recall = self.run(move |store| store.load(&spec.reach, spec.protocol));
        recall.await.flatten().map(|(record, _)| record.found())
    }

    /// Runs `work` on a blocking thread. Returns `None` if it panicked.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&ListingStore) -> T + Send + 'static,
    ) -> Option<T> {
        let _turn = self.turn.lock().await;
        let store = Arc::clone(&self.store);
        self.tasks.spawn_blocking(move || work(&store)).await.ok()
    }
}
