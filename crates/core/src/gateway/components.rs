//! A gateway: its components, built in the order in which they use each other.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tokio_util::task::TaskTracker;

use crate::backend::BackendId;
use crate::gateway::access::AccessControl;
use crate::gateway::call_limits::GatewayLimiters;
use crate::gateway::call_path::CallPath;
use crate::gateway::instrumentation::Instrumentation;
use crate::gateway::managed_server::ServerEntry;
use crate::gateway::models::Models;
use crate::gateway::scope::GatewayScope;
use crate::gateway::search::Search;
use crate::gateway::servers::Servers;
use crate::gateway::shared_services::SharedServices;
use crate::gateway::sign_in::SignIns;
use crate::gateway::snapshot::{Snapshot, SnapshotWriter};
use crate::gateway::startup::Startup;
use crate::gateway::tasks::TaskRegistry;
use crate::gateway::truncation::TruncatedResults;
use crate::gateway::views::Views;
use mcp_workbench_settings::Config;

/// Capacity of the channel with changed listings.
const EVENTS: usize = 64;

/// Policy, servers and listings for agents with the same capabilities.
pub struct Gateway {
    scope: Arc<GatewayScope>,
    servers: Arc<Servers>,
    views: Arc<Views>,
    startup: Arc<Startup>,
    models: Arc<Models>,
    search: Search,
    sign_ins: Arc<SignIns>,
    tasks: Arc<TaskRegistry>,
    results: TruncatedResults,
    calls: CallPath,
}

impl Gateway {
    /// Unchanged servers of `before` keep their processes.
    pub(crate) fn new(
        scope: GatewayScope,
        common: &SharedServices,
        tasks: &TaskTracker,
        before: Option<&Servers>,
    ) -> Self {
        let scope = Arc::new(scope);
        let config = &scope.config;
        let servers = Arc::new(Servers::new(&scope, common, before));
        let snapshot = publish_snapshots(&scope, &servers, tasks);
        let views = Arc::new(Views::new(&scope, &servers, snapshot));
        let startup = Arc::new(Startup::new(&scope, &servers, &views));
        let observer = common.pool.observer();
        let models = Arc::new(Models::new(Arc::clone(config), observer.bus()));
        let embedding = common.embeddings.of(&config.search);
        let search = Search::new(&scope, &servers, &views, &startup, &models, embedding);
        let instrumentation = Instrumentation::new(observer.bus(), observer.meters("", ""));
        let instrumentation = Arc::new(instrumentation);
        let access = AccessControl::new(&scope, &servers, &views, &startup, &instrumentation);
        let sign_ins = Arc::new(SignIns::new(&scope, &servers));
        let tasks = Arc::new(TaskRegistry::new(&scope, &servers, &common.store));
        let results = TruncatedResults::new(Arc::clone(&common.store), Arc::clone(config));
        let calls = CallPath {
            scope: Arc::clone(&scope),
            servers: Arc::clone(&servers),
            views: Arc::clone(&views),
            startup: Arc::clone(&startup),
            access,
            limits: GatewayLimiters::new(&common.limiters, &scope.caller, config),
            sign_ins: Arc::clone(&sign_ins),
            models: Arc::clone(&models),
            tasks: Arc::clone(&tasks),
            approvals: Arc::clone(&common.approvals),
            instrumentation,
        };
        Self { scope, servers, views, startup, models, search, sign_ins, tasks, results, calls }
    }

    pub fn config(&self) -> &Config {
        &self.scope.config
    }

    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.views.snapshot()
    }

    pub fn scope(&self) -> &GatewayScope {
        &self.scope
    }

    pub fn servers(&self) -> &Servers {
        &self.servers
    }

    pub fn views(&self) -> &Views {
        &self.views
    }

    pub fn startup(&self) -> &Startup {
        &self.startup
    }

    /// Returns the models that may be queried for the agent.
    pub fn models(&self) -> &Models {
        &self.models
    }

    pub fn search(&self) -> &Search {
        &self.search
    }

    pub fn sign_ins(&self) -> &SignIns {
        &self.sign_ins
    }

    pub fn tasks(&self) -> &TaskRegistry {
        &self.tasks
    }

    /// Returns what truncates results that are too long for the agent.
    pub fn results(&self) -> &TruncatedResults {
        &self.results
    }

    pub fn access(&self) -> &AccessControl {
        &self.calls.access
    }

    pub fn calls(&self) -> &CallPath {
        &self.calls
    }
}

/// Starts the writer of the gateway's snapshots, with the listings that are known already.
fn publish_snapshots(
    scope: &Arc<GatewayScope>,
    servers: &Servers,
    tasks: &TaskTracker,
) -> watch::Receiver<Arc<Snapshot>> {
    let (events, changes) = mpsc::channel(EVENTS);
    let sources = servers.entries().iter().filter_map(|(at, member)| match member {
        ServerEntry::Managed(server) => Some((at.clone(), server.shared.id())),
        ServerEntry::Macros(_) => Some((at.clone(), BackendId::NONE)),
        ServerEntry::Unavailable(_) => None,
    });
    let pool = &servers.pool;
    let mut writer =
        SnapshotWriter::new(scope, sources.collect()).with_listeners(pool.observer().bus());
    let mut unlisted = Vec::new();
    for server in servers.managed_servers() {
        match server.shared.subscribe_changes(&events) {
            Some(listed) => writer.seed(server.shared.id(), listed),
            None => unlisted.push((server.shared.id(), Arc::clone(server.spec()))),
        }
    }
    let remembered = pool.recall(unlisted);
    let (publish, snapshot) = watch::channel(Arc::new(Snapshot::nothing(!pool.has_store())));
    tasks.spawn(writer.run(remembered, changes, publish));
    snapshot
}
