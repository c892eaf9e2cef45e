//! `page`: a page in a browser that shows what runs, in every workbench of this user that serves.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tokio::io::{AsyncWriteExt, split};
use tokio::net::TcpListener;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::app;
use crate::cli::error::Error;
use crate::cli::{Global, block_on, print};
use crate::desk::{Answer, Ask, Failure, Refused, View};
use crate::frontend::http::{Workbenches, serve_page};
use crate::observe::running;
use crate::os::connect_locally;
use crate::wire::line::{Line, LineReader};

/// The most bytes of an answer.
const MAX_LINE: usize = 64 * 1024 * 1024;
/// How long a look may take, and an answer: a server may be long in starting, and a call in ending.
const GLANCE: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_mins(10);
/// The most workbenches that are shown.
const MOST: usize = 32;

const EXAMPLES: &str = "\
Examples:
  mcp-workbench page
  mcp-workbench page --port 8123";

/// Show what runs in a browser: servers, calls as they come, what is spared; and act
///
/// Serves a page on a loopback address for every workbench of this user that serves, until Ctrl-C, and
/// prints its address. The address ends with a token that is new each time: whoever has it may look and act,
/// and nobody else.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Serve it at this port; by default one that is free
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    port: u16,
}

/// Serves the page until a signal comes.
pub(crate) fn run(global: &Global, args: &Args) -> Result<ExitCode, Error> {
    let running = Running { cache: global.cache()? };
    let token = token()?;
    block_on(async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, args.port)).await;
        let listener = listener.map_err(|error| {
            Error::failed(format!("cannot listen at port {}", args.port))
                .because(&error.to_string())
        })?;
        let address = listener.local_addr().map_err(Error::internal)?;
        print::note(&"the page, until Ctrl-C; whoever has this address may act:");
        print::data(&format!("http://{address}/#token={token}"))?;
        let shutdown = CancellationToken::new();
        let serving = serve_page(listener, &token, running, shutdown.clone());
        // A signal is how it ends.
        let _ = app::until_signal(serving).await;
        shutdown.cancel();
        Ok(ExitCode::SUCCESS)
    })?
}

fn token() -> Result<String, Error> {
    let mut random = [0; 32];
    getrandom::fill(&mut random).map_err(Error::internal)?;
    Ok(URL_SAFE_NO_PAD.encode(random))
}

/// The workbenches that run, which are found by their files.
struct Running {
    cache: PathBuf,
}

impl Running {
    /// The sockets of all, by process.
    async fn sockets(&self) -> BTreeMap<u32, PathBuf> {
        let cache = self.cache.clone();
        let told = spawn_blocking(move || running::told(&cache).unwrap_or_default()).await;
        let told = told.unwrap_or_default().into_iter().take(MOST);
        told.filter_map(|told| Some((told.pid, told.socket?))).collect()
    }
}

impl Workbenches for Running {
    async fn seen(&self) -> Vec<View> {
        let mut looks = JoinSet::new();
        for (_, socket) in self.sockets().await {
            looks.spawn(async move {
                let answer = timeout(GLANCE, ask(socket, &Ask::View)).await.ok()?.ok()?;
                serde_json::from_slice::<View>(&answer).ok()
            });
        }
        // One that does not answer is not there, or is no more.
        let mut views: Vec<View> = looks.join_all().await.into_iter().flatten().collect();
        views.sort_by_key(|view| (view.since, view.pid));
        views
    }

    async fn ask(&self, pid: u32, question: Ask) -> Vec<u8> {
        let Some(socket) = self.sockets().await.remove(&pid) else {
            let message = format!("process {pid} serves no more, or was started with `--unlisted`");
            return refused(Failure::Unknown, message);
        };
        match timeout(PATIENCE, ask(socket, &question)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => refused(Failure::Failed, format!("process {pid}: {error}")),
            Err(_) => {
                let message = format!("process {pid} has not answered in {} s", PATIENCE.as_secs());
                refused(Failure::Failed, message)
            }
        }
    }
}

fn refused(why: Failure, message: String) -> Vec<u8> {
    // An answer is plain data, which can always be written.
    serde_json::to_vec(&Answer::Refused(Refused { why, message })).unwrap_or_default()
}

/// Asks a workbench; the answer is left as it was written.
async fn ask(socket: PathBuf, ask: &Ask) -> std::io::Result<Vec<u8>> {
    let (reader, mut writer) = split(connect_locally(&socket).await?);
    let mut line = serde_json::to_vec(ask)?;
    line.push(b'\n');
    writer.write_all(&line).await?;
    match LineReader::new(reader, MAX_LINE).next().await {
        Some(Line::Message(line)) => Ok(line.to_vec()),
        Some(Line::Oversized { length, .. }) => {
            let long = format!("its answer has {length} bytes, expected {MAX_LINE} at most");
            Err(std::io::Error::other(long))
        }
        None => Err(std::io::ErrorKind::UnexpectedEof.into()),
    }
}
