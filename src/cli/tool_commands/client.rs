//! Runs a command in a running workbench of the user.

use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, split};
use tokio::time::timeout;

use crate::app::run_until_signal;
use crate::cli::args::GlobalArgs;
use crate::cli::output::{CommandError, print};
use crate::cli::runtime::block_on;
use crate::cli::servers::background_service;
use crate::cli::servers::running_workbenches::serving_workbenches;
use crate::cli::tool_commands::command::ToolCommand;
use crate::cli::tool_commands::protocol::{
    CommandRequest, Hello, HelloLine, Reply, VERSION, put, put_line,
};
use crate::cli::tool_commands::user::UserInterface;
use mcp_workbench_config::env::ProcessEnv;
use mcp_workbench_core::telemetry::process_registry::ProcessRecord;
use mcp_workbench_names::AgentName;
use mcp_workbench_os::{connect_locally, read_input_text};
use mcp_workbench_serve::admin::socket;
use mcp_workbench_settings::{Config, digest_for_commands};
use mcp_workbench_wire::line::{InputLine, LineReader};

/// How long a workbench can take to accept a command, which needs no server.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a workbench can be silent while it runs a command; it sends a sign of life every 5 s.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum length of a reply, in bytes.
const MAX_REPLY: usize = 1 << 30;
/// Maximum number of workbenches to try.
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
    let mut workbenches = candidates(global, &file);
    if workbenches.is_empty() && start_service(global, &file)? {
        workbenches = candidates(global, &file);
    }
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

