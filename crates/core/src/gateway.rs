//! The gateway: the only path from agents to servers.
//!
//! There is one [`Gateway`] per set of client capabilities ([`GatewayRegistry`]), because servers
//! adapt to them. A single task per gateway ([`snapshot`]) receives changed listings and publishes
//! a new immutable [`Snapshot`], the only state that agents share; each request uses one snapshot
//! throughout. [`Gateway::open_toolbox`], [`Gateway::call`] and [`Gateway::start_all`] start servers, and a
//! call starts only its own. An interactive server gets a connection per agent
//! ([`managed_server`]). [`input_required`] lets legacy clients use modern servers that ask for
//! input.

mod access;
mod argument_hints;
mod call_limits;
mod call_path;
mod caller;
mod clock;
mod confirmation;
mod drift;
mod eager_servers;
mod embedding;
mod error;
mod extension_methods;
mod failure_reason;
mod fair_queue;
mod input_required;
mod instrumentation;
mod interner;
mod lens;
mod limits;
mod lock_checks;
mod macros;
mod managed_server;
mod models;
mod open_toolbox;
mod operator;
mod probing;
mod registry;
mod relay;
mod reload;
mod request_context;
mod resolve;
mod response_cache;
mod response_caching;
mod search;
mod sign_in;
mod snapshot;
mod startup;
mod tasks;
mod tool_files;
mod truncation;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use foldhash::HashMap;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::task::TaskTracker;

use crate::backend::{
    self, Backend, BackendId, BackendSpec, Era, LoginScope, Pool, ServerTransport, VersionedListing,
};
use crate::gateway::clock::Clock;
use crate::gateway::embedding::EmbeddingModel;
use crate::gateway::error::{failed, server_error};
use crate::gateway::instrumentation::Instrumentation;
use crate::gateway::interner::Interner;
use crate::gateway::limits::GatewayLimiters;
use crate::gateway::managed_server::{ManagedServer, ServerEntry};
use crate::gateway::registry::{GatewayScope, SharedServices};
use crate::gateway::search::LastIndex;
use crate::gateway::startup::StartupOnce;
use crate::gateway::tasks::TaskRegistry;
use crate::gateway::tool_files::Files;
use crate::login::LoginTarget;
use crate::name::{ServerName, ServerRef, ToolboxName};
use crate::policy::Policy;
use crate::settings::{Config, Launch, ServerConfig, ToolboxConfig};

pub use crate::backend::{
    APPS_NAME, Affinity, AgentEvent, AgentHandle, AgentId, BackendStatus, CallerQuota,
    ClientCapabilities, LogLevel, MemoryPools, Phase, QuotaExceededError, QuotaGuard,
    QuotaRegistry, ServerRequest, StartPriority, SubscriptionLimitError, may_require_input,
};
pub use crate::gateway::access::RequestTarget;
pub use crate::gateway::caller::Caller;
pub use crate::gateway::drift::ListingDrift;
pub use crate::gateway::eager_servers::UnreadyServer;
pub use crate::gateway::error::{CallError, FailedServer};
pub use crate::gateway::extension_methods::is_own_extension;
pub use crate::gateway::macros::UnavailableMacro;
pub use crate::gateway::models::{ModelReply, Models, SamplingError};
pub use crate::gateway::open_toolbox::OpenedToolbox;
pub use crate::gateway::open_toolbox::heartbeat;
pub use crate::gateway::registry::{GatewayLimitError, GatewayRegistry};
pub use crate::gateway::request_context::RequestContext;
pub use crate::gateway::resolve::ToolAvailability;
pub use crate::gateway::search::{ToolMatch, ToolQuery};
pub use crate::gateway::sign_in::{
    CALLBACK_PATH, PAGE_HEADERS, RequiredSignIn, SignInPage, SignedInPage,
};
pub use crate::gateway::snapshot::Snapshot;
pub use crate::gateway::tool_files::ToolFile;
pub use crate::gateway::truncation::TruncatedResults;

/// Capacity of the channel with changed listings.
const EVENTS: usize = 64;

/// Policy, servers and listings for agents with the same capabilities.
pub struct Gateway {
    config: Arc<Config>,
    policy: Arc<Policy>,
    interner: Arc<Interner>,
    clock: Clock,
    pool: Arc<Pool>,
    capabilities: ClientCapabilities,
    is_namespaced: bool,
    servers: HashMap<ServerRef, ServerEntry>,
    limiters: GatewayLimiters,
    results: TruncatedResults,
    snapshot: watch::Receiver<Arc<Snapshot>>,
    instrumentation: Instrumentation,
    tasks: TaskRegistry,
    models: Models,
    last_index: LastIndex,
    files: Arc<Files>,
    embedding: Option<Arc<EmbeddingModel>>,
    once: StartupOnce,
    /// `true` once another gateway serves its agents.
    is_replaced: AtomicBool,
}

