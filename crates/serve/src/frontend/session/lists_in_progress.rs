//! Counts the tool lists being built, so that a change notification can wait for them.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout};

/// How long a change notification waits for a tool list being built, which includes the change.
/// Clients may time out on slower lists.
const LIST_BUILD_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Default)]
pub(crate) struct ListsInProgress(watch::Sender<usize>);

/// Marks a tool list as being built until it is dropped.
pub(crate) struct ListBuildGuard<'a> {
    lists: &'a watch::Sender<usize>,
    since: Instant,
}

impl ListsInProgress {
    pub(super) fn begin(&self) -> ListBuildGuard<'_> {
        self.0.send_modify(|lists| *lists += 1);
        ListBuildGuard { lists: &self.0, since: Instant::now() }
    }

    /// Waits until no list is being built, for at most 2 s.
    pub(super) async fn built(&self) {
        let mut being_made = self.0.subscribe();
        let _ = timeout(LIST_BUILD_TIMEOUT, being_made.wait_for(|lists| *lists == 0)).await;
    }
}

impl ListBuildGuard<'_> {
    /// Returns `true` if change notifications still wait for this list.
    pub(super) fn is_awaited(&self) -> bool {
        self.since.elapsed() < LIST_BUILD_TIMEOUT
    }
}

impl Drop for ListBuildGuard<'_> {
    fn drop(&mut self) {
        self.lists.send_modify(|lists| *lists -= 1);
    }
}
