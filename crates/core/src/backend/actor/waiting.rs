//! The things that an actor waits for which may never come.

use std::time::Duration;

use tokio::task::{JoinError, JoinHandle};
use tokio::time::{Instant, sleep_until};

use crate::backend::Live;
use crate::backend::switchboard::Switchboard;

/// When an unused link is next worth looking at; one that is used, or that somebody listens to, is
/// looked at again later.
pub(super) fn idle_deadline(
    live: &Live,
    idle_timeout: Option<Duration>,
    board: &Switchboard,
) -> Option<Instant> {
    let since = live.idle_since().filter(|_| !board.has_subscriptions());
    Some(since.unwrap_or_else(Instant::now) + idle_timeout?)
}

pub(super) async fn sleep_until_some(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

pub(super) async fn join<T>(handle: &mut Option<JoinHandle<T>>) -> Result<T, JoinError> {
    match handle {
        Some(handle) => handle.await,
        None => std::future::pending().await,
    }
}
