//! The gateway: the one way in to every server, and the one writer of what everybody sees.
//!
//! *Theory of operation.* One task ([`snapshot`]) hears of changed listings and publishes a new
//! immutable [`Snapshot`]; nobody else writes state that agents share. A request looks at one
//! snapshot. Servers are started by [`Gateway::open`] and by [`Gateway::call`], whichever comes
//! first, and a call starts no server but its own.

mod opening;
mod snapshot;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::task::TaskTracker;

use crate::backend::{self, Backend, Call, Listed, Outcome, Pool, PoolOptions, Spec};
use crate::catalog::schema::Mismatch;
use crate::config::{Config, Launch, ServerConfig, ToolboxConfig};
use crate::gateway::opening::{Progress, heartbeat, while_starting};
use crate::name::{self, ServerName, ToolId, ToolboxName};
use crate::policy::Policy;
use crate::raw::Raw;
use crate::toolbox::View;

pub use crate::gateway::snapshot::Snapshot;

/// How long the opening of a toolbox waits for its servers; what is slower goes on by itself.
/// Clients give up after 60 s.
const OPEN_PATIENCE: Duration = Duration::from_secs(45);
/// How many changed listings may wait to be published.
const EVENTS: usize = 64;
/// The most names that an error offers.
const OFFERED: usize = 5;

/// Everything behind the agents: configuration, policy, servers, and what they have.
pub struct Gateway {
    config: Arc<Config>,
    policy: Arc<Policy>,
    pool: Pool,
    members: HashMap<ToolboxName, HashMap<ServerName, Member>>,
    snapshot: watch::Receiver<Arc<Snapshot>>,
}

/// A server as one toolbox has it.
enum Member {
    Backend { backend: Backend, call_timeout: Duration },
    Unsupported(Arc<backend::StartFailure>),
}

/// Where a call comes from, and what goes back there while it runs.
#[derive(Clone, Copy, Default)]
pub struct Origin<'a> {
    /// What of the agent's `_meta` goes on to the server.
    pub meta: &'a [(String, Raw)],
    /// Where the `params` of progress notifications go; their token is not the agent's.
    pub progress: Option<&'a mpsc::Sender<Raw>>,
}

/// What came of opening a toolbox.
#[derive(Debug)]
pub struct Opened {
    /// Its tools: those of every server that has ever been listed, whether or not it runs now.
    pub view: Arc<View>,
    /// How many servers are running.
    pub connected: usize,
    /// The others, in the order of the configuration.
    pub failed: Vec<FailedServer>,
}

/// A server that could not be started.
#[derive(Clone, Debug)]
pub struct FailedServer {
    /// Which one.
    pub server: ServerName,
    /// Why.
    pub reason: String,
    /// What to do about it.
    pub hint: String,
}

