//! A scheduler that limits concurrent server starts, by priority.
//!
//! Starts take processor time, and too many concurrent ones exceed their timeouts. A slow start
//! usually waits for something else, so it gives its slot up after `SLOT_TIMEOUT`: hanging servers
//! must not block others.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Sleep, sleep};
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// A start gives up its slot after this time.
pub(crate) const SLOT_TIMEOUT: Duration = Duration::from_secs(5);
/// Minimum number of concurrent starts of any priority.
const FEWEST: usize = 4;
/// Concurrent starts per processor.
const FOR_EACH_PROCESSOR: usize = 2;

/// Priority of a start, lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StartPriority {
    Background,
    Opening,
    Call,
}

impl StartPriority {
    pub(crate) fn raise(self, urgency: &watch::Sender<Self>) {
        urgency.send_if_modified(|urgency| {
            let is_higher = self > *urgency;
            *urgency = self.max(*urgency);
            is_higher
        });
    }
}

/// Start slots by priority: `any` serves every start, `openings` is reserved for openings and
/// calls, `calls` for calls. Urgent starts never queue behind background ones.
#[derive(Debug)]
pub(crate) struct StartScheduler {
    any: Arc<Semaphore>,
    openings: Arc<Semaphore>,
    calls: Arc<Semaphore>,
    /// Running and waiting starts. Closed so that `wait` returns once it is empty.
    in_flight: TaskTracker,
}

#[derive(Debug)]
pub(crate) struct StartSlotGuard {
    _place: OwnedSemaphorePermit,
    _counted: TaskTrackerToken,
}

impl StartScheduler {
    pub(crate) fn new(processors: usize) -> Self {
        let most = (FOR_EACH_PROCESSOR * processors).max(FEWEST);
        let places = |count| Arc::new(Semaphore::new(count));
        let [any, openings, calls] = [most, most / 2, most / 2].map(places);
        let in_flight = TaskTracker::new();
        in_flight.close();
        Self { any, openings, calls, in_flight }
    }

    /// Waits until no start runs or waits for a slot.
    pub(crate) async fn wait_idle(&self) {
        self.in_flight.wait().await;
    }

    /// Waits for a slot. A higher `urgency` takes effect while waiting.
    pub(crate) async fn acquire(
        &self,
        mut urgency: watch::Receiver<StartPriority>,
    ) -> Option<StartSlotGuard> {
        let counted = self.in_flight.token();
        let permit = |places: &Arc<Semaphore>| Arc::clone(places).acquire_owned();
        let any = permit(&self.any);
        tokio::pin!(any);
        loop {
            let now = *urgency.borrow_and_update();
            let turn = tokio::select! {
                biased;
                turn = &mut any => turn,
                turn = permit(&self.openings), if now >= StartPriority::Opening => turn,
                turn = permit(&self.calls), if now >= StartPriority::Call => turn,
                Ok(()) = urgency.changed() => continue,
            };
            // The semaphores are never closed, so this is always `Some`.
            return turn.ok().map(|permit| StartSlotGuard { _place: permit, _counted: counted });
        }
    }
}

pub(crate) fn given_away() -> Sleep {
    sleep(SLOT_TIMEOUT)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use tokio::task::JoinSet;
    use tokio::time::Instant;

    use super::*;

    fn turns() -> Arc<StartScheduler> {
        // Four slots for all starts, two for openings, two for calls.
        Arc::new(StartScheduler::new(1))
    }

    /// Holds a slot for a second. Returns the seconds from `began` until it was acquired.
    async fn start(
        scheduler: Arc<StartScheduler>,
        began: Instant,
        urgency: watch::Receiver<StartPriority>,
    ) -> u64 {
        let turn = scheduler.acquire(urgency).await;
        let came = began.elapsed().as_secs();
        sleep(Duration::from_secs(1)).await;
        drop(turn);
        came
    }

    // invariant: start-priority
    #[tokio::test(start_paused = true)]
    async fn concurrent_starts_are_limited() {
        let (scheduler, began) = (turns(), Instant::now());
        let mut starts = JoinSet::new();
        for _ in 0..10 {
            let (_, urgency) = watch::channel(StartPriority::Background);
            starts.spawn(start(Arc::clone(&scheduler), began, urgency));
        }
        let mut came = starts.join_all().await;
        came.sort_unstable();
        assert_eq!(came, [0, 0, 0, 0, 1, 1, 1, 1, 2, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn wait_idle_returns_after_the_last_start() {
        let (scheduler, began) = (turns(), Instant::now());
        scheduler.wait_idle().await;
        let mut starts = JoinSet::new();
        for _ in 0..10 {
            let (_, urgency) = watch::channel(StartPriority::Background);
            starts.spawn(start(Arc::clone(&scheduler), began, urgency));
        }
        tokio::task::yield_now().await;
        scheduler.wait_idle().await;
        assert_eq!(began.elapsed().as_secs(), 3);
        // Starts that are dropped while they wait don't count.
        for _ in 0..10 {
            let (_, urgency) = watch::channel(StartPriority::Background);
            starts.spawn(start(Arc::clone(&scheduler), began, urgency));
        }
        tokio::task::yield_now().await;
        starts.shutdown().await;
        scheduler.wait_idle().await;
        assert_eq!(began.elapsed().as_secs(), 3);
    }

    // invariant: start-priority
    #[tokio::test(start_paused = true)]
    async fn calls_do_not_queue_behind_background_or_openings() {
        let (scheduler, began) = (turns(), Instant::now());
        let mut starts = JoinSet::new();
        for urgency in [StartPriority::Background, StartPriority::Opening] {
            for _ in 0..100 {
                let (_, urgency) = watch::channel(urgency);
                starts.spawn(start(Arc::clone(&scheduler), began, urgency));
            }
        }
        tokio::task::yield_now().await;
        let (_, call) = watch::channel(StartPriority::Call);
        assert_eq!(start(Arc::clone(&scheduler), began, call).await, 0);
        let (_, opening) = watch::channel(StartPriority::Opening);
        let waited = start(scheduler, began, opening).await;
        assert!(waited > 1, "openings wait for each other");
        starts.abort_all();
    }

    #[tokio::test(start_paused = true)]
    async fn raised_priority_applies_to_a_waiting_start() {
        let (scheduler, began) = (turns(), Instant::now());
        let mut starts = JoinSet::new();
        for _ in 0..100 {
            let (_, urgency) = watch::channel(StartPriority::Background);
            starts.spawn(start(Arc::clone(&scheduler), began, urgency));
        }
        tokio::task::yield_now().await;
        let (sender, urgency) = watch::channel(StartPriority::Background);
        let (came, ()) = tokio::join!(start(scheduler, began, urgency), async {
            sleep(Duration::from_millis(2500)).await;
            sender.send_replace(StartPriority::Call);
        });
        assert_eq!(came, 2);
        starts.abort_all();
    }
}
