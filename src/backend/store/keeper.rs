//! The store as tasks use it: beside them, on one thread, one thing after the other.

use std::sync::Arc;

use tokio::sync::Mutex;
use tokio_util::task::TaskTracker;

use crate::backend::store::Store;

/// Works with a store.
pub(crate) struct Keeper {
    store: Arc<Store>,
    tasks: TaskTracker,
    /// Whoever has it works; so however many ask, no more than one thread is held for it.
    turn: Mutex<()>,
}

impl Keeper {
    pub(crate) fn new(store: Arc<Store>, tasks: TaskTracker) -> Self {
        Self { store, tasks, turn: Mutex::default() }
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
