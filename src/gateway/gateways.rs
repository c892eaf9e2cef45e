//! What all gateways have in common, and which agents look through which.
//!
//! An agent looks at a configuration of its own: what of the file it may know of ([`Policies`]). So
//! what it may not know is nowhere behind it, and no surface can tell of it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use crate::backend::{AgentId, Pool, PoolOptions};
use crate::config::{Config, ToolMode};
use crate::gateway::caching::Stores;
use crate::gateway::eager::{Down, Eager};
use crate::gateway::embedding::Embeddings;
use crate::gateway::limiting::Bounds;
use crate::gateway::results::Results;
use crate::gateway::{Caller, Gateway, places};
use crate::observe::{Guest, Observer};
use crate::policy::{Policies, Policy};
use crate::raw::{self, Raw};

/// How many gateways there may be before those go that nobody follows, and before agents are taken
/// for such as can do nothing.
const MAX_GATEWAYS: usize = 64;

/// What all gateways have in common: the configuration, the policies, and the servers' processes.
///
/// Servers behave by what their client can do (MCP, `ClientCapabilities`), so agents that can do
/// different things look at them through different gateways; and so do those that may do different
/// things.
pub struct Gateways {
    common: Common,
    tasks: TaskTracker,
    state: Mutex<State>,
}

/// What all gateways share.
pub(crate) struct Common {
    pub(crate) pool: Arc<Pool>,
    pub(crate) bounds: Bounds,
    pub(crate) stores: Stores,
    pub(crate) results: Arc<Results>,
    pub(crate) embeddings: Embeddings,
}

/// For whom a gateway is, and what that one may know and do.
pub(crate) struct Terms {
    pub(crate) caller: Caller,
    pub(crate) config: Arc<Config>,
    pub(crate) policy: Arc<Policy>,
}

struct State {
    served: Served,
    /// Whether gateways start their eager servers when they are made.
    is_eager: bool,
    /// The eager servers that are kept whoever comes.
    kept: Option<Eager>,
    /// The gateways there are, and where each is told of when it is replaced.
    made: HashMap<Audience, watch::Sender<Arc<Gateway>>>,
}

/// Those who look through one gateway.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Audience {
    caller: Caller,
    capabilities: Bytes,
}

/// What is served at one time.
#[derive(Clone)]
struct Served {
    config: Arc<Config>,
    policies: Arc<Policies>,
}

impl Served {
    fn new(config: Arc<Config>) -> Self {
        Self { policies: Arc::new(Policies::new(Arc::clone(&config))), config }
    }
}

