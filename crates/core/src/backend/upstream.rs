//! The server end of a connection: a child process or a server over HTTP.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;
use tracing::Instrument;

use crate::backend::direct::{self, FollowUp, StartMethod, StartPlan};
use crate::backend::exit_cause::{ExitCause, StderrTail};
use crate::backend::launch::{self, Process, SpawnOptions, sandbox};
use crate::backend::server_quota::ServerQuota;
use crate::backend::{BackendSpec, HttpEndpoint, PoolContext, ServerTransport, StartError};
use crate::telemetry::{QuotaKind, Redactor};
use mcp_workbench_settings::{HttpTransport, RunnerCommand, StdioLaunch};
use mcp_workbench_wire::http_client::{self, ServerAddress, TransportMode};
use mcp_workbench_wire::memory_pool::{ReadLimits, ReconnectLimit};
use mcp_workbench_wire::server::{self, DisconnectReason, IncomingHandler, ServerConnection};

/// Maximum time to read the rest of stderr after the process has ended.
const STDERR_DRAIN_TIMEOUT: Duration = Duration::from_millis(100);
/// Maximum time for a server over HTTP to end the session.
const SESSION_END_TIMEOUT: Duration = Duration::from_secs(1);

pub(crate) enum Upstream {
    Child(Box<ChildServer>),
    Remote,
}

/// A server that is a child process.
pub(crate) struct ChildServer {
    process: Process,
    stderr: StderrTail,
    drain: JoinHandle<()>,
    /// Held until the process has ended.
    cache_lock: Option<File>,
    follow_up: Option<FollowUp>,
}

impl Upstream {
    /// Starts the server if it is a child process, and connects to it. `is_old`: the server is
    /// known to use HTTP with SSE.
    pub(crate) async fn open(
        spec: &BackendSpec,
        secrets: &Arc<Redactor>,
        context: &PoolContext,
        is_old: bool,
        handler: impl IncomingHandler,
    ) -> Result<(Self, ServerConnection), StartError> {
        match &spec.reach {
            ServerTransport::Stdio(launch) => {
                start_child(launch, spec, secrets, context, handler).await
            }
            ServerTransport::Http(HttpEndpoint { url, transport, credentials, .. }) => {
                let (intake, label) = (intake(spec, context), &spec.label);
                let credentials = Arc::clone(credentials);
                let transport = match transport {
                    HttpTransport::Auto if !is_old => TransportMode::StreamableThenSse,
                    HttpTransport::Auto | HttpTransport::Sse => TransportMode::Sse,
                };
                let address = ServerAddress { url: url.clone(), transport };
                let connection = http_client::connect(
                    address,
                    credentials,
                    intake,
                    label,
                    handler,
                    &context.tasks,
                );
                let connection = connection.map_err(|reason| {
                    StartError::new(
                        format!("cannot create an HTTP client: {reason}"),
                        "install the CA certificates of your system (package `ca-certificates`)"
                            .to_owned(),
                    )
                })?;
                Ok((Self::Remote, connection))
            }
        }
    }

    pub(crate) fn id(&self) -> Option<u32> {
        match self {
            Self::Child(child) => child.process.id(),
            Self::Remote => None,
        }
    }

    /// Waits for the child process to exit; never resolves for a server over HTTP.
    pub(crate) async fn exited(&mut self) {
        match self {
            Self::Child(child) => child.process.exited().await,
            Self::Remote => std::future::pending().await,
        }
    }

    /// Returns the captured end of stderr; `None` for a server over HTTP.
    pub(crate) fn stderr_tail(&self) -> Option<StderrTail> {
        match self {
            Self::Child(child) => Some(child.stderr.clone()),
            Self::Remote => None,
        }
    }

    /// Returns the work to do after the start.
    pub(crate) fn take_follow_up(&mut self) -> Option<FollowUp> {
        match self {
            Self::Child(child) => child.follow_up.take(),
            Self::Remote => None,
        }
    }

