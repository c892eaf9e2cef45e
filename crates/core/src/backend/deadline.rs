//! Deadlines of calls, with one task and at most one timer for all of them.
//!
//! A timer per call would cost more system calls than relaying the call. Thousands of calls finish
//! before the first deadline. So the timer stays where it was set, and the next deadline is
//! computed only when it fires.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    state: Mutex<State>,
    /// Notified when a deadline precedes the timer.
    earlier: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Unordered: only the timer needs the earliest deadline.
    slots: Vec<Slot>,
    free: Vec<usize>,
    set_to: Option<Instant>,
}

#[derive(Debug, Default)]
struct Slot {
    /// `None` once it has passed.
    at: Option<Instant>,
    waker: Option<Waker>,
}

impl Deadlines {
    fn state<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn add(self: &Arc<Self>, at: Instant) -> Deadline {
        let slot = self.state(|state| {
            state.free.pop().unwrap_or_else(|| {
                state.slots.push(Slot::default());
                state.slots.len() - 1
            })
        });
        self.set(slot, at);
        Deadline { all: Arc::clone(self), slot }
    }

    fn set(&self, slot: usize, at: Instant) {
        let is_earlier = self.state(|state| {
            state.slots[slot].at = Some(at);
            state.set_to.is_none_or(|set_to| at < set_to)
        });
        if is_earlier {
            self.earlier.notify_one();
        }
    }

    /// Wakes waiters of passed deadlines for as long as it is polled.
    pub(crate) async fn run(&self) {
        loop {
            let (passed, next) = self.state(|state| {
                let now = Instant::now();
                let mut passed = Vec::new();
                for slot in &mut state.slots {
                    if slot.at.take_if(|at| *at <= now).is_some() {
                        passed.extend(slot.waker.take());
                    }
                }
                state.set_to = state.slots.iter().filter_map(|slot| slot.at).min();
                (passed, state.set_to)
            });
            passed.into_iter().for_each(Waker::wake);
            tokio::select! {
                () = self.earlier.notified() => {}
                () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
            }
        }
    }
}

/// One deadline, removed on drop.
#[derive(Debug)]
pub(crate) struct Deadline {
    all: Arc<Deadlines>,
    slot: usize,
}

impl Deadline {
    /// Resolves when the deadline passes. Cancel-safe.
    pub(crate) async fn passed(&mut self) {
        poll_fn(|context| {
            self.all.state(|state| {
                let Slot { at, waker } = &mut state.slots[self.slot];
                if at.is_none() {
                    return Poll::Ready(());
                }
                match waker {
                    Some(waker) => waker.clone_from(context.waker()),
                    None => *waker = Some(context.waker().clone()),
                }
                Poll::Pending
            })
        })
        .await;
    }

    pub(crate) fn move_to(&mut self, at: Instant) {
        self.all.set(self.slot, at);
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        let waker = self.all.state(|state| {
            state.free.push(self.slot);
            std::mem::take(&mut state.slots[self.slot]).waker
        });
        // Dropped outside the lock: it may be the last reference to its task.
        drop(waker);
    }
}

#[cfg(test)]
mod tests;
