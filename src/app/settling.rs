//! Giving back memory whenever something is over that reads much of the program.
//!
//! Starting reads most of the program's file into memory, and so does opening a toolbox; calls run through little of
//! it. So once nothing has begun for a while, those pages are given back, and what is needed again comes
//! from the page cache.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

use crate::observe::{Event, Kinds, Listener};
use crate::os;

/// How long nothing may have begun before pages are given back.
const QUIET: Duration = Duration::from_secs(1);

/// Hears of what reads much of the program; clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Settling(Arc<Notify>);

impl Settling {
    /// Gives back pages of the program whenever all is quiet. Runs for as long as the program does.
    pub(super) async fn run(self) {
        self.whenever_quiet(os::release_program_pages).await;
    }

    async fn whenever_quiet(self, mut then: impl FnMut()) {
        loop {
            while timeout(QUIET, self.0.notified()).await.is_ok() {}
            then();
            self.0.notified().await;
        }
    }
}

impl Listener for Settling {
    fn wants(&self) -> Kinds {
        Kinds::SERVERS.and(Kinds::LISTINGS).and(Kinds::SESSIONS).and(Kinds::PROGRAM)
    }

    fn hear(&self, _: Event<'_>) {
        self.0.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pages_are_given_back_once_after_all_has_been_quiet() {
        let settling = Settling::default();
        let given_back = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&given_back);
        let running = settling.clone().whenever_quiet(move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        let hearing = async {
            let happens = || settling.hear(Event::Serving("http://127.0.0.1:1/mcp"));
            let mut seen = Vec::new();
            for (is_something, millis) in
                [(false, 900), (true, 900), (true, 900), (false, 200), (false, 9000), (true, 1100)]
            {
                if is_something {
                    happens();
                }
                // Time is paused: it passes at once, and stops at every timer in its order.
                sleep(Duration::from_millis(millis)).await;
                seen.push(given_back.load(Ordering::Relaxed));
            }
            seen
        };
        tokio::select! {
            () = running => unreachable!("it runs for ever"),
            seen = hearing => assert_eq!(seen, [0, 0, 0, 1, 1, 2]),
        }
    }
}
