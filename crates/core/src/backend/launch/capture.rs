//! Runs commands and captures their output, for values that the configuration refers to.
//!
//! The commands are the user's own, so they get the complete environment. They run without a shell
//! and without a terminal, and each has a timeout.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::backend::StartError;
use crate::backend::exit_cause::describe_status;
use crate::backend::launch::{Process, missing_program, spawn_failure};
use mcp_workbench_names::untrusted_text;
use mcp_workbench_os::{CommandSpec, DEFAULT_PATH};

/// Timeout of a command.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long output is read after the command has exited, since a leftover child can hold it open.
const REST: Duration = Duration::from_millis(500);
/// Bytes of stderr quoted in an error.
const MAX_TAIL: usize = 400;
/// Bytes of stderr retained; the rest is discarded.
const MAX_STDERR: u64 = 64 * 1024;
const AT_ONCE: usize = 16;

#[derive(Clone, Copy)]
pub struct CaptureCommand<'a> {
    pub words: &'a [String],
    pub folder: &'a Path,
    pub environment: &'a [(OsString, OsString)],
}

/// Runs commands concurrently and returns the stdout of each, at most `max` bytes. Errors don't
/// contain stdout.
pub fn capture_all(commands: &[CaptureCommand<'_>], max: u64) -> Vec<Result<Vec<u8>, StartError>> {
    let mut all = Vec::with_capacity(commands.len());
    for some in commands.chunks(AT_ONCE) {
        std::thread::scope(|scope| {
            let running: Vec<_> =
                some.iter().map(|command| scope.spawn(|| command.run(max))).collect();
            all.extend(running.into_iter().map(|running| {
                running.join().unwrap_or_else(|_| {
                    Err(failure("internal error while running the command", DEFECT))
                })
            }));
        });
    }
    all
}

pub struct CapturedOutput {
    pub is_success: bool,
    pub stdout: Vec<u8>,
    /// The end of stderr, on one line.
    pub said: String,
}

/// Runs a command with `input` on stdin, and waits at most `patience` for at most `max` bytes of
/// output. Errors contain neither input nor output.
///
/// # Errors
///
/// Returns an error if the command can't run, prints too much, or times out.
pub fn capture_with_input(
    command: &CaptureCommand<'_>,
    input: &[u8],
    max: u64,
    patience: Duration,
) -> Result<CapturedOutput, StartError> {
    let (status, printed, stderr) = command.run_with(input, max, patience)?;
    let said = tail(&String::from_utf8_lossy(&stderr));
    Ok(CapturedOutput { is_success: status.success(), stdout: printed, said })
}

const DEFECT: &str = "this is a bug in MCP Workbench; please report it";

fn failure(reason: impl Into<String>, hint: impl Into<String>) -> StartError {
    StartError::new(reason.into(), hint.into())
}

impl CaptureCommand<'_> {
    fn program(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }

    /// Returns why the command can't start if its program is missing. Starts nothing.
    pub fn missing(&self) -> Option<StartError> {
        let path = self.environment.iter().find(|(name, _)| name == "PATH");
        let path = path.map_or(DEFAULT_PATH.as_ref(), |(_, path)| path.as_os_str());
        missing_program(self.program(), self.folder, path)
    }

    fn not_started(&self, error: &io::Error) -> StartError {
        self.missing().unwrap_or_else(|| spawn_failure(self.program(), error))
    }

    fn run(&self, max: u64) -> Result<Vec<u8>, StartError> {
        let (status, stdout, stderr) = self.run_with(&[], max, TIMEOUT)?;
        if status.success() {
            return Ok(stdout);
        }
        let tail = tail(&String::from_utf8_lossy(&stderr));
        let said = if tail.is_empty() { String::new() } else { format!(": {tail}") };
        let status = describe_status(status);
        let reason = format!("`{}` failed with {status}{said}", self.program());
        Err(failure(reason, format!("run it in `{}` to find the cause", self.folder.display())))
    }

    fn run_with(
        &self,
        input: &[u8],
        max: u64,
        patience: Duration,
    ) -> Result<(ExitStatus, Vec<u8>, Vec<u8>), StartError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| self.not_started(&error))?;
        let outcome = runtime.block_on(async { timeout(patience, self.ended(input, max)).await });
        let Ok(outcome) = outcome else {
            let reason = format!("`{}` timed out after {} s", self.program(), patience.as_secs());
            return Err(failure(reason, NO_TERMINAL));
        };
        outcome.map_err(|error| match error.kind() {
            io::ErrorKind::FileTooLarge => {
                let reason = format!("`{}` printed more than {max} bytes", self.program());
                failure(reason, "the command must print only the value")
            }
            _ => self.not_started(&error),
        })
    }

    /// Returns exit status, stdout and stderr. Dropping the future kills the process group.
    async fn ended(&self, input: &[u8], max: u64) -> io::Result<(ExitStatus, Vec<u8>, Vec<u8>)> {
        let mut process = Process::start(&CommandSpec {
            name: self.program().into(),
            args: self.words.iter().skip(1).map(OsString::from).collect(),
            env: self.environment.iter().cloned().collect(),
            folder: self.folder.into(),
            has_input: !input.is_empty(),
        })?;
        let (stdout, stderr) = (process.child.stdout.take(), process.child.stderr.take());
        let stdin = process.child.stdin.take();
        let (mut printed, mut said) = (Vec::new(), Vec::new());
        let status = {
            let all = all_of(stdout, max, &mut printed);
            let some = some_of(stderr, &mut said);
            let writing = async {
                if let Some(mut stdin) = stdin {
                    // A command that doesn't read its input reports why.
                    let _ = stdin.write_all(input).await;
                }
                Ok(())
            };
            let reading = async { tokio::try_join!(all, some, writing) };
            tokio::pin!(reading);
            tokio::select! {
                read = &mut reading => {
                    read?;
                    process.child.wait().await?
                }
                status = process.child.wait() => {
                    if let Ok(read) = timeout(REST, &mut reading).await {
                        read?;
                    }
                    status?
                }
            }
        };
        Ok((status, printed, said))
    }
}

const NO_TERMINAL: &str = "the command must not prompt: it has no terminal and no input";

async fn all_of(
    stream: Option<impl AsyncRead + Unpin>,
    max: u64,
    into: &mut Vec<u8>,
) -> io::Result<()> {
    let Some(stream) = stream else { return Ok(()) };
    let read = stream.take(max + 1).read_to_end(into).await?;
    let fits = u64::try_from(read).is_ok_and(|read| read <= max);
    if fits { Ok(()) } else { Err(io::ErrorKind::FileTooLarge.into()) }
}

async fn some_of(stream: Option<impl AsyncRead + Unpin>, into: &mut Vec<u8>) -> io::Result<()> {
    let Some(mut stream) = stream else { return Ok(()) };
    (&mut stream).take(MAX_STDERR).read_to_end(into).await?;
    // Keep reading, so that the command doesn't block on a full pipe.
    tokio::io::copy(&mut stream, &mut tokio::io::sink()).await?;
    Ok(())
}

fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let text = lines[lines.len().saturating_sub(3)..].join("; ");
    let from = text.len().saturating_sub(MAX_TAIL);
    let from = (from..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    untrusted_text::single_line(&text[from..])
}

#[cfg(test)]
mod tests;
