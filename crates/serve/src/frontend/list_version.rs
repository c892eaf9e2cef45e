//! Tracks which version of the tool list the agent has been given, and waits for a newer one to
//! arrive.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

/// How long to wait for the agent to list its tools again.
const RELIST_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Default)]
pub(crate) struct DeliveredVersion(watch::Sender<u64>);

pub(crate) struct PendingVersion {
    listed: watch::Receiver<u64>,
    version: u64,
    since: Instant,
}

impl DeliveredVersion {
    pub(crate) fn note(&self, version: u64) {
        self.0.send_if_modified(|listed| {
            let is_newer = *listed < version;
            *listed = version.max(*listed);
            is_newer
        });
    }

    pub(crate) fn has(&self, version: u64) -> bool {
        *self.0.borrow() >= version
    }

    /// Starts to wait for `version`. `None` if the agent has been given it already.
    pub(crate) fn awaited(&self, version: u64) -> Option<PendingVersion> {
        let listed = self.0.subscribe();
        let is_given = *listed.borrow() >= version;
        (!is_given).then(|| PendingVersion { listed, version, since: Instant::now() })
    }
}

impl PendingVersion {
    /// Waits until the agent has listed this version and its model can use it: the client's
    /// settling time, or the time it took to list if that is longer. Returns `false` if it doesn't
    /// list within 2 s.
    pub(crate) async fn delivered(mut self, settling: Duration) -> bool {
        let Self { version, since, .. } = self;
        if timeout(RELIST_TIMEOUT, self.listed.wait_for(|listed| *listed >= version)).await.is_err()
        {
            return false;
        }
        sleep(settling.max(since.elapsed())).await;
        true
    }
}

#[cfg(test)]
mod tests {
    use tokio::join;

    use super::*;

    const SETTLING: Duration = Duration::from_millis(50);

    async fn waited(after: Duration) -> (bool, Duration) {
        let (listed, began) = (DeliveredVersion::default(), Instant::now());
        listed.note(1);
        let awaited = listed.awaited(2).expect("not delivered yet");
        let note = async {
            sleep(after).await;
            listed.note(2);
        };
        let (has_come, ()) = join!(awaited.delivered(SETTLING), note);
        (has_come, began.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn waits_the_settling_time_after_the_list_is_given() {
        let listed = DeliveredVersion::default();
        let awaited = listed.awaited(1).expect("not delivered yet");
        listed.note(1);
        let began = Instant::now();
        assert!(awaited.delivered(SETTLING).await);
        assert_eq!(began.elapsed(), SETTLING);
        assert!(listed.awaited(1).is_none(), "nothing has changed since");
    }

    // invariant: relisting-is-optional
    #[tokio::test(start_paused = true)]
    async fn waits_as_long_as_the_agent_took_to_relist() {
        let slow = Duration::from_millis(700);
        assert_eq!(waited(slow).await, (true, 2 * slow));
        assert_eq!(waited(2 * RELIST_TIMEOUT).await, (false, 2 * RELIST_TIMEOUT));
    }
}
