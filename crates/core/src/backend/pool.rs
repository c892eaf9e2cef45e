//! The pool: one backend for all entries with equal launches, and their shutdown.

use std::hash::{Hash, Hasher};
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::available_parallelism;
use std::time::Duration;

use foldhash::{HashMap, HashMapExt};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;
use url::Url;

use crate::backend::actor::{Actor, BackendState, ListingHistory, Succession};
use crate::backend::change_feed::ChangeFeed;
use crate::backend::direct::{self, DirectRecords, StartMethod};
use crate::backend::launch::grants::GrantRegistry;
use crate::backend::listing_store::ListingStoreWorker;
use crate::backend::login_scope::{PendingLogins, tell_of_login};
use crate::backend::message_router::MessageRouter;
use crate::backend::paused_servers::PausedServers;
use crate::backend::process_reaper::{self, ProcessReaper};
use crate::backend::server_quota::ServerQuota;
use crate::backend::start_scheduler::StartScheduler;
use crate::backend::status::StatusRecorder;
use crate::backend::watchdog::Watchdog;
use crate::backend::{
    Backend, BackendId, BackendInner, BackendSpec, ChildEnvironment, DirectStarts,
    LastKnownListing, LaunchResources, ListingStore, LoginScope, PoolContext, StartError,
    WeakBackend, launch,
};
use crate::telemetry::{Telemetry, server_span};
use mcp_workbench_login::{
    LoginRegistry, LoginStorage, LoginTarget, OAuthLogin, Page, PendingLogin, RedirectTarget,
};
use mcp_workbench_names::AgentName;
use mcp_workbench_settings::Config;
use mcp_workbench_wire::memory_pool::MemoryPool;

/// Time limit for stopping all servers.
const SHUTDOWN: Duration = Duration::from_millis(1600);

#[derive(Clone, Debug, Default)]
pub struct PoolOptions {
    /// This process's environment, used for clients that provide none. Servers get a part of it.
    pub environment: Arc<ChildEnvironment>,
    /// This executable: it runs for the command `mcp-workbench`, and as the watchdog. `None` looks
    /// the command up on `PATH` and disables the watchdog.
    pub program: Option<PathBuf>,
    /// Folder for the homes of sandboxed servers; `None` prevents their start.
    pub homes: Option<PathBuf>,
    /// Folder for records of cached packages; `None` keeps none.
    pub direct: Option<PathBuf>,
    pub store: Option<Arc<ListingStore>>,
    /// Storage for logins at HTTP servers; `None` disables sign-in.
    pub logins: Option<LoginStorage>,
    pub observer: Arc<Telemetry>,
    pub agents: ServedAgents,
    /// `true` if there is a single server, whose log messages need no label.
    pub is_single_server: bool,
    pub server_output_memory: MemoryPool,
}

/// Facts about the agents that can connect.
#[derive(Clone, Copy, Debug, Default)]
pub struct ServedAgents {
    /// `true` if several agents can connect, which must not learn of each other.
    pub are_many: bool,
    /// `true` if agents may be on other machines, so that their users' browsers can't open a page
    /// on this one.
    pub are_remote: bool,
    /// `true` if all agents belong to this machine's user, and use that user's logins.
    pub share_logins: bool,
}

/// All backends. Creating a pool starts nothing. It holds weak handles only, so a backend stops
/// with its last user.
pub struct Pool {
    context: Arc<PoolContext>,
    environment: Arc<ChildEnvironment>,
    backends: Mutex<Backends>,
    signing_in: PendingLogins,
    is_served_elsewhere: bool,
    /// `true` if each agent has logins of its own, unless an entry's `account` says otherwise.
    has_agent_logins: bool,
    is_alone: bool,
}

#[derive(Default)]
struct Backends {
    shared: HashMap<SharingKey, WeakBackend>,
    count: usize,
}

/// A spec that is equal to those that may share its process: same transport, inherited environment,
/// protocol and client capabilities.
struct SharingKey(Arc<BackendSpec>);

impl PartialEq for SharingKey {
    fn eq(&self, other: &Self) -> bool {
        self.0.is_same_server(&other.0)
    }
}

impl Eq for SharingKey {}

impl Hash for SharingKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // The environment isn't hashed: most specs share one, which `eq` detects by pointer.
        let BackendSpec { reach, protocol, capabilities, .. } = &*self.0;
        (reach, protocol, capabilities).hash(state);
    }
}

