//! Work after the start of a server: has the package manager find or install the program for the
//! next start.
//!
//! It runs apart from the server, one command at a time, and ends with the workbench. Its failures
//! are only logged.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::{sleep, timeout};

use crate::backend::direct::can_change;
use crate::backend::direct::records::{RecordKey, RecordLock};
use crate::backend::launch::{self, ChildEnvironment, SpawnOptions};
use crate::backend::{PoolContext, ReviewedPackage};
use mcp_workbench_settings::{Ecosystem, RunnerCommand, StdioLaunch};

/// Maximum time for one command of a package manager.
const COMMAND_TIMEOUT: Duration = Duration::from_mins(10);
/// How long a shutdown waits for a record. The next start is direct only with a record, and a single
/// call ends before it is written.
const RECORD_GRACE: Duration = Duration::from_secs(1);
const MAX_OUTPUT_BYTES: u64 = 256 * 1024;
/// Prints the folder of a Python environment. `-I` ignores the user's Python settings.
const PRINT_PREFIX: [&str; 4] = ["python", "-I", "-c", "import sys; print(sys.prefix)"];

/// Work to do after the start of a server.
pub(crate) struct FollowUp {
    command: RunnerCommand,
    key: RecordKey,
    launch: StdioLaunch,
    environment: Arc<ChildEnvironment>,
    task: Task,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Task {
    /// The package manager has just looked for a newer version. Record its program.
    Record,
    /// Look for a newer version, if it's time.
    Refresh,
}

impl FollowUp {
    /// After a start of the command as written.
    pub(super) fn after_runner(
        command: &RunnerCommand,
        key: Option<RecordKey>,
        launch: &StdioLaunch,
        environment: &Arc<ChildEnvironment>,
    ) -> Option<Self> {
        // Everything about an exact version of npm can be read from its cache.
        let is_known = command.package.ecosystem == Ecosystem::Npm && !can_change(command);
        if is_known {
            return None;
        }
        Some(Self::new(command, key?, launch, environment, Task::Record))
    }

    /// After a direct start. The reviewed version isn't replaced if agents may use only that.
    pub(super) fn after_direct_start(
        command: &RunnerCommand,
        key: Option<RecordKey>,
        launch: &StdioLaunch,
        environment: &Arc<ChildEnvironment>,
        reviewed: Option<&ReviewedPackage>,
    ) -> Option<Self> {
        if !can_change(command) || reviewed.is_some_and(|reviewed| reviewed.is_enforced) {
            return None;
        }
        Some(Self::new(command, key?, launch, environment, Task::Refresh))
    }

    fn new(
        command: &RunnerCommand,
        key: RecordKey,
        launch: &StdioLaunch,
        environment: &Arc<ChildEnvironment>,
        task: Task,
    ) -> Self {
        let (command, launch) = (command.clone(), launch.clone());
        Self { command, key, launch, environment: Arc::clone(environment), task }
    }
}

/// Does the work until it ends or the workbench shuts down, which kills the package manager.
pub(crate) async fn run_follow_up(work: FollowUp, context: Arc<PoolContext>) {
    let end = async {
        context.shutdown.cancelled().await;
        if work.task == Task::Record {
            sleep(RECORD_GRACE).await;
        }
    };
    tokio::select! {
        biased;
        () = end => {}
        () = work.run(&context) => {}
    }
}

impl FollowUp {
    async fn run(&self, context: &PoolContext) {
        let package = self.command.package.spec.as_str();
        let Ok(_turn) = context.direct.turn.acquire().await else { return };
        let records = &context.direct.records;
        let is_due = || {
            self.task == Task::Record
                || records.load(&self.key).is_none_or(|record| record.is_due(SystemTime::now()))
        };
        if !is_due() {
            return;
        }
        // Another workbench does the same work, or has just done it.
        let Some(lock) = records.lock(&self.key) else { return };
        if !is_due() {
            return;
        }
        let before = records.load(&self.key).and_then(|record| record.found);
        if self.task == Task::Refresh {
            // If the workbench ends first, don't try again in each of many short sessions.
            lock.save(before.clone());
        }
        let result = match self.command.package.ecosystem {
            Ecosystem::Npm if self.task == Task::Record => Ok(before.clone()),
            Ecosystem::Npm => self.refresh_npm(context).await,
            Ecosystem::PyPi | Ecosystem::Image => self.ask_uv(context).await,
        };
        self.finish(&lock, before, result);
        tracing::debug!(package, "looked for the cached package");
    }

    fn finish(
        &self,
        lock: &RecordLock,
        before: Option<String>,
        now: Result<Option<String>, String>,
    ) {
        let package = self.command.package.spec.as_str();
        match now {
            Ok(found) => {
                if self.task == Task::Refresh && found != before {
                    let found = found.as_deref().unwrap_or_default();
                    tracing::info!(package, found, "the next start runs another version");
                }
                lock.save(found);
            }
            Err(reason) => {
                tracing::debug!(package, reason, "the package manager failed");
                // Don't try again before tomorrow.
                lock.save(before);
            }
        }
    }

