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
    /// The context, which is passed along with the call.
    pub context: CallContext<'a>,
    has_ended: bool,
}

impl EventBus {
    /// Reports that a call begins.
    pub fn begin_call<'a>(
        &'a self,
        meters: &'a ServerMetrics,
        subject: CallRequest<'a>,
    ) -> CallGuard<'a> {
        log_spans::record_call(&subject);
        let mut context = CallContext::new(self, meters, subject);
        if self.live().is_watched() {
            context.is_watched = true;
            self.live().begin();
        }
        self.emit(Event::CallBegan(&context));
        CallGuard { context, has_ended: false }
    }
}

impl CallGuard<'_> {
    /// Reports the end of the call, with the size of its result or error, if any.
    pub fn end(mut self, ending: CallOutcome, result_bytes: Option<usize>) {
        self.finish(ending, result_bytes);
    }

    fn finish(&mut self, ending: CallOutcome, result_bytes: Option<usize>) {
        self.has_ended = true;
        let context = &mut self.context;
        if context.listeners.is_enabled(EventKinds::CALLS_ENDED) {
            (context.end.outcome, context.end.result_bytes) = (ending, result_bytes);
            context.end.took = context.took();
            context.listeners.emit(Event::CallEnded(context));
        }
    }
}

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        self.finish(self.context.listeners.drop_outcome(), None);
    }
}
