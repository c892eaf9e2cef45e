//! The in-memory state store.

use std::collections::{HashMap, VecDeque};
use std::future::ready;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::state::rate::Rate;
use crate::state::record::{
    Capacity, PutOutcome, RecordKey, RecordKind, SessionKey, SessionLease, StateRecord,
};
use crate::state::store::{StateStore, StoreFuture};

/// Initial sweep threshold of `RateCounters`.
const FIRST_SWEEP: usize = 64;

#[derive(Default)]
pub struct MemoryStateStore {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    shelves: HashMap<RecordKind, RecordTable>,
    counts: RateCounters,
}

#[derive(Default)]
struct RecordTable {
    record: HashMap<RecordKey, StoredRecord>,
    /// Insertion order. An entry whose number differs from the stored record's is stale.
    order: VecDeque<(RecordKey, u64)>,
    next: u64,
    used: HashMap<Option<String>, Used>,
    in_all: Used,
}

struct StoredRecord {
    record: StateRecord,
    number: u64,
    until: Option<Instant>,
}

#[derive(Clone, Copy, Default)]
struct Used {
    count: usize,
    bytes: usize,
}

impl Used {
    fn is_too_much(self, capacity: Capacity) -> bool {
        self.count > capacity.count || self.bytes > capacity.bytes
    }
}

impl RecordTable {
    /// Stores a record. Returns `true` if older records of its caller were evicted.
    fn put(&mut self, key: RecordKey, record: StateRecord, own: Capacity) -> bool {
        self.remove(&key);
        let kind = key.kind();
        let in_all = kind.room().or(own);
        let owner = record.payer().map(str::to_owned);
        self.next += 1;
        let number = self.next;
        let until = kind.lifetime().map(|lifetime| Instant::now() + lifetime);
        self.forget_what_is_over();
        self.charge(&record);
        self.order.push_back((key.clone(), number));
        self.record.insert(key, StoredRecord { record, number, until });
        let mut has_evicted = false;
        while self.used.get(&owner).is_some_and(|used| used.is_too_much(own)) {
            has_evicted = true;
            self.evict_oldest(|record| record.payer() == owner.as_deref());
        }
        while self.in_all.is_too_much(in_all) {
            self.evict_oldest(|_| true);
        }
        has_evicted
    }

    /// Returns `true` unless another process holds the session's lease.
    fn follows(&self, key: &RecordKey, tenure: &SessionLease) -> bool {
        match self.get(key) {
            Some(StateRecord::Session(session)) => tenure.supersedes(&session.tenure),
            _ => true,
        }
    }

    fn get(&self, key: &RecordKey) -> Option<&StateRecord> {
        let record = self.record.get(key)?;
        record.until.is_none_or(|until| until > Instant::now()).then_some(&record.record)
    }

    fn remove(&mut self, key: &RecordKey) -> Option<StateRecord> {
        let is_over = self.get(key).is_none();
        let StoredRecord { record, .. } = self.record.remove(key)?;
        self.in_all.count -= 1;
        self.in_all.bytes -= record.bytes();
        let owner = record.payer().map(str::to_owned);
        if let Some(used) = self.used.get_mut(&owner) {
            used.count -= 1;
            used.bytes -= record.bytes();
            if used.count == 0 {
                self.used.remove(&owner);
            }
        }
        if self.order.len() > 2 * self.record.len() {
            let Self { order, record: kept, .. } = self;
            order.retain(|(key, number)| kept.get(key).is_some_and(|kept| kept.number == *number));
        }
        (!is_over).then_some(record)
    }

    fn charge(&mut self, record: &StateRecord) {
        let used = self.used.entry(record.payer().map(str::to_owned)).or_default();
        for used in [used, &mut self.in_all] {
            used.count += 1;
            used.bytes += record.bytes();
        }
    }

    /// Removes expired records. They are the oldest, because all of a kind have one lifetime.
    fn forget_what_is_over(&mut self) {
        let now = Instant::now();
        while let Some((key, number)) = self.order.front() {
            let record = self.record.get(key).filter(|record| record.number == *number);
            match record.map(|record| record.until.is_some_and(|until| until <= now)) {
                Some(false) => return,
                Some(true) => {
                    let key = key.clone();
                    self.order.pop_front();
                    self.remove(&key);
                }
                None => {
                    self.order.pop_front();
                }
            }
        }
    }

