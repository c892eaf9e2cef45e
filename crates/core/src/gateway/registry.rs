//! Registry of all gateways, and of the state they share.
//!
//! Each agent gets a configuration filtered by policy ([`Policies`]). A gateway knows nothing that
//! its agents may not see, so it can't leak it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use thiserror::Error;
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use crate::backend::{
    AgentId, Backend, ClientCapabilities, MemoryPools, Pool, PoolOptions, QuotaRegistry,
};
use crate::gateway::approvals::ApprovalQueue;
use crate::gateway::caller::Caller;
use crate::gateway::clock::Clock;
use crate::gateway::components::Gateway;
use crate::gateway::eager_servers::{EagerServers, UnreadyServer};
use crate::gateway::embedding::EmbeddingModels;
use crate::gateway::interner::Interner;
use crate::gateway::limits::Limiters;
use crate::gateway::response_cache::ResponseCaches;
use crate::gateway::scope::GatewayScope;
use crate::gateway::shared_services::SharedServices;
use crate::policy::Policies;
use crate::state::{self, StateStore};
use crate::telemetry::{SessionGuard, Telemetry};
use mcp_workbench_names::ServerRef;
use mcp_workbench_settings::{Config, ToolMode, fingerprint};
use mcp_workbench_wire::json::RawJson;

/// Maximum number of gateways, in total and per caller. At the limit the least recently used
/// gateway without subscribers is evicted; if every one has subscribers, the client is refused.
const MAX_GATEWAYS: usize = 1024;
const MAX_GATEWAYS_PER_CALLER: usize = 32;

#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error(
    "too many different client capability sets (maximum {MAX_GATEWAYS_PER_CALLER} per agent, \
     {MAX_GATEWAYS} in total); retry after another client has disconnected"
)]
pub struct GatewayLimitError;

/// All gateways, with the configuration, policies and server processes that they share.
///
/// Servers adapt to the capabilities of their client ([`ClientCapabilities`]), so there is a
/// gateway for each caller and capability set.
pub struct GatewayRegistry {
    common: SharedServices,
    quotas: QuotaRegistry,
    tasks: TaskTracker,
    state: Mutex<RegistryState>,
}

struct RegistryState {
    served: ActiveConfig,
    /// `true` if a gateway starts its eager servers on first use.
    is_eager: bool,
    /// Eager servers that run even while no agent is connected.
    kept: Option<EagerServers>,
    made: HashMap<GatewayKey, GatewaySlot>,
    /// Number of lookups so far, the clock of the LRU eviction.
    visits: u64,
}

struct GatewaySlot {
    gateway: watch::Sender<Arc<Gateway>>,
    visited: u64,
    has_begun: bool,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct GatewayKey {
    caller: Caller,
    capabilities: ClientCapabilities,
}

#[derive(Clone)]
struct ActiveConfig {
    config: Arc<Config>,
    fingerprint: Arc<str>,
    policies: Arc<Policies>,
    interner: Arc<Interner>,
}

impl ActiveConfig {
    fn new(config: Arc<Config>) -> Self {
        let policies = Arc::new(Policies::new(Arc::clone(&config)));
        let fingerprint = fingerprint(&config).into();
        Self { policies, interner: Arc::default(), config, fingerprint }
    }
}

impl GatewayKey {
    fn new(caller: &Caller, capabilities: Option<&RawJson>) -> Self {
        let capabilities =
            capabilities.map_or(ClientCapabilities::NONE, ClientCapabilities::from_raw);
        Self { caller: caller.clone(), capabilities }
    }
}

impl RegistryState {
    /// Evicts a gateway if a new one is needed and the limits are reached.
    fn make_room(&mut self, key: &GatewayKey) -> Result<(), GatewayLimitError> {
        if self.made.contains_key(key) {
            return Ok(());
        }
        let is_callers = |other: &GatewayKey| other.caller == key.caller;
        if self.made.keys().filter(|other| is_callers(other)).count() >= MAX_GATEWAYS_PER_CALLER {
            self.drop_one(is_callers)?;
        }
        if self.made.len() >= MAX_GATEWAYS {
            self.drop_one(|_| true)?;
        }
        Ok(())
    }

