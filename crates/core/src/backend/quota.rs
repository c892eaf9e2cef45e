//! Caller quotas: everything a caller holds counts against its own limits and no one else's.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use thiserror::Error;

use crate::telemetry::{Event, LimitReached, QuotaKind, QuotaOwner, QuotaUsage, Telemetry};
use mcp_workbench_settings::{CallerLimits, Limits};
use mcp_workbench_wire::memory_pool::{
    MemoryConsumer, MemoryPool, MemoryPoolConfig, UNMETERED_BYTES,
};

/// Unused quotas are first swept when there are this many.
const FIRST_SWEEP: usize = 64;
/// How long a server message can hold memory before later messages are read regardless.
const LEASE: Duration = Duration::from_secs(30);

pub struct QuotaRegistry {
    observer: Arc<Telemetry>,
    bytes: MemoryPools,
    known: Mutex<QuotaTable>,
}

struct QuotaTable {
    purses: HashMap<QuotaOwner, Weak<CallerQuota>>,
    sweep_at: usize,
}

#[derive(Clone, Debug, Default)]
pub struct MemoryPools {
    /// Requests being read or in flight.
    requests: MemoryPool,
    /// Server messages that haven't been passed on.
    said: MemoryPool,
    /// Messages that callers haven't received yet.
    undelivered: MemoryPool,
}

impl MemoryPools {
    pub fn of(limits: &Limits) -> Self {
        let (bytes, longest) = (limits.bytes_of_a_kind(), limits.longest_message());
        let bounds = |reserve| MemoryPoolConfig {
            bytes,
            share: (bytes - reserve) / 2,
            reserve,
            unmetered: UNMETERED_BYTES,
            lease: None,
        };
        let of_callers = |reserve| {
            let bounds = bounds(reserve);
            let own = limits.per_caller.max_bytes_in_flight.unwrap_or(bounds.share);
            MemoryPool::new(MemoryPoolConfig { share: own.min(bounds.share), ..bounds })
        };
        let of_servers = bounds(longest);
        let most = limits.server_limits.max_bytes_in_flight.unwrap_or(usize::MAX);
        // A quarter keeps three servers from delaying a fourth.
        let share = most.min((bytes - longest) / 4);
        let of_servers = MemoryPoolConfig { share, lease: Some(LEASE), ..of_servers };
        Self {
            requests: of_callers(longest),
            said: MemoryPool::new(of_servers),
            // Undelivered messages are complete, so none needs the reserve to finish.
            undelivered: of_callers(0),
        }
    }

    pub(crate) fn server_messages(&self) -> &MemoryPool {
        &self.said
    }

    fn held(&self) -> usize {
        self.requests.held() + self.said.held() + self.undelivered.held()
    }
}

pub struct CallerQuota {
    payer: QuotaOwner,
    held: [AtomicUsize; QuotaKind::ALL.len()],
    holdings: QuotaUsage,
    observer: Arc<Telemetry>,
    /// Bytes of the URIs and task IDs of its subscriptions.
    subscription_bytes: AtomicUsize,
    sent: MemoryConsumer,
    untaken: MemoryConsumer,
}

/// One counted item of a caller, released on drop.
pub struct QuotaGuard {
    quota: Arc<CallerQuota>,
    holding: QuotaKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaExceededError;

/// One subscription of a caller, released on drop.
pub struct SubscriptionGuard {
    place: QuotaGuard,
    bytes: usize,
}

#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SubscriptionLimitError {
    #[error(
        "{owner} has reached its limit of {most} subscriptions \
         (`limits.perCaller.maxSubscriptions`): end other subscriptions first"
    )]
    Count { owner: QuotaOwner, most: usize },
    #[error(
        "the subscriptions of {owner} would exceed {most} bytes \
         (`limits.perCaller.maxSubscriptionBytes`): end other subscriptions first"
    )]
    Bytes { owner: QuotaOwner, most: usize },
}

impl QuotaRegistry {
    pub fn new(observer: &Arc<Telemetry>, bytes: MemoryPools) -> Self {
        let known = QuotaTable { purses: HashMap::new(), sweep_at: FIRST_SWEEP };
        Self { observer: Arc::clone(observer), bytes, known: Mutex::new(known) }
    }

    pub fn count_bytes(&self) {
        let held = i64::try_from(self.bytes.held()).unwrap_or(i64::MAX);
        self.observer.quota_usage().of(QuotaKind::Bytes).set(held);
    }

    /// Returns the caller's quota, which is shared for as long as it is in use.
    pub fn quota_for(&self, owner: &QuotaOwner) -> Arc<CallerQuota> {
        let mut known = self.known.lock();
        if let Some(quota) = known.purses.get(owner).and_then(Weak::upgrade) {
            return quota;
        }
        if known.purses.len() >= known.sweep_at {
            known.purses.retain(|_, quota| quota.strong_count() > 0);
            known.sweep_at = FIRST_SWEEP.max(2 * known.purses.len());
        }
        let quota = Arc::new(CallerQuota {
            payer: owner.clone(),
            held: Default::default(),
            holdings: self.observer.quota_usage().clone(),
            observer: Arc::clone(&self.observer),
            subscription_bytes: AtomicUsize::new(0),
            sent: self.bytes.requests.account(),
            untaken: self.bytes.undelivered.account(),
        });
        known.purses.insert(owner.clone(), Arc::downgrade(&quota));
        quota
    }
}

impl fmt::Debug for CallerQuota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CallerQuota").field(&self.payer).finish()
    }
}

impl CallerQuota {
    pub fn payer(&self) -> &QuotaOwner {
        &self.payer
    }

    pub fn sent(&self) -> &MemoryConsumer {
        &self.sent
    }

    pub fn untaken(&self) -> &MemoryConsumer {
        &self.untaken
    }