    /// Installs the newest requested version into a folder of its own, and returns it.
    async fn refresh_npm(&self, context: &PoolContext) -> Result<Option<String>, String> {
        let package = &self.command.package;
        let npx = self.launch.command.as_str();
        let folder = npx.rfind('/').map_or("", |at| &npx[..=at]);
        let view = ["view", package.spec.as_str(), "version", "dist-tags.latest", "--json"];
        let answer = self.output(context, &format!("{folder}npm"), &view).await?;
        let version =
            newest_version(&answer).ok_or_else(|| "no version in its answer".to_owned())?;
        // The option installs the package, and `true` does nothing. An installed one takes a moment.
        let spec = package.pinned(&version);
        self.output(context, npx, &["--yes", "--package", &spec, "--call", "true"]).await?;
        Ok(Some(version))
    }

    /// Returns the folder of the environment that the command runs in.
    async fn ask_uv(&self, context: &PoolContext) -> Result<Option<String>, String> {
        let RunnerCommand { package, options, .. } = &self.command;
        // `tool run` comes before other options.
        let is_word = |word: &&String| !word.starts_with('-');
        let words = options.iter().take_while(is_word).count();
        let (first, options) = options.split_at(words);
        // The command has just looked for the packages.
        let offline = (self.task == Task::Record).then_some("--offline");
        let mut args: Vec<&str> = first.iter().map(String::as_str).collect();
        args.extend(offline);
        args.extend(["--quiet"]);
        args.extend(options.iter().map(String::as_str));
        args.extend(["--from", package.spec.as_str()]);
        args.extend(PRINT_PREFIX);
        let answer = self.output(context, &self.launch.command, &args).await?;
        let prefix = answer.trim();
        if !prefix.starts_with('/') || prefix.contains('\n') {
            return Err("its answer isn't a folder".to_owned());
        }
        Ok(Some(prefix.to_owned()))
    }

    /// Runs a command in the place of the server and returns its output.
    async fn output(
        &self,
        context: &PoolContext,
        command: &str,
        args: &[&str],
    ) -> Result<String, String> {
        let launch = StdioLaunch {
            command: command.to_owned(),
            args: args.iter().map(|&arg| arg.to_owned()).collect(),
            ..self.launch.clone()
        };
        let options = SpawnOptions {
            launched: context.launch.reaper.launch(),
            home: None,
            grants: Arc::clone(&context.launch.grants),
        };
        let started = launch::spawn_as(&launch, &self.environment, None, Some(options)).await;
        let (process, streams) = started.map_err(|failure| failure.reason)?;
        drop(streams.stdin);
        let reading = async { tokio::join!(text(streams.stdout), text(streams.stderr)) };
        let read = timeout(COMMAND_TIMEOUT, reading).await;
        let status = process.end().await;
        let (said, complaint) = read.map_err(|_| "it took too long".to_owned())?;
        if status.is_some_and(|status| status.success()) {
            return Ok(said);
        }
        let last = complaint.lines().rev().find(|line| !line.trim().is_empty());
        Err(last.unwrap_or("it failed").to_owned())
    }
}

/// Reads a stream to its end, and returns the first part.
async fn text(mut stream: impl AsyncRead + Unpin) -> String {
    let mut bytes = Vec::new();
    let _ = (&mut stream).take(MAX_OUTPUT_BYTES).read_to_end(&mut bytes).await;
    let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns the version that npm selects from the answer of `npm view`: the one tagged `latest` if
/// it was requested, or else the last.
fn newest_version(answer: &str) -> Option<String> {
    let answer: Value = serde_json::from_str(answer).ok()?;
    let text = |one: &Value, name: &str| Some(one.get(name)?.as_str()?.to_owned());
    let Value::Array(all) = &answer else { return text(&answer, "version") };
    let version = |one: &Value| text(one, "version");
    let latest = all.iter().find(|one| version(one) == text(one, "dist-tags.latest"));
    latest.or(all.last()).and_then(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_read_from_the_answer_of_npm() {
        for (answer, version) in [
            (r#"{"version": "1.2.0", "dist-tags.latest": "1.2.0"}"#, Some("1.2.0")),
            (
                r#"[{"version": "1.1.0", "dist-tags.latest": "1.2.0"},
                    {"version": "1.2.0", "dist-tags.latest": "1.2.0"},
                    {"version": "1.3.0", "dist-tags.latest": "1.2.0"}]"#,
                Some("1.2.0"),
            ),
            (
                r#"[{"version": "1.1.0", "dist-tags.latest": "2.0.0"},
                    {"version": "1.2.0", "dist-tags.latest": "2.0.0"}]"#,
                Some("1.2.0"),
            ),
            ("[]", None),
            (r#"{"error": {}}"#, None),
            ("npm notice", None),
        ] {
            assert_eq!(newest_version(answer).as_deref(), version, "{answer}");
        }
    }
}