    fn drop_one(
        &mut self,
        is_meant: impl Fn(&GatewayKey) -> bool,
    ) -> Result<(), GatewayLimitError> {
        let of_nobody = self
            .made
            .iter()
            .filter(|(other, slot)| is_meant(other) && slot.gateway.receiver_count() == 0);
        let oldest = of_nobody.min_by_key(|(_, slot)| slot.visited);
        let oldest = oldest.map(|(other, _)| other.clone()).ok_or(GatewayLimitError)?;
        self.made.remove(&oldest);
        Ok(())
    }
}

impl GatewayRegistry {
    /// Starts no servers. The gateways' own tasks run on `tasks` until this is dropped.
    pub fn new(config: Arc<Config>, options: PoolOptions, tasks: &TaskTracker) -> Self {
        Self::with_store(config, options, state::new_store(), tasks)
    }

    /// Like [`Self::new`], with agent state in `store`.
    pub fn with_store(
        config: Arc<Config>,
        options: PoolOptions,
        store: Arc<dyn StateStore>,
        tasks: &TaskTracker,
    ) -> Self {
        let bytes = MemoryPools::of(&config.limits);
        let is_alone = config.mode.is_passthrough();
        let options = PoolOptions {
            server_output_memory: bytes.server_messages().clone(),
            is_single_server: is_alone,
            ..options
        };
        let quotas = QuotaRegistry::new(&options.observer, bytes);
        let approvals = ApprovalQueue::new(Arc::clone(&options.observer), config.approvals.key);
        let pool = Arc::new(Pool::new(options));
        pool.learn_config(&config);
        Self {
            quotas,
            common: SharedServices {
                pool,
                limiters: Limiters::new(Arc::clone(&store)),
                stores: ResponseCaches::default(),
                store,
                embeddings: EmbeddingModels::default(),
                approvals: Arc::new(approvals),
            },
            tasks: tasks.clone(),
            state: Mutex::new(RegistryState {
                served: ActiveConfig::new(config),
                is_eager: false,
                kept: None,
                made: HashMap::new(),
                visits: 0,
            }),
        }
    }

    fn state<T>(&self, f: impl FnOnce(&mut RegistryState) -> T) -> T {
        f(&mut self.state.lock())
    }

    /// From now on, starts a gateway's eager servers when an agent first looks it up.
    pub fn start_eager(&self) {
        self.state(|state| state.is_eager = true);
    }

    /// Starts the eager servers now and restarts them when they stop.
    pub fn run_eager_servers(&self) {
        self.state(|state| {
            state.kept = Some(EagerServers::new(&state.served.config, &self.common.pool));
        });
    }

    /// Returns the eager servers that aren't running, if [`Self::run_eager_servers`] was called.
    pub fn unready_servers(&self) -> Vec<UnreadyServer> {
        self.state(|state| state.kept.as_ref().map(EagerServers::unready).unwrap_or_default())
    }

    pub fn config(&self) -> Arc<Config> {
        self.state(|state| Arc::clone(&state.served.config))
    }

    pub fn fingerprint(&self) -> Arc<str> {
        self.state(|state| Arc::clone(&state.served.fingerprint))
    }

    /// Returns the tool mode for an agent that connects now.
    pub fn mode(&self, caller: &Caller) -> ToolMode {
        let mode = self.config().mode;
        if caller.toolbox.is_some() { mode.of_one_toolbox() } else { mode }
    }

    /// Returns `true` if the caller is limited to no toolbox, or to one that it may see.
    pub fn has_toolbox(&self, caller: &Caller) -> bool {
        let Some(wanted) = &caller.toolbox else { return true };
        self.state(|RegistryState { served, .. }| {
            let seen = served.policies.visible_config(caller.agent.as_ref(), None);
            seen.toolbox(wanted.as_str()).is_some()
        })
    }

    /// Returns `true` if policy hides no server from the caller.
    pub fn shows_every_server(&self, caller: &Caller) -> bool {
        self.state(|RegistryState { served, .. }| {
            let seen = served.policies.visible_config(caller.agent.as_ref(), None);
            seen.servers().count() == served.config.servers().count()
        })
    }

