//! Servers before any of them is used: who has been listed, now or when it last ran, and who could not be started; and the start of many servers at once.

use std::collections::{BTreeSet, HashSet};
use std::time::{Duration, SystemTime};

use tokio::sync::OnceCell;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::backend::{Error, Presence, Urgency};
use crate::gateway::error::failed;
use crate::gateway::members::{Member, Server};
use crate::gateway::opening::{Progress, heartbeat};
use crate::gateway::{FailedServer, Gateway, RequestContext, server_ref};
use crate::name::{ServerRef, ToolboxName};

/// How long everything that starts of itself is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// The work that is done once, whoever wants it first.
#[derive(Default)]
pub(crate) struct Once {
    listed: OnceCell<()>,
    pub(crate) tried: OnceCell<()>,
    started: OnceCell<()>,
    awaited: OnceCell<()>,
}

impl Gateway {
    /// Waits until the snapshot shows what servers listed when they last ran, as far as the store
    /// of listings knows. Nothing is started for it, and it takes milliseconds.
    pub async fn recalled(&self) {
        // It cannot fail while there is a writer, and without one there is nothing to wait for.
        let _ = self.snapshots().wait_for(|snapshot| snapshot.has_recalled()).await;
    }

    /// The servers that nothing is known of, in the order of the configuration: they have not been
    /// listed, neither now nor when they last ran. Those that cannot be started at all are not
    /// among them. See [`Self::recalled`].
    pub fn unlisted(&self) -> Vec<ServerRef> {
        let snapshot = self.snapshot();
        let is_unlisted =
            |(_, server): &(ServerRef, &Server)| !snapshot.has_listed(server.shared.id());
        self.referred().filter(is_unlisted).map(|(at, _)| at).collect()
    }

    /// The servers of which is shown what they listed when they last ran, and when that was last
    /// found to be true, in the order of the configuration.
    pub fn remembered(&self) -> Vec<(ServerRef, SystemTime)> {
        let snapshot = self.snapshot();
        let since = |(server_ref, server): (ServerRef, &Server)| {
            Some((server_ref, snapshot.remembered(server.shared.id())?))
        };
        self.referred().filter_map(since).collect()
    }

    /// The servers that cannot be started, or could not the last time that it was tried, in the
    /// order of the configuration. Whoever waits for [`Self::snapshots`] hears of a change in it.
    pub fn failures(&self) -> Vec<(ServerRef, FailedServer)> {
        let all = self.config.servers().map(|(t, s)| server_ref(&t.name, &s.name));
        let failure = |server_ref: ServerRef| {
            let failure = match self.members.get(&server_ref)? {
                Member::Server(server) => server.shared.failure()?,
                Member::Unsupported(failure) => failure.clone(),
                Member::Macros(_) => return None,
            };
            let failed = failed(&server_ref.server, &Error::StartFailed(failure));
            Some((server_ref, failed))
        };
        all.filter_map(failure).collect()
    }

    /// Starts the servers that nothing is known of, all at once, if that has not been done yet,
    /// and waits for those that are ready within 10 s; the others go on by themselves. A server
    /// that fails is among [`Self::failures`] and holds up nobody.
    ///
    /// Dropping the future stops the waiting, not the servers, and the next one waits anew.
    pub async fn ensure_listed(&self, context: &RequestContext<'_>) {
        self.once.listed.get_or_init(|| self.list_unlisted(context)).await;
    }

    async fn list_unlisted(&self, context: &RequestContext<'_>) {
        self.recalled().await;
        let unlisted = self.unlisted();
        let mut starting = JoinSet::new();
        for (index, at) in unlisted.iter().enumerate() {
            let start = self.start(&at.toolbox, &at.server, context.agent, Urgency::Background);
            starting.spawn(async move {
                // Why it fails is remembered by the server itself.
                _ = start.await;
                index
            });
        }
        let mut is_done = vec![false; unlisted.len()];
        let names = unlisted.iter().map(|at| at.server.to_string()).collect();
        let mut report = Progress::new("first start of servers".to_owned(), names, context);
        let mut heartbeat = heartbeat();
        let patience = sleep(PATIENCE);
        tokio::pin!(patience);
        loop {
            tokio::select! {
                started = starting.join_next() => match started {
                    None => break,
                    Some(Ok(index)) => is_done[index] = true,
                    // The task panicked; its server counts as still starting.
                    Some(Err(error)) => tracing::error!(%error, "a start was lost"),
                },
                _ = heartbeat.tick() => {}
                () = &mut patience => {
                    tracing::info!("not all servers were ready after {} s", PATIENCE.as_secs());
                    break;
                }
            }
            report.send(&is_done).await;
        }
        starting.detach_all();
    }

