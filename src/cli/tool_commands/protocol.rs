//! The messages between a command and a running workbench: one JSON value per line.
//!
//! 1. The command sends [`Hello`]; the workbench answers `Ready` or `Declined`.
//! 2. The command sends [`CommandRequest`]. The workbench answers `Started` before it does
//!    anything, so without that answer the command can still run elsewhere.
//! 3. Replies follow until `Done`, `Failed` or `Unconfirmed`. Closing the connection cancels the
//!    command.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use crate::cli::output::CommandError;
use mcp_workbench_names::AgentName;

/// Only a workbench of the same version may answer.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The interval of `Alive` replies.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(5);
/// How long the peer can take to read a message.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Hello {
    pub(super) version: String,
    /// The digest of the configuration, salted with the path of the socket.
    pub(super) config: String,
    pub(super) agent: Option<AgentName>,
}

/// The first line of a connection.
#[derive(Serialize)]
pub(super) struct HelloLine {
    pub(super) commands: Hello,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CommandRequest {
    pub(super) name: String,
    pub(super) command: Box<RawValue>,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Reply {
    Ready,
    /// The workbench doesn't run the command. The text is for the log.
    Declined(String),
    Started,
    /// Sent regularly, so that a hung workbench is noticed.
    Alive,
    Status(String),
    /// The call needs a confirmation, so the workbench hasn't sent it to the server. The command can
    /// run elsewhere.
    Unconfirmed,
    Done(Box<RawValue>),
    Failed(CommandError),
}

/// Writes one message. Fails if the peer is gone or reads too slowly.
pub(super) async fn put(
    writer: &mut (impl AsyncWrite + Unpin),
    message: &impl Serialize,
) -> std::io::Result<()> {
    put_line(writer, serde_json::to_vec(message)?).await
}

pub(super) async fn put_line(
    writer: &mut (impl AsyncWrite + Unpin),
    mut line: Vec<u8>,
) -> std::io::Result<()> {
    line.push(b'\n');
    timeout(WRITE_TIMEOUT, writer.write_all(&line)).await?
}
