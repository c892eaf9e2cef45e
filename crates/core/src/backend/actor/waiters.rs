//! Waiters of an actor, and futures that may never resolve.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::task::{JoinError, JoinHandle};
use tokio::time::{Instant, sleep, sleep_until};

use crate::backend::connection::LeasedConnection;
use crate::backend::message_router::MessageRouter;
use crate::backend::principal::Principal;
use crate::backend::{BackendConnection, BackendError, StartError};
use mcp_workbench_login::OAuthLogin;

/// Minimum delay before a sign-in triggers a start, in case the server rejects the new token.
const AFTER_SIGN_IN: Duration = Duration::from_millis(500);

pub(crate) struct Waiter {
    /// `None` if the start is for no particular agent.
    pub(crate) principal: Option<Principal>,
    pub(crate) reply: oneshot::Sender<Result<LeasedConnection, BackendError>>,
}

pub(super) fn fail_waiters(waiting: Vec<Waiter>, why: StartError) {
    reply_to_waiters(waiting, &Err(BackendError::StartFailed(Arc::new(why))));
}

pub(super) fn reply_to_waiters(
    waiting: Vec<Waiter>,
    result: &Result<BackendConnection, BackendError>,
) {
    for waiter in waiting {
        // The caller may have given up.
        let _ = waiter.reply.send(result.clone().map(BackendConnection::lease));
    }
}

/// Waits for a change in reachability. Returns the reason, or `None` if the server is reachable.
pub(super) async fn link_trouble_changed(
    trouble: &mut watch::Receiver<Option<Arc<str>>>,
) -> Option<Arc<str>> {
    match trouble.changed().await {
        Ok(()) => trouble.borrow_and_update().clone(),
        // The connection has ended, which the actor notices elsewhere.
        Err(_) => std::future::pending().await,
    }
}

/// Returns when to check for idleness next: a full timeout from now if the connection is in use or
/// has subscribers.
pub(super) fn idle_deadline(
    live: &BackendConnection,
    idle_timeout: Option<Duration>,
    router: &MessageRouter,
) -> Option<Instant> {
    let since = live.idle_since().filter(|_| !router.has_subscriptions());
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

/// Resolves on a sign-in; never without a login.
pub(super) async fn wait_for_sign_in(login: Option<Arc<OAuthLogin>>) {
    sleep(AFTER_SIGN_IN).await;
    match login {
        Some(login) => login.wait_signed_in().await,
        None => std::future::pending().await,
    }
}
