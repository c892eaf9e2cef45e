//! Paces repeated work that the other side can cause, by the generic cell rate algorithm (GCRA).

use std::num::NonZeroU32;
use std::time::Duration;

use tokio::time::Instant;

const PERIOD: Duration = Duration::from_mins(1);

/// Allows a number of events per minute. After an idle minute, all of them may come at once.
#[derive(Debug)]
pub struct Pacer {
    interval: Duration,
    /// When a whole minute's worth is available again.
    clear_at: Option<Instant>,
}

impl Pacer {
    pub fn per_minute(most: NonZeroU32) -> Self {
        Self { interval: PERIOD / most.get(), clear_at: None }
    }

    /// Counts an event at `now` and returns how long it has to wait.
    pub fn count(&mut self, now: Instant) -> Duration {
        let clear_at = self.clear_at.map_or(now, |at| at.max(now)) + self.interval;
        self.clear_at = Some(clear_at);
        clear_at.saturating_duration_since(now).saturating_sub(PERIOD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_beyond_the_limit_come_at_an_even_rate() {
        let mut pacer = Pacer::per_minute(NonZeroU32::new(4).unwrap());
        let mut now = Instant::now();
        let waits: Vec<_> = (0..6)
            .map(|_| {
                let wait = pacer.count(now);
                now += wait;
                wait.as_secs()
            })
            .collect();
        assert_eq!(waits, [0, 0, 0, 0, 15, 15]);
        now += PERIOD;
        assert_eq!([(); 5].map(|()| pacer.count(now).as_secs()), [0, 0, 0, 0, 15]);
    }
}
