//! Starts the servers of a task.

use tokio::time::Instant;

use crate::navigator::step::{NavigationStep, StepListener};
use mcp_workbench_core::gateway::{AgentHandle, FailedServer, Gateway, StartPriority};
use mcp_workbench_names::ServerRef;

pub(crate) const TRIES: u32 = 3;

/// Starts a server with retries, until `tries` attempts or the deadline. The server's actor does
/// the backoff.
pub(crate) async fn start(
    gateway: &Gateway,
    at: &ServerRef,
    agent: &AgentHandle,
    tries: u32,
    until: Instant,
    heard: &StepListener<'_>,
) -> Result<(), FailedServer> {
    let mut tried = 1;
    loop {
        let start = gateway.startup().start(at, agent, StartPriority::Call);
        let Err(failed) = start.await else {
            return Ok(());
        };
        if tried >= tries || Instant::now() >= until {
            return Err(failed);
        }
        tried += 1;
        heard(&NavigationStep::StartRetry { server: at.server.as_str(), why: &failed.reason });
    }
}
