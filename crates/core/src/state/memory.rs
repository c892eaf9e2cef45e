//! The store in memory, for one process.

use std::collections::{HashMap, VecDeque};
use std::future::ready;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::state::record::Room;
use crate::state::{Answer, Key, Kind, Rate, Record, SessionKey, Store, Tenure};

/// When counts are looked for first that do not matter any more.
const FIRST_SWEEP: usize = 64;

/// A store in memory: records stay the values that they are.
#[derive(Default)]
pub struct Memory {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    shelves: HashMap<Kind, Shelf>,
    counts: Counts,
}

/// The records of one kind.
#[derive(Default)]
struct Shelf {
    kept: HashMap<Key, Kept>,
    /// The order in which they came, each with its number; those that are gone have another or none.
    order: VecDeque<(Key, u64)>,
    next: u64,
    /// The room that each caller has taken.
    used: HashMap<Option<String>, Used>,
    in_all: Used,
}

struct Kept {
    record: Record,
    number: u64,
    until: Option<Instant>,
}

/// The room that is taken.
#[derive(Clone, Copy, Default)]
struct Used {
    count: usize,
    bytes: usize,
}

impl Used {
    fn is_too_much(self, room: Room) -> bool {
        self.count > room.count || self.bytes > room.bytes
    }
}

impl Shelf {
    fn put(&mut self, key: Key, record: Record, own: Room) {
        self.remove(&key);
        let kind = key.kind();
        let in_all = kind.room().or(own);
        let payer = record.payer().map(str::to_owned);
        self.next += 1;
        let number = self.next;
        let until = kind.lifetime().map(|lifetime| Instant::now() + lifetime);
        self.forget_what_is_over();
        self.charge(&record);
        self.order.push_back((key.clone(), number));
        self.kept.insert(key, Kept { record, number, until });
        while self.used.get(&payer).is_some_and(|used| used.is_too_much(own)) {
            self.let_oldest_go(|record| record.payer() == payer.as_deref());
        }
        while self.in_all.is_too_much(in_all) {
            self.let_oldest_go(|_| true);
        }
    }

    /// Returns `true` unless somebody else goes on with the session that is found there.
    fn follows(&self, key: &Key, tenure: &Tenure) -> bool {
        match self.get(key) {
            Some(Record::Session(session)) => tenure.follows(&session.tenure),
            _ => true,
        }
    }

    fn get(&self, key: &Key) -> Option<&Record> {
        let kept = self.kept.get(key)?;
        kept.until.is_none_or(|until| until > Instant::now()).then_some(&kept.record)
    }

    fn remove(&mut self, key: &Key) -> Option<Record> {
        let is_over = self.get(key).is_none();
        let Kept { record, .. } = self.kept.remove(key)?;
        self.in_all.count -= 1;
        self.in_all.bytes -= record.bytes();
        let payer = record.payer().map(str::to_owned);
        if let Some(used) = self.used.get_mut(&payer) {
            used.count -= 1;
            used.bytes -= record.bytes();
            if used.count == 0 {
                self.used.remove(&payer);
            }
        }
        if self.order.len() > 2 * self.kept.len() {
            let Self { order, kept, .. } = self;
            order.retain(|(key, number)| kept.get(key).is_some_and(|kept| kept.number == *number));
        }
        (!is_over).then_some(record)
    }

    fn charge(&mut self, record: &Record) {
        let used = self.used.entry(record.payer().map(str::to_owned)).or_default();
        for used in [used, &mut self.in_all] {
            used.count += 1;
            used.bytes += record.bytes();
        }
    }

    /// Lets those go whose time is over. All of a kind have the same time, so they are the oldest.
    fn forget_what_is_over(&mut self) {
        let now = Instant::now();
        while let Some((key, number)) = self.order.front() {
            let kept = self.kept.get(key).filter(|kept| kept.number == *number);
            match kept.map(|kept| kept.until.is_some_and(|until| until <= now)) {
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

    fn let_oldest_go(&mut self, is_meant: impl Fn(&Record) -> bool) {
        let oldest = self.order.iter().find(|(key, number)| {
            let kept = self.kept.get(key).filter(|kept| kept.number == *number);
            kept.is_some_and(|kept| is_meant(&kept.record))
        });
        if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
            self.remove(&oldest);
        }
    }
}

/// The counts of what happens at a rate: by subject, the time at which nothing is left of them.
struct Counts {
    since: Instant,
    clear_at: HashMap<String, Duration>,
    /// At how many of them those are let go that do not matter any more.
    sweep_at: usize,
}

impl Default for Counts {
    fn default() -> Self {
        Self { since: Instant::now(), clear_at: HashMap::new(), sweep_at: FIRST_SWEEP }
    }
}

impl Counts {
    fn count(&mut self, subject: &str, rate: Rate) -> Result<(), Duration> {
        let now = self.since.elapsed();
        if self.clear_at.len() >= self.sweep_at {
            self.clear_at.retain(|_, clear_at| *clear_at > now);
            self.sweep_at = FIRST_SWEEP.max(2 * self.clear_at.len());
        }
        rate.count(now, self.clear_at.entry(subject.to_owned()).or_default())
    }
}

impl Memory {
    fn state<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn shelf<T>(&self, key: &Key, f: impl FnOnce(&mut Shelf) -> T) -> T {
        self.state(|state| f(state.shelves.entry(key.kind()).or_default()))
    }
}

impl Store for Memory {
    fn put(&self, key: Key, record: Record, room: Room) -> Answer<'_, bool> {
        let is_put = self.shelf(&key, |shelf| {
            let tenure =
                if let Record::Session(session) = &record { Some(&session.tenure) } else { None };
            let is_ours = tenure.is_none_or(|tenure| shelf.follows(&key, tenure));
            if is_ours {
                shelf.put(key.clone(), record, room);
            }
            is_ours
        });
        Box::pin(ready(is_put))
    }

    fn get<'a>(&'a self, key: &'a Key) -> Answer<'a, Option<Record>> {
        Box::pin(ready(self.shelf(key, |shelf| shelf.get(key).cloned())))
    }

    fn take<'a>(&'a self, key: &'a Key) -> Answer<'a, Option<Record>> {
        Box::pin(ready(self.shelf(key, |shelf| shelf.remove(key))))
    }

    fn count<'a>(&'a self, subject: &'a str, rate: Rate) -> Answer<'a, Result<(), Duration>> {
        Box::pin(ready(self.state(|state| state.counts.count(subject, rate))))
    }

    fn keep<'a>(&'a self, session: &'a SessionKey, tenure: &'a Tenure) -> Answer<'a, bool> {
        let key = Key::Session(session.clone());
        Box::pin(ready(self.shelf(&key, |shelf| shelf.follows(&key, tenure))))
    }

    fn end(&self, session: &SessionKey, tenure: &Tenure) {
        let key = Key::Session(session.clone());
        if !self.shelf(&key, |shelf| shelf.follows(&key, tenure)) {
            return;
        }
        self.remove(&key);
        self.state(|state| {
            for shelf in state.shelves.values_mut() {
                let of_session = |kept: &Kept| kept.record.session() == Some(session);
                let ended = shelf.kept.iter().filter(|(_, kept)| of_session(kept));
                let ended: Vec<Key> = ended.map(|(key, _)| key.clone()).collect();
                for key in ended {
                    shelf.remove(&key);
                }
            }
        });
    }

    fn remove(&self, key: &Key) {
        self.shelf(key, |shelf| shelf.remove(key));
    }
}

#[cfg(test)]
mod tests;
