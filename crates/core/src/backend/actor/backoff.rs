//! Backoff for servers that keep crashing, and for those that report changes without any.

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

/// List changes within this time are read together.
const DEBOUNCE: Duration = Duration::from_millis(50);
/// Maximum delay before lists are read again that keep being the same.
const LONGEST_DEBOUNCE: Duration = Duration::from_secs(30);
/// A server that has reported no change for this long starts over.
const CALM: Duration = Duration::from_mins(1);

/// Delays the reading of changed lists. The delay doubles while the lists turn out to be the same,
/// because some servers report a change whenever they are asked.
#[derive(Debug)]
pub(super) struct RelistBackoff {
    pause: Duration,
    read_at: Option<Instant>,
}

impl RelistBackoff {
    pub(super) fn new() -> Self {
        Self { pause: DEBOUNCE, read_at: None }
    }

    /// Returns how long to wait after a change that is reported at `now`.
    pub(super) fn pause(&mut self, now: Instant) -> Duration {
        if self.read_at.is_some_and(|read_at| now.saturating_duration_since(read_at) >= CALM) {
            self.pause = DEBOUNCE;
        }
        self.pause
    }

    /// Records that the lists were read at `now`.
    pub(super) fn record(&mut self, is_changed: bool, now: Instant) {
        self.read_at = Some(now);
        self.pause = if is_changed { DEBOUNCE } else { LONGEST_DEBOUNCE.min(self.pause * 2) };
    }
}

#[cfg(test)]
mod tests;
