use crate::backend::events;
use pretty_assertions::assert_eq;
use serde_json::Value;
use tokio::time::sleep;

use super::*;
use crate::gateway::AgentHandle;

#[tokio::test(start_paused = true)]
async fn slow_start_sends_increasing_progress() {
    let (sender, mut told) = events::channel(8);
    let no_agent = AgentHandle::new(None);
    let context = RequestContext {
        events: Some(&sender),
        wants_progress: true,
        ..RequestContext::detached(&no_agent)
    };
    let server = ServerName::new("slow");
    let work = async {
        // Paused time advances once all tasks are idle.
        sleep(Duration::from_secs(12)).await;
        "done"
    };
    assert_eq!(while_starting(&server, &context, work).await, "done");
    let mut last = 0.0;
    for _ in 0..2 {
        let AgentEvent::Progress(params) = told.try_recv().unwrap() else { panic!("no progress") };
        let params: Value = params.parse().unwrap();
        assert_eq!(params["message"], "waiting for server `slow` to start");
        let progress = params["progress"].as_f64().unwrap();
        assert!(progress > last && progress < 0.001, "{progress}");
        last = progress;
    }
    assert!(told.try_recv().is_none());
}

#[tokio::test(start_paused = true)]
async fn fast_start_sends_no_progress() {
    let (sender, mut told) = events::channel(8);
    let no_agent = AgentHandle::new(None);
    let context = RequestContext {
        events: Some(&sender),
        wants_progress: true,
        ..RequestContext::detached(&no_agent)
    };
    while_starting(&ServerName::new("fast"), &context, async {}).await;
    assert!(told.try_recv().is_none());
}

/// Waits for servers that take this many seconds to start, with and without a stored listing.
/// Returns the seconds waited and which servers started.
async fn waited(known: &[u64], others: &[u64]) -> (u64, Vec<bool>) {
    let no_agent = AgentHandle::new(None);
    let context = RequestContext::detached(&no_agent);
    let report = StartProgress::new("box".to_owned(), Vec::new(), &context);
    let mut starting = JoinSet::new();
    let mut starts = Vec::new();
    let all = known.iter().map(|s| (true, *s)).chain(others.iter().map(|s| (false, *s)));
    for (index, (is_known, seconds)) in all.enumerate() {
        starts.push(PendingStart { is_known, outcome: None });
        starting.spawn(async move {
            // Time is paused in this test.
            sleep(Duration::from_secs(seconds)).await;
            (index, Ok(()))
        });
    }
    let took = wait(starting, &mut starts, report).await;
    (took.as_secs(), starts.iter().map(|start| start.outcome.is_some()).collect())
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
