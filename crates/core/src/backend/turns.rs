//! Turns to start: how many servers start at once, and which of those that wait goes first.
//!
//! Starting a server costs processor time, and where too many start at once, each takes longer than
//! it may. So a child process is started in its turn. A server that takes long after it was started
//! mostly waits for something else, so it gives its turn away after a while: servers that hang must
//! not keep others from starting.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Sleep, sleep};
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// How long a server that is starting keeps its turn.
pub(crate) const HELD: Duration = Duration::from_secs(5);
/// The fewest servers that may start at once of themselves.
const FEWEST: usize = 4;
/// How many of them may start for each processor.
const FOR_EACH_PROCESSOR: usize = 2;

/// Who waits for the start of a server, the most patient first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// Nobody, or somebody who waits for all of them.
    Background,
    /// An agent that opens a toolbox.
    Opening,
    /// An agent that calls this server.
    Call,
}

impl Urgency {
    /// Makes a start as urgent as this, if it is less so.
    pub(crate) fn raise(self, urgency: &watch::Sender<Self>) {
        urgency.send_if_modified(|urgency| {
            let is_higher = self > *urgency;
            *urgency = self.max(*urgency);
            is_higher
        });
    }
}

/// The turns there are: a place for any start, and further places that are kept for openings and
/// for calls, which so wait neither for what starts of itself nor for each other.
#[derive(Debug)]
pub(crate) struct Turns {
    any: Arc<Semaphore>,
    openings: Arc<Semaphore>,
    calls: Arc<Semaphore>,
    /// The servers that are being started, or wait for that. It is closed, so that one can wait for it to
    /// be empty.
    under_way: TaskTracker,
}

/// The right to start a server; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    _place: OwnedSemaphorePermit,
    _counted: TaskTrackerToken,
}

impl Turns {
    /// Turns for a machine with so many processors.
    pub(crate) fn new(processors: usize) -> Self {
        let most = (FOR_EACH_PROCESSOR * processors).max(FEWEST);
        let places = |count| Arc::new(Semaphore::new(count));
        let [any, openings, calls] = [most, most / 2, most / 2].map(places);
        let under_way = TaskTracker::new();
        under_way.close();
        Self { any, openings, calls, under_way }
    }

    /// Waits until no server is being started in a turn, or waits for one.
    pub(crate) async fn quiet(&self) {
        self.under_way.wait().await;
    }

    /// Waits for a turn of a server whose start is so urgent, which may rise meanwhile.
    pub(crate) async fn take(&self, mut urgency: watch::Receiver<Urgency>) -> Option<Turn> {
        let counted = self.under_way.token();
        let place = |places: &Arc<Semaphore>| Arc::clone(places).acquire_owned();
        let any = place(&self.any);
        tokio::pin!(any);
        loop {
            let now = *urgency.borrow_and_update();
            let turn = tokio::select! {
                biased;
                turn = &mut any => turn,
                turn = place(&self.openings), if now >= Urgency::Opening => turn,
                turn = place(&self.calls), if now >= Urgency::Call => turn,
                Ok(()) = urgency.changed() => continue,
            };
            // Nobody closes the places, so there always is one.
            return turn.ok().map(|place| Turn { _place: place, _counted: counted });
        }
    }
}

/// The time after which a turn is given away.
pub(crate) fn given_away() -> Sleep {
    sleep(HELD)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use tokio::task::JoinSet;
    use tokio::time::Instant;

    use super::*;

    fn turns() -> Arc<Turns> {
        // Four places for all, two for openings, two for calls.
        Arc::new(Turns::new(1))
    }

    /// Takes a turn and keeps it for a second; the result is when it came, in seconds.
    async fn start(turns: Arc<Turns>, began: Instant, urgency: watch::Receiver<Urgency>) -> u64 {
        let turn = turns.take(urgency).await;
        let came = began.elapsed().as_secs();
        sleep(Duration::from_secs(1)).await;
        drop(turn);
        came
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_servers_start_at_once_than_there_are_places() {
        let (turns, began) = (turns(), Instant::now());
        let mut starts = JoinSet::new();
        for _ in 0..10 {
            let (_, urgency) = watch::channel(Urgency::Background);
            starts.spawn(start(Arc::clone(&turns), began, urgency));
        }
        let mut came = starts.join_all().await;
        came.sort_unstable();
        assert_eq!(came, [0, 0, 0, 0, 1, 1, 1, 1, 2, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_quiet_when_the_last_has_started() {
        let (turns, began) = (turns(), Instant::now());
        turns.quiet().await;
        let mut starts = JoinSet::new();
        for _ in 0..10 {
            let (_, urgency) = watch::channel(Urgency::Background);
            starts.spawn(start(Arc::clone(&turns), began, urgency));
        }
        tokio::task::yield_now().await;
        turns.quiet().await;
        assert_eq!(began.elapsed().as_secs(), 3);
        // Those do not count that were given up while they waited.
        for _ in 0..10 {
            let (_, urgency) = watch::channel(Urgency::Background);
            starts.spawn(start(Arc::clone(&turns), began, urgency));
        }
        tokio::task::yield_now().await;
        starts.shutdown().await;
        turns.quiet().await;
        assert_eq!(began.elapsed().as_secs(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_waits_neither_for_the_background_nor_for_openings() {
        let (turns, began) = (turns(), Instant::now());
        let mut starts = JoinSet::new();
        for urgency in [Urgency::Background, Urgency::Opening] {
            for _ in 0..100 {
                let (_, urgency) = watch::channel(urgency);
                starts.spawn(start(Arc::clone(&turns), began, urgency));
            }
        }
        tokio::task::yield_now().await;
        let (_, call) = watch::channel(Urgency::Call);
        assert_eq!(start(Arc::clone(&turns), began, call).await, 0);
        let (_, opening) = watch::channel(Urgency::Opening);
        let waited = start(turns, began, opening).await;
        assert!(waited > 1, "openings wait for each other");
        starts.abort_all();
    }

    #[tokio::test(start_paused = true)]
    async fn a_start_that_becomes_urgent_while_it_waits_goes_first() {
        let (turns, began) = (turns(), Instant::now());
        let mut starts = JoinSet::new();
        for _ in 0..100 {
            let (_, urgency) = watch::channel(Urgency::Background);
            starts.spawn(start(Arc::clone(&turns), began, urgency));
        }
        tokio::task::yield_now().await;
        let (sender, urgency) = watch::channel(Urgency::Background);
        let (came, ()) = tokio::join!(start(turns, began, urgency), async {
            sleep(Duration::from_millis(2500)).await;
            sender.send_replace(Urgency::Call);
        });
        assert_eq!(came, 2);
        starts.abort_all();
    }
}
