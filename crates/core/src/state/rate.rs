//! Rates: how often something may happen, by the generic cell rate algorithm.

use std::num::NonZeroU32;
use std::time::Duration;

/// A rate: something may happen this often in a minute, and after a quiet minute at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    /// The number of times.
    pub per_minute: NonZeroU32,
}

impl Rate {
    /// The time after which nothing is left of what was counted.
    pub const PERIOD: Duration = Duration::from_mins(1);

    /// Counts one more time, by moving `clear_at`: the time, on the clock that says `now`, at which
    /// nothing is left of what was counted.
    ///
    /// # Errors
    ///
    /// How long to wait until it may happen again; it has not been counted then.
    pub fn count(self, now: Duration, clear_at: &mut Duration) -> Result<(), Duration> {
        let next = now.max(*clear_at) + Self::PERIOD / self.per_minute.get();
        let wait = next.saturating_sub(now + Self::PERIOD);
        if !wait.is_zero() {
            return Err(wait);
        }
        *clear_at = next;
        Ok(())
    }
}
