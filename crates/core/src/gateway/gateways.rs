//! All gateways: what they have in common, and which agents look through which.
//!
//! An agent looks at a configuration of its own: what of the file it may know of ([`Policies`]). So
//! what it may not know is nowhere behind it, and no surface can tell of it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use thiserror::Error;
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use crate::backend::{AgentId, Backend, Bytes, ClientAbilities, Payers, Pool, PoolOptions};
use crate::gateway::answers::Stores;
use crate::gateway::eager::{Down, Eager};
use crate::gateway::embedding::Embeddings;
use crate::gateway::limiters::Limiters;
use crate::gateway::results::Results;
use crate::gateway::world::World;
use crate::gateway::{Caller, Gateway};
use crate::name::ServerRef;
use crate::observe::{Guest, Observer};
use crate::policy::{Policies, Policy};
use crate::raw::Raw;
use crate::settings::{Config, ToolMode};
use crate::state::{self, Store};

/// How many gateways there may be, and how many for one caller's classes of abilities. Those go first
/// that nobody follows; where everybody follows theirs, newcomers are refused.
const MAX_GATEWAYS: usize = 1024;
const MAX_CLASSES: usize = 32;

/// There is no room for agents that can do what nobody else here can.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error(
    "as many kinds of clients are connected as may be at a time ({MAX_CLASSES} of one agent, \
     {MAX_GATEWAYS} in all, by what they say that they can do); come again when others have left"
)]
pub struct Crowded;

/// All gateways, with what they share: the configuration, the policies, and the servers' processes.
///
/// Servers behave by what their client can do ([`ClientAbilities`]), so agents that can do different
/// things look at them through different gateways; and so do those that may do different things.
pub struct Gateways {
    common: Common,
    payers: Payers,
    tasks: TaskTracker,
    state: Mutex<State>,
}

/// The state that all gateways share.
pub(crate) struct Common {
    pub(crate) pool: Arc<Pool>,
    pub(crate) limiters: Limiters,
    pub(crate) stores: Stores,
    pub(crate) results: Arc<Results>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) embeddings: Embeddings,
}

/// For whom a gateway is, and what that one may know and do.
pub(crate) struct Terms {
    pub(crate) caller: Caller,
    pub(crate) config: Arc<Config>,
    pub(crate) policy: Arc<Policy>,
    /// The state that it shares with others of the same configuration.
    pub(crate) world: Arc<World>,
}

struct State {
    served: Served,
    /// `true` if gateways start their eager servers when they are made.
    is_eager: bool,
    /// The eager servers that are kept whoever comes.
    kept: Option<Eager>,
    /// The gateways there are, and where each is told of when it is replaced.
    made: HashMap<Audience, Slot>,
    /// Counts how often anybody came.
    visits: u64,
}

/// Where a gateway stands.
struct Slot {
    gateway: watch::Sender<Arc<Gateway>>,
    /// Which visit was the last.
    visited: u64,
    /// `true` once its eager servers were started, where they are.
    has_begun: bool,
}

/// The agents that look through one gateway.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Audience {
    caller: Caller,
    abilities: ClientAbilities,
}

/// The configuration that is served, with its policies.
#[derive(Clone)]
struct Served {
    config: Arc<Config>,
    /// Tells it from others that replicas may serve.
    fingerprint: Arc<str>,
    policies: Arc<Policies>,
    world: Arc<World>,
}

impl Served {
    fn new(config: Arc<Config>) -> Self {
        let policies = Arc::new(Policies::new(Arc::clone(&config)));
        let fingerprint = config.fingerprint().into();
        Self { policies, world: Arc::default(), config, fingerprint }
    }
}

impl Audience {
    fn new(caller: &Caller, capabilities: Option<&Raw>) -> Self {
        let abilities = capabilities.map_or(ClientAbilities::NONE, ClientAbilities::of);
        Self { caller: caller.clone(), abilities }
    }
}

impl State {
    /// Makes room for a gateway, unless there is one already: of too many, those go that nobody
    /// follows, whose last visitor came first.
    fn make_room(&mut self, audience: &Audience) -> Result<(), Crowded> {
        if self.made.contains_key(audience) {
            return Ok(());
        }
        let is_callers = |other: &Audience| other.caller == audience.caller;
        if self.made.keys().filter(|other| is_callers(other)).count() >= MAX_CLASSES {
            self.drop_one(is_callers)?;
        }
        if self.made.len() >= MAX_GATEWAYS {
            self.drop_one(|_| true)?;
        }
        Ok(())
    }

    fn drop_one(&mut self, is_meant: impl Fn(&Audience) -> bool) -> Result<(), Crowded> {
        let of_nobody = self
            .made
            .iter()
            .filter(|(other, slot)| is_meant(other) && slot.gateway.receiver_count() == 0);
        let oldest = of_nobody.min_by_key(|(_, slot)| slot.visited);
        let oldest = oldest.map(|(other, _)| other.clone()).ok_or(Crowded)?;
        self.made.remove(&oldest);
        Ok(())
    }
}

