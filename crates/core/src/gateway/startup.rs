//! Startup of servers: one, those of a toolbox, or all, and waiting for their listings.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OnceCell, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::task::TaskTracker;

use crate::backend::{
    AgentHandle, Backend, BackendError, StartError, StartPriority, VersionedListing,
};
use crate::gateway::error::{CallError, FailedServer, failed, server_error};
use crate::gateway::lens::qualified;
use crate::gateway::managed_server::{ManagedServer, ServerEntry};
use crate::gateway::open_toolbox::{OpenedToolbox, PendingStart, wait};
use crate::gateway::progress::{StartProgress, heartbeat, while_starting};
use crate::gateway::request_context::RequestContext;
use crate::gateway::scope::{GatewayScope, server_ref};
use crate::gateway::servers::{Servers, start_in_background};
use crate::gateway::snapshot::Snapshot;
use crate::gateway::views::{OFFERED, Views};
use mcp_workbench_names::{ServerRef, ToolId, ToolboxName};
use mcp_workbench_settings::ToolboxConfig;

/// How long to wait for servers that aren't started for a specific request.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Starts the servers of a gateway.
pub struct Startup {
    scope: Arc<GatewayScope>,
    servers: Arc<Servers>,
    views: Arc<Views>,
    once: StartupOnce,
}

/// The startups that happen once.
#[derive(Default)]
struct StartupOnce {
    listed: OnceCell<()>,
    tried: OnceCell<()>,
    started: OnceCell<()>,
    awaited: OnceCell<()>,
}

impl Startup {
    pub(crate) fn new(
        scope: &Arc<GatewayScope>,
        servers: &Arc<Servers>,
        views: &Arc<Views>,
    ) -> Self {
        let (scope, servers, views) = (Arc::clone(scope), Arc::clone(servers), Arc::clone(views));
        Self { scope, servers, views, once: StartupOnce::default() }
    }

    /// Starts a server if it isn't running, and waits until its listing is in the snapshot.
    /// Dropping the future stops the wait but not the server.
    pub fn start(
        &self,
        at: &ServerRef,
        agent: &AgentHandle,
        urgency: StartPriority,
    ) -> impl Future<Output = Result<(), FailedServer>> + Send + use<> {
        let backend = match self.servers.entries().get(at) {
            Some(ServerEntry::Managed(server)) => {
                server.backend(agent, &self.servers.pool).map(|own| {
                    own.attach(agent);
                    Some((own, server.shared.clone()))
                })
            }
            Some(ServerEntry::Macros(_)) => Ok(None),
            Some(ServerEntry::Unavailable(failure)) => {
                Err(BackendError::StartFailed(Arc::clone(failure)))
            }
            None => Err(BackendError::StartFailed(Arc::new(StartError::new(
                format!("not in toolbox `{}`", at.toolbox),
                "check the name".to_owned(),
            )))),
        };
        let (at, agent, snapshots) = (at.clone(), agent.clone(), self.views.snapshots());
        let seen = self.views.snapshots();
        async move {
            let started = match backend {
                Ok(None) => Ok(()),
                Ok(Some((own, shared))) if own.id() != shared.id() => {
                    // The shared listing applies to the dedicated backend too.
                    let known = snapshots.borrow().version(shared.id()) > 0;
                    let shown = if known {
                        Ok(())
                    } else {
                        wait_until_listed(&shared, snapshots, agent.clone(), urgency).await
                    };
                    match shown {
                        Ok(()) => own.ensure_running(Some(&agent), urgency).await.map(drop),
                        error => error,
                    }
                }
                Ok(Some((own, _))) => wait_until_listed(&own, snapshots, agent, urgency).await,
                Err(error) => Err(error),
            };
            started.map_err(|error| failed(&at.server, &error))?;
            let blocked = seen.borrow().blocked_error(&at);
            blocked.map_or(Ok(()), |error| Err(failed(&at.server, &error)))
        }
    }

    /// Starts the servers marked `eager` in the background.
    pub(crate) fn start_eager(&self, tasks: &TaskTracker) {
        for (toolbox, server) in self.scope.config.servers().filter(|(_, server)| server.eager) {
            if let Some(server) =
                self.servers.managed_server(&server_ref(&toolbox.name, &server.name))
            {
                start_in_background(&server.shared, tasks);
            }
        }
    }

