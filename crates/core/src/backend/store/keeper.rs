//! The store as tasks use it: beside them, on one thread, one thing after the other.

use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::backend::Spec;
use crate::backend::store::{Found, Record, Store};

/// How long a listing waits at most until it is put into the store.
const LATER: Duration = Duration::from_millis(250);

/// The listing of one server, while it is on its way into the store.
#[derive(Clone, Default)]
pub(crate) struct Outgoing(Arc<std::sync::Mutex<Option<Record>>>);

impl Outgoing {
    fn slot(&self) -> MutexGuard<'_, Option<Record>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

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

    /// Puts a listing of this server into the store, in place of one that is still on its way there: when
    /// it is `quiet`, so that no servers are held up that are being opened, but after a moment at most, and
    /// at once when somebody waits for it to be there, or all ends.
    pub(crate) fn keep(
        self: &Arc<Self>,
        spec: &Arc<Spec>,
        outgoing: &Outgoing,
        record: Record,
        quiet: impl Future<Output = ()> + Send + 'static,
    ) {
        if outgoing.slot().replace(record).is_some() {
            return;
        }
        let (keeper, spec, outgoing) = (Arc::clone(self), Arc::clone(spec), outgoing.clone());
        let keep = move |store: &Store| {
            let Some(record) = outgoing.slot().take() else { return };
            if let Err(error) = store.keep(&spec.reach, spec.protocol, &record) {
                let server = &spec.label;
                tracing::debug!(server, %error, "its listing could not be kept");
            }
        };
        self.tasks.spawn(self.on_the_way.track_future(async move {
            let _ = timeout(LATER, keeper.hurry.run_until_cancelled(quiet)).await;
            keeper.run(keep).await;
        }));
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
