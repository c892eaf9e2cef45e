use pretty_assertions::assert_eq;
use tokio::time::sleep;

use super::*;
use crate::backend::AgentHandle;
use crate::gateway::request_context::RequestContext;

/// Waits for servers that take this many seconds to start, with and without a stored listing.
/// Returns the seconds waited and which servers started.
async fn waited(known: &[u64], others: &[u64]) -> (u64, Vec<bool>) {
    let starts = waited_with(known, others, &[]).await;
    (starts.0, starts.1.iter().map(|start| start.outcome.is_some()).collect())
}

/// Like [`waited`], with servers that an earlier opening has waited for in vain.
async fn waited_with(known: &[u64], others: &[u64], slow: &[u64]) -> (u64, Vec<PendingStart>) {
    let began = Instant::now();
    let no_agent = AgentHandle::new(None);
    let context = RequestContext::detached(&no_agent);
    let report = StartProgress::new("box".to_owned(), Vec::new(), &context);
    let mut starting = JoinSet::new();
    let mut starts = Vec::new();
    let all = known.iter().map(|s| (true, false, *s));
    let all = all.chain(others.iter().map(|s| (false, false, *s)));
    let all = all.chain(slow.iter().map(|s| (false, true, *s)));
    for (index, (is_known, is_slow, seconds)) in all.enumerate() {
        starts.push(PendingStart { is_known, is_slow, outcome: None });
        starting.spawn(async move {
            // Time is paused in this test.
            sleep(Duration::from_secs(seconds)).await;
            (index, Ok(()))
        });
    }
    wait(starting, &mut starts, report).await;
    (began.elapsed().as_secs(), starts)
}

#[tokio::test(start_paused = true)]
async fn hanging_server_delays_only_the_first_opening() {
    let (seconds, starts) = waited_with(&[0], &[100], &[]).await;
    assert_eq!(seconds, 15);
    assert_eq!(starts.iter().map(|start| start.is_slow).collect::<Vec<_>>(), [false, true]);
    // The second opening waits for the others only.
    assert_eq!(waited_with(&[0], &[], &[100]).await.0, 0);
    assert_eq!(waited_with(&[2], &[], &[100, 100]).await.0, 2);
    assert_eq!(waited_with(&[], &[5], &[100]).await.0, 5);
    // Nothing else is usable, so a moment of patience costs little.
    let (seconds, starts) = waited_with(&[], &[], &[100]).await;
    assert_eq!((seconds, starts[0].is_slow), (3, true));
    // It has recovered.
    let (seconds, starts) = waited_with(&[], &[], &[1]).await;
    assert_eq!((seconds, starts[0].is_slow), (1, false));
}

#[tokio::test(start_paused = true)]
async fn open_timeout_depends_on_the_missing_servers() {
    assert_eq!(waited(&[1, 2], &[1]).await, (2, vec![true; 3]), "all are up");
    assert_eq!(waited(&[1, 100], &[]).await, (3, vec![true, false]), "a cached listing is usable");
    assert_eq!(
        waited(&[100], &[10]).await,
        (10, vec![false, true]),
        "the other server could be slow, too"
    );
    assert_eq!(
        waited(&[1, 1], &[100]).await,
        (15, vec![true, true, false]),
        "only one server is missing"
    );
    assert_eq!(waited(&[], &[1, 100]).await, (15, vec![true, false]), "only one server is missing");
    assert_eq!(waited(&[], &[30, 40]).await, (30, vec![true, false]), "no listing is cached");
    assert_eq!(waited(&[1], &[100, 100]).await, (45, vec![true, false, false]));
    assert_eq!(waited(&[], &[100]).await, (45, vec![false]), "clients give up after 60 s");
    assert_eq!(waited(&[], &[]).await, (0, Vec::new()));
}
