//! Opening a toolbox: its servers are started, and waited for as long as that is of use. Meanwhile
//! the agent is told how far it is, for it may give up what it hears nothing of.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep_until};

use crate::backend::{Event, Urgency};
use crate::gateway::{FailedServer, Gateway, RequestContext};
use crate::name::ServerName;
use crate::raw::Raw;
use crate::settings::ToolboxConfig;
use crate::toolbox::View;

/// How long an opening waits at most; clients give up after 60 s.
const LONGEST: Duration = Duration::from_secs(45);
/// How long it waits for the only server that was never listed, once there is something to use.
const LAST_UNKNOWN: Duration = Duration::from_secs(15);
/// How long it waits for servers whose tools are known from an earlier run.
const KNOWN: Duration = Duration::from_secs(3);

/// How often what takes long says that it is still at it.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// Ticks when it is time to say so, first after a whole interval.
pub fn heartbeat() -> Interval {
    let mut heartbeat = interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    heartbeat
}

/// The end of opening a toolbox.
#[derive(Debug)]
pub struct Opened {
    /// Its tools: those of every server that has ever been listed, whether or not it runs now.
    pub view: Arc<View>,
    /// How many servers are running.
    pub connected: usize,
    /// The servers that are still starting and whose tools are known from an earlier run, in the
    /// order of the configuration.
    pub starting: Vec<ServerName>,
    /// The others, in the order of the configuration.
    pub failed: Vec<FailedServer>,
}

impl Opened {
    /// Returns whether no server of the toolbox could be started.
    pub fn is_failure(&self) -> bool {
        self.connected == 0 && self.starting.is_empty() && !self.failed.is_empty()
    }
}

impl Gateway {
    /// Starts a toolbox's servers, all at once, each only if it is not running, and waits until
    /// they run. Servers whose tools are known from an earlier run are waited for for 3 s, others
    /// for 45 s at most; what is slower goes on starting by itself.
    ///
    /// Servers that fail are reported and do not spoil the rest; a later call tries them again.
    /// Dropping the future stops the waiting, not the servers.
    pub async fn open(&self, toolbox: &ToolboxConfig, context: &RequestContext<'_>) -> Opened {
        self.recalled().await;
        let snapshot = self.snapshot();
        let mut starting = JoinSet::new();
        let mut starts = Vec::new();
        for (index, server) in toolbox.launched().enumerate() {
            let member = self.at(&toolbox.name, &server.name);
            let is_known = member.is_some_and(|server| snapshot.has_listed(server.shared.id()));
            starts.push(Start { is_known, outcome: None });
            let urgency = Urgency::Opening;
            let start = self.start(&toolbox.name, &server.name, context.agent, urgency);
            starting.spawn(async move { (index, start.await) });
        }
        let what = format!("toolbox `{}`", toolbox.name);
        let names = toolbox.launched().map(|server| server.name.to_string()).collect();
        let waited = wait(starting, &mut starts, Progress::new(what, names, context)).await;
        let view = self.snapshot().view(&toolbox.name);
        let mut opened = Opened { view, connected: 0, starting: Vec::new(), failed: Vec::new() };
        for (server, start) in toolbox.launched().zip(starts) {
            match start.outcome {
                Some(Ok(())) => opened.connected += 1,
                Some(Err(failed)) => opened.failed.push(failed),
                None if start.is_known => opened.starting.push(server.name.clone()),
                None => opened.failed.push(FailedServer {
                    server: server.name.clone(),
                    reason: format!("it is still starting after {} s", waited.as_secs()),
                    hint: "try again in a moment".to_owned(),
                    wants_sign_in: false,
                }),
            }
        }
        opened
    }
}

/// A server that an opening starts.
struct Start {
    /// Set if it was listed, now or in an earlier run.
    is_known: bool,
    /// How its start ended, once it has.
    outcome: Option<Result<(), FailedServer>>,
}

/// Notes how the starts end, for as long as they are worth waiting for; returns how long that was.
async fn wait(
    mut starting: JoinSet<(usize, Result<(), FailedServer>)>,
    starts: &mut [Start],
    mut report: Progress<'_>,
) -> Duration {
    let began = Instant::now();
    let mut heartbeat = heartbeat();
    while starts.iter().any(|start| start.outcome.is_none()) {
        tokio::select! {
            started = starting.join_next() => match started {
                None => break,
                Some(Ok((index, outcome))) => starts[index].outcome = Some(outcome),
                // The task panicked; its server counts as still starting.
                Some(Err(error)) => tracing::error!(%error, "a start was lost"),
            },
            _ = heartbeat.tick() => {}
            () = sleep_until(began + patience(starts)) => break,
        }
        let is_done: Vec<bool> = starts.iter().map(|start| start.outcome.is_some()).collect();
        report.send(&is_done).await;
    }
    starting.detach_all();
    began.elapsed()
}

/// How long, from its beginning, an opening is to wait for those of its servers that are not up.
fn patience(starts: &[Start]) -> Duration {
    let waited_for = |start: &&Start| start.outcome.is_none() && !start.is_known;
    let is_of_use = |start: &Start| match &start.outcome {
        Some(outcome) => outcome.is_ok(),
        None => start.is_known,
    };
    match starts.iter().filter(waited_for).count() {
        0 => KNOWN,
        1 if starts.iter().any(is_of_use) => LAST_UNKNOWN,
        _ => LONGEST,
    }
}

/// Waits for `work`, which starts a server, and tells the agent so every 5 s.
pub(crate) async fn while_starting<T>(
    server: &ServerName,
    context: &RequestContext<'_>,
    work: impl Future<Output = T>,
) -> T {
    let message = || format!("waiting for server `{server}` to start");
    while_waiting(message, context, work).await
}

/// Waits for `work`, and tells the agent every 5 s that it is still waited for.
pub(crate) async fn while_waiting<T>(
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
    context: &'a RequestContext<'a>,
    last: f64,
}

impl<'a> Progress<'a> {
    /// `what` is said first in each message; the servers are in the order of the outcomes.
    pub(crate) fn new(what: String, servers: Vec<String>, context: &'a RequestContext<'a>) -> Self {
        Self { what, servers, context, last: 0.0 }
    }

    /// Says which servers are still waited for; `is_done` has one entry for each.
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
            "total": is_done.len(),
            "message": message,
        });
        // An agent that is gone takes no progress; the opening goes on for the others.
        let _ = events.send(Event::Progress(Raw::encode(&params))).await;
    }
}

#[cfg(test)]
mod tests;
