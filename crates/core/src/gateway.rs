//! The gateway: the one way in to every server, and the one writer of what everybody sees.
//!
//! *Theory of operation.* There is one [`Gateway`] for each set of things that agents say they can
//! do ([`Gateways`]), for servers behave by that. In it, one task ([`snapshot`]) hears of changed
//! listings and publishes a new immutable [`Snapshot`]; nobody else writes state that agents share.
//! A request looks at one snapshot. Servers are started by [`Gateway::open`], by [`Gateway::call`]
//! and by [`Gateway::start_all`], whichever comes first, and a call starts no server but its own.
//! A server that asks questions gets a connection for each agent ([`members`]); a modern one that
//! asks an older agent is understood in [`bridge`].

mod admitting;
mod answers;
mod asking;
mod bridge;
mod caching;
mod caller;
mod calling;
mod clock;
mod confirming;
mod context;
mod eager;
mod embedding;
mod error;
mod explaining;
mod filing;
mod finding;
mod gateways;
mod judged;
mod lens;
mod limiters;
mod limiting;
mod locking;
mod macros;
mod members;
mod observing;
mod opening;
mod reload;
mod results;
mod searching;
mod sending;
mod signing_in;
mod snapshot;
mod starting;
mod steering;
mod tasks;
mod trying;
mod turns;
mod world;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use foldhash::HashMap;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::task::TaskTracker;

use crate::backend::{self, Backend, BackendId, Era, Listed, Pool, Reach, Spec, Whose};
use crate::gateway::clock::Clock;
use crate::gateway::embedding::Embedding;
use crate::gateway::error::{failed, server_error};
use crate::gateway::filing::Files;
use crate::gateway::gateways::{Common, Terms};
use crate::gateway::limiters::OwnLimiters;
use crate::gateway::members::{Member, Server};
use crate::gateway::results::Results;
use crate::gateway::searching::LastIndex;
use crate::gateway::starting::Once;
use crate::gateway::tasks::Tasks;
use crate::gateway::world::World;
use crate::llm;
use crate::login::Place;
use crate::name::{ServerName, ServerRef, ToolboxName};
use crate::observe::{Listeners, Meters, Secrets};
use crate::policy::Policy;
use crate::settings::{Config, Launch, ServerConfig, ToolboxConfig};

pub use crate::backend::{
    AgentId, AtLimit, Bytes, ClientAbilities, Condition, Event, Held, LogLevel, Payers, Phase,
    Presence, Purse, Question, Tie, Urgency, may_ask,
};
pub use crate::gateway::asking::{Asked, Unlent};
pub use crate::gateway::caller::Caller;
pub use crate::gateway::context::RequestContext;
pub use crate::gateway::eager::Down;
pub use crate::gateway::error::{CallError, FailedServer};
pub use crate::gateway::filing::Filed;
pub use crate::gateway::finding::Standing;
pub use crate::gateway::gateways::{Crowded, Gateways};
pub use crate::gateway::judged::Judged;
pub use crate::gateway::macros::Lacking;
pub use crate::gateway::opening::Opened;
pub use crate::gateway::opening::heartbeat;
pub use crate::gateway::searching::{Found, Sought};
pub use crate::gateway::signing_in::{CALLBACK, PAGE_HEADERS, SignInPage, SignedInPage, SigningIn};
pub use crate::gateway::snapshot::Snapshot;

/// How many changed listings may wait to be published.
const EVENTS: usize = 64;

