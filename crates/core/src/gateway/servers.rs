//! The servers of a gateway, and what happens to them when another gateway replaces it.
//!
//! On a reload, a server with the same name and launch parameters keeps its process, and the new
//! snapshot starts with its listing. Requests in flight finish in the old gateway, but a macro
//! starts no further step there, and a call that waits for its confirmation is refused. Servers
//! that only the old gateway has stop once idle. A server with other launch parameters starts after
//! its predecessor has stopped.

use std::collections::{BTreeSet, HashMap as StdHashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use foldhash::HashMap;
use tokio::task::JoinSet;
use tokio_util::task::TaskTracker;

use crate::backend::{
    AgentHandle, Backend, BackendConnection, BackendError, BackendId, BackendSpec,
    ClientCapabilities, Era, LoginScope, Pool, ReviewedPackage, ServerTransport, StartError,
    StartMethod, StartPriority,
};
use crate::catalog::{Listing, accept_command};
use crate::gateway::error::{CallError, FailedServer, failed, server_error};
use crate::gateway::managed_server::{CallSettings, ManagedServer, ServerEntry};
use crate::gateway::scope::{GatewayScope, server_ref};
use crate::gateway::shared_services::SharedServices;
use crate::telemetry::ServerMetrics;
use mcp_workbench_login::LoginTarget;
use mcp_workbench_names::{ServerName, ServerRef, ToolboxName};
use mcp_workbench_settings::{Config, DriftPolicy, Launch, ServerConfig, ToolboxConfig};
use mcp_workbench_wire::json::RawJson;

/// The configured servers, with the processes that serve the gateway's agents.
pub struct Servers {
    scope: Arc<GatewayScope>,
    pub(crate) pool: Arc<Pool>,
    entries: HashMap<ServerRef, ServerEntry>,
    /// `true` once another gateway serves the agents.
    is_replaced: AtomicBool,
}

/// The server that a call goes to.
pub(crate) enum CallTarget<'a> {
    Server(&'a ManagedServer),
    /// The gateway runs the macro itself.
    Macros(&'a ServerMetrics),
}

impl<'a> CallTarget<'a> {
    pub(crate) fn meters(&self) -> &'a ServerMetrics {
        match self {
            Self::Server(server) => &server.meters,
            Self::Macros(meters) => meters,
        }
    }
}

impl Servers {
    /// Unchanged servers of `before` keep their backends.
    pub(crate) fn new(
        scope: &Arc<GatewayScope>,
        common: &SharedServices,
        before: Option<&Self>,
    ) -> Self {
        let GatewayScope { caller, config, capabilities, .. } = &**scope;
        let pool = Arc::clone(&common.pool);
        let whose = pool.login_scope(caller.agent.as_ref(), caller.subject.as_ref());
        let member = |toolbox: &ToolboxConfig, server: &ServerConfig| {
            let meters = || pool.observer().meters(toolbox.name.as_str(), server.name.as_str());
            if let Launch::Macros(_) = server.launch {
                return ServerEntry::Macros(meters());
            }
            let spec = || backend_spec(config, toolbox, server, *capabilities, &pool, &whose);
            let at = server_ref(&toolbox.name, &server.name);
            let old = before.and_then(|before| before.managed_server(&at));
            let login = place(&whose, server);
            let is_exchange = login.as_ref().is_some_and(|login| login.oauth.exchange().is_some());
            let spec = if is_exchange {
                // It belongs to this caller and can't be shared.
                spec().map(Arc::new).map_err(Arc::new)
            } else {
                scope.interner.spec(at, *capabilities, login, spec)
            };
            let spec = match spec {
                Ok(spec) => spec,
                Err(failure) => return ServerEntry::Unavailable(failure),
            };
            // A sole agent can't have more than one process per configured server.
            let most = config.limits.per_caller.max_processes;
            let settings = CallSettings {
                limiter: common.limiters.of_server(server, config),
                answers: common.stores.of(server, config),
                max_dedicated_backends: if pool.is_single_agent() { usize::MAX } else { most },
            };
            let same = old.filter(|old| old.is_same_server(server, &spec));
            let member = match same {
                Some(old) => old.reconfigured(server, settings, spec),
                None => ManagedServer::new(server, settings, spec, meters(), &pool),
            };
            ServerEntry::Managed(Box::new(member))
        };
        let entries =
            config.servers().map(|(t, s)| (server_ref(&t.name, &s.name), member(t, s))).collect();
        Self { scope: Arc::clone(scope), pool, entries, is_replaced: AtomicBool::new(false) }
    }

    pub(crate) fn entries(&self) -> &HashMap<ServerRef, ServerEntry> {
        &self.entries
    }

    /// Returns `true` once another gateway serves the agents.
    pub(crate) fn is_replaced(&self) -> bool {
        self.is_replaced.load(Ordering::Relaxed)
    }

    pub(crate) fn call_target(&self, at: &ServerRef) -> Result<CallTarget<'_>, CallError> {
        match self.entries.get(at) {
            Some(ServerEntry::Managed(server)) => Ok(CallTarget::Server(server)),
            Some(ServerEntry::Macros(meters)) => Ok(CallTarget::Macros(meters)),
            _ => self.require_server(at).map(CallTarget::Server),
        }
    }

    /// `None` if it can't be started.
    pub(crate) fn managed_server(&self, at: &ServerRef) -> Option<&ManagedServer> {
        match self.entries.get(at)? {
            ServerEntry::Managed(server) => Some(server),
            ServerEntry::Unavailable(_) | ServerEntry::Macros(_) => None,
        }
    }

    pub(crate) fn require_server(&self, at: &ServerRef) -> Result<&ManagedServer, CallError> {
        match self.entries.get(at) {
            Some(ServerEntry::Managed(server)) => Ok(server),
            Some(ServerEntry::Unavailable(failure)) => {
                Err(server_error(at, BackendError::StartFailed(Arc::clone(failure))))
            }
            Some(ServerEntry::Macros(_)) => {
                let none = StartError::new(
                    "it has only macros, no server".to_owned(),
                    "call one of its tools".to_owned(),
                );
                Err(server_error(at, BackendError::StartFailed(Arc::new(none))))
            }
            None => {
                let toolbox = self.scope.toolbox(at.toolbox.as_str())?;
                Err(CallError::UnknownServer {
                    toolbox: at.toolbox.clone(),
                    wanted: at.server.to_string(),
                    known: toolbox.servers.iter().map(|server| server.name.to_string()).collect(),
                })
            }
        }
    }

    pub(crate) fn managed_servers(&self) -> impl Iterator<Item = &ManagedServer> {
        self.entries.values().filter_map(|member| match member {
            ServerEntry::Managed(server) => Some(&**server),
            ServerEntry::Unavailable(_) | ServerEntry::Macros(_) => None,
        })
    }

    /// Returns the servers that can be started, in configuration order.
    pub(crate) fn servers_in_order(&self) -> impl Iterator<Item = (ServerRef, &ManagedServer)> {
        self.scope.server_refs().filter_map(|at| {
            let server = self.managed_server(&at)?;
            Some((at, server))
        })
    }

    pub(crate) fn shared_backend_ids(&self) -> HashSet<BackendId> {
        self.managed_servers().map(|server| server.shared.id()).collect()
    }

    /// Returns the running servers, in the order of the configuration.
    pub fn running_servers(&self) -> Vec<ServerRef> {
        let mut all: Vec<_> = self.scope.server_refs().collect();
        all.retain(|at| self.running(at).is_some());
        all
    }

    /// Returns the servers that can't be started or whose last start failed, in configuration
    /// order. A new snapshot signals changes.
    pub fn failed_servers(&self) -> Vec<(ServerRef, FailedServer)> {
        let failure = |server_ref: ServerRef| {
            let failure = match self.entries.get(&server_ref)? {
                ServerEntry::Managed(server) => server.shared.start_error()?,
                ServerEntry::Unavailable(failure) => failure.clone(),
                ServerEntry::Macros(_) => return None,
            };
            let failed = failed(&server_ref.server, &BackendError::StartFailed(failure));
            Some((server_ref, failed))
        };
        self.scope.server_refs().filter_map(failure).collect()
    }

    /// Returns the connection of a server's shared backend, if it runs.
    fn running(&self, at: &ServerRef) -> Option<BackendConnection> {
        let Some(ServerEntry::Managed(server)) = self.entries.get(at) else { return None };
        server.shared.connection()
    }

    /// Returns `true` if the server is running and uses the legacy protocol.
    pub fn is_legacy(&self, at: &ServerRef) -> bool {
        self.running(at).is_some_and(|live| live.era() == Era::Legacy)
    }

    /// Returns the complete, unfiltered listing of a running server.
    pub fn full_listing(&self, at: &ServerRef) -> Option<Arc<Listing>> {
        self.running(at).map(|live| live.listed().listing)
    }

    /// Returns the `serverInfo` of a running server, as JSON.
    pub fn server_info(&self, at: &ServerRef) -> Option<RawJson> {
        self.running(at)?.info()
    }

    /// Returns how a server would start now; `None` if it isn't a process.
    ///
    /// # Errors
    ///
    /// Fails if its cached package differs from the lockfile and the policy forbids that.
    pub fn start_method(&self, at: &ServerRef) -> Option<Result<StartMethod, StartError>> {
        self.pool.start_method(self.managed_server(at)?.spec())
    }

    pub fn has_isolated_servers(&self) -> bool {
        self.managed_servers().any(ManagedServer::is_isolated)
    }

    /// Returns the isolated servers that have a backend for this agent.
    pub fn isolated_servers_of(&self, agent: &AgentHandle) -> BTreeSet<ServerRef> {
        let servers =
            self.servers_in_order().filter(|(_, server)| server.has_dedicated_backend(agent));
        servers.map(|(at, _)| at).collect()
    }

    /// Stops a running server; the next use starts it again.
    pub fn recycle_server(&self, toolbox: &ToolboxName, server: &ServerName) {
        if let Some(server) = self.managed_server(&server_ref(toolbox, server)) {
            server.shared.recycle();
        }
    }

    /// Waits until all listings are in the listing store.
    pub async fn flush_listings(&self) {
        self.pool.flush_listings().await;
    }

    /// Sends the agent's log level to the servers that it uses.
    pub async fn pass_on_log_level(&self, agent: &AgentHandle) {
        let mut telling = JoinSet::new();
        for server in self.managed_servers() {
            let backend = server.current_backend(agent);
            telling.spawn(async move { backend.sync_log_level().await });
        }
        while telling.join_next().await.is_some() {}
    }

    /// Notifies the agent's servers that may see its roots.
    pub fn notify_roots_changed(&self, agent: &AgentHandle) {
        for server in self.managed_servers().filter(|server| server.has_roots()) {
            server.current_backend(agent).notify("notifications/roots/list_changed", None);
        }
    }

    /// Subscribes an agent to status changes of a task.
    pub fn watch_task(
        &self,
        at: &ServerRef,
        task: &str,
        agent: &AgentHandle,
    ) -> Result<(), CallError> {
        if let Some(server) = self.managed_server(at) {
            let limits = &self.scope.config.limits.per_caller;
            server.current_backend(agent).watch_task(agent, task, limits)?;
        }
        Ok(())
    }

    /// Prepares to replace `before`, which continues to run. `in_use` holds the backends that any
    /// gateway uses after the reload.
    pub(crate) fn prepare_takeover(&self, before: &Self, in_use: &HashSet<BackendId>) {
        before.is_replaced.store(true, Ordering::Relaxed);
        let old = before.shared_backend_ids();
        let previous = |at: &ServerRef| before.managed_server(at);
        let id_of = |server: &ManagedServer| server.shared.id();
        let is_kept = |(at, server): &(ServerRef, &ManagedServer)| {
            previous(at).is_some_and(|previous| id_of(previous) == id_of(server))
        };
        let mut adopted: HashSet<_> =
            self.servers_in_order().filter(is_kept).map(|(_, server)| id_of(server)).collect();
        for (at, server) in self.servers_in_order() {
            let id = id_of(server);
            if !adopted.insert(id) {
                continue;
            }
            // It may be about to stop, or come from another toolbox.
            server.shared.update_spec(Arc::clone(server.spec()));
            // A predecessor that stays in use elsewhere never stops, so don't wait for it.
            if let Some(previous) = previous(&at).filter(|p| !in_use.contains(&id_of(p)))
                && !old.contains(&id)
            {
                server.shared.start_after(&previous.shared);
            }
        }
    }

    /// Stops the backends that only `before` used, and restarts changed servers that were running.
    pub(crate) fn finish_takeover(
        &self,
        before: &Self,
        in_use: &HashSet<BackendId>,
        tasks: &TaskTracker,
    ) {
        let (old, new) = (before.shared_backend_ids(), self.shared_backend_ids());
        let mut ran = StdHashMap::new();
        for (at, server) in before.servers_in_order() {
            if !new.contains(&server.shared.id()) {
                ran.insert(at, server.shared.connection().is_some());
                server.dismiss(in_use);
            }
        }
        for (at, server) in self.servers_in_order() {
            if ran.get(&at) == Some(&true) && !old.contains(&server.shared.id()) {
                start_in_background(&server.shared, tasks);
            }
        }
    }
}

