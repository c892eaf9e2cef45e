//! The end, in order: nothing new is taken, what is under way is answered, then streams and
//! connections are closed.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// How serving comes to its end.
#[derive(Clone, Debug)]
pub struct Ending {
    /// Is cancelled when nothing new is to be taken any more.
    pub draining: CancellationToken,
    /// How long what is under way then may still take.
    pub grace: Duration,
    /// Is cancelled when everything is to end at once.
    pub shutdown: CancellationToken,
}

/// The requests that have been taken and whose answers have not been given yet.
pub(crate) struct UnderWay {
    draining: CancellationToken,
    requests: TaskTracker,
}

/// One of them, for as long as this is there.
pub(crate) struct Ticket {
    _request: TaskTrackerToken,
    _session: Option<TaskTrackerToken>,
}

impl UnderWay {
    /// None yet; none are taken any more once `draining` is cancelled.
    pub(crate) fn new(draining: CancellationToken) -> Self {
        Self { draining, requests: TaskTracker::new() }
    }

    /// Takes a request, of a session if it is one's; nothing when none is taken any more.
    pub(crate) fn begin(&self, session: Option<&TaskTracker>) -> Option<Ticket> {
        // First it is counted: who begins to wait now waits for it too.
        let request = self.requests.token();
        let ticket = Ticket { _request: request, _session: session.map(TaskTracker::token) };
        (!self.is_ending()).then_some(ticket)
    }

    /// Returns `true` if nothing new is taken any more.
    pub(crate) fn is_ending(&self) -> bool {
        self.draining.is_cancelled()
    }

    /// Resolves when nothing new is taken and everything is answered, or has had its time.
    pub(crate) async fn finished(&self, grace: Duration) {
        self.draining.cancelled().await;
        self.requests.close();
        tracing::info!(
            requests = self.requests.len(),
            "nothing new is taken; what is under way has {} s",
            grace.as_secs()
        );
        if tokio::time::timeout(grace, self.requests.wait()).await.is_err() {
            tracing::warn!(requests = self.requests.len(), "given up, for the time is over");
        }
    }
}