    /// Starts all unlisted servers once and waits for them, at most 10 s; slower ones continue to
    /// start. Failed servers are in [`Servers::failed_servers`].
    ///
    /// Dropping the future stops the wait, not the servers; the next call waits again.
    pub async fn ensure_listed(&self, context: &RequestContext<'_>) {
        self.once.listed.get_or_init(|| self.list_unlisted(context)).await;
    }

    async fn list_unlisted(&self, context: &RequestContext<'_>) {
        self.views.wait_for_stored_listings().await;
        let unlisted = self.views.unlisted();
        let mut starting = JoinSet::new();
        for (index, at) in unlisted.iter().enumerate() {
            let start = self.start(at, context.agent, StartPriority::Background);
            starting.spawn(async move {
                // The backend remembers the failure.
                _ = start.await;
                index
            });
        }
        let mut is_done = vec![false; unlisted.len()];
        let names = unlisted.iter().map(|at| at.server.to_string()).collect();
        let mut report = StartProgress::new("starting servers".to_owned(), names, context);
        let mut heartbeat = heartbeat();
        let patience = sleep(TIMEOUT);
        tokio::pin!(patience);
        loop {
            tokio::select! {
                started = starting.join_next() => match started {
                    None => break,
                    Some(Ok(index)) => is_done[index] = true,
                    // Its server counts as still starting.
                    Some(Err(error)) => tracing::error!(%error, "internal error while starting a server"),
                },
                _ = heartbeat.tick() => {}
                () = &mut patience => {
                    tracing::info!("not all servers were ready after {} s", TIMEOUT.as_secs());
                    break;
                }
            }
            report.send(&is_done).await;
        }
        starting.detach_all();
    }

    /// Starts servers and returns those that failed within 10 s. Slower ones continue to start.
    pub async fn start_servers(
        &self,
        servers: &[ServerRef],
        context: &RequestContext<'_>,
    ) -> Vec<FailedServer> {
        let servers = servers.iter().cloned();
        let starting = self.spawn_starts(servers, context.agent, StartPriority::Opening);
        let (failed, has_ended) = join_starts(starting, TIMEOUT).await;
        if !has_ended {
            tracing::info!("not all servers were ready after {} s", TIMEOUT.as_secs());
        }
        failed
    }

    /// Starts the unlisted servers once, without waiting for them.
    pub async fn start_unlisted_once(&self, agent: &AgentHandle) {
        let start = async {
            self.views.wait_for_stored_listings().await;
            let unlisted = self.views.unlisted().into_iter();
            self.spawn_starts(unlisted, agent, StartPriority::Background).detach_all();
        };
        self.once.tried.get_or_init(|| start).await;
    }

    /// Starts every server once, but waits only for unlisted ones, as [`Self::ensure_listed`] does.
    async fn start_all(&self, agent: &AgentHandle) {
        let start = async {
            self.views.wait_for_stored_listings().await;
            let unlisted: HashSet<_> = self.views.unlisted().into_iter().collect();
            let servers = self.servers.servers_in_order().map(|(at, _)| at);
            let listed = servers.filter(|at| !unlisted.contains(at));
            self.spawn_starts(listed, agent, StartPriority::Background).detach_all();
        };
        self.once.started.get_or_init(|| start).await;
        self.ensure_listed(&RequestContext::detached(agent)).await;
    }

    /// Starts every server and waits for all of them, once and at most 10 s.
    pub async fn start_all_and_wait(&self, agent: &AgentHandle) {
        self.start_all(agent).await;
        let wait = async {
            let has_not_failed =
                |(_, server): &(ServerRef, &ManagedServer)| server.shared.start_error().is_none();
            let servers = self.servers.servers_in_order().filter(has_not_failed);
            let servers = servers.map(|(at, _)| at);
            let starting = self.spawn_starts(servers, agent, StartPriority::Background);
            if !join_starts(starting, TIMEOUT).await.1 {
                tracing::info!("not all servers were running after {} s", TIMEOUT.as_secs());
            }
        };
        self.once.awaited.get_or_init(|| wait).await;
    }

