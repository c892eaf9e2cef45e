//! The time, for whatever may be used at certain times only.

use std::time::{Duration, SystemTime};

use tokio::time::sleep;

use crate::policy::Moment;

/// How long is slept at most before the clock is looked at again: it may be set, and a machine that
/// sleeps does not count.
const LONGEST_SLEEP: u64 = 30;

/// Where the time comes from.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Clock {
    /// The machine.
    #[default]
    System,
    /// The runtime, from a moment on; tests stop and move it.
    #[cfg(test)]
    Runtime(Moment, tokio::time::Instant),
}

impl Clock {
    pub(crate) fn now(self) -> Moment {
        match self {
            Self::System => SystemTime::now().into(),
            #[cfg(test)]
            Self::Runtime(start, since) => {
                let passed = since.elapsed().as_secs().try_into().unwrap_or(i64::MAX);
                Moment::new(start.seconds().saturating_add(passed))
            }
        }
    }

    /// Waits for a moment, for ever if there is none.
    pub(crate) async fn wait_for(self, moment: Option<Moment>) {
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
