//! How soon a server that keeps dying may be started again.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use tokio::time::Instant;

/// The first pause before starting a server again that keeps dying; it doubles each time.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The longest such pause, jitter included: a call waits for it, and so does the agent.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// A count of how often the server has died, and the time when it may be started again.
pub(super) struct Restarts {
    pauses: ExponentialBackoff,
    failures: u32,
    /// The moment before which it is not started, after more than one death.
    pub(super) not_before: Option<Instant>,
}

impl Restarts {
    pub(super) fn new() -> Self {
        let pauses = ExponentialBuilder::new()
            .with_min_delay(FIRST_PAUSE)
            // Jitter makes a pause up to twice as long.
            .with_max_delay(LONGEST_PAUSE / 2)
            .with_jitter()
            .without_max_times()
            .build();
        Self { pauses, failures: 0, not_before: None }
    }

    /// Counts a failure, unless all that is missing is that somebody signs in: whoever has is taken at
    /// once.
    pub(super) fn failed_unless(&mut self, wants_sign_in: bool) {
        if !wants_sign_in {
            self.failed();
        }
    }

    /// Counts a failure. The first is followed by a new start at once, later ones by a pause.
    pub(super) fn failed(&mut self) {
        self.failures += 1;
        if self.failures > 1 {
            self.not_before = self.pauses.next().map(|pause| Instant::now() + pause);
        }
    }
}

#[cfg(test)]
mod tests;
