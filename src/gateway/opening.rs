//! What an agent is told while a toolbox is being opened.

use crate::config::ToolboxConfig;
use crate::gateway::{FailedServer, Origin};
use crate::raw::Raw;

/// Tells the agent how far an opening is, with a number that only rises.
pub(crate) struct Progress<'a> {
    toolbox: &'a ToolboxConfig,
    origin: Origin<'a>,
    last: f64,
}

impl<'a> Progress<'a> {
    pub(crate) fn new(toolbox: &'a ToolboxConfig, origin: Origin<'a>) -> Self {
        Self { toolbox, origin, last: 0.0 }
    }

    /// Says which servers are still waited for.
    pub(crate) async fn send(&mut self, outcomes: &[Option<Result<(), FailedServer>>]) {
        let Some(progress) = self.origin.progress else {
            return;
        };
        let done = outcomes.iter().flatten().count();
        let waiting: Vec<_> = self
            .toolbox
            .servers
            .iter()
            .zip(outcomes)
            .filter(|(_, outcome)| outcome.is_none())
            .map(|(server, _)| format!("`{}`", server.name))
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
        let message =
            format!("toolbox `{}`: waiting for {}", self.toolbox.name, waiting.join(", "));
        let params = serde_json::json!({
            "progress": self.last,
            "total": outcomes.len(),
            "message": message,
        });
        // An agent that is gone takes no progress; the opening goes on for the others.
        let _ = progress.send(Raw::encode(&params)).await;
    }
}