impl Gateway {
    fn new(
        scope: GatewayScope,
        common: &SharedServices,
        capabilities: ClientCapabilities,
        tasks: &TaskTracker,
        before: Option<&Self>,
    ) -> Self {
        let GatewayScope { caller, config, .. } = &scope;
        let pool = Arc::clone(&common.pool);
        let whose = pool.login_scope(caller.agent.as_ref());
        let (events, changes) = mpsc::channel(EVENTS);
        let member = |toolbox: &ToolboxConfig, server: &ServerConfig| {
            let meters = || pool.observer().meters(toolbox.name.as_str(), server.name.as_str());
            if let Launch::Macros(_) = server.launch {
                return ServerEntry::Macros(meters());
            }
            let spec = || backend_spec(config, toolbox, server, capabilities, &pool, &whose);
            let at = server_ref(&toolbox.name, &server.name);
            let login = place(&whose, server);
            let spec = match scope.world.spec(at, capabilities, login, spec) {
                Ok(spec) => spec,
                Err(failure) => return ServerEntry::Unavailable(failure),
            };
            let old = before.and_then(|before| before.managed_server(&toolbox.name, &server.name));
            let same = old.and_then(|old| old.reconfigured(server, &spec));
            let mut member =
                same.unwrap_or_else(|| ManagedServer::new(server, spec, meters(), &pool));
            member.limiter = common.limiters.of_server(server, config);
            member.answers = common.stores.of(server, config);
            // A sole agent can't have more than one process per configured server.
            let most = config.limits.per_caller.max_processes;
            member.max_dedicated_backends = if pool.is_single_agent() { usize::MAX } else { most };
            ServerEntry::Managed(Box::new(member))
        };
        let servers: HashMap<_, _> =
            config.servers().map(|(t, s)| (server_ref(&t.name, &s.name), member(t, s))).collect();
        let sources = servers.iter().filter_map(|(at, member)| match member {
            ServerEntry::Managed(server) => Some((at.clone(), server.shared.id())),
            ServerEntry::Macros(_) => Some((at.clone(), BackendId::NONE)),
            ServerEntry::Unavailable(_) => None,
        });
        // Existing sessions stay in `activate` mode.
        let is_namespaced =
            config.mode.has_namespaces() || before.is_some_and(|before| before.is_namespaced);
        let clock = Clock::default();
        let mut writer =
            snapshot::SnapshotWriter::new(&scope, clock, sources.collect(), is_namespaced)
                .with_listeners(pool.observer().bus());
        let mut unlisted = Vec::new();
        for member in servers.values() {
            let ServerEntry::Managed(server) = member else { continue };
            match server.shared.subscribe_changes(&events) {
                Some(listed) => writer.seed(server.shared.id(), listed),
                None => unlisted.push((server.shared.id(), Arc::clone(server.spec()))),
            }
        }
        let remembered = pool.recall(unlisted);
        let nothing = Snapshot::nothing(!pool.has_store());
        let (publish, snapshot) = watch::channel(Arc::new(nothing));
        tasks.spawn(writer.run(remembered, changes, publish));
        let observer = Arc::clone(pool.observer());
        let known = TaskRegistry::new(Arc::clone(&common.store), caller, capabilities);
        Self {
            limiters: common.limiters.of(caller, config),
            results: TruncatedResults::new(Arc::clone(&common.store), Arc::clone(config)),
            models: Models::new(Arc::clone(config), observer.bus()),
            instrumentation: Instrumentation::new(observer.bus(), observer.meters("", "")),
            embedding: common.embeddings.of(&config.search),
            config: scope.config,
            policy: scope.policy,
            interner: scope.world,
            clock,
            pool,
            capabilities,
            is_namespaced,
            servers,
            snapshot,
            tasks: known,
            last_index: LastIndex::default(),
            files: Arc::default(),
            once: StartupOnce::default(),
            is_replaced: AtomicBool::new(false),
        }
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns `true` if the client shows the pages of MCP Apps.
    pub fn shows_apps(&self) -> bool {
        self.capabilities.has_apps()
    }

    /// Returns the models that may be queried for the agent.
    pub fn models(&self) -> &Models {
        &self.models
    }

    /// Returns what truncates results that are too long for the agent.
    pub fn results(&self) -> &TruncatedResults {
        &self.results
    }

    pub(crate) fn abilities(&self) -> ClientCapabilities {
        self.capabilities
    }

    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.borrow().clone()
    }

    pub fn snapshots(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.snapshot.clone()
    }