impl Pool {
    pub fn new(options: PoolOptions) -> Self {
        let PoolOptions {
            environment,
            program,
            homes,
            direct,
            store,
            logins,
            observer,
            server_output_memory: said,
            ..
        } = options;
        // A separate tracker: pending sign-ins must not delay the shutdown.
        let logins = logins.map(|storage| {
            let observer = Arc::clone(&observer);
            LoginRegistry::new(storage, TaskTracker::new(), move |event| {
                tell_of_login(&observer, event);
            })
        });
        let (tasks, shutdown) = (TaskTracker::new(), CancellationToken::new());
        let worker =
            store.map(|store| Arc::new(ListingStoreWorker::new(store, tasks.clone(), &shutdown)));
        let run = process_reaper::name_of_run();
        let guard = Watchdog::new(program.clone(), launch::spawn_watchdog, run.clone());
        let context = PoolContext {
            direct: DirectStarts { records: DirectRecords::new(direct), turn: Semaphore::new(1) },
            launch: LaunchResources {
                reaper: Arc::new(ProcessReaper::new(run, guard)),
                program,
                grants: Arc::new(GrantRegistry::new(homes.as_deref())),
                homes,
            },
            tasks,
            shutdown,
            worker,
            scheduler: StartScheduler::new(available_parallelism().map_or(1, NonZero::get)),
            is_sole: !options.agents.are_many,
            observer,
            said,
            paused: PausedServers::default(),
            logins,
        };
        context.tasks.spawn(Arc::clone(&context.launch.reaper).run(context.shutdown.clone()));
        Self {
            context: Arc::new(context),
            environment,
            backends: Mutex::default(),
            signing_in: PendingLogins::default(),
            is_served_elsewhere: options.agents.are_remote,
            has_agent_logins: options.agents.are_many && !options.agents.share_logins,
            is_alone: options.is_single_server,
        }
    }

    /// Must be called before the servers of a configuration start.
    pub(crate) fn learn_config(&self, config: &Config) {
        self.context.launch.grants.learn(config);
    }

    /// Returns the backend for a server. With `is_shared`, reuses the backend of an equal launch
    /// and its timeouts.
    pub fn get_or_create(&self, spec: Arc<BackendSpec>, is_shared: bool) -> Backend {
        let mut backends = self.backends.lock();
        let key = SharingKey(Arc::clone(&spec));
        if is_shared
            && let Some(backend) =
                backends.shared.get(&key).and_then(|backend| backend.upgrade(&key.0.server))
        {
            return backend;
        }
        let id = BackendId(backends.count);
        backends.count += 1;
        let (commands, commands_receiver) = mpsc::channel(64);
        let (status, status_receiver) = watch::channel(BackendState::Stopped);
        let (gone, gone_receiver) = watch::channel(false);
        let (reports, vitals) = (Arc::new(ChangeFeed::default()), StatusRecorder::default());
        let (name, has_roots) = (spec.server.clone(), spec.capabilities.has_roots());
        let secrets = Arc::new(spec.secrets());
        let board = MessageRouter::new(name.clone(), has_roots, self.context.is_sole, secrets)
            .limited(ServerQuota::of(&spec, &self.context.observer));
        let board = Arc::new(if self.is_alone { board.unlabelled() } else { board });
        let actor = Actor {
            id,
            spec,
            context: Arc::clone(&self.context),
            commands: commands_receiver,
            status,
            router: Arc::clone(&board),
            reports: Arc::clone(&reports),
            vitals: vitals.clone(),
            listed: ListingHistory::default(),
            succession: Succession::new(gone),
        };
        let span = server_span(&actor.spec.label);
        self.context.tasks.spawn(actor.run().instrument(span));
        let (status, gone) = (status_receiver, gone_receiver);
        let is_slow = AtomicBool::new(false);
        let shared =
            BackendInner { id, commands, status, router: board, reports, vitals, gone, is_slow };
        let backend = Backend { name: name.into(), shared: Arc::new(shared) };
        if is_shared {
            backends.shared.retain(|_, other| other.is_alive());
            backends.shared.insert(key, backend.downgrade());
        }
        backend
    }

