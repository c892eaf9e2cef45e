use crate::backend::events;
use pretty_assertions::assert_eq;
use serde_json::Value;
use tokio::time::sleep;

use super::*;
use crate::gateway::Presence;

#[tokio::test(start_paused = true)]
async fn a_start_that_takes_long_is_spoken_of_with_a_number_that_rises() {
    let (sender, mut told) = events::channel(8);
    let nobody = Presence::new(None);
    let origin = Origin { events: Some(&sender), wants_progress: true, ..Origin::nobody(&nobody) };
    let server = ServerName::new("slow");
    let work = async {
        // Time is paused here, and goes on by itself when everybody waits.
        sleep(Duration::from_secs(12)).await;
        "done"
    };
    assert_eq!(while_starting(&server, origin, work).await, "done");
    let mut last = 0.0;
    for _ in 0..2 {
        let Event::Progress(params) = told.try_recv().unwrap() else { panic!("no progress") };
        let params: Value = params.parse().unwrap();
        assert_eq!(params["message"], "waiting for server `slow` to start");
        let progress = params["progress"].as_f64().unwrap();
        assert!(progress > last && progress < 0.001, "{progress}");
        last = progress;
    }
    assert!(told.try_recv().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_start_that_takes_no_time_is_not_spoken_of() {
    let (sender, mut told) = events::channel(8);
    let nobody = Presence::new(None);
    let origin = Origin { events: Some(&sender), wants_progress: true, ..Origin::nobody(&nobody) };
    while_starting(&ServerName::new("fast"), origin, async {}).await;
    assert!(told.try_recv().is_none());
}