    fn evict_oldest(&mut self, is_meant: impl Fn(&StateRecord) -> bool) {
        let oldest = self.order.iter().find(|(key, number)| {
            let record = self.record.get(key).filter(|record| record.number == *number);
            record.is_some_and(|record| is_meant(&record.record))
        });
        if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
            self.remove(&oldest);
        }
    }
}

/// Rate counters: when each subject is back to zero, relative to `since`.
struct RateCounters {
    since: Instant,
    clear_at: HashMap<String, Duration>,
    /// Expired counters are swept once there are this many.
    sweep_at: usize,
}

impl Default for RateCounters {
    fn default() -> Self {
        Self { since: Instant::now(), clear_at: HashMap::new(), sweep_at: FIRST_SWEEP }
    }
}

impl RateCounters {
    fn count(&mut self, subject: &str, rate: Rate) -> Result<(), Duration> {
        let now = self.since.elapsed();
        if self.clear_at.len() >= self.sweep_at {
            self.clear_at.retain(|_, clear_at| *clear_at > now);
            self.sweep_at = FIRST_SWEEP.max(2 * self.clear_at.len());
        }
        rate.count(now, self.clear_at.entry(subject.to_owned()).or_default())
    }
}

impl MemoryStateStore {
    fn state<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.state.lock())
    }

    fn shelf<T>(&self, key: &RecordKey, f: impl FnOnce(&mut RecordTable) -> T) -> T {
        self.state(|state| f(state.shelves.entry(key.kind()).or_default()))
    }
}

impl StateStore for MemoryStateStore {
    fn put(
        &self,
        key: RecordKey,
        record: StateRecord,
        capacity: Capacity,
    ) -> StoreFuture<'_, PutOutcome> {
        let outcome = self.shelf(&key, |records| {
            let tenure = if let StateRecord::Session(session) = &record {
                Some(&session.tenure)
            } else {
                None
            };
            if !tenure.is_none_or(|tenure| records.follows(&key, tenure)) {
                PutOutcome::Superseded
            } else if records.put(key.clone(), record, capacity) {
                PutOutcome::StoredWithEviction
            } else {
                PutOutcome::Stored
            }
        });
        Box::pin(ready(outcome))
    }

    fn get<'a>(&'a self, key: &'a RecordKey) -> StoreFuture<'a, Option<StateRecord>> {
        Box::pin(ready(self.shelf(key, |records| records.get(key).cloned())))
    }

    fn take<'a>(&'a self, key: &'a RecordKey) -> StoreFuture<'a, Option<StateRecord>> {
        Box::pin(ready(self.shelf(key, |records| records.remove(key))))
    }

    fn count<'a>(&'a self, subject: &'a str, rate: Rate) -> StoreFuture<'a, Result<(), Duration>> {
        Box::pin(ready(self.state(|state| state.counts.count(subject, rate))))
    }

    fn renew_lease<'a>(
        &'a self,
        session: &'a SessionKey,
        tenure: &'a SessionLease,
    ) -> StoreFuture<'a, bool> {
        let key = RecordKey::Session(session.clone());
        Box::pin(ready(self.shelf(&key, |records| records.follows(&key, tenure))))
    }

    fn end(&self, session: &SessionKey, tenure: &SessionLease) {
        let key = RecordKey::Session(session.clone());
        if !self.shelf(&key, |records| records.follows(&key, tenure)) {
            return;
        }
        self.remove(&key);
        self.state(|state| {
            for records in state.shelves.values_mut() {
                let of_session = |record: &StoredRecord| record.record.session() == Some(session);
                let ended = records.record.iter().filter(|(_, record)| of_session(record));
                let ended: Vec<RecordKey> = ended.map(|(key, _)| key.clone()).collect();
                for key in ended {
                    records.remove(&key);
                }
            }
        });
    }

    fn remove(&self, key: &RecordKey) {
        self.shelf(key, |records| records.remove(key));
    }
}

#[cfg(test)]
mod tests;
