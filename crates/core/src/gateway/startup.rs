//! Startup of many servers at once, and the lists of unlisted and failed ones.

use std::collections::{BTreeSet, HashSet};
use std::time::{Duration, SystemTime};

use tokio::sync::OnceCell;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::backend::{AgentHandle, BackendError, StartPriority};
use crate::gateway::error::failed;
use crate::gateway::managed_server::{ManagedServer, ServerEntry};
use crate::gateway::open_toolbox::{StartProgress, heartbeat};
use crate::gateway::{FailedServer, Gateway, RequestContext, server_ref};
use crate::name::{ServerRef, ToolboxName};

/// How long to wait for servers that aren't started for a specific request.
const TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Default)]
pub(crate) struct StartupOnce {
    listed: OnceCell<()>,
    pub(crate) tried: OnceCell<()>,
    started: OnceCell<()>,
    awaited: OnceCell<()>,
}

impl Gateway {
    /// Waits until the stored listings are loaded, which takes milliseconds. Starts no servers.
    pub async fn wait_for_stored_listings(&self) {
        // Fails only if the writer is gone, and then there is nothing to wait for.
        let _ = self.snapshots().wait_for(|snapshot| snapshot.has_loaded_store()).await;
    }

    /// Returns the servers without a current or stored listing, in configuration order, except
    /// those that can't be started at all. Call [`Self::wait_for_stored_listings`] first.
    pub fn unlisted(&self) -> Vec<ServerRef> {
        let snapshot = self.snapshot();
        let is_unlisted =
            |(_, server): &(ServerRef, &ManagedServer)| !snapshot.has_listed(server.shared.id());
        self.servers_in_order().filter(is_unlisted).map(|(at, _)| at).collect()
    }

    /// Returns the servers shown with a stored listing and when that was last confirmed, in
    /// configuration order.
    pub fn stored_listings(&self) -> Vec<(ServerRef, SystemTime)> {
        let snapshot = self.snapshot();
        let since = |(server_ref, server): (ServerRef, &ManagedServer)| {
            Some((server_ref, snapshot.stored_at(server.shared.id())?))
        };
        self.servers_in_order().filter_map(since).collect()
    }

    /// Returns the servers that can't be started or whose last start failed, in configuration
    /// order. [`Self::snapshots`] signals changes.
    pub fn failed_servers(&self) -> Vec<(ServerRef, FailedServer)> {
        let all = self.config.servers().map(|(t, s)| server_ref(&t.name, &s.name));
        let failure = |server_ref: ServerRef| {
            let failure = match self.servers.get(&server_ref)? {
                ServerEntry::Managed(server) => server.shared.start_error()?,
                ServerEntry::Unavailable(failure) => failure.clone(),
                ServerEntry::Macros(_) => return None,
            };
            let failed = failed(&server_ref.server, &BackendError::StartFailed(failure));
            Some((server_ref, failed))
        };
        all.filter_map(failure).collect()
    }

    /// Starts all unlisted servers once and waits for them, at most 10 s; slower ones continue to
    /// start. Failed servers are in [`Self::failed_servers`].
    ///
    /// Dropping the future stops the wait, not the servers; the next call waits again.
    pub async fn ensure_listed(&self, context: &RequestContext<'_>) {
        self.once.listed.get_or_init(|| self.list_unlisted(context)).await;
    }