impl Gateways {
    /// Nothing is started yet. The gateways' own tasks run on `tasks` until this is dropped.
    pub fn new(config: Arc<Config>, options: PoolOptions, tasks: &TaskTracker) -> Self {
        Self::with_store(config, options, state::store(), tasks)
    }

    /// Such gateways, whose agents' state is in `store`.
    pub fn with_store(
        config: Arc<Config>,
        options: PoolOptions,
        store: Arc<dyn Store>,
        tasks: &TaskTracker,
    ) -> Self {
        let bytes = Bytes::of(&config.limits);
        let is_alone = config.mode.is_alone();
        let options = PoolOptions { said: bytes.said().clone(), is_alone, ..options };
        Self {
            payers: Payers::new(&options.observer, bytes),
            common: Common {
                pool: Arc::new(Pool::new(options)),
                limiters: Limiters::new(Arc::clone(&store)),
                stores: Stores::default(),
                results: Arc::new(Results(Arc::clone(&store))),
                store,
                embeddings: Embeddings::default(),
            },
            tasks: tasks.clone(),
            state: Mutex::new(State {
                served: Served::new(config),
                is_eager: false,
                kept: None,
                made: HashMap::new(),
                visits: 0,
            }),
        }
    }

    fn state<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Lets every agent find the eager servers running, from when it comes.
    pub fn start_eager(&self) {
        self.state(|state| state.is_eager = true);
    }

    /// Starts the eager servers now, whoever comes, and keeps them running.
    pub fn keep_eager(&self) {
        self.state(|state| state.kept = Some(Eager::new(&state.served.config, &self.common.pool)));
    }

    /// Returns the servers that are kept and not up.
    pub fn down(&self) -> Vec<Down> {
        self.state(|state| state.kept.as_ref().map(Eager::down).unwrap_or_default())
    }

    /// The configuration that is being served.
    pub fn config(&self) -> Arc<Config> {
        self.state(|state| Arc::clone(&state.served.config))
    }

    /// The fingerprint of the configuration that is being served.
    pub fn fingerprint(&self) -> Arc<str> {
        self.state(|state| Arc::clone(&state.served.fingerprint))
    }

    /// How everything is presented to an agent that comes now.
    pub fn mode(&self, caller: &Caller) -> ToolMode {
        let mode = self.config().mode;
        if caller.toolbox.is_some() { mode.of_one_toolbox() } else { mode }
    }

    /// Returns `true` if an agent may know of the one toolbox that it wants, or wants none.
    pub fn has_toolbox(&self, caller: &Caller) -> bool {
        let Some(wanted) = &caller.toolbox else { return true };
        self.state(|State { served, .. }| {
            let seen = served.policies.seen_by(caller.agent.as_ref(), None);
            seen.toolbox(wanted.as_str()).is_some()
        })
    }

    /// Returns `true` if an agent may know of every server that there is.
    pub fn shows_every_server(&self, caller: &Caller) -> bool {
        self.state(|State { served, .. }| {
            let seen = served.policies.seen_by(caller.agent.as_ref(), None);
            seen.servers().count() == served.config.servers().count()
        })
    }

    /// Lets in an agent that says this of what it can do, if there is room.
    pub fn admit(&self, caller: &Caller, capabilities: Option<&Raw>) -> Result<(), Crowded> {
        let audience = Audience::new(caller, capabilities);
        self.state(|state| state.make_room(&audience))
    }

    /// The gateway for an agent that says this of what it can do; `None`: nothing. It has been let
    /// in before ([`Self::admit`]).
    pub fn of(&self, caller: &Caller, capabilities: Option<&Raw>) -> Arc<Gateway> {
        let audience = Audience::new(caller, capabilities);
        self.state(|state| Arc::clone(&self.slot(state, audience).borrow()))
    }

    /// The gateway for an agent that stays for a while, and those that take its place when another
    /// configuration is served.
    pub fn follow(
        &self,
        caller: &Caller,
        capabilities: Option<&Raw>,
    ) -> Result<watch::Receiver<Arc<Gateway>>, Crowded> {
        let audience = Audience::new(caller, capabilities);
        self.state(|state| {
            state.make_room(&audience)?;
            Ok(self.slot(state, audience).subscribe())
        })
    }