    pub(crate) fn recall(
        &self,
        specs: Vec<(BackendId, Arc<BackendSpec>)>,
    ) -> impl Future<Output = HashMap<BackendId, LastKnownListing>> + Send + use<> {
        let worker = self.context.worker.clone();
        async move {
            let Some(worker) = worker else { return HashMap::new() };
            let recall = move |store: &ListingStore| {
                let recall = |(id, spec): (BackendId, Arc<BackendSpec>)| {
                    let (record, since) = store.load(&spec.reach, spec.protocol)?;
                    Some((id, LastKnownListing { listing: record.listing, since }))
                };
                specs.into_iter().filter_map(recall).collect()
            };
            worker.run(recall).await.unwrap_or_default()
        }
    }

    /// Waits until all listings so far are saved.
    pub(crate) async fn flush_listings(&self) {
        if let Some(worker) = &self.context.worker {
            worker.flush().await;
        }
    }

    /// Runs `work` with the store, apart from the tasks that serve agents. `None` without a store.
    pub(crate) async fn with_store<T: Send + 'static>(
        &self,
        work: impl FnOnce(&ListingStore) -> T + Send + 'static,
    ) -> Option<T> {
        self.context.worker.as_ref()?.run(work).await
    }

    /// Runs `work` with the store in the background. Only [`Self::shut_down`] waits for it.
    pub(crate) fn with_store_later(&self, work: impl FnOnce(&ListingStore) + Send + 'static) {
        if let Some(worker) = self.context.worker.clone() {
            self.context.tasks.spawn(async move { worker.run(work).await });
        }
    }

    pub(crate) fn environment(&self) -> &Arc<ChildEnvironment> {
        &self.environment
    }

    pub(crate) fn observer(&self) -> &Arc<Telemetry> {
        &self.context.observer
    }

    pub(crate) fn paused(&self) -> &PausedServers {
        &self.context.paused
    }

    pub(crate) fn login_scope(
        &self,
        agent: Option<&AgentName>,
        subject: Option<&Arc<str>>,
    ) -> LoginScope {
        let logins = self.context.logins.as_ref();
        LoginScope::new(logins, (agent, subject), self.has_agent_logins)
    }

    /// Returns the logins; `None` if sign-in is disabled.
    pub(crate) fn logins(&self) -> Option<&Arc<LoginRegistry>> {
        self.context.logins.as_ref()
    }

    /// Joins the pending sign-in at this target, or begins one.
    pub(crate) async fn sign_in(
        &self,
        login: &Arc<OAuthLogin>,
        back: RedirectTarget,
    ) -> Result<Arc<PendingLogin>, mcp_workbench_login::LoginError> {
        self.signing_in.join(login, back).await
    }

    /// Returns the page for a browser that an authorization server has redirected to this process.
    pub(crate) async fn signed_in(&self, address: &Url) -> Page {
        match &self.context.logins {
            Some(logins) => logins.page_for(address).await,
            None => Page::no_pending_login(),
        }
    }

    pub(crate) fn is_served_elsewhere(&self) -> bool {
        self.is_served_elsewhere
    }

    pub(crate) fn shutdown(&self) -> &CancellationToken {
        &self.context.shutdown
    }

    pub(crate) fn is_signing_in(&self, target: &LoginTarget) -> bool {
        self.signing_in.has(target)
    }

    pub(crate) fn is_single_agent(&self) -> bool {
        self.context.is_sole
    }

    /// Returns how a server would start now; `None` for one over HTTP.
    pub(crate) fn start_method(
        &self,
        spec: &BackendSpec,
    ) -> Option<Result<StartMethod, StartError>> {
        direct::start_method(spec, &self.context.direct.records)
    }

    pub(crate) fn has_store(&self) -> bool {
        self.context.worker.is_some()
    }

    /// Stops all servers concurrently, and returns within 1.6 s. A process that has left its
    /// server's process group can keep streams open, but doesn't delay the return.
    pub async fn shut_down(&self) {
        self.context.shutdown.cancel();
        self.context.tasks.close();
        let renewed = async {
            if let Some(logins) = &self.context.logins
                && timeout(SHUTDOWN, logins.close()).await.is_err()
            {
                tracing::warn!("shutdown interrupted a token refresh, the login may be lost");
            }
        };
        let ended = timeout(SHUTDOWN, self.context.tasks.wait());
        let ((), ended) = tokio::join!(renewed, ended);
        if ended.is_err() {
            tracing::warn!("a process that a server started still holds its streams open");
        }
    }
}

#[cfg(test)]
mod tests;