    /// Starts the unlisted servers of some toolboxes in the background.
    pub fn start_unlisted(&self, toolboxes: &BTreeSet<ToolboxName>, agent: &AgentHandle) {
        let unlisted = self.views.unlisted().into_iter();
        let unlisted = unlisted.filter(|at| toolboxes.contains(&at.toolbox));
        self.spawn_starts(unlisted, agent, StartPriority::Background).detach_all();
    }

    /// Starts the unlisted servers of some toolboxes and waits until they are listed or have
    /// failed, at most for `patience`.
    pub async fn list_within(
        &self,
        toolboxes: &BTreeSet<ToolboxName>,
        agent: &AgentHandle,
        patience: Duration,
    ) {
        let unlisted = self.views.unlisted().into_iter();
        let unlisted = unlisted.filter(|at| toolboxes.contains(&at.toolbox));
        let starting = self.spawn_starts(unlisted, agent, StartPriority::Opening);
        // Slower servers notify the agent once they are listed.
        join_starts(starting, patience).await;
    }

    fn spawn_starts(
        &self,
        servers: impl Iterator<Item = ServerRef>,
        agent: &AgentHandle,
        urgency: StartPriority,
    ) -> JoinSet<Result<(), FailedServer>> {
        servers.map(|at| self.start(&at, agent, urgency)).collect()
    }

    pub(crate) async fn ensure_server_listed(
        &self,
        at: &ServerRef,
        server: &ManagedServer,
        context: &RequestContext<'_>,
    ) -> Result<(), CallError> {
        let failed = |error| server_error(at, error);
        server.backend(context.agent, &self.servers.pool).map_err(failed)?.attach(context.agent);
        let agent = context.agent.clone();
        let started =
            wait_until_listed(&server.shared, self.views.snapshots(), agent, StartPriority::Call);
        Box::pin(while_starting(&at.server, context, started)).await.map_err(failed)
    }

    /// Starts the unlisted servers once and waits at most for `patience` to see which fail. Slower
    /// ones continue to start.
    pub async fn probe_unlisted(&self, context: &RequestContext<'_>, patience: Duration) {
        let tried = async {
            if timeout(patience, self.ensure_listed(context)).await.is_err() {
                tracing::info!("some servers are still starting after {} s", patience.as_secs());
            }
        };
        self.once.tried.get_or_init(|| tried).await;
    }

    /// Starts the servers of a toolbox in parallel and waits until they run: at most 3 s for
    /// servers with a stored listing, at most 45 s for others. Slower ones continue to start in the
    /// background, and later openings don't wait for them if another server is usable.
    ///
    /// Servers that fail are reported and retried by a later call. Dropping the future stops the
    /// wait, not the servers.
    pub async fn open_toolbox(
        &self,
        toolbox: &ToolboxConfig,
        context: &RequestContext<'_>,
    ) -> OpenedToolbox {
        self.views.wait_for_stored_listings().await;
        let snapshot = self.views.snapshot();
        let mut starting = JoinSet::new();
        let mut starts = Vec::new();
        for (index, server) in toolbox.launchable_servers().enumerate() {
            let member = self.servers.managed_server(&server_ref(&toolbox.name, &server.name));
            let is_known = member.is_some_and(|server| snapshot.has_listed(server.shared.id()));
            let is_slow = member.is_some_and(|server| server.shared.is_slow_to_start());
            starts.push(PendingStart { is_known, is_slow, outcome: None });
            let urgency = StartPriority::Opening;
            let start =
                self.start(&server_ref(&toolbox.name, &server.name), context.agent, urgency);
            starting.spawn(async move { (index, start.await) });
        }
        let what = format!("toolbox `{}`", toolbox.name);
        let names = toolbox.launchable_servers().map(|server| server.name.to_string()).collect();
        wait(starting, &mut starts, StartProgress::new(what, names, context)).await;
        let view = self.views.snapshot().view(&toolbox.name);
        let mut opened = OpenedToolbox {
            view,
            connected: 0,
            starting: vec![],
            unlisted: vec![],
            failed: vec![],
        };
        for (server, start) in toolbox.launchable_servers().zip(starts) {
            let member = self.servers.managed_server(&server_ref(&toolbox.name, &server.name));
            if let Some(member) = member {
                member.shared.set_slow_to_start(start.is_slow);
            }
            // The error of the last start, while the next one runs.
            let last_error = || member.and_then(|member| member.shared.start_error());
            match start.outcome {
                Some(Ok(())) => opened.connected += 1,
                Some(Err(failed)) => opened.failed.push(failed),
                None if start.is_known => opened.starting.push(server.name.clone()),
                None => match last_error() {
                    Some(failure) => {
                        let failure = BackendError::StartFailed(failure);
                        opened.failed.push(failed(&server.name, &failure));
                    }
                    None => opened.unlisted.push(server.name.clone()),
                },
            }
        }
        opened
    }

