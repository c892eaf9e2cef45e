//! The event bus: an immutable list of listeners. Emitting takes no lock, and costs one branch if
//! no listener is interested.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::telemetry::event::{Event, EventKinds};
use crate::telemetry::live_view::LiveView;
use crate::telemetry::outcome::CallOutcome;

/// A receiver of events.
///
/// It is called in the middle of the work, so it must not block. Slow work goes into a queue that a
/// separate thread drains.
pub trait EventListener: Send + Sync {
    /// Returns the kinds of events to receive. They must never change.
    fn interest(&self) -> EventKinds;

    /// Handles an event of one of those kinds.
    fn on_event(&self, event: Event<'_>);

    /// Writes pending data. Takes at most `patience`.
    fn flush(&self, patience: Duration) {
        let _ = patience;
    }
}

/// The listeners to events. Clones share them.
#[derive(Clone)]
pub struct EventBus(Arc<BusShared>);

struct BusShared {
    /// The kinds that any listener wants.
    wanted: EventKinds,
    all: Box<[(EventKinds, Arc<dyn EventListener>)]>,
    process: ProcessContext,
}

/// State of the process that all its buses share.
#[derive(Clone, Default)]
pub(crate) struct ProcessContext {
    /// Numbers calls and LLM requests that a listener records.
    pub(crate) calls: Arc<AtomicU64>,
    /// `true` if the process is shutting down.
    pub(crate) is_ending: Arc<AtomicBool>,
    /// The live view, which receives calls after its first snapshot.
    pub(crate) live: LiveView,
}

impl EventBus {
    /// Creates a bus. The listeners receive events in this order.
    pub(crate) fn new(
        all: impl IntoIterator<Item = Arc<dyn EventListener>>,
        process: ProcessContext,
    ) -> Self {
        let all = all.into_iter().map(|listener| (listener.interest(), listener));
        let all: Box<[_]> = all.filter(|(wants, _)| *wants != EventKinds::NONE).collect();
        let wanted = all.iter().fold(LiveView::ALWAYS, |wanted, (wants, _)| wanted.union(*wants));
        Self(Arc::new(BusShared { wanted, all, process }))
    }

    /// Returns `true` if any listener wants one of these kinds.
    pub fn is_enabled(&self, kinds: EventKinds) -> bool {
        self.0.wanted.intersects(kinds)
            || (LiveView::WATCHED.intersects(kinds) && self.live().is_watched())
    }

    pub(crate) fn live(&self) -> &LiveView {
        &self.0.process.live
    }

    /// Passes an event to all listeners that want it.
    pub fn emit(&self, event: Event<'_>) {
        let kind = event.kind();
        if self.is_enabled(kind) {
            self.pass_on(kind, event);
        }
    }

    fn pass_on(&self, kind: EventKinds, event: Event<'_>) {
        // A panicking listener must not fail the call, nor keep the event from the other listeners.
        let tell = |hear: &dyn Fn()| {
            if catch_unwind(AssertUnwindSafe(hear)).is_err() {
                tracing::error!("internal error: an event listener panicked");
            }
        };
        for (wants, listener) in &self.0.all {
            if wants.intersects(kind) {
                tell(&|| listener.on_event(event));
            }
        }
        let is_watched = LiveView::WATCHED.intersects(kind) && self.live().is_watched();
        if is_watched || LiveView::ALWAYS.intersects(kind) {
            tell(&|| self.live().hear(event));
        }
    }

    pub(crate) fn calls(&self) -> &AtomicU64 {
        &self.0.process.calls
    }

    pub(crate) fn is_shutting_down(&self) -> bool {
        self.0.process.is_ending.load(Ordering::Relaxed)
    }

    /// Returns the outcome of work that is dropped before its end.
    pub(crate) fn drop_outcome(&self) -> CallOutcome {
        if std::thread::panicking() {
            CallOutcome::InternalError
        } else if self.is_shutting_down() {
            CallOutcome::ShuttingDown
        } else {
            CallOutcome::Cancelled
        }
    }

    /// Flushes all listeners; `left` returns the time that remains.
    pub(crate) fn flush(&self, left: impl Fn() -> Duration) {
        for (_, listener) in &self.0.all {
            listener.flush(left());
        }
    }
}

#[cfg(test)]
mod tests;
