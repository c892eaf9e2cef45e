//! The end, in order: others are told to go elsewhere, nothing new is taken, what is under way is
//! answered, then streams and connections are closed.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// How serving comes to its end.
#[derive(Clone, Debug)]
pub struct Ending {
    /// Is cancelled when it begins: from then on `/ready` says so.
    pub draining: CancellationToken,
    /// How much time it has.
    pub grace: Grace,
    /// Is cancelled when everything is to end at once.
    pub shutdown: CancellationToken,
}

/// The time that the end may take.
#[derive(Clone, Copy, Debug, Default)]
pub struct Grace {
    /// How long what comes is still taken, for whoever sends it here learns late that we end.
    pub delay: Duration,
    /// How long what is under way after that may still take.
    pub time: Duration,
}

/// The requests that have been taken and whose answers have not been given yet.
pub(crate) struct UnderWay {
    draining: CancellationToken,
    /// Is cancelled when nothing new is taken any more.
    closed: CancellationToken,
    requests: TaskTracker,
}

/// One of them, for as long as this is there.
pub(crate) struct Ticket {
    _request: TaskTrackerToken,
    _session: Option<TaskTrackerToken>,
}

impl UnderWay {
    /// None yet; the end begins when `draining` is cancelled.
    pub(crate) fn new(draining: CancellationToken) -> Self {
        Self { draining, closed: CancellationToken::new(), requests: TaskTracker::new() }
    }

    /// Takes a request, of a session if it is one's; nothing when none is taken any more.
    pub(crate) fn begin(&self, session: Option<&TaskTracker>) -> Option<Ticket> {
        // First it is counted: who begins to wait now waits for it too.
        let request = self.requests.token();
        let ticket = Ticket { _request: request, _session: session.map(TaskTracker::token) };
        (!self.is_ending()).then_some(ticket)
    }

    /// Returns `true` if the end has begun.
    pub(crate) fn is_leaving(&self) -> bool {
        self.draining.is_cancelled()
    }

    /// Returns `true` if nothing new is taken any more.
    pub(crate) fn is_ending(&self) -> bool {
        self.closed.is_cancelled()
    }

    /// Is cancelled when nothing new is taken any more.
    pub(crate) fn draining(&self) -> CancellationToken {
        self.closed.clone()
    }

    /// Resolves when nothing new is taken and everything is answered, or has had its time.
    pub(crate) async fn finished(&self, grace: Grace) {
        self.draining.cancelled().await;
        if !grace.delay.is_zero() {
            let seconds = grace.delay.as_secs();
            tracing::info!("no longer ready; what comes is still taken for {seconds} s");
            tokio::time::sleep(grace.delay).await;
        }
        self.closed.cancel();
        self.requests.close();
        tracing::info!(
            requests = self.requests.len(),
            "nothing new is taken; what is under way has {} s",
            grace.time.as_secs()
        );
        if tokio::time::timeout(grace.time, self.requests.wait()).await.is_err() {
            tracing::warn!(requests = self.requests.len(), "given up, for the time is over");
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, advance};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn what_comes_is_taken_until_the_delay_is_over_and_waited_for_after_that() {
        let draining = CancellationToken::new();
        let under_way = UnderWay::new(draining.clone());
        assert!(under_way.begin(None).is_some(), "nothing ends yet");
        draining.cancel();
        let began = Instant::now();
        let finished = under_way.finished(Grace { delay: 5 * SECOND, time: 60 * SECOND });
        let others = async {
            tokio::task::yield_now().await;
            advance(4 * SECOND).await;
            assert!(under_way.is_leaving() && !under_way.is_ending());
            let ticket = under_way.begin(None).expect("it is still taken");
            advance(2 * SECOND).await;
            tokio::task::yield_now().await;
            assert!(under_way.is_ending() && under_way.begin(None).is_none());
            advance(10 * SECOND).await;
            drop(ticket);
        };
        tokio::join!(finished, others);
        assert_eq!(began.elapsed(), 16 * SECOND);
    }
}
