//! Limits lookups of sessions of other replicas, and the reports about them.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use mcp_workbench_core::telemetry::QuotaOwner;

/// Failed session lookups that a caller may make each minute.
pub(crate) const MAX_MISSES: u32 = 100;
/// Further callers share one count.
pub(crate) const MAX_CALLERS: usize = 1_000;
pub(crate) const MINUTE: Duration = Duration::from_mins(1);

#[derive(Default)]
pub(crate) struct SessionTakeover {
    /// Single-flight locks of session lookups, by session id.
    pub(crate) flights: Mutex<HashMap<String, Weak<tokio::sync::Mutex<()>>>>,
    pub(crate) misses: LookupLimiter,
    /// Throttle reports of hopping sessions and of differing configurations.
    pub(crate) hops: LogThrottle,
    pub(crate) differences: LogThrottle,
}

#[derive(Default)]
pub(crate) struct LookupLimiter(pub(crate) Mutex<HashMap<QuotaOwner, (u32, Instant)>>);

#[derive(Default)]
pub(crate) struct LogThrottle(Mutex<Option<Instant>>);

impl SessionTakeover {
    pub(crate) fn flight(&self, id: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut flights = self.flights.lock();
        if let Some(flight) = flights.get(id).and_then(Weak::upgrade) {
            return flight;
        }
        flights.retain(|_, flight| flight.strong_count() > 0);
        let flight = Arc::default();
        flights.insert(id.to_owned(), Arc::downgrade(&flight));
        flight
    }
}

impl LookupLimiter {
    /// Returns how long a caller that reached its limit has to wait before its next lookup.
    pub(crate) fn wait(&self, owner: &QuotaOwner, now: Instant) -> Option<Duration> {
        let all = self.0.lock();
        let (number, since) = all.get(owner).or_else(|| all.get(&QuotaOwner::Local))?;
        let over = MINUTE.checked_sub(now.duration_since(*since)).filter(|left| !left.is_zero())?;
        (*number >= MAX_MISSES).then_some(over)
    }

    pub(crate) fn count(&self, owner: &QuotaOwner, now: Instant) {
        let mut all = self.0.lock();
        let mut owner = owner;
        if all.len() >= MAX_CALLERS && !all.contains_key(owner) {
            all.retain(|_, (_, since)| now.duration_since(*since) < MINUTE);
            if all.len() >= MAX_CALLERS {
                owner = &QuotaOwner::Local;
            }
        }
        let (number, since) = all.entry(owner.clone()).or_insert((0, now));
        if now.duration_since(*since) >= MINUTE {
            (*number, *since) = (0, now);
        }
        *number = number.saturating_add(1);
    }
}

impl LogThrottle {
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        let mut last = self.0.lock();
        let is_due = last.is_none_or(|last| now.duration_since(last) >= MINUTE);
        if is_due {
            *last = Some(now);
        }
        is_due
    }
}
