//! Delays responses to wrong tokens, the longer the more of them come from an address.
//!
//! Requests with a valid token or none are never delayed. Only a few responses to an address are
//! delayed at the same time and further ones are sent immediately, so that a proxy's connections
//! stay free for its other clients. Addresses over the limit of the table aren't delayed either.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use mcp_workbench_core::telemetry::QuotaOwner;

/// Wrong tokens from an address before delays start.
const UNDELAYED_ATTEMPTS: u32 = 20;
/// The first delay, which doubles with each further wrong token, and the longest.
const INITIAL_DELAY: Duration = Duration::from_millis(50);
const MAX_DELAY: Duration = Duration::from_secs(2);
/// How long after its last wrong token an address is forgotten.
const RESET_AFTER: Duration = Duration::from_mins(1);
const MAX_ADDRESSES: usize = 1_000;
/// Delayed responses to one address at the same time.
const MAX_WAITING: usize = 8;

#[derive(Default)]
pub(crate) struct AuthThrottle(Mutex<HashMap<QuotaOwner, FailedAttempts>>);

struct FailedAttempts {
    wrong: u32,
    last: Instant,
    places: Arc<Semaphore>,
}

/// The delay of one response. Counts toward `MAX_WAITING` until it is dropped.
pub(crate) struct Delay {
    pub(crate) time: Duration,
    _place: OwnedSemaphorePermit,
}

impl AuthThrottle {
    /// Counts a wrong token, and returns the delay of the response, if any.
    pub(crate) fn record_failure(&self, address: QuotaOwner, now: Instant) -> Option<Delay> {
        let mut all = self.0.lock();
        let is_quiet = |tries: &FailedAttempts| now.duration_since(tries.last) >= RESET_AFTER;
        if all.get(&address).is_none_or(is_quiet) && all.len() >= MAX_ADDRESSES {
            all.retain(|_, tries| !is_quiet(tries));
            if all.len() >= MAX_ADDRESSES {
                return None;
            }
        }
        let places = || Arc::new(Semaphore::new(MAX_WAITING));
        let tries = all.entry(address).or_insert_with(|| FailedAttempts {
            wrong: 0,
            last: now,
            places: places(),
        });
        if is_quiet(tries) {
            tries.wrong = 0;
        }
        tries.last = now;
        tries.wrong = tries.wrong.saturating_add(1);
        let doublings = tries.wrong.checked_sub(UNDELAYED_ATTEMPTS + 1)?;
        let factor = 2_u32.saturating_pow(doublings);
        let permit = Arc::clone(&tries.places).try_acquire_owned().ok()?;
        Some(Delay { time: INITIAL_DELAY.saturating_mul(factor).min(MAX_DELAY), _place: permit })
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn payer(address: &str) -> QuotaOwner {
        QuotaOwner::new(None, address.parse().ok())
    }

    /// The delays of consecutive responses, in milliseconds.
    fn delays(delays: &AuthThrottle, address: &str, now: Instant, number: usize) -> Vec<u128> {
        let next = |_| {
            delays.record_failure(payer(address), now).map_or(0, |delay| delay.time.as_millis())
        };
        (0..number).map(next).collect()
    }

    #[test]
    fn delays_double_for_each_address() {
        let (all, start) = (AuthThrottle::default(), Instant::now());
        let eve = delays(&all, "10.0.0.1", start, 100);
        assert_eq!(eve[..20], [0; 20]);
        assert_eq!(eve[20..28], [50, 100, 200, 400, 800, 1600, 2000, 2000]);
        assert_eq!(eve[99], 2000);
        assert_eq!(delays(&all, "10.0.0.2", start, 1), [0]);
        assert_eq!(delays(&all, "10.0.0.1", start + RESET_AFTER / 2, 1), [2000]);
        assert_eq!(
            delays(&all, "10.0.0.1", start + RESET_AFTER / 2 + RESET_AFTER, 21)[19..],
            [0, 50]
        );
    }

    #[test]
    fn concurrent_delays_of_an_address_are_bounded() {
        let (all, now) = (AuthThrottle::default(), Instant::now());
        delays(&all, "10.0.0.1", now, 20);
        let next = || all.record_failure(payer("10.0.0.1"), now);
        let mut waiting: Vec<_> = (0..100).filter_map(|_| next()).collect();
        assert_eq!(waiting.len(), MAX_WAITING);
        waiting.pop();
        assert!(next().is_some());
    }

    #[test]
    fn addresses_over_the_limit_are_not_delayed() {
        let (all, start) = (AuthThrottle::default(), Instant::now());
        delays(&all, "10.0.0.1", start, 21);
        for number in 0..2_000_u32 {
            delays(&all, &std::net::Ipv4Addr::from(number).to_string(), start, 1);
        }
        assert_eq!(all.0.lock().len(), MAX_ADDRESSES);
        assert_eq!(delays(&all, "10.0.0.1", start, 1), [100]);
        assert_eq!(delays(&all, "10.9.9.9", start, 100), [0; 100]);
        // Quiet addresses make room.
        assert_eq!(delays(&all, "10.9.9.9", start + RESET_AFTER, 21)[20], 50);
        assert_eq!(all.0.lock().len(), 1);
    }
}
