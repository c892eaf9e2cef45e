//! Calls that wait for an approval in the running workbenches of this user, and answers to them.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use tokio::io::{AsyncWriteExt, split};
use tokio::task::JoinSet;
use tokio::time::timeout;

use mcp_workbench_core::gateway::PendingCall;
use mcp_workbench_core::telemetry::process_registry::ProcessRecord;
use mcp_workbench_os::connect_locally;
use mcp_workbench_serve::admin::AdminRequest;
use mcp_workbench_settings::ApprovalKey;
use mcp_workbench_wire::line::{InputLine, LineReader};

/// Limits the response of a workbench, in bytes.
const MAX_LINE: usize = 64 * 1024 * 1024;
const TIMEOUT: Duration = Duration::from_secs(5);

/// A running workbench and its waiting calls.
pub(crate) struct CallQueue {
    pub(crate) pid: u32,
    pub(crate) socket: PathBuf,
    /// `None` if this workbench accepts no approvals from this machine.
    pub(crate) key: Option<ApprovalKey>,
    pub(crate) calls: Vec<PendingCall>,
}

#[derive(Deserialize)]
struct QueueReply {
    key: Option<String>,
    calls: Vec<PendingCall>,
}

#[derive(Deserialize)]
struct AnswerReply {
    answer: String,
    #[serde(default)]
    message: String,
}

/// Asks all workbenches for their waiting calls. One that doesn't answer in time is left out.
pub(crate) async fn collect(running: &[ProcessRecord]) -> Vec<CallQueue> {
    let mut asking = JoinSet::new();
    for record in running {
        let (pid, Some(socket)) = (record.pid, record.socket.clone()) else { continue };
        asking.spawn(async move { read_queue(pid, socket).await.ok() });
    }
    let mut queues: Vec<_> = asking.join_all().await.into_iter().flatten().collect();
    queues.sort_by_key(|queue| queue.pid);
    queues
}

/// Asks one workbench for its waiting calls.
pub(crate) async fn read_queue(pid: u32, socket: PathBuf) -> io::Result<CallQueue> {
    let reply = ask(&socket, &AdminRequest::Approvals).await?;
    let QueueReply { key, calls } = serde_json::from_slice(&reply)?;
    let key = key.as_deref().and_then(ApprovalKey::parse);
    Ok(CallQueue { pid, socket, key, calls })
}

/// Approves a call if there is a signature, and denies it otherwise. The inner error is the
/// workbench's reason for not accepting the answer.
pub(crate) async fn answer(
    socket: &Path,
    call: &PendingCall,
    signature: Option<String>,
) -> io::Result<Result<(), String>> {
    let approve = signature.is_some();
    let request = AdminRequest::Answer { id: call.id.clone(), approve, signature };
    let reply: AnswerReply = serde_json::from_slice(&ask(socket, &request).await?)?;
    Ok(if reply.answer == "done" { Ok(()) } else { Err(reply.message) })
}

async fn ask(socket: &Path, request: &AdminRequest) -> io::Result<Vec<u8>> {
    let asking = async {
        let (reader, mut writer) = split(connect_locally(socket).await?);
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        writer.write_all(&line).await?;
        match LineReader::new(reader, MAX_LINE).next().await {
            Some(InputLine::Message(line)) => Ok(line.to_vec()),
            Some(InputLine::Oversized { .. }) | None => {
                Err(io::Error::other("the workbench has exited or sent no valid response"))
            }
        }
    };
    timeout(TIMEOUT, asking).await?
}
