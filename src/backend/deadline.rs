//! Deadlines of calls: one task and at most one timer for all that are running.
//!
//! A timer of its own for each call would cost a call more system calls than its relaying does.
//! Calls come and go in their thousands before the first deadline; so the one timer stays where
//! it was set, and only when it goes off is the next deadline looked for.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, oneshot};
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
    /// By time, and by a number that tells apart what has the same time.
    waiting: BTreeMap<(Instant, u64), oneshot::Sender<()>>,
    count: u64,
    /// When the timer goes off next, if it is set.
    set_to: Option<Instant>,
}

impl Deadlines {
    fn state<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A deadline that passes at `at`.
    pub(crate) fn add(self: &Arc<Self>, at: Instant) -> Deadline {
        let (key, passed) = self.insert(at);
        Deadline { all: Arc::clone(self), key, passed }
    }

    fn insert(&self, at: Instant) -> ((Instant, u64), oneshot::Receiver<()>) {
        let (pass, passed) = oneshot::channel();
        let (key, is_earlier) = self.state(|state| {
            state.count += 1;
            let key = (at, state.count);
            state.waiting.insert(key, pass);
            (key, state.set_to.is_none_or(|set_to| at < set_to))
        });
        if is_earlier {
            self.earlier.notify_one();
        }
        (key, passed)
    }

    fn remove(&self, key: (Instant, u64)) {
        self.state(|state| state.waiting.remove(&key));
    }

    /// Lets deadlines pass, for as long as it is polled.
    pub(crate) async fn run(&self) {
        loop {
            let next = self.state(|state| {
                let now = Instant::now();
                while let Some(first) = state.waiting.first_entry() {
                    if first.key().0 > now {
                        break;
                    }
                    // Whoever had this deadline may be done in this very moment.
                    let _ = first.remove().send(());
                }
                state.set_to = state.waiting.keys().next().map(|key| key.0);
                state.set_to
            });
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
    key: (Instant, u64),
    passed: oneshot::Receiver<()>,
}

impl Deadline {
    /// Resolves when the deadline passes. Nothing is lost when it is cancelled.
    pub(crate) async fn passed(&mut self) {
        if (&mut self.passed).await.is_err() {
            // Nobody lets deadlines pass any more.
            std::future::pending::<()>().await;
        }
    }

    /// Moves the deadline.
    pub(crate) fn move_to(&mut self, at: Instant) {
        self.all.remove(self.key);
        (self.key, self.passed) = self.all.insert(at);
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        self.all.remove(self.key);
    }
}

#[cfg(test)]
mod tests;
