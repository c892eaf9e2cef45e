//! Releases resident pages of the executable after one idle second.
//!
//! Startup and opening a toolbox touch most of the executable, calls touch little of it. Released
//! pages that are needed again come from the page cache.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

use mcp_workbench_core::telemetry::{Event, EventKinds, EventListener};

const IDLE_PERIOD: Duration = Duration::from_secs(1);

/// Waits for events that touch much of the executable. Clones share their state.
#[derive(Clone, Debug, Default)]
pub struct MemoryReclaimer(Arc<Notify>);

impl MemoryReclaimer {
    pub(super) async fn run(self) {
        self.run_when_idle(mcp_workbench_os::drop_clean_program_pages).await;
    }

    async fn run_when_idle(self, mut then: impl FnMut()) {
        loop {
            while timeout(IDLE_PERIOD, self.0.notified()).await.is_ok() {}
            then();
            self.0.notified().await;
        }
    }
}

impl EventListener for MemoryReclaimer {
    fn interest(&self) -> EventKinds {
        EventKinds::SERVERS
            .union(EventKinds::LISTINGS)
            .union(EventKinds::SESSIONS)
            .union(EventKinds::PROGRAM)
    }

    fn on_event(&self, _: Event<'_>) {
        self.0.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn releases_pages_once_per_idle_period() {
        let settling = MemoryReclaimer::default();
        let given_back = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&given_back);
        let running = settling.clone().run_when_idle(move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        let hearing = async {
            let happens = || settling.on_event(Event::Serving("http://127.0.0.1:1/mcp"));
            let mut seen = Vec::new();
            for (is_something, millis) in
                [(false, 900), (true, 900), (true, 900), (false, 200), (false, 9000), (true, 1100)]
            {
                if is_something {
                    happens();
                }
                // Time is paused: it jumps to the next timer.
                sleep(Duration::from_millis(millis)).await;
                seen.push(given_back.load(Ordering::Relaxed));
            }
            seen
        };
        tokio::select! {
            () = running => unreachable!("it runs forever"),
            seen = hearing => assert_eq!(seen, [0, 0, 0, 1, 1, 2]),
        }
    }
}
