//! Limits on rate and concurrency: of one agent, of one server, and in all.
//!
//! *Theory of operation.* Whoever is limited has one [`Limiter`], through whichever gateways calls
//! come and whichever configuration they began with: [`Limiters`] keeps them by whom they limit, and
//! how much. A gateway takes its own when it is made, so that a call that is not limited finds
//! nothing to look at. A call is first counted, and refused where there were too many in a minute;
//! then it waits in line for a place, of its agent, of its server, in all, and keeps these until
//! it is answered or given up.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use crate::config::{Config, Launch, Rates, ServerConfig};
use crate::gateway::members::Server;
use crate::gateway::opening::while_waiting;
use crate::gateway::{CallError, Caller, Gateway, RequestContext};
use crate::name::{AgentName, ServerName, ToolId};
use crate::observe::{CallContext, Stop};
use crate::state::{Rate, Store};

/// How many agents are told apart; those that come when there are so many count as one.
const MAX_LIMITERS: usize = 10_000;
/// When those are looked for first that nobody needs any more.
const FIRST_SWEEP: usize = 64;
/// After this time without a call, nothing is left of what was counted.
const MINUTE: Duration = Duration::from_mins(1);

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
    Server(ServerName, Launch),
}

/// What calls of a gateway are limited by, whichever server they are of.
pub(crate) struct OwnLimiters {
    agent: Option<Arc<Limiter>>,
    in_all: Option<Arc<Limiter>>,
    max_wait: Duration,
}

/// How much may be asked by somebody, or of somebody.
pub(crate) struct Limiter {
    /// Whose calls are limited, in words.
    whose: String,
    rates: Rates,
    rate: Option<Rate>,
    store: Arc<dyn Store>,
    /// The subject under which calls are counted in the store.
    subject: String,
    places: Option<Arc<Semaphore>>,
    since: Instant,
    /// When a call was last counted, in milliseconds since then.
    counted: AtomicU64,
}

/// The places that a running call has; they are free again when this is dropped.
pub(crate) struct Places {
    _taken: Vec<OwnedSemaphorePermit>,
}

impl Limiters {
    /// Counts in this store.
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        let known = Known { limiters: HashMap::new(), sweep_at: FIRST_SWEEP };
        Self { store, since: Instant::now(), known: Mutex::new(known) }
    }

    /// Those of a gateway.
    pub(crate) fn of(&self, caller: &Caller, config: &Config) -> OwnLimiters {
        let limits = &config.limits;
        OwnLimiters {
            agent: self.limiter(Subject::Agent(caller.agent.clone()), limits.per_agent),
            in_all: self.limiter(Subject::All, limits.in_all),
            max_wait: limits.max_wait,
        }
    }

    /// That of a server.
    pub(crate) fn of_server(&self, server: &ServerConfig, config: &Config) -> Option<Arc<Limiter>> {
        let rates = server.limits.or(config.limits.per_server);
        self.limiter(Subject::Server(server.name.clone(), server.launch.clone()), rates)
    }

    /// The limiter of somebody; none if nothing is limited. What was counted under the same limits
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
        // Of a server there may be secrets in it.
        let digest = Sha256::digest(format!("{subject:?} {rates:?}"));
        let mut subject = [0; 16];
        subject.copy_from_slice(&digest[..16]);
        // More than there is room for is as good as any number.
        let places = |most: u32| Arc::new(Semaphore::new(most as usize));
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
    async fn count(&self) -> Result<(), Duration> {
        let Some(rate) = self.rate else { return Ok(()) };
        self.store.count(&self.subject, rate).await?;
        let now = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.counted.store(now, Ordering::Relaxed);
        Ok(())
    }

    /// Whether nothing that was counted matters any more.
    fn is_clear(&self) -> bool {
        let counted = Duration::from_millis(self.counted.load(Ordering::Relaxed));
        self.since.elapsed().saturating_sub(counted) > MINUTE
    }
}

impl OwnLimiters {
    /// All that a call of this server is limited by.
    fn with<'a>(&'a self, server: &'a Server) -> impl Iterator<Item = &'a Arc<Limiter>> {
        // Who has used up its own share takes nothing of what others share with it.
        [&self.agent, &server.limiter, &self.in_all].into_iter().flatten()
    }
}

impl Gateway {
    /// Counts a call where calls of this agent or this server are limited, unless there have been
    /// too many in the last minute.
    pub(crate) async fn count(
        &self,
        tool: &ToolId,
        server: &Server,
        call: &mut CallContext<'_>,
    ) -> Result<(), CallError> {
        for limiter in self.limiters.with(server) {
            let Err(wait) = limiter.count().await else { continue };
            call.details.stopped_by = Some(Stop::Rate);
            let most = limiter.rates.calls_per_minute().map_or(0, std::num::NonZeroU32::get);
            let seconds = wait.as_millis().div_ceil(1000).max(1);
            return Err(CallError::Refused {
                tool: tool.clone(),
                reason: format!(
                    "there have been too many calls of {}, which may be {most} a minute",
                    limiter.whose
                ),
                hint: format!("wait {seconds} s, then call it again"),
            });
        }
        Ok(())
    }

    /// Whether calls of this server are counted.
    pub(crate) fn has_rates(&self, server: &Server) -> bool {
        self.limiters.with(server).any(|limiter| limiter.rate.is_some())
    }

    /// Whether calls of this server may have to wait for others to end.
    pub(crate) fn has_places(&self, server: &Server) -> bool {
        self.limiters.with(server).any(|limiter| limiter.places.is_some())
    }

    /// How many calls of this agent may run at the same time, whichever servers they are of.
    pub(crate) fn most_at_once(&self) -> Option<u32> {
        let limiters = [&self.limiters.agent, &self.limiters.in_all].into_iter().flatten();
        limiters.filter_map(|limiter| Some(limiter.rates.concurrent_calls()?.get())).min()
    }

    /// Waits in line until no more calls are running than may.
    pub(crate) async fn take_places(
        &self,
        tool: &ToolId,
        server: &Server,
        context: RequestContext<'_>,
        call: &mut CallContext<'_>,
    ) -> Result<Places, CallError> {
        let since = Instant::now();
        let mut full = None;
        let taking = async {
            let mut taken = Vec::new();
            for limiter in self.limiters.with(server) {
                let Some(places) = &limiter.places else { continue };
                full = Some(limiter);
                // It is never closed.
                taken.extend(Arc::clone(places).acquire_owned().await);
            }
            Places { _taken: taken }
        };
        let message = || "waiting for other calls to end".to_owned();
        let taking = while_waiting(message, context, timeout(self.limiters.max_wait, taking));
        let places = Box::pin(taking).await;
        call.details.waited = since.elapsed();
        places.map_err(|_| {
            call.details.stopped_by = Some(Stop::Concurrency);
            let whose = full.map_or("", |limiter| &limiter.whose);
            let most = full.and_then(|limiter| limiter.rates.concurrent_calls());
            CallError::Refused {
                tool: tool.clone(),
                reason: format!(
                    "as many calls of {whose} are running as may ({}), and none has ended for {} s",
                    most.map_or(0, std::num::NonZeroU32::get),
                    self.limiters.max_wait.as_secs_f32(),
                ),
                hint: "wait for other calls to end, then call it again".to_owned(),
            }
        })
    }
}

#[cfg(test)]
mod tests;
