//! Who hears of events: a list that is made once, so that telling takes no lock, and costs one branch
//! where nobody wants to hear.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::observe::ending::Ending;
use crate::observe::event::{Event, Kinds};
use crate::observe::live::Live;

/// Somebody who hears of events.
///
/// It is told in the middle of the work, so it may not wait: what takes longer goes into a queue that a
/// thread of its own empties.
pub trait Listener: Send + Sync {
    /// The kinds of events that it wants to hear of, which never change.
    fn wants(&self) -> Kinds;

    /// Hears of an event of one of those kinds.
    fn hear(&self, event: Event<'_>);

    /// Finishes what is still to be written, within `patience`.
    fn flush(&self, patience: Duration) {
        let _ = patience;
    }
}

/// Everybody who hears of events; clones are the same.
#[derive(Clone)]
pub struct Listeners(Arc<Shared>);

struct Shared {
    /// The kinds that anybody wants.
    wanted: Kinds,
    all: Box<[(Kinds, Arc<dyn Listener>)]>,
    process: Process,
}

/// The facts about this process that events need.
#[derive(Clone, Default)]
pub(crate) struct Process {
    /// Counts its calls of which somebody wants the facts, and requests to models.
    pub(crate) calls: Arc<AtomicU64>,
    /// Set when what ends does so because the program does.
    pub(crate) is_ending: Arc<AtomicBool>,
    /// The picture of what goes on, which hears of calls once somebody looks at it.
    pub(crate) live: Live,
}

impl Listeners {
    /// These listeners, who hear of events in this order.
    pub(crate) fn new(all: impl IntoIterator<Item = Arc<dyn Listener>>, process: Process) -> Self {
        let all = all.into_iter().map(|listener| (listener.wants(), listener));
        let all: Box<[_]> = all.filter(|(wants, _)| *wants != Kinds::NONE).collect();
        let wanted = all.iter().fold(Live::ALWAYS, |wanted, (wants, _)| wanted.and(*wants));
        Self(Arc::new(Shared { wanted, all, process }))
    }

    /// Returns `true` if anybody wants to hear of one of these kinds.
    pub fn want(&self, kinds: Kinds) -> bool {
        self.0.wanted.has(kinds) || (Live::WATCHED.has(kinds) && self.live().is_watched())
    }

    /// The picture of what goes on.
    pub(crate) fn live(&self) -> &Live {
        &self.0.process.live
    }

    /// Tells everybody who wants to hear of it.
    pub fn tell(&self, event: Event<'_>) {
        let kind = event.kind();
        if self.want(kind) {
            self.pass_on(kind, event);
        }
    }

    fn pass_on(&self, kind: Kinds, event: Event<'_>) {
        // An error of one is nobody else's: neither of the other listeners nor of the work.
        let tell = |hear: &dyn Fn()| {
            if catch_unwind(AssertUnwindSafe(hear)).is_err() {
                tracing::error!("an error of ours: an event was not taken note of");
            }
        };
        for (wants, listener) in &self.0.all {
            if wants.has(kind) {
                tell(&|| listener.hear(event));
            }
        }
        let is_watched = Live::WATCHED.has(kind) && self.live().is_watched();
        if is_watched || Live::ALWAYS.has(kind) {
            tell(&|| self.live().hear(event));
        }
    }

    /// Counts the calls of this process of which somebody wants the facts, and requests to models.
    pub(crate) fn calls(&self) -> &AtomicU64 {
        &self.0.process.calls
    }

    /// Returns `true` if what ends does so because the program does.
    pub(crate) fn are_closing(&self) -> bool {
        self.0.process.is_ending.load(Ordering::Relaxed)
    }

    /// How something ends now that is given up before its end.
    pub(crate) fn given_up(&self) -> Ending {
        if std::thread::panicking() {
            Ending::Panicked
        } else if self.are_closing() {
            Ending::ShuttingDown
        } else {
            Ending::Cancelled
        }
    }

    /// Lets everybody finish what is still to be written; `left` says how long that may take.
    pub(crate) fn flush(&self, left: impl Fn() -> Duration) {
        for (_, listener) in &self.0.all {
            listener.flush(left());
        }
    }
}

#[cfg(test)]
mod tests;
