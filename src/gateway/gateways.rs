//! What all gateways have in common, and which agents look through which.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use crate::backend::{AgentId, Pool, PoolOptions};
use crate::config::Config;
use crate::gateway::Gateway;
use crate::policy::Policy;
use crate::raw::{self, Raw};

/// How many kinds of agents there may be, by what they say that they can do.
const MAX_GATEWAYS: usize = 64;

/// What all gateways have in common: the configuration, the policy, and the servers' processes.
///
/// Servers behave by what their client can do (MCP, `ClientCapabilities`), so agents that can do
/// different things look at them through different gateways.
pub struct Gateways {
    pool: Arc<Pool>,
    tasks: TaskTracker,
    state: Mutex<State>,
}

struct State {
    served: Served,
    /// The gateways there are, and where each is told of when it is replaced.
    made: HashMap<Bytes, watch::Sender<Arc<Gateway>>>,
}

/// What is served at one time.
#[derive(Clone)]
struct Served {
    config: Arc<Config>,
    policy: Arc<Policy>,
}

impl Served {
    fn new(config: Arc<Config>) -> Self {
        Self { policy: Arc::new(Policy::new(&config)), config }
    }
}

impl Gateways {
    /// Nothing is started yet. The gateways' own tasks run on `tasks` until this is dropped.
    pub fn new(config: Arc<Config>, options: PoolOptions, tasks: &TaskTracker) -> Self {
        Self {
            pool: Arc::new(Pool::new(options)),
            tasks: tasks.clone(),
            state: Mutex::new(State { served: Served::new(config), made: HashMap::new() }),
        }
    }

    fn state<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The configuration that is being served.
    pub fn config(&self) -> Arc<Config> {
        self.state(|state| Arc::clone(&state.served.config))
    }

    /// The gateway for agents that say this of what they can do; `None`: nothing.
    pub fn for_capabilities(&self, capabilities: Option<&Raw>) -> Arc<Gateway> {
        self.of(capabilities, |gateway| Arc::clone(&gateway.borrow()))
    }

    /// The same, and those that take its place when another configuration is served.
    pub fn follow(&self, capabilities: Option<&Raw>) -> watch::Receiver<Arc<Gateway>> {
        self.of(capabilities, watch::Sender::subscribe)
    }

    fn of<T>(
        &self,
        capabilities: Option<&Raw>,
        f: impl FnOnce(&watch::Sender<Arc<Gateway>>) -> T,
    ) -> T {
        let none = || raw::object([]);
        let mut capabilities = capabilities.cloned().unwrap_or_else(none);
        self.state(|State { served, made }| {
            if made.len() >= MAX_GATEWAYS && !made.contains_key(capabilities.as_bytes()) {
                capabilities = none();
            }
            let key = Bytes::copy_from_slice(capabilities.as_bytes());
            let new = || watch::channel(Arc::new(self.make(served, &capabilities, None))).0;
            f(made.entry(key).or_insert_with(new))
        })
    }

    fn make(&self, served: &Served, capabilities: &Raw, before: Option<&Gateway>) -> Gateway {
        let Served { config, policy } = served.clone();
        let gateway =
            Gateway::new(config, policy, Arc::clone(&self.pool), capabilities, &self.tasks, before);
        if let Some(before) = before {
            gateway.follow(before);
        }
        gateway
    }

    /// Serves another configuration from now on. What of it is the same goes on as it was.
    pub async fn replace(&self, config: Arc<Config>) {
        let served = Served::new(config);
        let current = || {
            self.state(|state| {
                let made = state.made.iter();
                made.map(|(key, slot)| (key.clone(), Arc::clone(&slot.borrow()))).collect()
            })
        };
        let current: Vec<(Bytes, Arc<Gateway>)> = current();
        let mut next = HashMap::new();
        for (key, before) in current {
            let gateway = self.make(&served, before.capabilities(), Some(&before));
            // So that nobody sees less than there is.
            gateway.recalled().await;
            next.insert(key, gateway);
        }
        let replaced = self.state(|state| {
            let mut replaced = Vec::new();
            for (key, slot) in &state.made {
                let before = Arc::clone(&slot.borrow());
                // One that was made meanwhile is nobody's for long yet.
                let new = || self.make(&served, before.capabilities(), Some(&before));
                let gateway = Arc::new(next.remove(key).unwrap_or_else(new));
                slot.send_replace(Arc::clone(&gateway));
                replaced.push((before, gateway));
            }
            state.served = served;
            replaced
        });
        for (before, gateway) in replaced {
            gateway.succeed(&before, &self.tasks);
        }
    }

    /// Forgets an agent that has left.
    pub fn leave(&self, agent: AgentId) {
        self.state(|state| {
            for gateway in state.made.values() {
                for member in gateway.borrow().servers() {
                    member.leave(agent);
                }
            }
        });
    }

    /// Ends every server; returns when nothing of them is left, after 2 s at the latest.
    pub async fn shut_down(&self) {
        self.pool.shut_down().await;
    }
}