/// Everything behind the agents that can do the same: policy, servers, and what they have.
pub struct Gateway {
    config: Arc<Config>,
    policy: Arc<Policy>,
    world: Arc<World>,
    clock: Clock,
    pool: Arc<Pool>,
    abilities: ClientAbilities,
    is_namespaced: bool,
    members: HashMap<ServerRef, Member>,
    /// The limiters of its calls.
    limiters: OwnLimiters,
    /// The rests of results that were too long.
    results: Arc<Results>,
    snapshot: watch::Receiver<Arc<Snapshot>>,
    /// Who hears of what is done through it.
    listeners: Listeners,
    /// The counters of calls of servers that there are not.
    nowhere: Arc<Meters>,
    tasks: Tasks,
    /// The model that the navigator asks, once it has been asked.
    llm: OnceLock<Result<llm::Endpoint, llm::Failure>>,
    /// The secrets that go into no prompt, once they have been looked for.
    secrets: OnceLock<Secrets>,
    /// The index that tools are found with.
    last_index: LastIndex,
    /// The files of a catalog folder that were read.
    files: Arc<Files>,
    /// The model that says what texts mean, where the configuration names one.
    embedding: Option<Arc<Embedding>>,
    /// The work that is done once, whoever wants it first.
    once: Once,
    /// `true` if another has taken its place.
    is_replaced: AtomicBool,
}

impl Gateway {
    fn new(
        terms: Terms,
        common: &Common,
        abilities: ClientAbilities,
        tasks: &TaskTracker,
        before: Option<&Self>,
    ) -> Self {
        let Terms { caller, config, .. } = &terms;
        let pool = Arc::clone(&common.pool);
        let whose = pool.whose(caller.agent.as_ref());
        let (events, changes) = mpsc::channel(EVENTS);
        let member = |toolbox: &ToolboxConfig, server: &ServerConfig| {
            let meters = || pool.observer().meters(toolbox.name.as_str(), server.name.as_str());
            if let Launch::Macros(_) = server.launch {
                return Member::Macros(meters());
            }
            let spec = || spec(config, toolbox, server, abilities, &pool, &whose);
            let at = server_ref(&toolbox.name, &server.name);
            let login = place(&whose, server);
            let spec = match terms.world.spec(at, abilities, login, spec) {
                Ok(spec) => spec,
                Err(failure) => return Member::Unsupported(failure),
            };
            let old = before.and_then(|before| before.at(&toolbox.name, &server.name));
            let same = old.and_then(|old| old.renewed(server, &spec));
            let mut member = same.unwrap_or_else(|| Server::new(server, spec, meters(), &pool));
            member.limiter = common.limiters.of_server(server, config);
            member.answers = common.stores.of(server, config);
            // Of one agent there are as many as the configuration has servers.
            let most = config.limits.per_caller.max_processes;
            member.most_of_one = if pool.is_sole() { usize::MAX } else { most };
            Member::Server(Box::new(member))
        };
        let members: HashMap<_, _> =
            config.servers().map(|(t, s)| (server_ref(&t.name, &s.name), member(t, s))).collect();
        let sources = members.iter().filter_map(|(at, member)| match member {
            Member::Server(server) => Some((at.clone(), server.shared.id())),
            Member::Macros(_) => Some((at.clone(), BackendId::NONE)),
            Member::Unsupported(_) => None,
        });
        // Sessions that began in that mode keep it.
        let is_namespaced =
            config.mode.has_namespaces() || before.is_some_and(|before| before.is_namespaced);
        let clock = Clock::default();
        let mut writer = snapshot::Writer::new(&terms, clock, sources.collect(), is_namespaced)
            .tells(pool.observer().listeners());
        let mut unlisted = Vec::new();
        for member in members.values() {
            let Member::Server(server) = member else { continue };
            match server.shared.report_to(&events) {
                Some(listed) => writer.knows(server.shared.id(), listed),
                None => unlisted.push((server.shared.id(), Arc::clone(server.spec()))),
            }
        }
        let remembered = pool.recall(unlisted);
        let nothing = Snapshot::nothing(!pool.has_store());
        let (publish, snapshot) = watch::channel(Arc::new(nothing));
        tasks.spawn(writer.run(remembered, changes, publish));
        let observer = Arc::clone(pool.observer());
        let known = Tasks::new(Arc::clone(&common.store), caller, abilities);
        Self {
            limiters: common.limiters.of(caller, config),
            results: Arc::clone(&common.results),
            embedding: common.embeddings.of(&config.search),
            config: terms.config,
            policy: terms.policy,
            world: terms.world,
            clock,
            pool,
            abilities,
            is_namespaced,
            members,
            snapshot,
            listeners: observer.listeners(),
            nowhere: observer.meters("", ""),
            tasks: known,
            llm: OnceLock::new(),
            secrets: OnceLock::new(),
            last_index: LastIndex::default(),
            files: Arc::default(),
            once: Once::default(),
            is_replaced: AtomicBool::new(false),
        }
    }

