//! The limiters of calls: one for whoever is limited, and the store of them all.
//!
//! *Theory of operation.* Whoever is limited has one [`Limiter`], through whichever gateways calls
//! come and whichever configuration they began with: [`Limiters`] keeps them by whom they limit, and
//! how much. A gateway takes its own when it is made, so that a call that is not limited finds
//! nothing to look at.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use crate::gateway::Caller;
use crate::gateway::turns::Turns;
use crate::name::{AgentName, ServerName};
use crate::settings::{Config, Launch, Rates, ServerConfig};
use crate::state::{Rate, Store};

/// Version of the encoding of counter keys.
const COUNTER_VERSION: u32 = 2;
/// How many agents are told apart; those that come when there are so many count as one.
const MAX_LIMITERS: usize = 10_000;
/// When those are looked for first that nobody needs any more.
const FIRST_SWEEP: usize = 64;

/// Every limiter there is.
pub(crate) struct Limiters {
    store: Arc<dyn Store>,
    since: Instant,
    known: Mutex<Known>,
}

struct Known {
    limiters: HashMap<(Subject, Rates), Arc<Limiter>>,
    /// At how many of them those are let go that nobody needs any more.
    sweep_at: usize,
}

/// Whom a limiter limits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Subject {
    All,
    /// An agent, in whichever sessions; `None`: all those without a name.
    Agent(Option<AgentName>),
    /// A server, in whichever toolboxes, and however many processes it has.
    Server(ServerName, Box<Launch>),
}

/// The limiters of a gateway's calls, whichever server they are of.
pub(crate) struct OwnLimiters {
    /// The limiter of its agent.
    pub(crate) agent: Option<Arc<Limiter>>,
    /// The limiter of all agents together.
    pub(crate) in_all: Option<Arc<Limiter>>,
    /// How long a call waits for others to end.
    pub(crate) max_wait: Duration,
    /// Who waits; `None`: somebody without a name.
    pub(crate) caller: Option<AgentName>,
}

/// How much may be asked by somebody, or of somebody.
pub(crate) struct Limiter {
    /// Words for those whose calls are limited.
    pub(crate) whose: String,
    pub(crate) rates: Rates,
    /// The rate of calls, if it is limited.
    pub(crate) rate: Option<Rate>,
    store: Arc<dyn Store>,
    /// The subject under which calls are counted in the store.
    subject: String,
    /// The places of calls that run at once, if these are limited.
    pub(crate) places: Option<Turns>,
    since: Instant,
    /// When a call was last counted, in milliseconds since then.
    counted: AtomicU64,
}

impl Limiters {
    /// Counts in this store.
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        let known = Known { limiters: HashMap::new(), sweep_at: FIRST_SWEEP };
        Self { store, since: Instant::now(), known: Mutex::new(known) }
    }

    /// Returns the limiters of a gateway.
    pub(crate) fn of(&self, caller: &Caller, config: &Config) -> OwnLimiters {
        let limits = &config.limits;
        OwnLimiters {
            agent: self.limiter(Subject::Agent(caller.agent.clone()), limits.per_agent),
            in_all: self.limiter(Subject::All, limits.in_all),
            max_wait: limits.max_wait,
            caller: caller.agent.clone(),
        }
    }

    /// Returns the limiter of a server, if its calls are limited.
    pub(crate) fn of_server(&self, server: &ServerConfig, config: &Config) -> Option<Arc<Limiter>> {
        let rates = server.limits.or(config.limits.per_server);
        self.limiter(Subject::Server(server.name.clone(), Box::new(server.launch.clone())), rates)
    }

    /// Returns the limiter of somebody; none if nothing is limited. What was counted under the same limits
    /// still counts.
    fn limiter(&self, mut subject: Subject, rates: Rates) -> Option<Arc<Limiter>> {
        if rates.calls_per_minute().is_none() && rates.concurrent_calls().is_none() {
            return None;
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.limiters.len() >= known.sweep_at {
            known
                .limiters
                .retain(|_, limiter| Arc::strong_count(limiter) > 1 || !limiter.is_clear());
            known.sweep_at = FIRST_SWEEP.max(2 * known.limiters.len()).min(MAX_LIMITERS);
            if known.limiters.len() >= MAX_LIMITERS && matches!(subject, Subject::Agent(_)) {
                subject = Subject::Agent(None);
            }
        }
        let entry = known.limiters.entry((subject, rates));
        let limiter = entry.or_insert_with_key(|(subject, rates)| {
            Arc::new(Limiter::new(subject, *rates, &self.store, self.since))
        });
        Some(Arc::clone(limiter))
    }
}

impl Limiter {
    fn new(subject: &Subject, rates: Rates, store: &Arc<dyn Store>, since: Instant) -> Self {
        let whose = match subject {
            Subject::All => "all agents together".to_owned(),
            Subject::Agent(Some(agent)) => format!("agent `{agent}`"),
            Subject::Agent(None) => "agents without a name".to_owned(),
            Subject::Server(server, _) => format!("server `{server}`"),
        };
        let rate = rates.calls_per_minute().map(|per_minute| Rate { per_minute });
        // Hashed, because the arguments of a server may hold secrets.
        let digest = Sha256::digest(encode_counter(subject, rates).to_string());
        let mut subject = [0; 16];
        subject.copy_from_slice(&digest[..16]);
        // More than there is room for is as good as any number.
        let places = |most: u32| Turns::new(most as usize);
        Self {
            whose,
            rates,
            rate,
            store: Arc::clone(store),
            subject: format!("{:032x}", u128::from_be_bytes(subject)),
            places: rates.concurrent_calls().map(|most| places(most.get())),
            since,
            counted: AtomicU64::new(0),
        }
    }

    /// Counts a call; an error is how long to wait until there may be one.
    pub(crate) async fn count(&self) -> Result<(), Duration> {
        let Some(rate) = self.rate else { return Ok(()) };
        self.store.count(&self.subject, rate).await?;
        let now = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.counted.store(now, Ordering::Relaxed);
        Ok(())
    }

    /// Returns `true` if nothing that was counted matters any more.
    fn is_clear(&self) -> bool {
        let counted = Duration::from_millis(self.counted.load(Ordering::Relaxed));
        self.since.elapsed().saturating_sub(counted) > Rate::PERIOD
    }
}

/// Encodes the key under which calls are counted in the state store, which replicas share.
fn encode_counter(subject: &Subject, rates: Rates) -> Value {
    let subject = match subject {
        Subject::All => json!(["all"]),
        Subject::Agent(agent) => json!(["agent", agent]),
        Subject::Server(server, launch) => json!(["server", server, launch.encoded()]),
    };
    json!([COUNTER_VERSION, subject, rates.calls_per_minute(), rates.concurrent_calls()])
}

#[cfg(test)]
mod tests;
