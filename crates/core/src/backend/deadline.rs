//! Deadlines of calls: one task and at most one timer for all that are running.
//!
//! A timer of its own for each call would cost a call more system calls than its relaying does.
//! Calls come and go in their thousands before the first deadline; so the one timer stays where
//! it was set, and only when it goes off is the next deadline looked for.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// The deadlines of everything that is running.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    state: Mutex<State>,
    /// Told when a deadline comes before the time that the timer is set to.
    earlier: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// In no order, for only the timer wants to know which is the first.
    slots: Vec<Slot>,
    /// The slots that nobody has.
    free: Vec<usize>,
    /// When the timer goes off next, if it is set.
    set_to: Option<Instant>,
}

/// The deadline of one call.
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

    /// A deadline that passes at `at`.
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

    /// Lets deadlines pass, for as long as it is polled.
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

/// One deadline; it no longer passes once this is dropped.
#[derive(Debug)]
pub(crate) struct Deadline {
    all: Arc<Deadlines>,
    slot: usize,
}

impl Deadline {
    /// Resolves when the deadline passes. Nothing is lost when it is cancelled.
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

    /// Moves the deadline.
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
        // Outside of the lock, for it may be the last that holds its task.
        drop(waker);
    }
}

#[cfg(test)]
mod tests;