    /// The configuration that is being served.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the abilities of the agents behind it.
    pub(crate) fn abilities(&self) -> ClientAbilities {
        self.abilities
    }

    /// Returns the snapshot that everybody sees now.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.borrow().clone()
    }

    /// Returns a receiver of the snapshots as they change.
    pub fn snapshots(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.snapshot.clone()
    }

    /// Starts one server of a toolbox, if it is not running, and waits until the snapshot shows
    /// what it has. Dropping the future stops the waiting, not the server.
    pub fn start(
        &self,
        toolbox: &ToolboxName,
        server: &ServerName,
        agent: &Presence,
        urgency: Urgency,
    ) -> impl Future<Output = Result<(), FailedServer>> + Send + use<> {
        let backend = match self.member(toolbox, server) {
            Some(Member::Server(server)) => server.backend(agent, &self.pool).map(|own| {
                own.attach(agent);
                Some((own, server.shared.clone()))
            }),
            Some(Member::Macros(_)) => Ok(None),
            Some(Member::Unsupported(failure)) => {
                Err(backend::Error::StartFailed(Arc::clone(failure)))
            }
            None => Err(backend::Error::StartFailed(Arc::new(backend::StartFailure::new(
                format!("toolbox `{toolbox}` has no such server"),
                "correct the name".to_owned(),
            )))),
        };
        let at = server_ref(toolbox, server);
        let (server, agent, snapshots) = (server.clone(), agent.clone(), self.snapshots());
        let seen = self.snapshots();
        async move {
            let started = match backend {
                Ok(None) => Ok(()),
                Ok(Some((own, shared))) if own.id() != shared.id() => {
                    // What it has is known already, or the shared one says so.
                    let known = snapshots.borrow().version(shared.id()) > 0;
                    let shown = if known {
                        Ok(())
                    } else {
                        listed(&shared, snapshots, agent.clone(), urgency).await
                    };
                    match shown {
                        Ok(()) => own.ready(Some(&agent), urgency).await.map(drop),
                        error => error,
                    }
                }
                Ok(Some((own, _))) => listed(&own, snapshots, agent, urgency).await,
                Err(error) => Err(error),
            };
            started.map_err(|error| failed(&server, &error))?;
            let closed = seen.borrow().failure_of(&at);
            closed.map_or(Ok(()), Err)
        }
    }

    /// Ends a server that is running; the next use starts it anew.
    pub fn retire(&self, toolbox: &ToolboxName, server: &ServerName) {
        if let Some(server) = self.at(toolbox, server) {
            server.shared.retire();
        }
    }

    /// Waits until what servers have listed so far is in the store of listings.
    pub async fn kept(&self) {
        self.pool.kept().await;
    }

    /// Takes that back.
    pub async fn unsubscribe(
        &self,
        at: &ServerRef,
        uri: &str,
        agent: &Presence,
    ) -> Result<(), CallError> {
        self.server(at)?.used_by(agent).unsubscribe(agent, uri).await;
        Ok(())
    }

    /// Tells the servers that an agent uses what it now wants to hear of their logs.
    pub async fn pass_on_log_level(&self, agent: &Presence) {
        let mut telling = JoinSet::new();
        for server in self.servers() {
            let backend = server.used_by(agent);
            telling.spawn(async move { backend.pass_on_log_level().await });
        }
        while telling.join_next().await.is_some() {}
    }

    /// Tells the servers that know the agent's roots that those have changed.
    pub fn pass_on_changed_roots(&self, agent: &Presence) {
        for server in self.servers().filter(|server| server.has_roots()) {
            server.used_by(agent).notify("notifications/roots/list_changed", None);
        }
    }

    /// Lets an agent hear of a task that a server runs.
    pub fn watch_task(&self, at: &ServerRef, task: &str, agent: &Presence) {
        if let Some(server) = self.at(&at.toolbox, &at.server) {
            server.used_by(agent).watch_task(agent, task);
        }
    }

    /// The servers that are running, in the order of the configuration.
    pub fn running(&self) -> Vec<ServerRef> {
        let all = self.config.servers().map(|(t, s)| server_ref(&t.name, &s.name));
        all.filter(|at| match self.members.get(at) {
            Some(Member::Server(server)) => server.shared.running().is_some(),
            Some(Member::Unsupported(_) | Member::Macros(_)) | None => false,
        })
        .collect()
    }

    fn servers(&self) -> impl Iterator<Item = &Server> {
        self.members.values().filter_map(|member| match member {
            Member::Server(server) => Some(&**server),
            Member::Unsupported(_) | Member::Macros(_) => None,
        })
    }

    /// This server, if it can be started.
    fn at(&self, toolbox: &ToolboxName, server: &ServerName) -> Option<&Server> {
        match self.member(toolbox, server)? {
            Member::Server(server) => Some(server),
            Member::Unsupported(_) | Member::Macros(_) => None,
        }
    }

    fn server(&self, at: &ServerRef) -> Result<&Server, CallError> {
        match self.members.get(at) {
            Some(Member::Server(server)) => Ok(server),
            Some(Member::Unsupported(failure)) => {
                Err(server_error(at, backend::Error::StartFailed(Arc::clone(failure))))
            }
            Some(Member::Macros(_)) => {
                let none = backend::StartFailure::new(
                    "it is no server, it has the tools alone that the configuration makes"
                        .to_owned(),
                    "call one of its tools".to_owned(),
                );
                Err(server_error(at, backend::Error::StartFailed(Arc::new(none))))
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

    /// Returns `true` if a server speaks the older revisions alone, as far as that is known.
    pub fn is_legacy(&self, at: &ServerRef) -> bool {
        let Some(Member::Server(server)) = self.members.get(at) else { return false };
        server.shared.running().is_some_and(|live| live.era() == Era::Legacy)
    }

    fn member(&self, toolbox: &ToolboxName, server: &ServerName) -> Option<&Member> {
        self.members.get(&server_ref(toolbox, server))
    }
}

/// Returns the specification of a server, for agents that can do this and have this environment.
fn spec(
    config: &Config,
    toolbox: &ToolboxConfig,
    server: &ServerConfig,
    abilities: ClientAbilities,
    pool: &Pool,
    whose: &Whose,
) -> Result<Spec, backend::StartFailure> {
    Ok(Spec {
        label: format!("{}/{}", toolbox.name, server.name),
        server: server.name.to_string(),
        reach: Reach::of(server, whose)?,
        environment: Arc::clone(pool.environment()),
        protocol: server.protocol,
        abilities: if server.roots { abilities } else { abilities.without_roots() },
        startup_timeout: server.startup_timeout,
        idle_timeout: server.idle_timeout,
        max_message_bytes: config.limits.max_message_bytes,
    })
}

/// Where one signs in at a server, if one does.
fn place(whose: &Whose, server: &ServerConfig) -> Option<Place> {
    match &server.launch {
        Launch::Http(launch) => whose.place(server.name.as_str(), launch),
        Launch::Stdio(_)
        | Launch::Macros(_)
        | Launch::Unsupported { .. }
        | Launch::Broken { .. } => None,
    }
}

fn server_ref(toolbox: &ToolboxName, server: &ServerName) -> ServerRef {
    ServerRef { toolbox: toolbox.clone(), server: server.clone() }
}

/// Waits until a server runs and the snapshot shows what it has.
async fn listed(
    backend: &Backend,
    mut snapshots: watch::Receiver<Arc<Snapshot>>,
    agent: Presence,
    urgency: Urgency,
) -> Result<(), backend::Error> {
    let Listed { version, .. } = backend.ready(Some(&agent), urgency).await?.listed();
    snapshots
        .wait_for(|snapshot| snapshot.version(backend.id()) >= version)
        .await
        .map_err(|_| backend::Error::ShuttingDown)?;
    Ok(())
}
