//! The store as tasks use it: beside them, on one thread, one thing after the other.

use std::sync::Arc;

use tokio::sync::Mutex;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TrackedFuture;

use crate::backend::store::Store;

/// Works with a store.
pub(crate) struct Keeper {
    store: Arc<Store>,
    tasks: TaskTracker,
    /// Listings on their way into the store. It is closed, so that one can wait for it to be empty.
    on_the_way: TaskTracker,
    /// Whoever has it works; so however many ask, no more than one thread is held for it.
    turn: Mutex<()>,
}

impl Keeper {
    pub(crate) fn new(store: Arc<Store>, tasks: TaskTracker) -> Self {
        let on_the_way = TaskTracker::new();
        on_the_way.close();
        Self { store, tasks, on_the_way, turn: Mutex::default() }
    }

    /// Lets [`Self::settled`] wait for what puts something into the store.
    pub(crate) fn awaited<F: Future>(&self, keeping: F) -> TrackedFuture<F> {
        self.on_the_way.track_future(keeping)
    }

    /// Waits until everything is there that is on its way into the store.
    pub(crate) async fn settled(&self) {
        self.on_the_way.wait().await;
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
