//! Who holds how much: for each caller a purse, in which everything that it holds is counted, so that
//! it reaches its own limits and nobody else's.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use crate::observe::{Event, Holding, Holdings, LimitReached, Observer, Payer};
use crate::settings::Limits;
use crate::wire::budget::{Account, Bounds, Budget, FREE};

/// At how many purses those are looked for first that nobody has any more.
const FIRST_SWEEP: usize = 64;
/// How long a message of a server may be kept from whoever it is for before others are read on.
const LEASE: Duration = Duration::from_secs(30);

/// The purses of all callers that hold something.
pub struct Payers {
    observer: Arc<Observer>,
    bytes: Bytes,
    known: Mutex<Known>,
}

struct Known {
    purses: HashMap<Payer, Weak<Purse>>,
    sweep_at: usize,
}

/// How many bytes of messages may be held.
#[derive(Clone, Debug, Default)]
pub struct Bytes {
    /// The bytes of requests that are read or under way.
    sent: Budget,
    /// The bytes of what servers say, until it is handed on.
    said: Budget,
    /// The bytes of messages that callers have not taken yet.
    untaken: Budget,
}

impl Bytes {
    /// Takes the bounds of a configuration.
    pub fn of(limits: &Limits) -> Self {
        let (bytes, longest) = (limits.bytes_of_a_kind(), limits.longest_message());
        let bounds = |reserve| Bounds {
            bytes,
            share: (bytes - reserve) / 2,
            reserve,
            free: FREE,
            lease: None,
        };
        let of_callers = |reserve| {
            let bounds = bounds(reserve);
            let own = limits.per_caller.max_bytes_in_flight.unwrap_or(bounds.share);
            Budget::new(Bounds { share: own.min(bounds.share), ..bounds })
        };
        Self {
            sent: of_callers(longest),
            said: Budget::new(Bounds { lease: Some(LEASE), ..bounds(longest) }),
            // What is not taken is there as a whole, so nothing waits for the rest of it.
            untaken: of_callers(0),
        }
    }

    /// Returns the budget of what servers say.
    pub(crate) fn said(&self) -> &Budget {
        &self.said
    }

    fn held(&self) -> usize {
        self.sent.held() + self.said.held() + self.untaken.held()
    }
}

/// The counts of everything that one caller holds.
pub struct Purse {
    payer: Payer,
    held: [AtomicUsize; Holding::ALL.len()],
    holdings: Holdings,
    observer: Arc<Observer>,
    sent: Account,
    untaken: Account,
}

/// One thing that a caller holds, until this is dropped.
pub struct Held {
    purse: Arc<Purse>,
    holding: Holding,
}

/// A caller holds as many as it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtLimit;

impl Payers {
    /// Nobody holds anything yet.
    pub fn new(observer: &Arc<Observer>, bytes: Bytes) -> Self {
        let known = Known { purses: HashMap::new(), sweep_at: FIRST_SWEEP };
        Self { observer: Arc::clone(observer), bytes, known: Mutex::new(known) }
    }

    /// Brings the figure of the bytes that are held up to date.
    pub fn count_bytes(&self) {
        let held = i64::try_from(self.bytes.held()).unwrap_or(i64::MAX);
        self.observer.holdings().of(Holding::Bytes).set(held);
    }

    /// The purse of a caller, the same for as long as anybody has it.
    pub fn purse(&self, payer: &Payer) -> Arc<Purse> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(purse) = known.purses.get(payer).and_then(Weak::upgrade) {
            return purse;
        }
        if known.purses.len() >= known.sweep_at {
            known.purses.retain(|_, purse| purse.strong_count() > 0);
            known.sweep_at = FIRST_SWEEP.max(2 * known.purses.len());
        }
        let purse = Arc::new(Purse {
            payer: payer.clone(),
            held: Default::default(),
            holdings: self.observer.holdings().clone(),
            observer: Arc::clone(&self.observer),
            sent: self.bytes.sent.account(),
            untaken: self.bytes.untaken.account(),
        });
        known.purses.insert(payer.clone(), Arc::downgrade(&purse));
        purse
    }
}

impl fmt::Debug for Purse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Purse").field(&self.payer).finish()
    }
}

impl Purse {
    /// The one who pays.
    pub fn payer(&self) -> &Payer {
        &self.payer
    }

    /// Who pays for the bytes that the caller sends.
    pub fn sent(&self) -> &Account {
        &self.sent
    }

    /// Who pays for the bytes that the caller has not taken yet.
    pub fn untaken(&self) -> &Account {
        &self.untaken
    }

    /// How many of these the caller holds.
    pub fn count(&self, holding: Holding) -> usize {
        self.held[holding as usize].load(Ordering::Relaxed)
    }

    /// Takes one more of these, where the caller may hold `most`.
    pub fn take(self: &Arc<Self>, holding: Holding, most: usize) -> Result<Held, AtLimit> {
        let more = |held: usize| (held < most).then_some(held + 1);
        let held = &self.held[holding as usize];
        if held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_err() {
            self.reaches(holding);
            return Err(AtLimit);
        }
        self.holdings.of(holding).inc();
        Ok(Held { purse: Arc::clone(self), holding })
    }

    /// Tells whoever listens that the caller wanted more of these than it may hold.
    pub fn reaches(&self, holding: Holding) {
        let reached = LimitReached { payer: self.payer.clone(), what: holding };
        self.observer.listeners().tell(Event::LimitReached(&reached));
    }
}

impl Held {
    /// The one who pays.
    pub fn payer(&self) -> &Payer {
        &self.purse.payer
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.purse.held[self.holding as usize].fetch_sub(1, Ordering::Relaxed);
        self.purse.holdings.of(self.holding).dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_reaches_its_own_limit_and_no_other() {
        let observer = Arc::new(Observer::default());
        let payers = Payers::new(&observer, Bytes::default());
        let [ann, bob] = ["10.0.0.1", "10.0.0.2"].map(|ip| Payer::Address(ip.parse().unwrap()));
        let purse = payers.purse(&ann);
        let held: Vec<_> = (0..3).filter_map(|_| purse.take(Holding::Calls, 3).ok()).collect();
        assert_eq!(held.len(), 3);
        assert!(payers.purse(&ann).take(Holding::Calls, 3).is_err());
        assert!(payers.purse(&ann).take(Holding::Sessions, 3).is_ok());
        let others = payers.purse(&bob).take(Holding::Calls, 1);
        assert!(others.is_ok());
        let figures = observer.render();
        assert!(figures.contains("mcp_workbench_held{what=\"calls\"} 4\n"), "{figures}");
        let reached = "mcp_workbench_limits_reached_total{what=\"calls\"} 1\n";
        assert!(figures.contains(reached), "{figures}");
        drop((held, others));
        assert!(observer.render().contains("mcp_workbench_held{what=\"calls\"} 0\n"));
        assert_eq!(purse.count(Holding::Calls), 0);
    }

    #[test]
    fn nobody_is_remembered_who_holds_nothing() {
        let payers = Payers::new(&Arc::new(Observer::default()), Bytes::default());
        for number in 0..1000_u32 {
            drop(payers.purse(&Payer::Address(std::net::Ipv4Addr::from(number).into())));
        }
        let known = payers.known.lock().unwrap();
        assert!(known.purses.len() <= FIRST_SWEEP, "{}", known.purses.len());
    }
}