    /// Starts a server if it isn't running, and waits until its listing is in the snapshot.
    /// Dropping the future stops the wait but not the server.
    pub fn start(
        &self,
        toolbox: &ToolboxName,
        server: &ServerName,
        agent: &AgentHandle,
        urgency: StartPriority,
    ) -> impl Future<Output = Result<(), FailedServer>> + Send + use<> {
        let backend = match self.server_entry(toolbox, server) {
            Some(ServerEntry::Managed(server)) => server.backend(agent, &self.pool).map(|own| {
                own.attach(agent);
                Some((own, server.shared.clone()))
            }),
            Some(ServerEntry::Macros(_)) => Ok(None),
            Some(ServerEntry::Unavailable(failure)) => {
                Err(backend::BackendError::StartFailed(Arc::clone(failure)))
            }
            None => Err(backend::BackendError::StartFailed(Arc::new(backend::StartError::new(
                format!("not in toolbox `{toolbox}`"),
                "check the name".to_owned(),
            )))),
        };
        let at = server_ref(toolbox, server);
        let (server, agent, snapshots) = (server.clone(), agent.clone(), self.snapshots());
        let seen = self.snapshots();
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
            started.map_err(|error| failed(&server, &error))?;
            let closed = seen.borrow().failure_of(&at);
            closed.map_or(Ok(()), Err)
        }
    }

    /// Stops a running server; the next use starts it again.
    pub fn recycle_server(&self, toolbox: &ToolboxName, server: &ServerName) {
        if let Some(server) = self.managed_server(toolbox, server) {
            server.shared.recycle();
        }
    }

    /// Waits until all listings are in the listing store.
    pub async fn flush_listings(&self) {
        self.pool.flush_listings().await;
    }

    /// Cancels an agent's subscription to a resource.
    pub async fn unsubscribe(
        &self,
        at: &ServerRef,
        uri: &str,
        agent: &AgentHandle,
    ) -> Result<(), CallError> {
        self.require_server(at)?.current_backend(agent).unsubscribe(agent, uri).await;
        Ok(())
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
        if let Some(server) = self.managed_server(&at.toolbox, &at.server) {
            let limits = &self.config.limits.per_caller;
            server.current_backend(agent).watch_task(agent, task, limits)?;
        }
        Ok(())
    }

    /// Returns the running servers, in the order of the configuration.
    pub fn running_servers(&self) -> Vec<ServerRef> {
        let all = self.config.servers().map(|(t, s)| server_ref(&t.name, &s.name));
        all.filter(|at| match self.servers.get(at) {
            Some(ServerEntry::Managed(server)) => server.shared.connection().is_some(),
            Some(ServerEntry::Unavailable(_) | ServerEntry::Macros(_)) | None => false,
        })
        .collect()
    }

    fn managed_servers(&self) -> impl Iterator<Item = &ManagedServer> {
        self.servers.values().filter_map(|member| match member {
            ServerEntry::Managed(server) => Some(&**server),
            ServerEntry::Unavailable(_) | ServerEntry::Macros(_) => None,
        })
    }

    /// `None` if it can't be started.
    fn managed_server(&self, toolbox: &ToolboxName, server: &ServerName) -> Option<&ManagedServer> {
        match self.server_entry(toolbox, server)? {
            ServerEntry::Managed(server) => Some(server),
            ServerEntry::Unavailable(_) | ServerEntry::Macros(_) => None,
        }
    }

    fn require_server(&self, at: &ServerRef) -> Result<&ManagedServer, CallError> {
        match self.servers.get(at) {
            Some(ServerEntry::Managed(server)) => Ok(server),
            Some(ServerEntry::Unavailable(failure)) => {
                Err(server_error(at, backend::BackendError::StartFailed(Arc::clone(failure))))
            }
            Some(ServerEntry::Macros(_)) => {
                let none = backend::StartError::new(
                    "it has only macros, no server".to_owned(),
                    "call one of its tools".to_owned(),
                );
                Err(server_error(at, backend::BackendError::StartFailed(Arc::new(none))))
            }
            None => {
                let toolbox = self.toolbox(at.toolbox.as_str())?;
                Err(CallError::UnknownServer {
                    toolbox: at.toolbox.clone(),
                    wanted: at.server.to_string(),
                    known: toolbox.servers.iter().map(|server| server.name.to_string()).collect(),
                })
            }
        }
    }

    /// Returns `true` if the server is running and uses the legacy protocol.
    pub fn is_legacy(&self, at: &ServerRef) -> bool {
        let Some(ServerEntry::Managed(server)) = self.servers.get(at) else { return false };
        server.shared.connection().is_some_and(|live| live.era() == Era::Legacy)
    }

    fn server_entry(&self, toolbox: &ToolboxName, server: &ServerName) -> Option<&ServerEntry> {
        self.servers.get(&server_ref(toolbox, server))
    }
}

fn backend_spec(
    config: &Config,
    toolbox: &ToolboxConfig,
    server: &ServerConfig,
    capabilities: ClientCapabilities,
    pool: &Pool,
    scope: &LoginScope,
) -> Result<BackendSpec, backend::StartError> {
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
    })
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

fn server_ref(toolbox: &ToolboxName, server: &ServerName) -> ServerRef {
    ServerRef { toolbox: toolbox.clone(), server: server.clone() }
}

async fn wait_until_listed(
    backend: &Backend,
    mut snapshots: watch::Receiver<Arc<Snapshot>>,
    agent: AgentHandle,
    urgency: StartPriority,
) -> Result<(), backend::BackendError> {
    let VersionedListing { version, .. } =
        backend.ensure_running(Some(&agent), urgency).await?.listed();
    snapshots
        .wait_for(|snapshot| snapshot.version(backend.id()) >= version)
        .await
        .map_err(|_| backend::BackendError::ShuttingDown)?;
    Ok(())
}
