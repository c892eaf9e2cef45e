//! Admin API on a local socket, for other processes of the same user: one line of JSON per request
//! and per response. `{"watch": true}` subscribes to a status line each second. `{"commands": …}`
//! turns the connection over to a [`CommandService`].
//!
//! Peers can be slow or hostile, so the length of a line, the number of connections and the time
//! for a write are limited.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf, split};
use tokio::sync::Semaphore;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::admin::admin_origin::AdminOrigin;
use crate::admin::api::AdminApi;
use crate::admin::protocol::{AdminError, AdminErrorKind, AdminRequest, AdminResponse};
use mcp_workbench_core::gateway::GatewayRegistry;
use mcp_workbench_os::{LocalListener, LocalStream, remove_dead_socket};
use mcp_workbench_wire::line::{InputLine, LineReader};

/// Maximum length of a request line, in bytes.
pub const MAX_LINE: usize = 1024 * 1024;
const MAX_CONNECTIONS: usize = 16;
/// Maximum number of connections with a command, in addition to the others.
const MAX_COMMANDS: usize = 64;
/// How long the peer can take to read a response.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval between status lines.
const TICK: Duration = Duration::from_secs(1);
const NAME: &str = "workbench.";
const ENDING: &str = ".sock";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WatchRequest {
    watch: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CommandsRequest {
    commands: Box<RawValue>,
}

/// Runs commands of other processes of the user, such as `call`.
#[derive(Clone)]
pub struct CommandService {
    pub handler: Arc<CommandHandlerFn>,
    /// The connections with a command.
    pub running: TaskTracker,
    /// Cancelled when no new commands should start.
    pub closing: CancellationToken,
}

/// Serves one connection until its command is done.
pub type CommandHandlerFn =
    dyn Fn(CommandConnection) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync;

/// A connection with a command.
pub struct CommandConnection {
    pub gateways: Arc<GatewayRegistry>,
    /// The value of `commands` in its first line.
    pub hello: Box<RawValue>,
    pub lines: LineReader<ReadHalf<LocalStream>>,
    pub writer: WriteHalf<LocalStream>,
    pub closing: CancellationToken,
}

/// Binds the socket of `run` in the first usable folder. Creates the folder, and removes sockets of
/// processes that were killed.
pub fn listen(folders: &[PathBuf], run: &str) -> Option<(LocalListener, PathBuf)> {
    for folder in folders {
        match listen_in(folder, run) {
            Ok(listening) => return Some(listening),
            Err(error) => {
                let folder = folder.display();
                tracing::debug!(%error, "failed to create the socket for `top` in `{folder}`");
            }
        }
    }
    None
}

fn listen_in(folder: &Path, run: &str) -> std::io::Result<(LocalListener, PathBuf)> {
    mcp_workbench_os::make_private_folder(folder)?;
    mcp_workbench_os::check_private_dir(folder)?;
    for entry in std::fs::read_dir(folder)?.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(NAME) && name.ends_with(ENDING) {
            remove_dead_socket(&entry.path());
        }
    }
    let path = folder.join(format!("{NAME}{run}{ENDING}"));
    Ok((LocalListener::bind(&path)?, path))
}

/// Serves connections to this socket until the future is dropped.
pub async fn serve(
    admin: AdminApi,
    commands: Option<CommandService>,
    listener: LocalListener,
    tasks: TaskTracker,
) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let command_places = Arc::new(Semaphore::new(MAX_COMMANDS));
    let serve = |stream: LocalStream| {
        let admin = admin.clone();
        let permit = Arc::clone(&places).try_acquire_owned();
        let (commands, command_places) = (commands.clone(), Arc::clone(&command_places));
        let serving = async move {
            let (reader, mut writer) = split(stream);
            let Ok(place) = permit else {
                let many = format!("limit of {MAX_CONNECTIONS} connections reached");
                let _ = put(&mut writer, &refusal(AdminErrorKind::Failed, many)).await;
                return;
            };
            let handed_over = serve_connection(&admin, reader, writer, commands.is_some()).await;
            let (Some((hello, lines, mut writer)), Some(commands)) = (handed_over, commands) else {
                return;
            };
            drop(place);
            let Ok(_place) = command_places.try_acquire() else {
                let many = format!("limit of {MAX_COMMANDS} commands reached");
                let _ = put(&mut writer, &refusal(AdminErrorKind::Failed, many)).await;
                return;
            };
            let CommandService { handler, running, closing } = commands;
            let gateways = Arc::clone(admin.gateways());
            let connection = CommandConnection { gateways, hello, lines, writer, closing };
            running.track_future(handler(connection)).await;
        };
        tasks.spawn(serving);
    };
    if let Err(error) = listener.serve(serve).await {
        tracing::debug!(%error, "failed to accept connections on the socket for `top`");
    }
}

