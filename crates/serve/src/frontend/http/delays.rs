//! Delays of the answers to wrong tokens: the more of them come from one address, the longer the answer
//! to the next takes.
//!
//! Nothing else is delayed: no right token, and no request without one. Only a few answers to an
//! address wait at once, and the others come at once, so that a proxy's connections stay free for
//! everybody else behind it. Addresses for which there is no room are not delayed either.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::observe::Payer;

/// How many wrong tokens an address may send before it waits.
const FREE: u32 = 20;
/// The first delay, which doubles from then on, and the longest.
const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(2);
/// An address is forgotten that has sent no wrong token for so long.
const QUIET: Duration = Duration::from_mins(1);
/// How many addresses are remembered.
const MAX_ADDRESSES: usize = 1_000;
/// How many answers to one address wait at once.
const MAX_WAITING: usize = 8;

/// The addresses that have sent wrong tokens lately.
#[derive(Default)]
pub(crate) struct Delays(Mutex<HashMap<Payer, Tries>>);

struct Tries {
    wrong: u32,
    last: Instant,
    /// The places for answers that wait.
    places: Arc<Semaphore>,
}

/// The delay of one answer, which waits for as long as this is held.
pub(crate) struct Delay {
    pub(crate) time: Duration,
    _place: OwnedSemaphorePermit,
}

impl Delays {
    /// Counts one more wrong token, and returns the delay of the answer, if there is one.
    pub(crate) fn next(&self, address: Payer, now: Instant) -> Option<Delay> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_quiet = |tries: &Tries| now.duration_since(tries.last) >= QUIET;
        if all.get(&address).is_none_or(is_quiet) && all.len() >= MAX_ADDRESSES {
            all.retain(|_, tries| !is_quiet(tries));
            if all.len() >= MAX_ADDRESSES {
                return None;
            }
        }
        let places = || Arc::new(Semaphore::new(MAX_WAITING));
        let tries =
            all.entry(address).or_insert_with(|| Tries { wrong: 0, last: now, places: places() });
        if is_quiet(tries) {
            tries.wrong = 0;
        }
        tries.last = now;
        tries.wrong = tries.wrong.saturating_add(1);
        let doublings = tries.wrong.checked_sub(FREE + 1)?;
        let factor = 2_u32.saturating_pow(doublings);
        let place = Arc::clone(&tries.places).try_acquire_owned().ok()?;
        Some(Delay { time: FIRST.saturating_mul(factor).min(LONGEST), _place: place })
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn payer(address: &str) -> Payer {
        Payer::new(None, address.parse().ok())
    }

    /// The delays of so many answers, of which none waits for another, in milliseconds.
    fn delays(delays: &Delays, address: &str, now: Instant, number: usize) -> Vec<u128> {
        let next = |_| delays.next(payer(address), now).map_or(0, |delay| delay.time.as_millis());
        (0..number).map(next).collect()
    }

    #[test]
    fn an_address_waits_longer_and_longer_and_others_do_not() {
        let (all, start) = (Delays::default(), Instant::now());
        let eve = delays(&all, "10.0.0.1", start, 100);
        assert_eq!(eve[..20], [0; 20]);
        assert_eq!(eve[20..28], [50, 100, 200, 400, 800, 1600, 2000, 2000]);
        assert_eq!(eve[99], 2000);
        assert_eq!(delays(&all, "10.0.0.2", start, 1), [0]);
        assert_eq!(delays(&all, "10.0.0.1", start + QUIET / 2, 1), [2000]);
        assert_eq!(delays(&all, "10.0.0.1", start + QUIET / 2 + QUIET, 21)[19..], [0, 50]);
    }

    #[test]
    fn few_answers_to_an_address_wait_at_once() {
        let (all, now) = (Delays::default(), Instant::now());
        delays(&all, "10.0.0.1", now, 20);
        let next = || all.next(payer("10.0.0.1"), now);
        let mut waiting: Vec<_> = (0..100).filter_map(|_| next()).collect();
        assert_eq!(waiting.len(), MAX_WAITING);
        waiting.pop();
        assert!(next().is_some());
    }

    #[test]
    fn few_addresses_are_remembered_and_for_others_nobody_waits() {
        let (all, start) = (Delays::default(), Instant::now());
        delays(&all, "10.0.0.1", start, 21);
        for number in 0..2_000_u32 {
            delays(&all, &std::net::Ipv4Addr::from(number).to_string(), start, 1);
        }
        assert_eq!(all.0.lock().unwrap().len(), MAX_ADDRESSES);
        assert_eq!(delays(&all, "10.0.0.1", start, 1), [100]);
        assert_eq!(delays(&all, "10.9.9.9", start, 100), [0; 100]);
        // Those that have been quiet make room.
        assert_eq!(delays(&all, "10.9.9.9", start + QUIET, 21)[20], 50);
        assert_eq!(all.0.lock().unwrap().len(), 1);
    }
}
