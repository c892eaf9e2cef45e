//! Call limiters, one for each limited agent or server.
//!
//! [`Limiters`] keys them by subject and limits, so that all gateways share them and they survive a
//! reload. A gateway looks up its own when it is created; calls without limits cost nothing.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use crate::gateway::fair_queue::FairQueue;
use crate::state::{Rate, StateStore};
use mcp_workbench_names::{AgentName, ServerName};
use mcp_workbench_settings::{Config, Launch, RateLimits, ServerConfig};

/// Version of the encoding of counter keys.
const COUNTER_VERSION: u32 = 2;
/// Maximum number of limiters, apart from those in use, of which each gateway has one. Beyond it,
/// unused ones are dropped; the store keeps their counts.
const MAX_LIMITERS: usize = 10_000;
/// The first sweep of idle limiters happens at this number.
const FIRST_SWEEP: usize = 64;

pub(crate) struct Limiters {
    store: Arc<dyn StateStore>,
    since: Instant,
    known: Mutex<Known>,
}

struct Known {
    limiters: HashMap<(LimitSubject, RateLimits), Arc<Limiter>>,
    sweep_at: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum LimitSubject {
    All,
    /// In any session; `None`: all anonymous agents.
    Agent(Option<AgentName>),
    /// In all toolboxes and processes.
    Server(ServerName, Box<Launch>),
}

pub(crate) struct Limiter {
    /// The subject as messages name it.
    pub(crate) subject_label: String,
    pub(crate) rates: RateLimits,
    pub(crate) rate: Option<Rate>,
    store: Arc<dyn StateStore>,
    subject: String,
    pub(crate) places: Option<FairQueue>,
    since: Instant,
    /// Time of the last counted call, in milliseconds after `since`.
    counted: AtomicU64,
}

impl Limiters {
    pub(crate) fn new(store: Arc<dyn StateStore>) -> Self {
        let known = Known { limiters: HashMap::new(), sweep_at: FIRST_SWEEP };
        Self { store, since: Instant::now(), known: Mutex::new(known) }
    }

    pub(crate) fn of_all(&self, config: &Config) -> Option<Arc<Limiter>> {
        self.limiter(LimitSubject::All, config.limits.global)
    }

    pub(crate) fn of_agent(
        &self,
        agent: Option<&AgentName>,
        config: &Config,
    ) -> Option<Arc<Limiter>> {
        self.limiter(LimitSubject::Agent(agent.cloned()), config.limits.per_agent)
    }

    pub(crate) fn of_server(&self, server: &ServerConfig, config: &Config) -> Option<Arc<Limiter>> {
        let rates = server.limits.or(config.limits.per_server);
        self.limiter(
            LimitSubject::Server(server.name.clone(), Box::new(server.launch.clone())),
            rates,
        )
    }

    /// Returns the limiter of a subject, or `None` if nothing is limited. An existing one is
    /// reused, with its counts.
    fn limiter(&self, subject: LimitSubject, rates: RateLimits) -> Option<Arc<Limiter>> {
        if rates.calls_per_minute().is_none() && rates.max_concurrent_calls().is_none() {
            return None;
        }
        let mut known = self.known.lock();
        if known.limiters.len() >= known.sweep_at {
            known
                .limiters
                .retain(|_, limiter| Arc::strong_count(limiter) > 1 || !limiter.is_clear());
            if known.limiters.len() >= MAX_LIMITERS {
                known.limiters.retain(|_, limiter| Arc::strong_count(limiter) > 1);
            }
            known.sweep_at = FIRST_SWEEP.max(2 * known.limiters.len()).min(MAX_LIMITERS);
        }
        let entry = known.limiters.entry((subject, rates));
        let limiter = entry.or_insert_with_key(|(subject, rates)| {
            Arc::new(Limiter::new(subject, *rates, &self.store, self.since))
        });
        Some(Arc::clone(limiter))
    }
}

impl Limiter {
    fn new(
        subject: &LimitSubject,
        rates: RateLimits,
        store: &Arc<dyn StateStore>,
        since: Instant,
    ) -> Self {
        let subject_label = match subject {
            LimitSubject::All => "by all agents together".to_owned(),
            LimitSubject::Agent(Some(agent)) => format!("by agent `{agent}`"),
            LimitSubject::Agent(None) => "by unnamed agents".to_owned(),
            LimitSubject::Server(server, _) => format!("to server `{server}`"),
        };
        let rate = rates.calls_per_minute().map(|per_minute| Rate { per_minute });
        // Hashed because launch arguments may contain secrets.
        let digest = Sha256::digest(encode_counter(subject, rates).to_string());
        let mut subject = [0; 16];
        subject.copy_from_slice(&digest[..16]);
        let places = |most: u32| FairQueue::new(most as usize);
        Self {
            subject_label,
            rates,
            rate,
            store: Arc::clone(store),
            subject: format!("{:032x}", u128::from_be_bytes(subject)),
            places: rates.max_concurrent_calls().map(|most| places(most.get())),
            since,
            counted: AtomicU64::new(0),
        }
    }

    /// Counts a call, or returns the time until the next one is allowed.
    pub(crate) async fn count(&self) -> Result<(), Duration> {
        let Some(rate) = self.rate else { return Ok(()) };
        self.store.count(&self.subject, rate).await?;
        let now = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.counted.store(now, Ordering::Relaxed);
        Ok(())
    }

    fn is_clear(&self) -> bool {
        let counted = Duration::from_millis(self.counted.load(Ordering::Relaxed));
        self.since.elapsed().saturating_sub(counted) > Rate::PERIOD
    }
}

/// Encodes the counter key. Replicas share it through the state store.
fn encode_counter(subject: &LimitSubject, rates: RateLimits) -> Value {
    let subject = match subject {
        LimitSubject::All => json!(["all"]),
        LimitSubject::Agent(agent) => json!(["agent", agent]),
        LimitSubject::Server(server, launch) => json!(["server", server, launch.encoded()]),
    };
    json!([COUNTER_VERSION, subject, rates.calls_per_minute(), rates.max_concurrent_calls()])
}

#[cfg(test)]
mod tests;
