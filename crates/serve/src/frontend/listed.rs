//! Which version of its list an agent has been given, and how long an answer waits for one.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

/// How long an agent gets to list its tools again. One that does not is not waited for again.
const RELISTING: Duration = Duration::from_secs(2);

/// The newest version of its list that an agent has been given.
#[derive(Default)]
pub(crate) struct Listed(watch::Sender<u64>);

/// A version that an agent has not been given yet.
pub(crate) struct Awaited {
    listed: watch::Receiver<u64>,
    version: u64,
    since: Instant,
}

impl Listed {
    /// Takes note that the agent has been given this version.
    pub(crate) fn note(&self, version: u64) {
        self.0.send_if_modified(|listed| {
            let is_newer = *listed < version;
            *listed = version.max(*listed);
            is_newer
        });
    }

    /// Returns `true` if the agent has been given this version.
    pub(crate) fn has(&self, version: u64) -> bool {
        *self.0.borrow() >= version
    }

    /// Returns what waits for a version, from now on; nothing if the agent has been given it.
    pub(crate) fn awaited(&self, version: u64) -> Option<Awaited> {
        let listed = self.0.subscribe();
        let is_given = *listed.borrow() >= version;
        (!is_given).then(|| Awaited { listed, version, since: Instant::now() })
    }
}

impl Awaited {
    /// Waits until the agent has been given the version and its model has it too, which takes as long
    /// as is known of the agent, or as long as it took to ask: a machine that is slow at one is slow
    /// at the other. Returns false if the agent does not ask in time.
    pub(crate) async fn arrives(mut self, settling: Duration) -> bool {
        let Self { version, since, .. } = self;
        if timeout(RELISTING, self.listed.wait_for(|listed| *listed >= version)).await.is_err() {
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

    /// Waits for version 2, of which note is taken after a while, and returns how long that took.
    async fn waited(after: Duration) -> (bool, Duration) {
        let (listed, began) = (Listed::default(), Instant::now());
        listed.note(1);
        let awaited = listed.awaited(2).expect("it has not been given");
        let note = async {
            sleep(after).await;
            listed.note(2);
        };
        let (has_come, ()) = join!(awaited.arrives(SETTLING), note);
        (has_come, began.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_gets_the_time_that_is_known_to_reach_the_model() {
        let listed = Listed::default();
        let awaited = listed.awaited(1).expect("it has not been given");
        // As when the agent has asked before whoever told it of the change goes on.
        listed.note(1);
        let began = Instant::now();
        assert!(awaited.arrives(SETTLING).await);
        assert_eq!(began.elapsed(), SETTLING);
        assert!(listed.awaited(1).is_none(), "nothing has changed since");
    }

    #[tokio::test(start_paused = true)]
    async fn an_agent_that_is_slow_to_ask_gets_as_long_again() {
        let slow = Duration::from_millis(700);
        assert_eq!(waited(slow).await, (true, 2 * slow));
        assert_eq!(waited(2 * RELISTING).await, (false, 2 * RELISTING));
    }
}
