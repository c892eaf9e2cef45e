//! Wall clock for time-dependent rules.

use std::time::{Duration, SystemTime};

use tokio::time::sleep;

use crate::policy::UnixTime;

/// Maximum sleep in seconds before the clock is read again: it may be set, and timers stop while
/// the machine is suspended.
const LONGEST_SLEEP: u64 = 30;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Clock {
    #[default]
    System,
    /// Starts at a fixed time and follows Tokio's clock, which tests can pause.
    #[cfg(test)]
    Runtime(UnixTime, tokio::time::Instant),
}

impl Clock {
    pub(crate) fn now(self) -> UnixTime {
        match self {
            Self::System => SystemTime::now().into(),
            #[cfg(test)]
            Self::Runtime(start, since) => {
                let passed = since.elapsed().as_secs().try_into().unwrap_or(i64::MAX);
                UnixTime::new(start.seconds().saturating_add(passed))
            }
        }
    }

    /// Waits until `moment`, or forever if it is `None`.
    pub(crate) async fn wait_for(self, moment: Option<UnixTime>) {
        let Some(moment) = moment else { return std::future::pending().await };
        loop {
            let left = moment.seconds_since(self.now());
            if left == 0 {
                return;
            }
            sleep(Duration::from_secs(left.min(LONGEST_SLEEP))).await;
        }
    }
}
