//! Waiters of an actor, and the things that an actor waits for which may never come.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::task::{JoinError, JoinHandle};
use tokio::time::{Instant, sleep, sleep_until};

use crate::backend::live::Used;
use crate::backend::switchboard::Switchboard;
use crate::backend::users::Principal;
use crate::backend::{Error, Live, StartFailure};
use crate::login::SignIn;

/// How soon a server is started again at which somebody has signed in, should it not take that.
const AFTER_SIGN_IN: Duration = Duration::from_millis(500);

/// Somebody who waits for a start.
pub(crate) struct Waiter {
    /// For whom; `None`: for nobody in particular.
    pub(crate) principal: Option<Principal>,
    pub(crate) reply: oneshot::Sender<Result<Used, Error>>,
}

/// Tells those who wait that the server does not start, and why.
pub(super) fn refuse(waiting: Vec<Waiter>, why: StartFailure) {
    answer(waiting, &Err(Error::StartFailed(Arc::new(why))));
}

/// Tells those who wait what came of the start.
pub(super) fn answer(waiting: Vec<Waiter>, result: &Result<Live, Error>) {
    for waiter in waiting {
        // Whoever asked may have given up in the meantime.
        let _ = waiter.reply.send(result.clone().map(Live::held));
    }
}

/// Waits for the next news of whether a server can be reached: why not, or `None`.
pub(super) async fn news(trouble: &mut watch::Receiver<Option<Arc<str>>>) -> Option<Arc<str>> {
    match trouble.changed().await {
        Ok(()) => trouble.borrow_and_update().clone(),
        // The link has ended, which is told otherwise.
        Err(_) => std::future::pending().await,
    }
}

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

/// Resolves when somebody has signed in.
pub(super) async fn signed_in(login: Option<Arc<SignIn>>) {
    sleep(AFTER_SIGN_IN).await;
    match login {
        Some(login) => login.signed_in().await,
        None => std::future::pending().await,
    }
}
