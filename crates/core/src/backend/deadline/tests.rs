use std::time::Duration;

use pretty_assertions::assert_eq;
use tokio_util::task::AbortOnDropHandle;
use tokio_util::task::TaskTracker;

use super::*;

fn running() -> (Arc<Deadlines>, AbortOnDropHandle<()>) {
    let deadlines = Arc::new(Deadlines::default());
    let run = Arc::clone(&deadlines);
    let task = TaskTracker::new().spawn(async move { run.run().await });
    (deadlines, AbortOnDropHandle::new(task))
}

fn after(seconds: u64) -> Instant {
    Instant::now() + Duration::from_secs(seconds)
}

#[tokio::test(start_paused = true)]
async fn deadlines_pass_on_time_in_any_order() {
    let (deadlines, _running) = running();
    let began = Instant::now();
    let mut late = deadlines.add(after(30));
    let mut early = deadlines.add(after(10));
    let mut same = deadlines.add(after(10));
    early.passed().await;
    assert_eq!(began.elapsed().as_secs(), 10);
    same.passed().await;
    assert_eq!(began.elapsed().as_secs(), 10);
    late.passed().await;
    assert_eq!(began.elapsed().as_secs(), 30);
}

#[tokio::test(start_paused = true)]
async fn moved_deadline_passes_at_its_new_time() {
    let (deadlines, _running) = running();
    let began = Instant::now();
    let mut deadline = deadlines.add(after(10));
    deadline.move_to(after(50));
    deadline.passed().await;
    assert_eq!(began.elapsed().as_secs(), 50);
    deadline.move_to(after(5));
    deadline.passed().await;
    assert_eq!(began.elapsed().as_secs(), 55);
}

#[tokio::test(start_paused = true)]
async fn dropped_deadline_frees_its_slot() {
    let (deadlines, _running) = running();
    drop(deadlines.add(after(10)));
    assert_eq!(deadlines.state(|state| (state.slots.len(), state.free.len())), (1, 1));
    let began = Instant::now();
    deadlines.add(after(20)).passed().await;
    assert_eq!(began.elapsed().as_secs(), 20);
}
