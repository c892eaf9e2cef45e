//! Opens toolboxes: starts their servers and waits for them, with progress notifications so that
//! the client doesn't time out.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep_until};

use crate::backend::{AgentEvent, BackendError, StartPriority};
use crate::gateway::error::failed;
use crate::gateway::{FailedServer, Gateway, RequestContext};
use crate::json::RawJson;
use crate::name::ServerName;
use crate::settings::ToolboxConfig;
use crate::toolbox::ToolboxView;

/// Below the 60 s after which clients give up.
const OPEN_TIMEOUT: Duration = Duration::from_secs(45);
/// Timeout for the last unlisted server once another server is usable.
const LAST_UNKNOWN: Duration = Duration::from_secs(15);
/// Timeout for servers whose listing is stored.
const LISTED_TIMEOUT: Duration = Duration::from_secs(3);

/// Interval of progress notifications during a long operation.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// Returns a timer that ticks every 5 s, first after 5 s.
pub fn heartbeat() -> Interval {
    let mut heartbeat = interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    heartbeat
}

/// The result of opening a toolbox.
#[derive(Debug)]
pub struct OpenedToolbox {
    /// The tools of every server that was ever listed, running or not.
    pub view: Arc<ToolboxView>,
    pub connected: usize,
    /// Servers still starting whose stored listings are usable, in configuration order.
    pub starting: Vec<ServerName>,
    /// Servers still starting whose tools aren't known yet, in configuration order.
    pub unlisted: Vec<ServerName>,
    /// The remaining servers, in configuration order.
    pub failed: Vec<FailedServer>,
}

impl OpenedToolbox {
    /// Returns `true` if servers failed and none is running or starting.
    pub fn is_failure(&self) -> bool {
        let is_starting = !self.starting.is_empty() || !self.unlisted.is_empty();
        self.connected == 0 && !is_starting && !self.failed.is_empty()
    }
}

impl Gateway {
    /// Starts the servers of a toolbox in parallel and waits until they run: at most 3 s for
    /// servers with a stored listing, at most 45 s for others. Slower ones continue to start in the
    /// background, and later openings don't wait for them if another server is usable.
    ///
    /// Servers that fail are reported and retried by a later call. Dropping the future stops the
    /// wait, not the servers.
    pub async fn open_toolbox(
        &self,
        toolbox: &ToolboxConfig,
        context: &RequestContext<'_>,
    ) -> OpenedToolbox {
        self.wait_for_stored_listings().await;
        let snapshot = self.snapshot();
        let mut starting = JoinSet::new();
        let mut starts = Vec::new();
        for (index, server) in toolbox.launchable_servers().enumerate() {
            let member = self.managed_server(&toolbox.name, &server.name);
            let is_known = member.is_some_and(|server| snapshot.has_listed(server.shared.id()));
            let is_slow = member.is_some_and(|server| server.shared.is_slow_to_start());
            starts.push(PendingStart { is_known, is_slow, outcome: None });
            let urgency = StartPriority::Opening;
            let start = self.start(&toolbox.name, &server.name, context.agent, urgency);
            starting.spawn(async move { (index, start.await) });
        }
        let what = format!("toolbox `{}`", toolbox.name);
        let names = toolbox.launchable_servers().map(|server| server.name.to_string()).collect();
        wait(starting, &mut starts, StartProgress::new(what, names, context)).await;
        let view = self.snapshot().view(&toolbox.name);
        let mut opened = OpenedToolbox {
            view,
            connected: 0,
            starting: vec![],
            unlisted: vec![],
            failed: vec![],
        };
        for (server, start) in toolbox.launchable_servers().zip(starts) {
            let member = self.managed_server(&toolbox.name, &server.name);
            if let Some(member) = member {
                member.shared.set_slow_to_start(start.is_slow);
            }
            // The error of the last start, while the next one runs.
            let last_error = || member.and_then(|member| member.shared.start_error());
            match start.outcome {
                Some(Ok(())) => opened.connected += 1,
                Some(Err(failed)) => opened.failed.push(failed),
                None if start.is_known => opened.starting.push(server.name.clone()),
                None => match last_error() {
                    Some(failure) => {
                        let failure = BackendError::StartFailed(failure);
                        opened.failed.push(failed(&server.name, &failure));
                    }
                    None => opened.unlisted.push(server.name.clone()),
                },
            }
        }
        opened
    }
}

struct PendingStart {
    is_known: bool,
    /// `true` if an opening, this one included, has waited in vain for the start.
    is_slow: bool,
    /// `None` while it is starting.
    outcome: Option<Result<(), FailedServer>>,
}

/// Records the outcomes of starts until the timeout.
async fn wait(
    mut starting: JoinSet<(usize, Result<(), FailedServer>)>,
    starts: &mut [PendingStart],
    mut report: StartProgress<'_>,
) {
    let began = Instant::now();
    let mut heartbeat = heartbeat();
    while starts.iter().any(|start| start.outcome.is_none()) {
        tokio::select! {
            started = starting.join_next() => match started {
                None => break,
                Some(Ok((index, outcome))) => {
                    starts[index].is_slow = outcome.is_err() && began.elapsed() > LISTED_TIMEOUT;
                    starts[index].outcome = Some(outcome);
                }
                // Its server counts as still starting.
                Some(Err(error)) => tracing::error!(%error, "internal error while starting a server"),
            },
            _ = heartbeat.tick() => {}
            () = sleep_until(began + patience(starts)) => break,
        }
        let is_done: Vec<bool> = starts.iter().map(|start| start.outcome.is_some()).collect();
        report.send(&is_done).await;
    }
    for start in starts.iter_mut().filter(|start| start.outcome.is_none()) {
        start.is_slow = true;
    }
    starting.detach_all();
}

/// Returns the timeout for the servers still missing, counted from the start of the opening.
fn patience(starts: &[PendingStart]) -> Duration {
    let missing = || starts.iter().filter(|start| start.outcome.is_none() && !start.is_slow);
    let is_of_use = |start: &PendingStart| match &start.outcome {
        Some(outcome) => outcome.is_ok(),
        None => start.is_known,
    };
    let is_any_of_use = starts.iter().any(is_of_use);
    match missing().filter(|start| !start.is_known).count() {
        // Only slow servers are missing, and the agent can work without them.
        0 if missing().next().is_none() && is_any_of_use => Duration::ZERO,
        0 => LISTED_TIMEOUT,
        1 if is_any_of_use => LAST_UNKNOWN,
        _ => OPEN_TIMEOUT,
    }
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