    /// Makes room for a gateway for this caller and these client capabilities.
    pub fn admit(
        &self,
        caller: &Caller,
        capabilities: Option<&RawJson>,
    ) -> Result<(), GatewayLimitError> {
        let key = GatewayKey::new(caller, capabilities);
        self.state(|state| state.make_room(&key))
    }

    /// Returns the gateway for a caller and its client capabilities; `None` means no capabilities.
    /// Call [`Self::admit`] first.
    pub fn gateway_for(&self, caller: &Caller, capabilities: Option<&RawJson>) -> Arc<Gateway> {
        let key = GatewayKey::new(caller, capabilities);
        self.state(|state| Arc::clone(&self.slot(state, key).borrow()))
    }

    /// Subscribes to the caller's gateway and its replacements after configuration changes.
    pub fn subscribe(
        &self,
        caller: &Caller,
        capabilities: Option<&RawJson>,
    ) -> Result<watch::Receiver<Arc<Gateway>>, GatewayLimitError> {
        let key = GatewayKey::new(caller, capabilities);
        self.state(|state| {
            state.make_room(&key)?;
            Ok(self.slot(state, key).subscribe())
        })
    }

    fn slot<'s>(
        &self,
        state: &'s mut RegistryState,
        key: GatewayKey,
    ) -> &'s watch::Sender<Arc<Gateway>> {
        let RegistryState { served, made, is_eager, visits, kept: _ } = state;
        *visits += 1;
        let slot = made.entry(key).or_insert_with_key(|GatewayKey { caller, capabilities }| {
            let gateway = self.make(served, caller, *capabilities, None);
            GatewaySlot {
                gateway: watch::channel(Arc::new(gateway)).0,
                visited: 0,
                has_begun: false,
            }
        });
        if *is_eager && !std::mem::replace(&mut slot.has_begun, true) {
            slot.gateway.borrow().startup().start_eager(&self.tasks);
        }
        slot.visited = *visits;
        &slot.gateway
    }

    /// Returns the most recently used gateway of a caller, with any capabilities, or creates one.
    /// Starts no servers.
    pub fn any_gateway_for(&self, caller: &Caller) -> Arc<Gateway> {
        self.state(|state| {
            let slots = state.made.iter().filter(|(key, _)| key.caller == *caller);
            if let Some((_, slot)) = slots.max_by_key(|(_, slot)| slot.visited) {
                return Arc::clone(&slot.gateway.borrow());
            }
            let key = GatewayKey::new(caller, None);
            let gateway = self.make(&state.served, caller, key.capabilities, None);
            let gateway = watch::channel(Arc::new(gateway)).0;
            let slot = GatewaySlot { gateway, visited: state.visits, has_begun: false };
            Arc::clone(&state.made.entry(key).or_insert(slot).gateway.borrow())
        })
    }

    /// Returns all gateways, each with `true` if it has subscribers.
    pub(crate) fn all(&self) -> Vec<(Arc<Gateway>, bool)> {
        self.state(|state| {
            let slots = state.made.values().map(|slot| &slot.gateway);
            slots.map(|slot| (Arc::clone(&slot.borrow()), slot.receiver_count() > 0)).collect()
        })
    }

    pub(crate) fn eager_backends(&self) -> Vec<(ServerRef, Backend)> {
        self.state(|state| state.kept.as_ref().map(EagerServers::links).unwrap_or_default())
    }

    /// Returns the calls that wait for an approval outside the client.
    pub fn approvals(&self) -> &ApprovalQueue {
        &self.common.approvals
    }

    pub fn tasks(&self) -> &TaskTracker {
        &self.tasks
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.common.pool
    }

    /// Takes a verified token of a caller, to be exchanged for tokens of servers until `expires` (in
    /// seconds since the Unix epoch). No exchanged token may have an audience in `audience`.
    pub fn present_token(&self, subject: &str, token: &str, expires: u64, audience: &[String]) {
        if let Some(logins) = self.common.pool.logins() {
            logins.present_token(subject, token, expires, audience);
        }
    }

    /// Drops the tokens of all callers, and those exchanged for them.
    pub fn forget_callers(&self) {
        if let Some(logins) = self.common.pool.logins() {
            logins.forget_callers();
        }
    }

    fn make(
        &self,
        served: &ActiveConfig,
        caller: &Caller,
        capabilities: ClientCapabilities,
        before: Option<&Gateway>,
    ) -> Gateway {
        let scope = GatewayScope {
            caller: caller.clone(),
            config: served.policies.visible_config(caller.agent.as_ref(), caller.toolbox.as_ref()),
            policy: served.policies.for_agent(caller.agent.as_ref()),
            interner: Arc::clone(&served.interner),
            clock: Clock::default(),
            capabilities,
            // Existing sessions stay in `activate` mode.
            is_namespaced: served.config.mode.has_namespaces()
                || before.is_some_and(|before| before.scope().is_namespaced),
        };
        let before = before.map(Gateway::servers);
        Gateway::new(scope, &self.common, &self.tasks, before)
    }

    /// Applies a new configuration. Unchanged servers keep running.
    pub async fn replace_config(&self, config: Arc<Config>) {
        if let Err(error) = self.common.pool.observer().open_audit(&config) {
            tracing::error!(%error, "failed to open the new audit log; the previous one stays in use");
        }
        self.common.pool.learn_config(&config);
        let served = ActiveConfig::new(config);
        let current = || {
            self.state(|state| {
                let made = state.made.iter();
                made.map(|(key, slot)| (key.clone(), Arc::clone(&slot.gateway.borrow()))).collect()
            })
        };
        let current: Vec<(GatewayKey, Arc<Gateway>)> = current();
        let mut next = HashMap::new();
        for (key, before) in current {
            let gateway =
                self.make(&served, &key.caller, before.scope().capabilities, Some(&before));
            // Otherwise agents would see an empty tool list until the store is loaded.
            gateway.views().wait_for_stored_listings().await;
            next.insert(key, gateway);
        }
        self.state(|state| {
            let made = state.made.iter().map(|(key, slot)| {
                let before = Arc::clone(&slot.gateway.borrow());
                // Created during the wait, so too new to need the stored listings.
                let new =
                    || self.make(&served, &key.caller, before.scope().capabilities, Some(&before));
                let gateway = Arc::new(next.remove(key).unwrap_or_else(new));
                (slot, before, gateway)
            });
            let made: Vec<_> = made.collect();
            // A server that one agent loses may still be in use by another.
            let mut in_use: HashSet<_> = made
                .iter()
                .flat_map(|(_, _, gateway)| gateway.servers().shared_backend_ids())
                .collect();
            if state.kept.is_some() {
                // Both sets exist for a moment, so that a server in both isn't stopped.
                let kept = EagerServers::new(&served.config, &self.common.pool);
                in_use.extend(kept.backends());
                state.kept = Some(kept);
            }
            let replaced = made.into_iter().map(|(slot, before, gateway)| {
                gateway.servers().prepare_takeover(before.servers(), &in_use);
                slot.gateway.send_replace(Arc::clone(&gateway));
                (before, gateway)
            });
            let replaced: Vec<_> = replaced.collect();
            state.served = served;
            for (before, gateway) in replaced {
                gateway.servers().finish_takeover(before.servers(), &in_use, &self.tasks);
                if state.is_eager {
                    gateway.startup().start_eager(&self.tasks);
                }
            }
        });
    }

    /// Registers an agent until the guard is dropped.
    pub fn register_agent(&self, caller: &Caller, agent: AgentId) -> SessionGuard {
        SessionGuard::begin(self.observer().bus(), caller.agent.as_ref(), agent.number())
    }

    /// Releases everything that an agent had for itself.
    pub fn remove_agent(&self, agent: AgentId) {
        self.state(|state| {
            for slot in state.made.values() {
                for member in slot.gateway.borrow().servers().managed_servers() {
                    member.remove_agent(agent);
                }
            }
        });
    }

    pub fn quotas(&self) -> &QuotaRegistry {
        &self.quotas
    }

    /// Returns the store of agent state that outlives a request.
    pub fn store(&self) -> &Arc<dyn StateStore> {
        &self.common.store
    }

    pub fn observer(&self) -> &Arc<Telemetry> {
        self.common.pool.observer()
    }

    /// Stops every server and returns when all are gone, after 1.6 s at the latest.
    pub async fn shut_down(&self) {
        self.common.pool.shut_down().await;
    }
}

#[cfg(test)]
mod tests;