    /// The servers of which nothing can be shown: those that have never been listed, and those that
    /// have died; in the order of the configuration.
    pub fn missing(&self) -> Vec<ServerRef> {
        let snapshot = self.snapshot();
        let all = self.config.servers().map(|(t, s)| server_ref(&t.name, &s.name));
        let is_missing = |at: &ServerRef| match self.members.get(at) {
            Some(Member::Server(server)) => {
                !snapshot.has_listed(server.shared.id()) || snapshot.has_crashed(at)
            }
            Some(Member::Macros(_)) => false,
            Some(Member::Unsupported(_)) | None => true,
        };
        all.filter(is_missing).collect()
    }

    /// Starts some servers, and says which of them cannot be; one that is not ready after 10 s goes
    /// on by itself.
    pub async fn start_some(
        &self,
        servers: &[ServerRef],
        context: &RequestContext<'_>,
    ) -> Vec<FailedServer> {
        let mut starting = JoinSet::new();
        for at in servers {
            let urgency = Urgency::Opening;
            starting.spawn(self.start(&at.toolbox, &at.server, context.agent, urgency));
        }
        let mut failed = Vec::new();
        let all = async {
            while let Some(started) = starting.join_next().await {
                failed.extend(started.ok().and_then(Result::err));
            }
        };
        if timeout(PATIENCE, all).await.is_err() {
            tracing::info!("not all servers were ready after {} s", PATIENCE.as_secs());
        }
        starting.detach_all();
        failed
    }

    /// Starts every server, if that has not been tried yet, and waits as [`Self::ensure_listed`]
    /// does: for those alone that nothing is known of.
    pub async fn start_all(&self, agent: &Presence) {
        let start = async {
            self.recalled().await;
            let unlisted: HashSet<_> = self.unlisted().into_iter().collect();
            let mut starting = JoinSet::new();
            for (at, _) in self.referred().filter(|(at, _)| !unlisted.contains(at)) {
                let urgency = Urgency::Background;
                starting.spawn(self.start(&at.toolbox, &at.server, agent, urgency));
            }
            starting.detach_all();
        };
        self.once.started.get_or_init(|| start).await;
        self.ensure_listed(&RequestContext::nobody(agent)).await;
    }

    /// Starts all servers, and waits for those too that were listed when they last ran, for 10 s
    /// once.
    pub async fn run_all(&self, agent: &Presence) {
        self.start_all(agent).await;
        let wait = async {
            let has_not_failed =
                |(_, server): &(ServerRef, &Server)| server.shared.failure().is_none();
            let mut starting = JoinSet::new();
            for (at, _) in self.referred().filter(has_not_failed) {
                let urgency = Urgency::Background;
                starting.spawn(self.start(&at.toolbox, &at.server, agent, urgency));
            }
            let all = async { while starting.join_next().await.is_some() {} };
            if timeout(PATIENCE, all).await.is_err() {
                tracing::info!("not all servers were running after {} s", PATIENCE.as_secs());
            }
            starting.detach_all();
        };
        self.once.awaited.get_or_init(|| wait).await;
    }

    /// Starts those of these servers that nothing is known of, and waits for none of them.
    pub fn start_unlisted(&self, toolboxes: &BTreeSet<ToolboxName>, agent: &Presence) {
        let mut starting = JoinSet::new();
        for at in self.unlisted() {
            if toolboxes.contains(&at.toolbox) {
                let urgency = Urgency::Background;
                starting.spawn(self.start(&at.toolbox, &at.server, agent, urgency));
            }
        }
        starting.detach_all();
    }

    /// Starts those of these servers that nothing is known of, and waits until they have listed or have
    /// failed, no longer than `patience`.
    pub async fn list_soon(
        &self,
        toolboxes: &BTreeSet<ToolboxName>,
        agent: &Presence,
        patience: Duration,
    ) {
        let mut starting = JoinSet::new();
        for at in self.unlisted().into_iter().filter(|at| toolboxes.contains(&at.toolbox)) {
            starting.spawn(self.start(&at.toolbox, &at.server, agent, Urgency::Opening));
        }
        let all = async { while starting.join_next().await.is_some() {} };
        // What takes longer is told when it is there.
        let _ = timeout(patience, all).await;
        starting.detach_all();
    }

    /// Returns `true` if there are servers that keep sessions apart.
    pub fn keeps_sessions_apart(&self) -> bool {
        self.referred().any(|(_, server)| server.is_isolated())
    }

    /// The servers that keep sessions apart and have a connection for this agent.
    pub fn kept_apart_for(&self, agent: &Presence) -> BTreeSet<ServerRef> {
        let servers = self.referred().filter(|(_, server)| server.is_apart_for(agent));
        servers.map(|(at, _)| at).collect()
    }
}

#[cfg(test)]
mod tests;