/// Why a call did not reach a tool or did not come back. Names are offered nearest first.
#[derive(Debug, Error)]
pub enum CallError {
    /// There is no such toolbox.
    #[error("there is no toolbox `{wanted}`")]
    UnknownToolbox {
        /// The name that was asked for.
        wanted: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// There is no such server in the toolbox.
    #[error("there is no server `{wanted}` in toolbox `{toolbox}`")]
    UnknownServer {
        /// The toolbox.
        toolbox: ToolboxName,
        /// The name that was asked for.
        wanted: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// There is no such tool, or the agent may not know of it.
    #[error("there is no tool `{wanted}`")]
    UnknownTool {
        /// The name that was asked for.
        wanted: String,
        /// The names that are nearest.
        nearest: Vec<String>,
    },
    /// The arguments do not fit the tool's schema.
    #[error("the arguments do not fit the schema of `{tool}`")]
    BadArguments {
        /// The tool.
        tool: ToolId,
        /// In which ways.
        mismatches: Vec<Mismatch>,
    },
    /// The server could not answer.
    #[error("server `{server}`: {error}")]
    Server {
        /// The server.
        server: ServerName,
        /// Why not.
        error: backend::Error,
    },
}

impl Gateway {
    /// Builds the gateway; nothing is started yet. Its own task runs on `tasks` until the gateway
    /// is dropped.
    pub fn new(config: Arc<Config>, options: PoolOptions, tasks: &TaskTracker) -> Self {
        let (events, changes) = mpsc::channel(EVENTS);
        let pool = Pool::new(options, events);
        let policy = Arc::new(Policy::new(&config));
        let member = |toolbox: &ToolboxConfig, server: &ServerConfig| match &server.launch {
            Launch::Stdio(launch) => {
                let spec = Spec {
                    label: format!("{}/{}", toolbox.name, server.name),
                    launch: launch.clone(),
                    startup_timeout: server.startup_timeout,
                    idle_timeout: server.idle_timeout,
                    max_message_bytes: config.limits.max_message_bytes,
                };
                let backend = pool.backend(spec, server.shared);
                Member::Backend { backend, call_timeout: server.call_timeout }
            }
            Launch::Unsupported { reason, hint } => {
                Member::Unsupported(Arc::new(backend::StartFailure {
                    reason: reason.clone(),
                    hint: hint.clone(),
                }))
            }
        };
        let members: HashMap<_, HashMap<_, _>> = config
            .toolboxes
            .iter()
            .map(|toolbox| {
                let servers = toolbox.servers.iter();
                let members = servers.map(|s| (s.name.clone(), member(toolbox, s))).collect();
                (toolbox.name.clone(), members)
            })
            .collect();
        let sources = members.iter().flat_map(|(toolbox, servers)| {
            servers.iter().filter_map(|(server, member)| match member {
                Member::Backend { backend, .. } => {
                    Some(((toolbox.clone(), server.clone()), backend.id()))
                }
                Member::Unsupported(_) => None,
            })
        });
        let writer =
            snapshot::Writer::new(Arc::clone(&config), Arc::clone(&policy), sources.collect());
        let (publish, snapshot) = watch::channel(Arc::new(Snapshot::default()));
        tasks.spawn(writer.run(changes, publish));
        Self { config, policy, pool, members, snapshot }
    }

    /// The configuration that is being served.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What everybody sees now.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.borrow().clone()
    }

    /// What everybody sees, as it changes.
    pub fn snapshots(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.snapshot.clone()
    }

    /// The toolbox called `name`.
    pub fn toolbox(&self, name: &str) -> Result<&ToolboxConfig, CallError> {
        self.config.toolbox(name).ok_or_else(|| CallError::UnknownToolbox {
            wanted: name.to_owned(),
            known: self.config.toolboxes.iter().map(|t| t.name.to_string()).collect(),
        })
    }

    /// Starts a toolbox's servers, all at once, each only if it is not running.
    ///
    /// Servers that fail are reported and do not spoil the rest; a later call tries them again.
    /// Dropping the future stops the waiting, not the servers.
    pub async fn open(&self, toolbox: &ToolboxConfig, origin: Origin<'_>) -> Opened {
        let mut starting = JoinSet::new();
        let mut outcomes: Vec<Option<Result<(), FailedServer>>> = Vec::new();
        for (index, server) in toolbox.servers.iter().enumerate() {
            outcomes.push(None);
            let start = self.start(&toolbox.name, &server.name);
            starting.spawn(async move { (index, start.await) });
        }
        let patience = sleep(OPEN_PATIENCE);
        tokio::pin!(patience);
        let mut heartbeat = heartbeat();
        let mut report = Progress::new(toolbox, origin);
        loop {
            tokio::select! {
                started = starting.join_next() => match started {
                    None => break,
                    Some(Ok((index, result))) => outcomes[index] = Some(result),
                    // The task panicked; its server counts as still starting.
                    Some(Err(error)) => tracing::error!(%error, "a start was lost"),
                },
                _ = heartbeat.tick() => {}
                () = &mut patience => break,
            }
            report.send(&outcomes).await;
        }
        let mut opened =
            Opened { view: self.snapshot().view(&toolbox.name), connected: 0, failed: Vec::new() };
        for (server, outcome) in toolbox.servers.iter().zip(outcomes) {
            match outcome {
                Some(Ok(())) => opened.connected += 1,
                Some(Err(failed)) => opened.failed.push(failed),
                None => opened.failed.push(FailedServer {
                    server: server.name.clone(),
                    reason: format!("it is still starting after {} s", OPEN_PATIENCE.as_secs()),
                    hint: "open the toolbox again in a moment".to_owned(),
                }),
            }
        }
        opened
    }

    /// Starts one server of a toolbox, if it is not running, and waits until the snapshot shows
    /// what it has. Dropping the future stops the waiting, not the server.
    pub fn start(
        &self,
        toolbox: &ToolboxName,
        server: &ServerName,
    ) -> impl Future<Output = Result<(), FailedServer>> + Send + use<> {
        let backend = match self.member(toolbox, server) {
            Some(Member::Backend { backend, .. }) => Ok(backend.clone()),
            Some(Member::Unsupported(failure)) => {
                Err(backend::Error::StartFailed(Arc::clone(failure)))
            }
            None => Err(backend::Error::StartFailed(Arc::new(backend::StartFailure {
                reason: format!("toolbox `{toolbox}` has no such server"),
                hint: "correct the name".to_owned(),
            }))),
        };
        let (server, snapshots) = (server.clone(), self.snapshots());
        async move {
            let started = match backend {
                Ok(backend) => listed(&backend, snapshots).await,
                Err(error) => Err(error),
            };
            started.map_err(|error| failed(&server, &error))
        }
    }

    /// Calls a tool, starting its server if need be. The answer is the server's own, untouched,
    /// be it a result or an error of the protocol. Dropping the future cancels the call.
    pub async fn call(
        &self,
        tool: &ToolId,
        arguments: Option<&Raw>,
        origin: Origin<'_>,
    ) -> Result<Outcome, CallError> {
        let toolbox = self.toolbox(tool.toolbox.as_str())?;
        let member =
            self.member(&tool.toolbox, &tool.server).ok_or_else(|| CallError::UnknownServer {
                toolbox: tool.toolbox.clone(),
                wanted: tool.server.to_string(),
                known: toolbox.servers.iter().map(|server| server.name.to_string()).collect(),
            })?;
        let server_error = |error| CallError::Server { server: tool.server.clone(), error };
        let (backend, timeout) = match member {
            Member::Backend { backend, call_timeout } => (backend, *call_timeout),
            Member::Unsupported(failure) => {
                return Err(server_error(backend::Error::StartFailed(Arc::clone(failure))));
            }
        };
        let mut view = self.snapshot().view(&tool.toolbox);
        if view.tool(tool.server.as_str(), &tool.tool).is_none()
            && self.snapshot().version(backend.id()) == 0
        {
            let started = listed(backend, self.snapshots());
            while_starting(&tool.server, origin, started).await.map_err(server_error)?;
            view = self.snapshot().view(&tool.toolbox);
        }
        let shown =
            view.tool(tool.server.as_str(), &tool.tool).ok_or_else(|| self.unknown_tool(tool))?;
        // The view shows nothing that policy denies; so denied and missing look alike.
        let permit = self.policy.decide(tool).map_err(|_| self.unknown_tool(tool))?;
        shown
            .definition
            .check_arguments(arguments)
            .map_err(|mismatches| CallError::BadArguments { tool: tool.clone(), mismatches })?;
        if !backend.is_running() {
            while_starting(&tool.server, origin, backend.ready()).await.map_err(server_error)?;
        }
        let Origin { meta, progress } = origin;
        let call = Call { arguments, meta, progress, timeout };
        backend.call(&permit, call).await.map_err(server_error)
    }

    /// The tool that a registered name means. A name of a server that has never been listed is
    /// found by starting the servers that may have it.
    pub async fn resolve(&self, name: &str, origin: Origin<'_>) -> Result<ToolId, CallError> {
        if let Some(tool) = self.snapshot().resolve(name) {
            return Ok(tool.clone());
        }
        let mut failure = None;
        for toolbox in &self.config.toolboxes {
            let servers = toolbox.servers.iter().map(|server| &server.name);
            for server in servers.filter(|server| name::may_belong_to(name, &toolbox.name, server))
            {
                let server_error = |error| CallError::Server { server: server.clone(), error };
                let backend = match self.member(&toolbox.name, server) {
                    Some(Member::Backend { backend, .. }) => backend,
                    Some(Member::Unsupported(why)) => {
                        let error = backend::Error::StartFailed(Arc::clone(why));
                        failure = failure.or(Some(server_error(error)));
                        continue;
                    }
                    None => continue,
                };
                if self.snapshot().version(backend.id()) > 0 {
                    continue;
                }
                let started = listed(backend, self.snapshots());
                match while_starting(server, origin, started).await {
                    Ok(()) => {
                        if let Some(tool) = self.snapshot().resolve(name) {
                            return Ok(tool.clone());
                        }
                    }
                    Err(error) => {
                        failure = failure.or(Some(server_error(error)));
                    }
                }
            }
        }
        if let Some(failure) = failure {
            return Err(failure);
        }
        let snapshot = self.snapshot();
        let names = snapshot.names().map(name::ExposedName::as_str);
        Err(CallError::UnknownTool {
            wanted: name.to_owned(),
            nearest: to_strings(name::nearest(name, names, OFFERED)),
        })
    }

    /// Ends every server; returns when nothing of them is left, after 2 s at the latest.
    pub async fn shut_down(&self) {
        self.pool.shut_down().await;
    }

    fn member(&self, toolbox: &ToolboxName, server: &ServerName) -> Option<&Member> {
        self.members.get(toolbox)?.get(server)
    }

    /// Says the same of a tool that is forbidden and of one that does not exist.
    fn unknown_tool(&self, tool: &ToolId) -> CallError {
        let view = self.snapshot().view(&tool.toolbox);
        let of_server = view.tools.iter().filter(|shown| shown.id.server == tool.server);
        let names: Vec<_> = of_server.map(|shown| shown.id.tool.as_str()).collect();
        let mut nearest = name::nearest(&tool.tool, names.iter().copied(), OFFERED);
        if nearest.is_empty() {
            nearest = names.into_iter().take(OFFERED).collect();
        }
        CallError::UnknownTool { wanted: tool.to_string(), nearest: to_strings(nearest) }
    }
}

fn to_strings(names: Vec<&str>) -> Vec<String> {
    names.into_iter().map(str::to_owned).collect()
}

/// Waits until a server runs and the snapshot shows what it has.
async fn listed(
    backend: &Backend,
    mut snapshots: watch::Receiver<Arc<Snapshot>>,
) -> Result<(), backend::Error> {
    let Listed { version, .. } = backend.ready().await?.listed();
    snapshots
        .wait_for(|snapshot| snapshot.version(backend.id()) >= version)
        .await
        .map_err(|_| backend::Error::ShuttingDown)?;
    Ok(())
}

fn failed(server: &ServerName, error: &backend::Error) -> FailedServer {
    let hint = match error {
        backend::Error::StartFailed(failure) => failure.hint.clone(),
        _ => "open the toolbox again".to_owned(),
    };
    FailedServer { server: server.clone(), reason: error.to_string(), hint }
}