impl Gateways {
    /// Nothing is started yet. The gateways' own tasks run on `tasks` until this is dropped.
    pub fn new(config: Arc<Config>, options: PoolOptions, tasks: &TaskTracker) -> Self {
        Self {
            common: Common {
                pool: Arc::new(Pool::new(options)),
                bounds: Bounds::default(),
                stores: Stores::default(),
                results: Arc::default(),
                embeddings: Embeddings::default(),
            },
            tasks: tasks.clone(),
            state: Mutex::new(State {
                served: Served::new(config),
                is_eager: false,
                kept: None,
                made: HashMap::new(),
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

    /// Those that are kept and not up.
    pub fn down(&self) -> Vec<Down> {
        self.state(|state| state.kept.as_ref().map(Eager::down).unwrap_or_default())
    }

    /// The configuration that is being served.
    pub fn config(&self) -> Arc<Config> {
        self.state(|state| Arc::clone(&state.served.config))
    }

    /// How everything is presented to an agent that comes now.
    pub fn mode(&self, caller: &Caller) -> ToolMode {
        if caller.toolbox.is_some() { ToolMode::Direct } else { self.config().mode }
    }

    /// Whether an agent may know of the one toolbox that it wants, if it wants one.
    pub fn has_toolbox(&self, caller: &Caller) -> bool {
        let Some(wanted) = &caller.toolbox else { return true };
        self.state(|State { served, .. }| {
            let seen = served.policies.seen_by(caller.agent.as_ref(), None);
            seen.toolbox(wanted.as_str()).is_some()
        })
    }

    /// Whether an agent may know of every server that there is.
    pub fn shows_every_server(&self, caller: &Caller) -> bool {
        self.state(|State { served, .. }| {
            let seen = served.policies.seen_by(caller.agent.as_ref(), None);
            places(&seen).count() == places(&served.config).count()
        })
    }

    /// The gateway for an agent that says this of what it can do; `None`: nothing.
    pub fn of(&self, caller: &Caller, capabilities: Option<&Raw>) -> Arc<Gateway> {
        self.slot(caller, capabilities, |gateway| Arc::clone(&gateway.borrow()))
    }

    /// The same, and those that take its place when another configuration is served.
    pub fn follow(
        &self,
        caller: &Caller,
        capabilities: Option<&Raw>,
    ) -> watch::Receiver<Arc<Gateway>> {
        self.slot(caller, capabilities, watch::Sender::subscribe)
    }

    fn slot<T>(
        &self,
        caller: &Caller,
        capabilities: Option<&Raw>,
        f: impl FnOnce(&watch::Sender<Arc<Gateway>>) -> T,
    ) -> T {
        let none = || raw::object([]);
        let mut capabilities = capabilities.cloned().unwrap_or_else(none);
        let audience = |capabilities: &Raw| Audience {
            caller: caller.clone(),
            capabilities: Bytes::copy_from_slice(capabilities.as_bytes()),
        };
        self.state(|State { served, made, is_eager, kept: _ }| {
            let mut key = audience(&capabilities);
            if made.len() >= MAX_GATEWAYS && !made.contains_key(&key) {
                made.retain(|_, slot| slot.receiver_count() > 0);
                if made.len() >= MAX_GATEWAYS {
                    capabilities = none();
                    key = audience(&capabilities);
                }
            }
            let new = || {
                let gateway = self.make(served, caller, &capabilities.detached(), None);
                if *is_eager {
                    gateway.start_eager(&self.tasks);
                }
                watch::channel(Arc::new(gateway)).0
            };
            f(made.entry(key).or_insert_with(new))
        })
    }

    fn make(
        &self,
        served: &Served,
        caller: &Caller,
        capabilities: &Raw,
        before: Option<&Gateway>,
    ) -> Gateway {
        let terms = Terms {
            caller: caller.clone(),
            config: served.policies.seen_by(caller.agent.as_ref(), caller.toolbox.as_ref()),
            policy: served.policies.of(caller.agent.as_ref()),
        };
        Gateway::new(terms, &self.common, capabilities, &self.tasks, before)
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
                made.map(|(key, slot)| (key.clone(), Arc::clone(&slot.borrow()))).collect()
            })
        };
        let current: Vec<(Audience, Arc<Gateway>)> = current();
        let mut next = HashMap::new();
        for (key, before) in current {
            let gateway = self.make(&served, &key.caller, before.capabilities(), Some(&before));
            // So that nobody sees less than there is.
            gateway.recalled().await;
            next.insert(key, gateway);
        }
        self.state(|state| {
            let made = state.made.iter().map(|(key, slot)| {
                let before = Arc::clone(&slot.borrow());
                // One that was made meanwhile is nobody's for long yet.
                let new = || self.make(&served, &key.caller, before.capabilities(), Some(&before));
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
                slot.send_replace(Arc::clone(&gateway));
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
        self.observer().welcome(caller.agent.as_ref(), agent.number())
    }

    /// Forgets an agent that has left.
    pub fn leave(&self, agent: AgentId) {
        self.common.results.leave(agent);
        self.state(|state| {
            for gateway in state.made.values() {
                for member in gateway.borrow().servers() {
                    member.leave(agent);
                }
            }
        });
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