/// Starts the background service of the configuration, if the user has set one up and it would use
/// the same variables. Returns `true` if it runs.
fn start_service(global: &GlobalArgs, file: &Path) -> Result<bool, CommandError> {
    let Ok(Some(service)) = background_service::read(file) else { return Ok(false) };
    let text = read_input_text(file).unwrap_or_default();
    if global.mode.is_some()
        || !background_service::client_variables(file, &text, &ProcessEnv).is_empty()
    {
        return Ok(false);
    }
    let started = block_on(background_service::ensure_running(&service, file))?;
    if let Err(why) = &started {
        print::note(&format!("not using the background service: {why}"));
    }
    Ok(started.is_ok())
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
        let (reader, writer) = split(connect_locally(path).await?);
        begin(reader, writer, &hello, request).await
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

/// Hands the command over. On an error, the workbench hasn't started it.
async fn begin<R: AsyncRead + Unpin, W: AsyncWrite + Unpin>(
    reader: R,
    mut writer: W,
    hello: &HelloLine,
    request: &[u8],
) -> io::Result<(LineReader<R>, W)> {
    let mut lines = LineReader::new(reader, MAX_REPLY);
    put(&mut writer, hello).await?;
    expect(&mut lines, "ready").await?;
    put_line(&mut writer, request.to_vec()).await?;
    expect(&mut lines, "started").await?;
    Ok((lines, writer))
}

/// Reads one reply, which must be `Ready` or `Started`. Any other one declines the command.
async fn expect<R: AsyncRead + Unpin>(lines: &mut LineReader<R>, what: &str) -> io::Result<()> {
    let Some(InputLine::Message(line)) = lines.next().await else {
        return Err(io::Error::other("it has exited"));
    };
    match (serde_json::from_slice(&line), what) {
        (Ok(Reply::Ready), "ready") | (Ok(Reply::Started), "started") => Ok(()),
        (Ok(Reply::Declined(reason)), _) => Err(io::Error::other(reason)),
        _ => Err(io::Error::other("it doesn't run commands")),
    }
}

/// Follows a started command until its end. Dropping the writer would cancel it.
async fn follow<C: ToolCommand>(
    pid: u32,
    mut lines: LineReader<impl AsyncRead + Unpin>,
    _writer: impl AsyncWrite + Unpin,
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
            Ok(Reply::Unconfirmed) => {
                return Attempt::Declined("it can't ask the user to confirm the call".to_owned());
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

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, duplex};

    use super::*;
    use crate::cli::tool_commands::call::CallCommand;
    use crate::cli::tool_commands::list::ListCommand;

    fn hello() -> HelloLine {
        let (version, config) = (VERSION.to_owned(), "0".to_owned());
        HelloLine { commands: Hello { version, config, agent: None } }
    }

    /// Hands a command over to a workbench that answers with these lines and leaves.
    async fn begun(answers: &[&str]) -> Result<(), String> {
        let (ours, theirs) = duplex(64 * 1024);
        let answers: Vec<String> = answers.iter().map(|line| format!("{line}\n")).collect();
        let answering = async move {
            let (reader, mut writer) = split(theirs);
            let mut lines = BufReader::new(reader).lines();
            for answer in answers {
                let _ = lines.next_line().await;
                let _ = writer.write_all(answer.as_bytes()).await;
            }
        };
        let (reader, writer) = split(ours);
        let hello = hello();
        let (begun, ()) = tokio::join!(begin(reader, writer, &hello, b"{}"), answering);
        begun.map(|_| ()).map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn command_is_handed_over_only_to_a_workbench_that_accepts_it() {
        let old = r#"{"answer":"error","kind":"malformed","message":"unknown field"}"#;
        for (answers, says) in [
            (&[old][..], "doesn't run commands"),
            (&[r#"{"declined":"busy"}"#], "busy"),
            (&[r#""started""#], "doesn't run commands"),
            (&["garbage"], "doesn't run commands"),
            (&[], "has exited"),
            // Either writing or reading fails.
            (&[r#""ready""#], ""),
            (&[r#""ready""#, r#"{"declined":"unknown command"}"#], "unknown command"),
        ] {
            let error = begun(answers).await.unwrap_err();
            assert!(error.contains(says), "{answers:?}: {error}");
        }
        assert_eq!(begun(&[r#""ready""#, r#""started""#]).await, Ok(()));
    }

    /// Follows a started command whose workbench sends this and then leaves, or else hangs.
    async fn followed<C: ToolCommand>(text: &str, leaves: bool) -> Attempt<C::Report> {
        let (ours, mut theirs) = duplex(64 * 1024);
        theirs.write_all(text.as_bytes()).await.unwrap();
        let theirs = (!leaves).then_some(theirs);
        let (reader, writer) = split(ours);
        let done = follow::<C>(7, LineReader::new(reader, MAX_REPLY), writer).await;
        drop(theirs);
        done
    }

    // invariant: at-most-once
    #[tokio::test(start_paused = true)]
    async fn started_call_is_never_declined() {
        for (text, leaves, says) in [
            ("", true, "exited during the call"),
            ("\"alive\"\n", true, "exited during the call"),
            ("\"alive\"\n", false, "stopped responding during the call"),
            ("garbage\n", false, "sent an invalid answer"),
            ("{\"declined\":\"late\"}\n", false, "sent an invalid answer"),
        ] {
            match followed::<CallCommand>(text, leaves).await {
                Attempt::Finished(Err(error)) => {
                    assert!(error.to_string().contains(says), "{text}: {error}");
                }
                Attempt::Finished(Ok(_)) => panic!("{text}: a result"),
                Attempt::Declined(reason) => panic!("{text}: {reason}"),
            }
            let list = followed::<ListCommand>(text, leaves).await;
            assert!(matches!(list, Attempt::Declined(_)), "{text}");
        }
    }

    #[tokio::test]
    async fn report_and_error_are_the_workbenchs_own() {
        let tool = json!({"toolbox": "a", "server": "b", "tool": "c"});
        let report = json!({"done": {"tool": tool, "is_error": false, "answer": {"x": 1}}});
        match followed::<CallCommand>(&format!("{report}\n"), true).await {
            Attempt::Finished(Ok(report)) => assert_eq!(report.answer.get(), r#"{"x":1}"#),
            _ => panic!("no report"),
        }
        let error = serde_json::to_string(&Reply::Failed(CommandError::failed("no"))).unwrap();
        match followed::<CallCommand>(&format!("{error}\n"), true).await {
            Attempt::Finished(Err(error)) => assert_eq!(error.to_string(), "error: no"),
            _ => panic!("no error"),
        }
    }
}