    async fn list_unlisted(&self, context: &RequestContext<'_>) {
        self.wait_for_stored_listings().await;
        let unlisted = self.unlisted();
        let mut starting = JoinSet::new();
        for (index, at) in unlisted.iter().enumerate() {
            let start =
                self.start(&at.toolbox, &at.server, context.agent, StartPriority::Background);
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

    /// Returns the servers that were never listed, can't be started or have crashed, in
    /// configuration order.
    pub fn unavailable_servers(&self) -> Vec<ServerRef> {
        let snapshot = self.snapshot();
        let all = self.config.servers().map(|(t, s)| server_ref(&t.name, &s.name));
        let is_missing = |at: &ServerRef| match self.servers.get(at) {
            Some(ServerEntry::Managed(server)) => {
                !snapshot.has_listed(server.shared.id()) || snapshot.has_crashed(at)
            }
            Some(ServerEntry::Macros(_)) => false,
            Some(ServerEntry::Unavailable(_)) | None => true,
        };
        all.filter(is_missing).collect()
    }

    /// Starts servers and returns those that failed within 10 s. Slower ones continue to start.
    pub async fn start_servers(
        &self,
        servers: &[ServerRef],
        context: &RequestContext<'_>,
    ) -> Vec<FailedServer> {
        let mut starting = JoinSet::new();
        for at in servers {
            let urgency = StartPriority::Opening;
            starting.spawn(self.start(&at.toolbox, &at.server, context.agent, urgency));
        }
        let mut failed = Vec::new();
        let all = async {
            while let Some(started) = starting.join_next().await {
                failed.extend(started.ok().and_then(Result::err));
            }
        };
        if timeout(TIMEOUT, all).await.is_err() {
            tracing::info!("not all servers were ready after {} s", TIMEOUT.as_secs());
        }
        starting.detach_all();
        failed
    }

    /// Starts every server once, but waits only for unlisted ones, as [`Self::ensure_listed`] does.
    pub async fn start_all(&self, agent: &AgentHandle) {
        let start = async {
            self.wait_for_stored_listings().await;
            let unlisted: HashSet<_> = self.unlisted().into_iter().collect();
            let mut starting = JoinSet::new();
            for (at, _) in self.servers_in_order().filter(|(at, _)| !unlisted.contains(at)) {
                let urgency = StartPriority::Background;
                starting.spawn(self.start(&at.toolbox, &at.server, agent, urgency));
            }
            starting.detach_all();
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
            let mut starting = JoinSet::new();
            for (at, _) in self.servers_in_order().filter(has_not_failed) {
                let urgency = StartPriority::Background;
                starting.spawn(self.start(&at.toolbox, &at.server, agent, urgency));
            }
            let all = async { while starting.join_next().await.is_some() {} };
            if timeout(TIMEOUT, all).await.is_err() {
                tracing::info!("not all servers were running after {} s", TIMEOUT.as_secs());
            }
            starting.detach_all();
        };
        self.once.awaited.get_or_init(|| wait).await;
    }

    /// Starts the unlisted servers of some toolboxes in the background.
    pub fn start_unlisted(&self, toolboxes: &BTreeSet<ToolboxName>, agent: &AgentHandle) {
        let mut starting = JoinSet::new();
        for at in self.unlisted() {
            if toolboxes.contains(&at.toolbox) {
                let urgency = StartPriority::Background;
                starting.spawn(self.start(&at.toolbox, &at.server, agent, urgency));
            }
        }
        starting.detach_all();
    }

    /// Starts the unlisted servers of some toolboxes and waits until they are listed or have
    /// failed, at most for `patience`.
    pub async fn list_within(
        &self,
        toolboxes: &BTreeSet<ToolboxName>,
        agent: &AgentHandle,
        patience: Duration,
    ) {
        let mut starting = JoinSet::new();
        for at in self.unlisted().into_iter().filter(|at| toolboxes.contains(&at.toolbox)) {
            starting.spawn(self.start(&at.toolbox, &at.server, agent, StartPriority::Opening));
        }
        let all = async { while starting.join_next().await.is_some() {} };
        // Slower servers notify the agent once they are listed.
        let _ = timeout(patience, all).await;
        starting.detach_all();
    }

    pub fn has_isolated_servers(&self) -> bool {
        self.servers_in_order().any(|(_, server)| server.is_isolated())
    }

    /// Returns the isolated servers that have a backend for this agent.
    pub fn isolated_servers_of(&self, agent: &AgentHandle) -> BTreeSet<ServerRef> {
        let servers =
            self.servers_in_order().filter(|(_, server)| server.has_dedicated_backend(agent));
        servers.map(|(at, _)| at).collect()
    }
}

#[cfg(test)]
mod tests;
