//! The guard of a tool call, which reports its beginning and its end.

use crate::telemetry::context::CallContext;
use crate::telemetry::event::{Event, EventKinds};
use crate::telemetry::event_bus::EventBus;
use crate::telemetry::log_spans;
use crate::telemetry::outcome::CallOutcome;
use crate::telemetry::server_metrics::ServerMetrics;
use crate::telemetry::start::CallRequest;

/// A call in flight. If dropped, it is reported as cancelled, panicked or shutting down.
#[must_use]
pub struct CallGuard<'a> {
    listeners: &'a EventBus,
    /// The context, which is passed along with the call.
    pub context: CallContext<'a>,
    has_ended: bool,
}

impl<'a> CallGuard<'a> {
    /// Reports that a call begins.
    pub fn begin(
        listeners: &'a EventBus,
        meters: &'a ServerMetrics,
        subject: CallRequest<'a>,
    ) -> Self {
        log_spans::record_call(&subject);
        let is_timed = listeners.is_enabled(EventKinds::CALLS_BEGUN.union(EventKinds::CALLS_ENDED));
        let wants_texts = listeners.is_enabled(EventKinds::CALL_TEXTS);
        let mut context =
            CallContext::new(subject, meters, listeners.calls(), is_timed, wants_texts);
        if listeners.live().is_watched() {
            context.is_watched = true;
            listeners.live().begin();
        }
        listeners.emit(Event::CallBegan(&context));
        Self { listeners, context, has_ended: false }
    }

    /// Reports the end of the call, with the size of its result or error, if any.
    pub fn end(mut self, ending: CallOutcome, result_bytes: Option<usize>) {
        self.finish(ending, result_bytes);
    }

    fn finish(&mut self, ending: CallOutcome, result_bytes: Option<usize>) {
        self.has_ended = true;
        if self.listeners.is_enabled(EventKinds::CALLS_ENDED) {
            let took = self.context.took();
            let end = &mut self.context.end;
            (end.outcome, end.took, end.result_bytes) = (ending, took, result_bytes);
            self.listeners.emit(Event::CallEnded(&self.context));
        }
    }
}

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        self.finish(self.listeners.drop_outcome(), None);
    }
}
