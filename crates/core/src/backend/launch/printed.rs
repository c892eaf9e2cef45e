//! Commands that are run for what they print: values that the configuration refers to.
//!
//! They are the user's own, as a shell of theirs would run them: with the whole environment, and without
//! a shell. None has a terminal or an input to ask on, and none runs for long.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::backend::StartFailure;
use crate::backend::launch::{Process, missing_program, spawn_failure};
use crate::name::seen;
use crate::os::{DEFAULT_PATH, Program};

/// How long a command may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the output is read after the end of a command, which something that it leaves behind may
/// hold open.
const REST: Duration = Duration::from_millis(500);
/// How much of its standard error a failure has.
const MAX_TAIL: usize = 400;
/// How much of its standard error is read at all.
const MAX_STDERR: u64 = 64 * 1024;
/// How many commands run at the same time.
const AT_ONCE: usize = 16;

/// A command that is run for what it prints.
#[derive(Clone, Copy)]
pub struct Printing<'a> {
    /// The program and its arguments.
    pub words: &'a [String],
    /// The folder that it runs in.
    pub folder: &'a Path,
    /// The whole environment that it gets.
    pub environment: &'a [(OsString, OsString)],
}

/// Runs commands side by side, and returns what each printed, if that is at most `max` bytes. What one
/// printed is in no failure.
pub fn printed(commands: &[Printing<'_>], max: u64) -> Vec<Result<Vec<u8>, StartFailure>> {
    let mut all = Vec::with_capacity(commands.len());
    for some in commands.chunks(AT_ONCE) {
        std::thread::scope(|scope| {
            let running: Vec<_> =
                some.iter().map(|command| scope.spawn(|| command.run(max))).collect();
            all.extend(running.into_iter().map(|running| {
                running.join().unwrap_or_else(|_| Err(failure("it could not be run", DEFECT)))
            }));
        });
    }
    all
}

/// The answer of a command that was asked something.
pub struct Answer {
    /// `true` if it says that it has done what it was asked to.
    pub is_success: bool,
    /// Everything that it printed.
    pub printed: Vec<u8>,
    /// The end of what it said on its standard error, in one line.
    pub said: String,
}

/// Runs a command, writes `input` to it, and waits `patience` for its answer of `max` bytes at most. Neither input nor
/// output is in a failure.
///
/// # Errors
///
/// When it cannot be run, or does not answer in time.
pub fn answered(
    command: &Printing<'_>,
    input: &[u8],
    max: u64,
    patience: Duration,
) -> Result<Answer, StartFailure> {
    let (status, printed, stderr) = command.run_with(input, max, patience)?;
    let said = tail(&String::from_utf8_lossy(&stderr));
    Ok(Answer { is_success: status.success(), printed, said })
}

const DEFECT: &str = "this is a defect of the workbench; please report it";

fn failure(reason: impl Into<String>, hint: impl Into<String>) -> StartFailure {
    StartFailure::new(reason.into(), hint.into())
}

impl Printing<'_> {
    /// The program, as it is called.
    fn program(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }

    /// Returns why it could not be started, without starting it: its program is not there.
    pub fn missing(&self) -> Option<StartFailure> {
        let path = self.environment.iter().find(|(name, _)| name == "PATH");
        let path = path.map_or(DEFAULT_PATH.as_ref(), |(_, path)| path.as_os_str());
        missing_program(self.program(), self.folder, path)
    }

    fn not_started(&self, error: &io::Error) -> StartFailure {
        self.missing().unwrap_or_else(|| spawn_failure(self.program(), error))
    }

    /// Returns what it prints, if it says that all is well.
    fn run(&self, max: u64) -> Result<Vec<u8>, StartFailure> {
        let (status, stdout, stderr) = self.run_with(&[], max, PATIENCE)?;
        if status.success() {
            return Ok(stdout);
        }
        let tail = tail(&String::from_utf8_lossy(&stderr));
        let said = if tail.is_empty() { String::new() } else { format!(": {tail}") };
        let reason = format!("`{}` ended with {status}{said}", self.program());
        Err(failure(reason, format!("run it in `{}` to see why", self.folder.display())))
    }

    /// Runs it on a runtime of this thread, which lasts until it has ended.
    fn run_with(
        &self,
        input: &[u8],
        max: u64,
        patience: Duration,
    ) -> Result<(ExitStatus, Vec<u8>, Vec<u8>), StartFailure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| self.not_started(&error))?;
        let outcome = runtime.block_on(async { timeout(patience, self.ended(input, max)).await });
        let Ok(outcome) = outcome else {
            let reason = format!("`{}` took longer than {} s", self.program(), patience.as_secs());
            return Err(failure(reason, NO_TERMINAL));
        };
        outcome.map_err(|error| match error.kind() {
            io::ErrorKind::FileTooLarge => {
                let reason = format!("`{}` printed more than {max} bytes", self.program());
                failure(reason, "it has to print the value and nothing else")
            }
            _ => self.not_started(&error),
        })
    }

    /// Its status, standard output and standard error. Dropping this kills it with its group.
    async fn ended(&self, input: &[u8], max: u64) -> io::Result<(ExitStatus, Vec<u8>, Vec<u8>)> {
        let mut process = Process::start(&Program {
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
                    // One that does not read it says why.
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

const NO_TERMINAL: &str = "it has to answer without being asked for anything: it has no terminal \
                           and no input";

/// Reads a stream to its end; fails where that has more than `max` bytes.
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

/// Reads a stream to its end, and keeps the beginning of it.
async fn some_of(stream: Option<impl AsyncRead + Unpin>, into: &mut Vec<u8>) -> io::Result<()> {
    let Some(mut stream) = stream else { return Ok(()) };
    (&mut stream).take(MAX_STDERR).read_to_end(into).await?;
    // It is not to be held up by a pipe that nobody reads.
    tokio::io::copy(&mut stream, &mut tokio::io::sink()).await?;
    Ok(())
}

/// The end of what a command says, in one line.
fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let text = lines[lines.len().saturating_sub(3)..].join("; ");
    let from = text.len().saturating_sub(MAX_TAIL);
    let from = (from..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    seen::line(&text[from..])
}

#[cfg(test)]
mod tests;
