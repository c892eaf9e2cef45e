//! All connections, and which of them gives way to a new one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::gateway::{Held, Purse};
use crate::observe::{Holding, Payer};

/// How many places are kept for those who look after us.
const KEPT: usize = 16;

/// The connections that there are.
#[derive(Default)]
pub(crate) struct Table {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    places: HashMap<u64, Entry>,
    next: u64,
    kept: usize,
}

struct Entry {
    payer: Option<Payer>,
    idle: Idle,
    gives_way: CancellationToken,
    /// Counts it among what its address holds.
    _held: Option<Held>,
}

/// Since when a connection is not used; `None`: it is. Each has its own, for every request notes it,
/// and no connection has to wait for another with that.
type Idle = Arc<Mutex<Option<Instant>>>;

/// The place of one connection, until this is dropped.
pub(crate) struct Place {
    state: Arc<Mutex<State>>,
    number: u64,
    is_kept: bool,
    idle: Idle,
    gives_way: CancellationToken,
}

impl Table {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Gives a connection a place, where its address may have `of_one` and there may be `in_all`. One
    /// that is not used gives way for it if need be; where there is none, it gets a kept place.
    pub(crate) fn take(&self, purse: &Arc<Purse>, [of_one, in_all]: [usize; 2]) -> Arc<Place> {
        let mut state = self.state();
        let payer = purse.payer();
        if purse.count(Holding::Connections) >= of_one {
            purse.reaches(Holding::Connections);
            if !state.free_one(|other| other == payer) {
                return self.kept(state);
            }
        } else if state.places.len() - state.kept >= in_all {
            purse.reaches(Holding::Connections);
            let greediest = state.greediest();
            if !state.free_one(|other| Some(other) == greediest.as_ref()) {
                return self.kept(state);
            }
        }
        let held = purse.take(Holding::Connections, usize::MAX).ok();
        self.enter(state, Some(payer.clone()), held)
    }

    /// Gives a connection a place that is kept for those who look after us: the oldest of them ends
    /// where there are too many.
    pub(crate) fn take_kept(&self) -> Arc<Place> {
        self.kept(self.state())
    }

    fn kept(&self, mut state: MutexGuard<'_, State>) -> Arc<Place> {
        if state.kept >= KEPT {
            let kept = state.places.iter().filter(|(_, entry)| entry.payer.is_none());
            let oldest = kept.map(|(number, _)| *number).min();
            state.end(oldest);
        }
        self.enter(state, None, None)
    }

    fn enter(
        &self,
        mut state: MutexGuard<'_, State>,
        payer: Option<Payer>,
        held: Option<Held>,
    ) -> Arc<Place> {
        let number = state.next;
        state.next += 1;
        let is_kept = payer.is_none();
        state.kept += usize::from(is_kept);
        let gives_way = CancellationToken::new();
        let idle = Arc::new(Mutex::new(Some(Instant::now())));
        let entry =
            Entry { payer, idle: Arc::clone(&idle), gives_way: gives_way.clone(), _held: held };
        state.places.insert(number, entry);
        Arc::new(Place { state: Arc::clone(&self.state), number, is_kept, idle, gives_way })
    }
}

impl State {
    /// Ends the connection that was not used for longest, of those whose payers are meant.
    fn free_one(&mut self, is_meant: impl Fn(&Payer) -> bool) -> bool {
        let meant =
            self.places.iter().filter(|(_, entry)| entry.payer.as_ref().is_some_and(&is_meant));
        let idle = meant.filter_map(|(number, entry)| Some(((*lock(&entry.idle))?, *number)));
        let oldest = idle.min().map(|(_, number)| number);
        self.end(oldest)
    }

    /// The one who has most connections that are not used.
    fn greediest(&self) -> Option<Payer> {
        let mut counts: HashMap<&Payer, usize> = HashMap::new();
        for entry in self.places.values().filter(|entry| lock(&entry.idle).is_some()) {
            if let Some(payer) = &entry.payer {
                *counts.entry(payer).or_default() += 1;
            }
        }
        counts.into_iter().max_by_key(|(_, count)| *count).map(|(payer, _)| payer.clone())
    }

    fn end(&mut self, number: Option<u64>) -> bool {
        let Some(entry) = number.and_then(|number| self.places.remove(&number)) else {
            return false;
        };
        self.kept -= usize::from(entry.payer.is_none());
        entry.gives_way.cancel();
        true
    }
}

impl Place {
    /// Returns `true` if it is one of those that are kept.
    pub(crate) fn is_kept(&self) -> bool {
        self.is_kept
    }

    /// Resolves when the connection is to end, for another needs its place.
    pub(crate) async fn gives_way(&self) {
        self.gives_way.cancelled().await;
    }

    /// Waits for this time, or until another connection needs the place: meanwhile it gives way like one
    /// that is not used.
    pub(crate) async fn pause(&self, time: Duration) {
        self.is_used(false);
        // It goes on in either case.
        let _ = timeout(time, self.gives_way()).await;
        self.is_used(true);
    }

    /// Takes note that a request has come, or that it has been answered.
    pub(crate) fn is_used(&self, is_used: bool) {
        *lock(&self.idle) = (!is_used).then(Instant::now);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = lock(&self.state);
        if let Some(entry) = state.places.remove(&self.number) {
            state.kept -= usize::from(entry.payer.is_none());
            drop(state);
            drop(entry);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
