//! What all gateways have in common, and which agents look through which.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
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
    config: Arc<Config>,
    policy: Arc<Policy>,
    pool: Arc<Pool>,
    tasks: TaskTracker,
    made: Mutex<HashMap<Bytes, Arc<Gateway>>>,
}

impl Gateways {
    /// Nothing is started yet. The gateways' own tasks run on `tasks` until this is dropped.
    pub fn new(config: Arc<Config>, options: PoolOptions, tasks: &TaskTracker) -> Self {
        Self {
            policy: Arc::new(Policy::new(&config)),
            config,
            pool: Arc::new(Pool::new(options)),
            tasks: tasks.clone(),
            made: Mutex::default(),
        }
    }

    /// The configuration that is being served.
    pub fn config(&self) -> &Arc<Config> {
        &self.config
    }

    /// The gateway for agents that say this of what they can do; `None`: nothing.
    pub fn for_capabilities(&self, capabilities: Option<&Raw>) -> Arc<Gateway> {
        let none = || raw::object([]);
        let mut capabilities = capabilities.cloned().unwrap_or_else(none);
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if made.len() >= MAX_GATEWAYS && !made.contains_key(capabilities.as_bytes()) {
            capabilities = none();
        }
        let key = Bytes::copy_from_slice(capabilities.as_bytes());
        Arc::clone(made.entry(key).or_insert_with(|| {
            Arc::new(Gateway::new(
                Arc::clone(&self.config),
                Arc::clone(&self.policy),
                Arc::clone(&self.pool),
                &capabilities,
                &self.tasks,
            ))
        }))
    }

    /// Forgets an agent that has left.
    pub fn leave(&self, agent: AgentId) {
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        for gateway in made.values() {
            for member in gateway.servers() {
                member.leave(agent);
            }
        }
    }

    /// Ends every server; returns when nothing of them is left, after 2 s at the latest.
    pub async fn shut_down(&self) {
        self.pool.shut_down().await;
    }
}