    pub fn count(&self, holding: QuotaKind) -> usize {
        self.held[holding as usize].load(Ordering::Relaxed)
    }

    /// Acquires one item if the caller holds fewer than `most`.
    pub fn try_acquire(
        self: &Arc<Self>,
        holding: QuotaKind,
        most: usize,
    ) -> Result<QuotaGuard, QuotaExceededError> {
        let more = |held: usize| (held < most).then_some(held + 1);
        let held = &self.held[holding as usize];
        if held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_err() {
            self.report_limit_reached(holding);
            return Err(QuotaExceededError);
        }
        self.holdings.of(holding).inc();
        Ok(QuotaGuard { quota: Arc::clone(self), holding })
    }

    /// Acquires a subscription whose URI or task ID has this many bytes.
    pub fn subscribe(
        self: &Arc<Self>,
        bytes: usize,
        limits: &CallerLimits,
    ) -> Result<SubscriptionGuard, SubscriptionLimitError> {
        let (owner, most) = (self.payer.clone(), limits.max_subscriptions);
        let place = self.try_acquire(QuotaKind::Subscriptions, most);
        let place = place.map_err(|QuotaExceededError| SubscriptionLimitError::Count {
            owner: owner.clone(),
            most,
        })?;
        let most = limits.max_subscription_bytes;
        let more = |held: usize| held.checked_add(bytes).filter(|all| *all <= most);
        let held = &self.subscription_bytes;
        if held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_err() {
            self.report_limit_reached(QuotaKind::Subscriptions);
            return Err(SubscriptionLimitError::Bytes { owner, most });
        }
        Ok(SubscriptionGuard { place, bytes })
    }

    /// Reports to listeners that the caller wanted more than its limit.
    pub fn report_limit_reached(&self, holding: QuotaKind) {
        let reached = LimitReached { owner: self.payer.clone(), quota: holding };
        self.observer.bus().emit(Event::LimitReached(&reached));
    }
}

impl QuotaGuard {
    pub fn payer(&self) -> &QuotaOwner {
        &self.quota.payer
    }
}

impl Drop for QuotaGuard {
    fn drop(&mut self) {
        self.quota.held[self.holding as usize].fetch_sub(1, Ordering::Relaxed);
        self.quota.holdings.of(self.holding).dec();
    }
}

impl Drop for SubscriptionGuard {
    fn drop(&mut self) {
        self.place.quota.subscription_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_apply_per_caller() {
        let observer = Arc::new(Telemetry::default());
        let quotas = QuotaRegistry::new(&observer, MemoryPools::default());
        let [ann, bob] =
            ["10.0.0.1", "10.0.0.2"].map(|ip| QuotaOwner::Address(ip.parse().unwrap()));
        let quota = quotas.quota_for(&ann);
        let guard: Vec<_> =
            (0..3).filter_map(|_| quota.try_acquire(QuotaKind::Calls, 3).ok()).collect();
        assert_eq!(guard.len(), 3);
        assert!(quotas.quota_for(&ann).try_acquire(QuotaKind::Calls, 3).is_err());
        assert!(quotas.quota_for(&ann).try_acquire(QuotaKind::Sessions, 3).is_ok());
        let others = quotas.quota_for(&bob).try_acquire(QuotaKind::Calls, 1);
        assert!(others.is_ok());
        let figures = observer.render();
        assert!(figures.contains("mcp_workbench_caller_usage{quota=\"calls\"} 4\n"), "{figures}");
        let reached = "mcp_workbench_limits_reached_total{quota=\"calls\"} 1\n";
        assert!(figures.contains(reached), "{figures}");
        drop((guard, others));
        assert!(observer.render().contains("mcp_workbench_caller_usage{quota=\"calls\"} 0\n"));
        assert_eq!(quota.count(QuotaKind::Calls), 0);
    }

    #[test]
    fn subscriptions_are_limited_in_number_and_bytes() {
        let observer = Arc::new(Telemetry::default());
        let quotas = QuotaRegistry::new(&observer, MemoryPools::default());
        let quota = quotas.quota_for(&QuotaOwner::Local);
        let usual = CallerLimits::default();
        let limits = CallerLimits { max_subscriptions: 3, max_subscription_bytes: 100, ..usual };
        let [first, second] = [60, 40].map(|bytes| quota.subscribe(bytes, &limits).unwrap());
        let owner = QuotaOwner::Local;
        let too_long = SubscriptionLimitError::Bytes { owner: owner.clone(), most: 100 };
        assert_eq!(quota.subscribe(1, &limits).err(), Some(too_long.clone()));
        assert_eq!(quota.subscribe(usize::MAX, &limits).err(), Some(too_long));
        drop(second);
        let rest: Vec<_> = (0..2).map(|_| quota.subscribe(20, &limits).unwrap()).collect();
        let too_many = SubscriptionLimitError::Count { owner, most: 3 };
        assert_eq!(quota.subscribe(0, &limits).err(), Some(too_many));
        let reached = "mcp_workbench_limits_reached_total{quota=\"subscriptions\"} 3\n";
        assert!(observer.render().contains(reached));
        drop((first, rest));
        assert_eq!(quota.count(QuotaKind::Subscriptions), 0);
        assert!(quota.subscribe(100, &limits).is_ok());
    }

    #[test]
    fn quotas_without_holders_are_swept() {
        let quotas = QuotaRegistry::new(&Arc::new(Telemetry::default()), MemoryPools::default());
        for number in 0..1000_u32 {
            drop(quotas.quota_for(&QuotaOwner::Address(std::net::Ipv4Addr::from(number).into())));
        }
        let known = quotas.known.lock();
        assert!(known.purses.len() <= FIRST_SWEEP, "{}", known.purses.len());
    }
}
