//! The store as tasks use it: beside them, on one thread, one thing after the other.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TrackedFuture;

use crate::backend::Spec;
use crate::backend::store::{Found, Store};

/// How long a listing waits at most until it is put into the store.
const LATER: Duration = Duration::from_millis(250);

/// Works with a store.
pub(crate) struct Keeper {
    store: Arc<Store>,
    tasks: TaskTracker,
    /// Listings on their way into the store. It is closed, so that one can wait for it to be empty.
    on_the_way: TaskTracker,
    /// Cancelled once they are waited for.
    hurry: CancellationToken,
    /// Whoever has it works; so however many ask, no more than one thread is held for it.
    turn: Mutex<()>,
}

impl Keeper {
    /// Works with a store until `shutdown`, on one of `tasks`.
    pub(crate) fn new(store: Arc<Store>, tasks: TaskTracker, shutdown: &CancellationToken) -> Self {
        let (on_the_way, hurry) = (TaskTracker::new(), shutdown.child_token());
        on_the_way.close();
        Self { store, tasks, on_the_way, hurry, turn: Mutex::default() }
    }

    /// Waits until it is `quiet`, so that what is put into the store holds up no servers that are being
    /// opened: a moment at most, and no longer once somebody waits for it to be there, or all ends.
    pub(crate) async fn later(&self, quiet: impl Future<Output = ()>) {
        let _ = timeout(LATER, self.hurry.run_until_cancelled(quiet)).await;
    }

    /// Lets [`Self::settled`] wait for what puts something into the store.
    pub(crate) fn awaited<F: Future>(&self, keeping: F) -> TrackedFuture<F> {
        self.on_the_way.track_future(keeping)
    }

    /// Waits until everything is there that is on its way into the store.
    pub(crate) async fn settled(&self) {
        self.hurry.cancel();
        self.on_the_way.wait().await;
    }

    /// The way in which such a server was last spoken to. What was looked up before is not read again.
    pub(crate) async fn way(&self, spec: &Arc<Spec>) -> Option<Found> {
        if let Some(looked_up) = self.store.known_way(&spec.reach, spec.protocol) {
            return looked_up.found;
        }
        let spec = Arc::clone(spec);
        let recall = self.run(move |store| store.recall(&spec.reach, spec.protocol));
        recall.await.flatten().map(|(record, _)| record.found())
    }

    /// Does something with the store; `None` if it was lost to a panic.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Store) -> T + Send + 'static,
    ) -> Option<T> {
        let _turn = self.turn.lock().await;
        let store = Arc::clone(&self.store);
        self.tasks.spawn_blocking(move || work(&store)).await.ok()
    }
}
