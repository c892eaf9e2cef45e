//! Graceful shutdown in order: report not ready, reject new requests, finish those in flight, then
//! close streams and connections.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::response::HttpError;

/// Signals and timeouts of a graceful shutdown.
#[derive(Clone, Debug)]
pub struct DrainControl {
    /// Cancelled to start the drain; from then on `/ready` reports it.
    pub draining: CancellationToken,
    pub grace: DrainTimeouts,
    /// Cancelled to end everything immediately.
    pub shutdown: CancellationToken,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct DrainTimeouts {
    /// How long requests are still accepted, because load balancers notice the drain late.
    pub delay: Duration,
    /// How long requests in flight may take after that.
    pub drain: Duration,
}

pub(crate) struct InFlightTracker {
    draining: CancellationToken,
    /// Cancelled when new requests are rejected.
    closed: CancellationToken,
    requests: TaskTracker,
}

pub(crate) struct InFlightGuard {
    _request: TaskTrackerToken,
    _session: Option<TaskTrackerToken>,
}

impl InFlightTracker {
    pub(crate) fn new(draining: CancellationToken) -> Self {
        Self { draining, closed: CancellationToken::new(), requests: TaskTracker::new() }
    }

    /// Tracks a request, for its session as well. `None` once new requests are rejected.
    pub(crate) fn begin(&self, session: Option<&TaskTracker>) -> Option<InFlightGuard> {
        // Take the token before reading `closed`, so that a drain that starts in between waits for
        // this request.
        let request = self.requests.token();
        let guard = InFlightGuard { _request: request, _session: session.map(TaskTracker::token) };
        (!self.is_closed()).then_some(guard)
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.is_cancelled()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.is_cancelled()
    }

    pub(crate) fn closed_token(&self) -> CancellationToken {
        self.closed.clone()
    }

    /// Runs the drain. Resolves when all requests are answered or the time is up.
    pub(crate) async fn drained(&self, grace: DrainTimeouts) {
        self.draining.cancelled().await;
        if !grace.delay.is_zero() {
            tracing::info!(
                "draining: /ready reports 503, requests are accepted for another {:?}",
                grace.delay
            );
            tokio::time::sleep(grace.delay).await;
        }
        self.closed.cancel();
        self.requests.close();
        tracing::info!(
            requests = self.requests.len(),
            "draining: rejecting new requests, requests in flight have {:?} to finish",
            grace.drain
        );
        if tokio::time::timeout(grace.drain, self.requests.wait()).await.is_err() {
            tracing::warn!(
                requests = self.requests.len(),
                "drain timed out, aborting requests in flight"
            );
        }
    }
}

pub(crate) fn draining_error() -> HttpError {
    HttpError::unavailable("the server is shutting down and accepts no new requests")
}

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, advance};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn accepts_requests_until_the_delay_ends_then_drains() {
        let draining = CancellationToken::new();
        let under_way = InFlightTracker::new(draining.clone());
        assert!(under_way.begin(None).is_some(), "not draining yet");
        draining.cancel();
        let began = Instant::now();
        let finished = under_way.drained(DrainTimeouts { delay: 5 * SECOND, drain: 60 * SECOND });
        let others = async {
            tokio::task::yield_now().await;
            advance(4 * SECOND).await;
            assert!(under_way.is_draining() && !under_way.is_closed());
            let guard = under_way.begin(None).expect("requests are accepted during the delay");
            advance(2 * SECOND).await;
            tokio::task::yield_now().await;
            assert!(under_way.is_closed() && under_way.begin(None).is_none());
            advance(10 * SECOND).await;
            drop(guard);
        };
        tokio::join!(finished, others);
        assert_eq!(began.elapsed(), 16 * SECOND);
    }
}
