//! Runs a command in a running workbench of the user.

use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncWrite, split};
use tokio::time::timeout;

use crate::app::run_until_signal;
use crate::cli::args::GlobalArgs;
use crate::cli::output::CommandError;
use crate::cli::runtime::block_on;
use crate::cli::servers::running_workbenches::serving_workbenches;
use crate::cli::tool_commands::command::ToolCommand;
use crate::cli::tool_commands::protocol::{
    Answer, CommandRequest, Hello, HelloLine, Reply, VERSION, put, put_line,
};
use crate::cli::tool_commands::user::UserInterface;
use mcp_workbench_core::telemetry::process_registry::ProcessRecord;
use mcp_workbench_names::AgentName;
use mcp_workbench_os::connect_locally;
use mcp_workbench_serve::admin::socket;
use mcp_workbench_settings::{Config, digest_for_commands};
use mcp_workbench_wire::line::{InputLine, LineReader};

/// How long a workbench can take to accept a command, which needs no server.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a workbench can be silent while it runs a command; it sends a sign of life every 5 s.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum length of a reply, in bytes.
const MAX_REPLY: usize = 1 << 30;
/// How many workbenches are asked.
const MAX_WORKBENCHES: usize = 8;

/// How an attempt to use a running workbench ended.
enum Attempt<T> {
    /// The command didn't run there.
    Declined(String),
    Finished(Result<T, CommandError>),
}

/// Runs the command in a workbench that has loaded this configuration. Returns `None` if there is
/// none. A command with effects isn't repeated once a workbench has started it.
pub(super) fn run_at_workbench<C: ToolCommand>(
    global: &GlobalArgs,
    config: &Config,
    command: &C,
) -> Result<Option<C::Report>, CommandError> {
    let Some(file) = global.source_file()? else { return Ok(None) };
    let workbenches = candidates(global, &file);
    if workbenches.is_empty() {
        return Ok(None);
    }
    let command = serde_json::value::to_raw_value(command).map_err(CommandError::internal)?;
    let request = CommandRequest { name: C::NAME.to_owned(), command };
    let request = serde_json::to_vec(&request).map_err(CommandError::internal)?;
    if request.len() > socket::MAX_LINE {
        return Ok(None);
    }
    let agent = global.caller().agent;
    let work = async {
        for workbench in &workbenches {
            match attempt::<C>(workbench, config, agent.as_ref(), &request).await {
                Attempt::Finished(done) => return done.map(Some),
                Attempt::Declined(reason) => {
                    tracing::debug!(pid = workbench.pid, "not using a running workbench: {reason}");
                }
            }
        }
        Ok(None)
    };
    block_on(run_until_signal(work))?.map_err(CommandError::internal)?
}

/// The workbenches that serve the file, those over HTTP first: they run for longer.
fn candidates(global: &GlobalArgs, file: &Path) -> Vec<ProcessRecord> {
    let mut all = serving_workbenches(global, file).unwrap_or_default();
    all.retain(|record| record.socket.is_some() && record.version == VERSION);
    all.sort_by_key(|record| (record.at == "stdio", std::cmp::Reverse(record.since)));
    all.truncate(MAX_WORKBENCHES);
    all
}

async fn attempt<C: ToolCommand>(
    workbench: &ProcessRecord,
    config: &Config,
    agent: Option<&AgentName>,
    request: &[u8],
) -> Attempt<C::Report> {
    let Some(path) = &workbench.socket else {
        return Attempt::Declined("it has no socket".to_owned());
    };
    let hello = HelloLine {
        commands: Hello {
            version: VERSION.to_owned(),
            config: digest_for_commands(config, &path.display().to_string()),
            agent: agent.cloned(),
        },
    };
    let accepting = async {
        let (reader, mut writer) = split(connect_locally(path).await?);
        let mut lines = LineReader::new(reader, MAX_REPLY);
        put(&mut writer, &hello).await?;
        expect(&mut lines, "ready").await?;
        put_line(&mut writer, request.to_vec()).await?;
        expect(&mut lines, "started").await?;
        io::Result::Ok((lines, writer))
    };
    match timeout(ACCEPT_TIMEOUT, accepting).await {
        Err(_) => {
            let seconds = ACCEPT_TIMEOUT.as_secs();
            Attempt::Declined(format!("no answer within {seconds} s"))
        }
        Ok(Err(error)) => Attempt::Declined(error.to_string()),
        Ok(Ok((lines, writer))) => follow::<C>(workbench.pid, lines, writer).await,
    }
}

/// Reads one reply, which must be `Ready` or `Started`. Any other one declines the command.
async fn expect<R: tokio::io::AsyncRead + Unpin>(
    lines: &mut LineReader<R>,
    what: &str,
) -> io::Result<()> {
    let Some(InputLine::Message(line)) = lines.next().await else {
        return Err(io::Error::other("it has exited"));
    };
    match (serde_json::from_slice(&line), what) {
        (Ok(Reply::Ready), "ready") | (Ok(Reply::Started), "started") => Ok(()),
        (Ok(Reply::Declined(reason)), _) => Err(io::Error::other(reason)),
        _ => Err(io::Error::other("it doesn't run commands")),
    }
}

/// Follows a started command until its end.
async fn follow<C: ToolCommand>(
    pid: u32,
    mut lines: LineReader<impl tokio::io::AsyncRead + Unpin>,
    mut writer: impl AsyncWrite + Unpin,
) -> Attempt<C::Report> {
    let mut user = UserInterface::default();
    let why = loop {
        let line = match timeout(SILENCE_TIMEOUT, lines.next()).await {
            Ok(Some(InputLine::Message(line))) => line,
            Ok(Some(InputLine::Oversized { .. })) => break "sent an answer that is too long",
            Ok(None) => break "exited",
            Err(_) => break "stopped responding",
        };
        match serde_json::from_slice::<Reply>(&line) {
            Ok(Reply::Status(text)) => user.status(&text),
            Ok(Reply::Confirm(message)) => {
                let confirmed = user.confirm(&message).await;
                if put(&mut writer, &Answer { confirmed }).await.is_err() {
                    break "exited";
                }
            }
            Ok(Reply::Done(report)) => {
                let report = serde_json::from_str(report.get()).map_err(CommandError::internal);
                return Attempt::Finished(report);
            }
            Ok(Reply::Failed(error)) => return Attempt::Finished(Err(error)),
            Ok(Reply::Alive | Reply::Started | Reply::Ready) => {}
            Ok(Reply::Declined(_)) | Err(_) => break "sent an invalid answer",
        }
    };
    if !C::HAS_EFFECTS {
        return Attempt::Declined(format!("it {why}"));
    }
    let message = format!("the workbench with PID {pid} {why} during the call");
    Attempt::Finished(Err(CommandError::failed(message)
        .with_cause("the server may or may not have completed the call")
        .with_hint("check whether it had an effect before you call the tool again")))
}
