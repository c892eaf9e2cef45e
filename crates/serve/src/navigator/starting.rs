//! Servers that a task needs, started.

use tokio::time::Instant;

use crate::gateway::{FailedServer, Gateway, Presence, Urgency};
use crate::name::ServerRef;
use crate::navigator::{Hear, Step};

/// How often a server is tried that cannot be started.
pub(crate) const TRIES: u32 = 3;

/// Starts a server, again where it fails, until it has been tried so often or the time is up. The
/// pauses are those of the server's actor.
pub(crate) async fn start(
    gateway: &Gateway,
    at: &ServerRef,
    agent: &Presence,
    tries: u32,
    until: Instant,
    heard: &Hear<'_>,
) -> Result<(), FailedServer> {
    let mut tried = 1;
    loop {
        let start = gateway.start(&at.toolbox, &at.server, agent, Urgency::Call);
        let Err(failed) = start.await else {
            return Ok(());
        };
        if tried >= tries || Instant::now() >= until {
            return Err(failed);
        }
        tried += 1;
        heard(&Step::Again { server: at.server.as_str(), why: &failed.reason });
    }
}
