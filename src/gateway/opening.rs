//! What an agent is told while servers start, for it may give up what it hears nothing of.

use std::time::Duration;

use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use crate::backend::Event;
use crate::gateway::{FailedServer, Origin};
use crate::name::ServerName;
use crate::raw::Raw;

/// How often what takes long says that it is still at it.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// Ticks when it is time to say so, first after a whole interval.
pub(crate) fn heartbeat() -> Interval {
    let mut heartbeat = interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    heartbeat
}

/// Waits for `work`, which starts a server, and tells the agent so every 5 s.
pub(crate) async fn while_starting<T>(
    server: &ServerName,
    origin: Origin<'_>,
    work: impl Future<Output = T>,
) -> T {
    let message = || format!("waiting for server `{server}` to start");
    while_waiting(message, origin, work).await
}

/// Waits for `work`, and tells the agent every 5 s that it is still waited for.
pub(crate) async fn while_waiting<T>(
    message: impl Fn() -> String,
    origin: Origin<'_>,
    work: impl Future<Output = T>,
) -> T {
    let Some(events) = origin.progress() else { return work.await };
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
        // The call's own progress is yet to come under the same token, and may only rise.
        let params = serde_json::json!({
            "progress": f64::from(beats) * f64::EPSILON,
            "message": message(),
        });
        // An agent that is gone takes no progress; its call ends elsewhere.
        let _ = events.send(Event::Progress(Raw::encode(&params))).await;
    }
}

/// Tells the agent how far the start of several servers is, with a number that only rises.
pub(crate) struct Progress<'a> {
    what: String,
    servers: Vec<String>,
    origin: Origin<'a>,
    last: f64,
}

impl<'a> Progress<'a> {
    /// `what` is said first in each message; the servers are in the order of the outcomes.
    pub(crate) fn new(what: String, servers: Vec<String>, origin: Origin<'a>) -> Self {
        Self { what, servers, origin, last: 0.0 }
    }

    /// Says which servers are still waited for.
    pub(crate) async fn send(&mut self, outcomes: &[Option<Result<(), FailedServer>>]) {
        let Some(events) = self.origin.progress() else {
            return;
        };
        let done = outcomes.iter().flatten().count();
        let waiting: Vec<_> = self
            .servers
            .iter()
            .zip(outcomes)
            .filter(|(_, outcome)| outcome.is_none())
            .map(|(server, _)| format!("`{server}`"))
            .collect();
        if waiting.is_empty() {
            return;
        }
        // A heartbeat that finds nothing new moves half the way to the next server.
        let done_so_far = u32::try_from(done).map_or(0.0, f64::from);
        self.last = if self.last < done_so_far {
            done_so_far
        } else {
            f64::midpoint(self.last, done_so_far + 1.0)
        };
        let message = format!("{}: waiting for {}", self.what, waiting.join(", "));
        let params = serde_json::json!({
            "progress": self.last,
            "total": outcomes.len(),
            "message": message,
        });
        // An agent that is gone takes no progress; the opening goes on for the others.
        let _ = events.send(Event::Progress(Raw::encode(&params))).await;
    }
}

#[cfg(test)]
mod tests;