/// Answers admin requests until the peer leaves, or asks for commands where they are available.
async fn serve_connection<R: AsyncRead + Unpin, W: AsyncWrite + Unpin>(
    admin: &AdminApi,
    reader: R,
    mut writer: W,
    has_commands: bool,
) -> Option<(Box<RawValue>, LineReader<R>, W)> {
    let mut lines = LineReader::new(reader, MAX_LINE);
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut is_watching = false;
    loop {
        let line = tokio::select! {
            line = lines.next() => line,
            _ = ticks.tick(), if is_watching => {
                let view = AdminResponse::View(Box::new(admin.status()));
                put(&mut writer, &view).await?;
                continue;
            }
        };
        let answer = match line? {
            InputLine::Oversized { length, .. } => {
                let why = format!("the line is {length} bytes long; the limit is {MAX_LINE}");
                refusal(AdminErrorKind::Malformed, why)
            }
            InputLine::Message(line) => {
                if let Ok(WatchRequest { watch }) = serde_json::from_slice(&line) {
                    is_watching = watch;
                    ticks.reset_immediately();
                    continue;
                }
                if has_commands && let Ok(asked) = serde_json::from_slice::<CommandsRequest>(&line)
                {
                    return Some((asked.commands, lines, writer));
                }
                match serde_json::from_slice::<AdminRequest>(&line) {
                    Ok(ask) => Box::pin(admin.handle(ask, &AdminOrigin::Socket)).await,
                    Err(error) => refusal(AdminErrorKind::Malformed, error.to_string()),
                }
            }
        };
        put(&mut writer, &answer).await?;
    }
}

fn refusal(why: AdminErrorKind, message: String) -> AdminResponse {
    AdminResponse::Error(AdminError { kind: why, message })
}

/// Writes a response; `None` if the peer is gone or reads too slowly.
async fn put(writer: &mut (impl AsyncWrite + Unpin), answer: &AdminResponse) -> Option<()> {
    let mut line = serde_json::to_vec(answer).ok()?;
    line.push(b'\n');
    timeout(WRITE_TIMEOUT, writer.write_all(&line)).await.ok()?.ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tokio::io::{AsyncBufReadExt, BufReader, duplex};

    use super::*;
    use crate::admin::tests::desk;

    fn quiet() -> AdminApi {
        let servers = json!({"none": {"command": "none"}});
        desk(&json!({"toolboxes": {"box": {"description": "x", "mcpServers": servers}}}))
    }

    async fn talk(lines: &[Vec<u8>]) -> Vec<Value> {
        let (ours, theirs) = duplex(64 * 1024);
        let (reader, writer) = split(theirs);
        let admin = quiet();
        let attending = TaskTracker::new()
            .spawn(async move { serve_connection(&admin, reader, writer, false).await });
        let (reader, mut writer) = split(ours);
        let mut answers = BufReader::new(reader).lines();
        let mut all = Vec::new();
        for line in lines {
            writer.write_all(line).await.unwrap();
            let answer = answers.next_line().await.unwrap().unwrap();
            all.push(serde_json::from_str(&answer).unwrap());
        }
        drop((writer, answers));
        assert!(attending.await.unwrap().is_none());
        all
    }

    #[tokio::test]
    async fn malformed_lines_are_rejected_and_the_session_continues() {
        let long = [vec![b'x'; 2 * MAX_LINE], b"\n".to_vec()].concat();
        let all = talk(&[
            b"garbage\n".to_vec(),
            b"\xff\xfe{\n".to_vec(),
            b"{\"ask\":\"dance\"}\n".to_vec(),
            long,
            b"{\"ask\":\"view\"}\n".to_vec(),
        ])
        .await;
        for answer in &all[..4] {
            assert_eq!(
                (&answer["answer"], &answer["kind"]),
                (&json!("error"), &json!("malformed"))
            );
        }
        assert!(all[3]["message"].as_str().unwrap().contains("2097152 bytes"), "{}", all[3]);
        assert_eq!(all[4]["answer"], "view");
    }

    #[tokio::test]
    async fn a_thousand_requests_are_answered_in_order() {
        let ask = |number| match number % 2 {
            0 => b"{\"ask\":\"view\"}\n".to_vec(),
            _ => b"{\"ask\":\"unused\"}\n".to_vec(),
        };
        let all = talk(&(0..1000).map(ask).collect::<Vec<_>>()).await;
        for (number, answer) in all.iter().enumerate() {
            assert_eq!(answer["answer"], if number % 2 == 0 { "view" } else { "unused" });
        }
    }

    #[tokio::test(start_paused = true)]
    async fn watcher_gets_a_status_each_second_and_is_dropped_if_stalled() {
        let (ours, theirs) = duplex(4 * 1024);
        let (reader, writer) = split(theirs);
        let admin = quiet();
        let attending = TaskTracker::new()
            .spawn(async move { serve_connection(&admin, reader, writer, false).await });
        let (reader, mut writer) = split(ours);
        writer.write_all(b"{\"watch\":true}\n").await.unwrap();
        let mut answers = BufReader::new(reader).lines();
        for _ in 0..3 {
            let view: Value =
                serde_json::from_str(&answers.next_line().await.unwrap().unwrap()).unwrap();
            assert_eq!(view["answer"], "view");
        }
        // The reader has stopped, so the pipe fills up eventually.
        timeout(Duration::from_mins(10), attending).await.unwrap().unwrap();
    }
}
