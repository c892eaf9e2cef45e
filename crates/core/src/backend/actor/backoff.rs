//! Restart backoff for servers that keep crashing.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use tokio::time::Instant;

/// First delay before a restart. It doubles with each failure.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// Maximum delay, including jitter. Calls wait for it.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

pub(super) struct RestartBackoff {
    pauses: ExponentialBackoff,
    failures: u32,
    /// Earliest time of the next start; `None` if it can start immediately.
    pub(super) not_before: Option<Instant>,
}

impl RestartBackoff {
    pub(super) fn new() -> Self {
        let pauses = ExponentialBuilder::new()
            .with_min_delay(FIRST_PAUSE)
            // Jitter at most doubles a delay.
            .with_max_delay(LONGEST_PAUSE / 2)
            .with_jitter()
            .without_max_times()
            .build();
        Self { pauses, failures: 0, not_before: None }
    }

    /// Counts a failure unless only a sign-in is missing, since the server then starts right after
    /// it.
    pub(super) fn failed_unless(&mut self, wants_sign_in: bool) {
        if !wants_sign_in {
            self.record_failure();
        }
    }

    /// Counts a failure. The first one causes no delay.
    pub(super) fn record_failure(&mut self) {
        self.failures += 1;
        if self.failures > 1 {
            self.not_before = self.pauses.next().map(|pause| Instant::now() + pause);
        }
    }
}

#[cfg(test)]
mod tests;
