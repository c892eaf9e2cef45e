//! `dashboard`: serves a dashboard for all running workbenches of this user.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use tokio::io::{AsyncWriteExt, split};
use tokio::net::TcpListener;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::app;
use crate::cli::args::GlobalArgs;
use crate::cli::output::{CommandError, Symptom, print};
use crate::cli::runtime::block_on;
use crate::cli::servers::approval_key::PassphraseKey;
use crate::cli::servers::waiting_calls::read_queue;
use crate::cli::tokens::random_token;
use mcp_workbench_core::telemetry::process_registry;
use mcp_workbench_http::{AdminBackend, PageApproval, PageSender, serve_page};
use mcp_workbench_os::connect_locally;
use mcp_workbench_serve::admin::{
    AdminError, AdminErrorKind, AdminRequest, AdminResponse, WorkbenchStatus,
};
use mcp_workbench_wire::line::{InputLine, LineReader};

/// Limits a workbench's answer. In bytes.
const MAX_LINE: usize = 64 * 1024 * 1024;
const VIEW_TIMEOUT: Duration = Duration::from_secs(2);
/// An action can start a server or wait for a call to end.
const ACTION_TIMEOUT: Duration = Duration::from_mins(10);
const MOST: usize = 32;

const EXAMPLES: &str = "\
Examples:
  mcp-workbench dashboard
  mcp-workbench dashboard --port 8123";

/// Serve a live dashboard for your browser
///
/// Shows all running workbenches of this user: servers, calls and the tokens saved, with controls
/// for servers. Listens on a loopback address until Ctrl-C and prints the URL.
///
/// The URL contains a token that is new each time. Anyone with the URL can view and control the
/// workbenches.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Port to listen on [default: any free port]
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    port: u16,
}

pub(crate) fn run(global: &GlobalArgs, args: &Args) -> Result<ExitCode, CommandError> {
    let running = LocalWorkbenches { cache: global.resolve_cache_dir()? };
    let token = random_token()?;
    block_on(async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, args.port)).await;
        let listener = listener.map_err(|error| {
            CommandError::failed(format!("failed to listen on port {}", args.port))
                .because(&error)
                .with_link(Symptom::PortInUse)
        })?;
        let address = listener.local_addr().map_err(CommandError::internal)?;
        print::note(
            &"dashboard (press Ctrl-C to stop); anyone with this URL can control your workbenches:",
        );
        print::data(&format!("http://{address}/#token={token}"))?;
        let shutdown = CancellationToken::new();
        let serving = serve_page(listener, &token, running, shutdown.clone());
        // A signal is the normal way to end.
        let _ = app::run_until_signal(serving).await;
        shutdown.cancel();
        Ok(ExitCode::SUCCESS)
    })?
}

struct LocalWorkbenches {
    cache: PathBuf,
}

impl LocalWorkbenches {
    async fn sockets(&self) -> BTreeMap<u32, PathBuf> {
        let cache = self.cache.clone();
        let record =
            spawn_blocking(move || process_registry::read_processes(&cache).unwrap_or_default())
                .await;
        let record = record.unwrap_or_default().into_iter().take(MOST);
        record.filter_map(|record| Some((record.pid, record.socket?))).collect()
    }
}

impl AdminBackend for LocalWorkbenches {
    const ASKS_PASSPHRASE: bool = true;

    async fn statuses(&self) -> Vec<WorkbenchStatus> {
        let mut looks = JoinSet::new();
        for (_, socket) in self.sockets().await {
            looks.spawn(async move {
                let answer =
                    timeout(VIEW_TIMEOUT, ask(socket, &AdminRequest::View)).await.ok()?.ok()?;
                serde_json::from_slice::<WorkbenchStatus>(&answer).ok()
            });
        }
        // A workbench that doesn't answer in time is left out.
        let mut views: Vec<WorkbenchStatus> =
            looks.join_all().await.into_iter().flatten().collect();
        views.sort_by_key(|view| (view.since, view.pid));
        views
    }

    async fn handle(&self, pid: u32, question: AdminRequest, sender: PageSender) -> Vec<u8> {
        let Some(socket) = self.sockets().await.remove(&pid) else {
            let message = format!("process {pid} is not running, or was started with `--unlisted`");
            return refused(AdminErrorKind::Unknown, message);
        };
        let question = match question {
            AdminRequest::Answer { id, approve: true, signature: None } => {
                match sign(pid, socket.clone(), id, sender.approval).await {
                    Ok(signed) => signed,
                    Err(message) => return refused(AdminErrorKind::NotAllowed, message),
                }
            }
            other => other,
        };
        match timeout(ACTION_TIMEOUT, ask(socket, &question)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => refused(AdminErrorKind::Failed, format!("process {pid}: {error}")),
            Err(_) => {
                let message =
                    format!("process {pid} did not respond within {} s", ACTION_TIMEOUT.as_secs());
                refused(AdminErrorKind::Failed, message)
            }
        }
    }
}

/// Signs the approval of a call as the page has shown it: the process at the other end of the socket
/// may have shown another one. The passphrase doesn't leave this process.
async fn sign(
    pid: u32,
    socket: PathBuf,
    id: String,
    approval: Option<PageApproval>,
) -> Result<AdminRequest, String> {
    let PageApproval { call, passphrase } =
        approval.ok_or("enter the passphrase of the approval key")?;
    let queue = read_queue(pid, socket).await.map_err(|error| format!("process {pid}: {error}"))?;
    let key = queue.key.ok_or(
        "this workbench started without an approval key: run `mcp-workbench approvals key` once, \
         then restart it",
    )?;
    let signature = spawn_blocking(move || {
        PassphraseKey::unlock(&passphrase, &key).map(|key| key.approve(&call))
    });
    let signature = signature.await.map_err(|error| error.to_string())?;
    let signature = signature.map_err(|error| error.message().to_owned())?;
    Ok(AdminRequest::Answer { id, approve: true, signature: Some(signature) })
}

fn refused(why: AdminErrorKind, message: String) -> Vec<u8> {
    // Serializing plain data can't fail.
    serde_json::to_vec(&AdminResponse::Error(AdminError { kind: why, message })).unwrap_or_default()
}

async fn ask(socket: PathBuf, ask: &AdminRequest) -> std::io::Result<Vec<u8>> {
    let (reader, mut writer) = split(connect_locally(&socket).await?);
    let mut line = serde_json::to_vec(ask)?;
    line.push(b'\n');
    writer.write_all(&line).await?;
    match LineReader::new(reader, MAX_LINE).next().await {
        Some(InputLine::Message(line)) => Ok(line.to_vec()),
        Some(InputLine::Oversized { length, .. }) => {
            let long = format!("its response of {length} bytes exceeds the limit of {MAX_LINE}");
            Err(std::io::Error::other(long))
        }
        None => Err(std::io::ErrorKind::UnexpectedEof.into()),
    }
}