    /// Resolves a registered name or `server:tool`. If no listed tool has the name, starts the
    /// unlisted servers that may have it.
    pub async fn resolve(
        &self,
        name: &str,
        context: &RequestContext<'_>,
    ) -> Result<ToolId, CallError> {
        self.views.wait_for_stored_listings().await;
        if let Some(tool) = self.views.snapshot().resolve_registered(name) {
            return Ok(tool.clone());
        }
        // Not verified: the call fails if the server lacks the tool.
        if let Some(tool) = qualified(&self.scope.config, name).into_iter().next() {
            return Ok(tool);
        }
        let mut failure = None;
        for toolbox in &self.scope.config.toolboxes {
            let servers = toolbox.servers.iter().map(|server| &server.name);
            for server in servers
                .filter(|server| mcp_workbench_names::may_belong_to(name, &toolbox.name, server))
            {
                let server_error = |error| CallError::Server { server: server.clone(), error };
                let backend = match self.servers.entries().get(&server_ref(&toolbox.name, server)) {
                    Some(ServerEntry::Managed(server)) => {
                        match server.backend(context.agent, &self.servers.pool) {
                            Ok(own) => own.attach(context.agent),
                            Err(error) => {
                                failure = failure.or(Some(server_error(error)));
                                continue;
                            }
                        }
                        &server.shared
                    }
                    Some(ServerEntry::Unavailable(why)) => {
                        let error = BackendError::StartFailed(Arc::clone(why));
                        failure = failure.or(Some(server_error(error)));
                        continue;
                    }
                    Some(ServerEntry::Macros(_)) | None => continue,
                };
                if self.views.snapshot().version(backend.id()) > 0 {
                    continue;
                }
                let agent = context.agent.clone();
                let started =
                    wait_until_listed(backend, self.views.snapshots(), agent, StartPriority::Call);
                match while_starting(server, context, started).await {
                    Ok(()) => {
                        if let Some(tool) = self.views.snapshot().resolve_registered(name) {
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
        let snapshot = self.views.snapshot();
        let names = snapshot.names().map(mcp_workbench_names::ExposedName::as_str);
        let nearest = mcp_workbench_names::nearest(name, names, OFFERED);
        Err(CallError::UnknownTool {
            wanted: name.to_owned(),
            nearest: nearest.into_iter().map(str::to_owned).collect(),
        })
    }
}

/// Waits until all starts have ended, at most for `patience`. Returns the servers that failed, and
/// `true` if all starts have ended; the others continue.
async fn join_starts(
    mut starting: JoinSet<Result<(), FailedServer>>,
    patience: Duration,
) -> (Vec<FailedServer>, bool) {
    let mut failed = Vec::new();
    let all = async {
        while let Some(started) = starting.join_next().await {
            failed.extend(started.ok().and_then(Result::err));
        }
    };
    let has_ended = timeout(patience, all).await.is_ok();
    starting.detach_all();
    (failed, has_ended)
}

async fn wait_until_listed(
    backend: &Backend,
    mut snapshots: watch::Receiver<Arc<Snapshot>>,
    agent: AgentHandle,
    urgency: StartPriority,
) -> Result<(), BackendError> {
    let VersionedListing { version, .. } =
        backend.ensure_running(Some(&agent), urgency).await?.listed();
    snapshots
        .wait_for(|snapshot| snapshot.version(backend.id()) >= version)
        .await
        .map_err(|_| BackendError::ShuttingDown)?;
    Ok(())
}

#[cfg(test)]
mod tests;
