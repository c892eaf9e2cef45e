use pretty_assertions::assert_eq;
use serde_json::Value;
use tokio::time::sleep;

use super::*;
use crate::backend::{AgentHandle, events};

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