    fn slot<'s>(
        &self,
        state: &'s mut State,
        audience: Audience,
    ) -> &'s watch::Sender<Arc<Gateway>> {
        let State { served, made, is_eager, visits, kept: _ } = state;
        *visits += 1;
        let slot = made.entry(audience).or_insert_with_key(|Audience { caller, abilities }| {
            let gateway = self.make(served, caller, *abilities, None);
            Slot { gateway: watch::channel(Arc::new(gateway)).0, visited: 0, has_begun: false }
        });
        if *is_eager && !std::mem::replace(&mut slot.has_begun, true) {
            slot.gateway.borrow().start_eager(&self.tasks);
        }
        slot.visited = *visits;
        &slot.gateway
    }

    /// Returns a gateway of a caller, whatever its agents can do: the one where somebody came last, or
    /// else a new one. Nothing is started for it.
    pub fn at_hand(&self, caller: &Caller) -> Arc<Gateway> {
        self.state(|state| {
            let slots = state.made.iter().filter(|(audience, _)| audience.caller == *caller);
            if let Some((_, slot)) = slots.max_by_key(|(_, slot)| slot.visited) {
                return Arc::clone(&slot.gateway.borrow());
            }
            let audience = Audience::new(caller, None);
            let gateway = self.make(&state.served, caller, audience.abilities, None);
            let gateway = watch::channel(Arc::new(gateway)).0;
            let slot = Slot { gateway, visited: state.visits, has_begun: false };
            Arc::clone(&state.made.entry(audience).or_insert(slot).gateway.borrow())
        })
    }

    /// Returns every gateway, and whether anybody follows it.
    pub(crate) fn all(&self) -> Vec<(Arc<Gateway>, bool)> {
        self.state(|state| {
            let slots = state.made.values().map(|slot| &slot.gateway);
            slots.map(|slot| (Arc::clone(&slot.borrow()), slot.receiver_count() > 0)).collect()
        })
    }

    /// Returns the links that are kept whoever comes.
    pub(crate) fn kept(&self) -> Vec<(ServerRef, Backend)> {
        self.state(|state| state.kept.as_ref().map(Eager::links).unwrap_or_default())
    }

    /// Returns the processes that they have in common.
    pub(crate) fn tasks(&self) -> &TaskTracker {
        &self.tasks
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.common.pool
    }

    fn make(
        &self,
        served: &Served,
        caller: &Caller,
        abilities: ClientAbilities,
        before: Option<&Gateway>,
    ) -> Gateway {
        let terms = Terms {
            caller: caller.clone(),
            config: served.policies.seen_by(caller.agent.as_ref(), caller.toolbox.as_ref()),
            policy: served.policies.of(caller.agent.as_ref()),
            world: Arc::clone(&served.world),
        };
        Gateway::new(terms, &self.common, abilities, &self.tasks, before)
    }

    /// Serves another configuration from now on. What of it is the same goes on as it was.
    pub async fn replace(&self, config: Arc<Config>) {
        if let Err(error) = self.common.pool.observer().audit(&config) {
            tracing::error!(%error, "calls are recorded where they were before");
        }
        let served = Served::new(config);
        let current = || {
            self.state(|state| {
                let made = state.made.iter();
                made.map(|(key, slot)| (key.clone(), Arc::clone(&slot.gateway.borrow()))).collect()
            })
        };
        let current: Vec<(Audience, Arc<Gateway>)> = current();
        let mut next = HashMap::new();
        for (key, before) in current {
            let gateway = self.make(&served, &key.caller, before.abilities(), Some(&before));
            // So that nobody sees less than there is.
            gateway.recalled().await;
            next.insert(key, gateway);
        }
        self.state(|state| {
            let made = state.made.iter().map(|(key, slot)| {
                let before = Arc::clone(&slot.gateway.borrow());
                // One that was made meanwhile is nobody's for long yet.
                let new = || self.make(&served, &key.caller, before.abilities(), Some(&before));
                let gateway = Arc::new(next.remove(key).unwrap_or_else(new));
                (slot, before, gateway)
            });
            let made: Vec<_> = made.collect();
            // What one agent has no more may be another's.
            let mut in_use: HashSet<_> =
                made.iter().flat_map(|(_, _, gateway)| gateway.backends()).collect();
            if state.kept.is_some() {
                // Those that are kept on are in both for a moment.
                let kept = Eager::new(&served.config, &self.common.pool);
                in_use.extend(kept.backends());
                state.kept = Some(kept);
            }
            let replaced = made.into_iter().map(|(slot, before, gateway)| {
                gateway.follow(&before, &in_use);
                slot.gateway.send_replace(Arc::clone(&gateway));
                (before, gateway)
            });
            let replaced: Vec<_> = replaced.collect();
            state.served = served;
            for (before, gateway) in replaced {
                gateway.succeed(&before, &in_use, &self.tasks);
                if state.is_eager {
                    gateway.start_eager(&self.tasks);
                }
            }
        });
    }

    /// Takes note of an agent that comes and stays for a while.
    pub fn welcome(&self, caller: &Caller, agent: AgentId) -> Guest {
        self.observer().listeners().welcome(caller.agent.as_ref(), agent.number())
    }

    /// Forgets an agent that has left.
    pub fn leave(&self, agent: AgentId) {
        self.state(|state| {
            for slot in state.made.values() {
                for member in slot.gateway.borrow().servers() {
                    member.leave(agent);
                }
            }
        });
    }

    /// Returns the counts of everything that callers hold.
    pub fn payers(&self) -> &Payers {
        &self.payers
    }

    /// Returns the store of what is known of agents beyond one request.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.common.store
    }

    /// Who is told of what happens.
    pub fn observer(&self) -> &Arc<Observer> {
        self.common.pool.observer()
    }

    /// Ends every server; returns when nothing of them is left, after 2 s at the latest.
    pub async fn shut_down(&self) {
        self.common.pool.shut_down().await;
    }
}

#[cfg(test)]
mod tests;
