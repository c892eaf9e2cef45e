//! Progress notifications during long operations, so that the client doesn't time out.

use std::time::Duration;

use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use crate::backend::AgentEvent;
use crate::gateway::request_context::RequestContext;
use mcp_workbench_names::ServerName;
use mcp_workbench_wire::json::RawJson;

/// Interval of progress notifications during a long operation.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// Returns a timer that ticks every 5 s, first after 5 s.
pub fn heartbeat() -> Interval {
    let mut heartbeat = interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    heartbeat
}

pub(crate) async fn while_starting<T>(
    server: &ServerName,
    context: &RequestContext<'_>,
    work: impl Future<Output = T>,
) -> T {
    let message = || format!("waiting for server `{server}` to start");
    with_heartbeat(message, context, work).await
}

/// Runs `work` with a progress notification every 5 s.
pub(crate) async fn with_heartbeat<T>(
    message: impl Fn() -> String,
    context: &RequestContext<'_>,
    work: impl Future<Output = T>,
) -> T {
    let Some(events) = context.progress() else { return work.await };
    tokio::pin!(work);
    let mut heartbeat = heartbeat();
    let mut beats = 0_u32;
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            _ = heartbeat.tick() => {}
        }
        beats += 1;
        // Progress must increase, and the call's own progress still follows under the same token.
        let params = serde_json::json!({
            "progress": f64::from(beats) * f64::EPSILON,
            "message": message(),
        });
        // If the agent is gone, its call is cancelled elsewhere.
        let _ = events.send(AgentEvent::Progress(RawJson::encode(&params))).await;
    }
}

pub(crate) struct StartProgress<'a> {
    what: String,
    servers: Vec<String>,
    context: &'a RequestContext<'a>,
    last: f64,
}

impl<'a> StartProgress<'a> {
    /// `what` begins each message; `servers` are in the order of `is_done` in [`Self::send`].
    pub(crate) fn new(what: String, servers: Vec<String>, context: &'a RequestContext<'a>) -> Self {
        Self { what, servers, context, last: 0.0 }
    }

    pub(crate) async fn send(&mut self, is_done: &[bool]) {
        let Some(events) = self.context.progress() else {
            return;
        };
        let done = is_done.iter().filter(|is_done| **is_done).count();
        let waiting = self.servers.iter().zip(is_done).filter(|(_, is_done)| !**is_done);
        let waiting: Vec<_> = waiting.map(|(server, _)| format!("`{server}`")).collect();
        if waiting.is_empty() {
            return;
        }
        // If no further start has finished, move halfway to the next integer: progress must
        // increase.
        let done_so_far = u32::try_from(done).map_or(0.0, f64::from);
        self.last = if self.last < done_so_far {
            done_so_far
        } else {
            f64::midpoint(self.last, done_so_far + 1.0)
        };
        let message = format!("{}: waiting for {}", self.what, waiting.join(", "));
        let params = serde_json::json!({
            "progress": self.last,
            "total": is_done.len(),
            "message": message,
        });
        let _ = events.send(AgentEvent::Progress(RawJson::encode(&params))).await;
    }
}

#[cfg(test)]
mod tests;