    /// Closes the connection, ends the child process, and returns the cause.
    pub(crate) async fn end(self, connection: &ServerConnection) -> ExitCause {
        connection.close_input();
        match self {
            Self::Child(child) => {
                let ChildServer { process, stderr, mut drain, cache_lock, .. } = *child;
                let status = process.end().await;
                drop(cache_lock);
                // A descendant outside the process group may hold stdout open.
                connection.close();
                if timeout(STDERR_DRAIN_TIMEOUT, &mut drain).await.is_err() {
                    drain.abort();
                }
                ExitCause::new(status, &stderr)
            }
            Self::Remote => {
                let has_parted = timeout(SESSION_END_TIMEOUT, connection.closed()).await.is_ok();
                connection.close();
                tracing::debug!(has_parted, "session closed");
                ExitCause::without_words(match connection.disconnect_reason() {
                    Some(DisconnectReason::Session) => "session lost",
                    Some(DisconnectReason::Connection) | None => "connection lost",
                })
            }
        }
    }
}

fn intake(spec: &BackendSpec, context: &PoolContext) -> ReadLimits {
    let quota = ServerQuota::of(spec, &context.observer);
    ReadLimits {
        max_message_bytes: spec.max_message_bytes,
        account: context.said.account().on_full(quota.reporter(QuotaKind::ServerBytes)),
        reconnects: ReconnectLimit {
            per_minute: spec.quotas.reconnects_per_minute,
            on_reached: Some(quota.reporter(QuotaKind::Reconnects)),
        },
    }
}

async fn start_child(
    launch: &StdioLaunch,
    spec: &BackendSpec,
    secrets: &Arc<Redactor>,
    context: &PoolContext,
    handler: impl IncomingHandler,
) -> Result<(Upstream, ServerConnection), StartError> {
    let program = context.launch.program.as_deref();
    let home =
        context.launch.homes.as_ref().map(|homes| sandbox::home_of(homes, spec.server.as_str()));
    let grants = Arc::clone(&context.launch.grants);
    let custody = SpawnOptions { launched: context.launch.reaper.launch(), home, grants };
    let StartPlan { launch, method, cache_lock, follow_up } =
        start_plan(launch.clone(), spec, context).await?;
    match &method {
        StartMethod::OwnProgram => {}
        StartMethod::AsWritten(reason) => {
            tracing::debug!(server = spec.label, reason, "started through its package runner");
        }
        StartMethod::Direct(program) => {
            let (package, path) = (&program.package, program.path.display());
            tracing::debug!(server = spec.label, package, %path, "started directly");
        }
    }
    let (process, streams) =
        launch::spawn_as(&launch, &spec.environment, program, Some(custody)).await?;
    let stderr = StderrTail::new(Arc::clone(secrets));
    let drain = context
        .tasks
        .spawn(stderr.clone().drain(streams.stderr, spec.label.clone()).in_current_span());
    let (intake, label) = (intake(spec, context), &spec.label);
    let connection =
        server::connect(streams.stdout, streams.stdin, intake, label, handler, &context.tasks);
    let child = ChildServer { process, stderr, drain, cache_lock, follow_up };
    Ok((Upstream::Child(Box::new(child)), connection))
}

/// Decides how to start a child process. Reads the caches of package managers on another thread.
async fn start_plan(
    launch: StdioLaunch,
    spec: &BackendSpec,
    context: &PoolContext,
) -> Result<StartPlan, StartError> {
    if RunnerCommand::parse(&launch.command, &launch.args).is_none() {
        let method = StartMethod::OwnProgram;
        return Ok(StartPlan { launch, method, cache_lock: None, follow_up: None });
    }
    let environment = Arc::clone(&spec.environment);
    let (reviewed, records) = (spec.reviewed.clone(), context.direct.records.clone());
    let plan = move || direct::plan(&launch, &environment, reviewed.as_ref(), &records);
    spawn_blocking(plan).await.unwrap_or_else(|_| Err(StartError::internal()))
}
