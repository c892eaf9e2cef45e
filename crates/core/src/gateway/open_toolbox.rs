//! The wait for the servers of a toolbox that is being opened.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::gateway::error::FailedServer;
use crate::gateway::progress::{StartProgress, heartbeat};
use crate::toolbox::ToolboxView;
use mcp_workbench_names::ServerName;

/// Below the 60 s after which clients give up.
const OPEN_TIMEOUT: Duration = Duration::from_secs(45);
/// Timeout for the last unlisted server once another server is usable.
const LAST_UNKNOWN: Duration = Duration::from_secs(15);
/// Timeout for servers whose listing is stored.
const LISTED_TIMEOUT: Duration = Duration::from_secs(3);

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

pub(crate) struct PendingStart {
    pub(crate) is_known: bool,
    /// `true` if an opening, this one included, has waited in vain for the start.
    pub(crate) is_slow: bool,
    /// `None` while it is starting.
    pub(crate) outcome: Option<Result<(), FailedServer>>,
}

/// Records the outcomes of starts until the timeout.
pub(crate) async fn wait(
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

#[cfg(test)]
mod tests;