pub(crate) fn start_in_background(backend: &Backend, tasks: &TaskTracker) {
    let backend = backend.clone();
    tasks.spawn(async move {
        // The next request reports the failure.
        let _ = backend.ensure_running(None, StartPriority::Background).await;
    });
}

pub(crate) fn backend_spec(
    config: &Config,
    toolbox: &ToolboxConfig,
    server: &ServerConfig,
    capabilities: ClientCapabilities,
    pool: &Pool,
    scope: &LoginScope,
) -> Result<BackendSpec, StartError> {
    Ok(BackendSpec {
        label: format!("{}/{}", toolbox.name, server.name),
        server: server.name.to_string(),
        reach: ServerTransport::from_config(server, scope)?,
        environment: Arc::clone(pool.environment()),
        protocol: server.protocol,
        capabilities: if server.roots { capabilities } else { capabilities.without_roots() },
        startup_timeout: server.startup_timeout,
        idle_timeout: server.idle_timeout,
        max_message_bytes: config.limits.max_message_bytes,
        quotas: config.limits.server_limits,
        reviewed: reviewed_package(config, toolbox, server),
    })
}

/// Returns the package in the lockfile, unless its policy is not to compare.
fn reviewed_package(
    config: &Config,
    toolbox: &ToolboxConfig,
    server: &ServerConfig,
) -> Option<ReviewedPackage> {
    let policy = server.effective_drift_policy();
    let package = server.lock_entry.as_ref()?.package.clone()?;
    if policy == DriftPolicy::Off {
        return None;
    }
    let key = config.lock_key(toolbox.name.as_str(), server);
    let accept_command = accept_command(&key, None);
    Some(ReviewedPackage { package, is_enforced: policy.is_enforced(), accept_command })
}

/// Returns where to sign in to a server; `None` if it has no login.
fn place(scope: &LoginScope, server: &ServerConfig) -> Option<LoginTarget> {
    match &server.launch {
        Launch::Http(launch) => scope.place(server.name.as_str(), launch),
        Launch::Stdio(_)
        | Launch::Macros(_)
        | Launch::Unsupported { .. }
        | Launch::Broken { .. } => None,
    }
}
