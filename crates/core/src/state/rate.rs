//! Rate limits by the generic cell rate algorithm (GCRA).

use std::num::NonZeroU32;
use std::time::Duration;

/// A rate limit; after an idle minute the whole minute's worth may come as a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    pub per_minute: NonZeroU32,
}

impl Rate {
    /// Time until a counter is back to zero.
    pub const PERIOD: Duration = Duration::from_mins(1);

    /// Counts an event by moving `clear_at`, when the counter is back to zero on the clock of
    /// `now`.
    ///
    /// # Errors
    ///
    /// The time to wait if the event exceeds the limit; it isn't counted then.
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
