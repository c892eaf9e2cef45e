//! The guard of a read of a resource or a prompt, which reports its end.

use std::time::Instant;

use crate::telemetry::event::{Event, ReadContext};
use crate::telemetry::event_bus::EventBus;
use crate::telemetry::outcome::{CallEnd, CallOutcome};

/// A read in flight. If dropped, it is reported as cancelled, panicked or shutting down.
#[must_use]
pub struct PrimitiveReadGuard<'a> {
    listeners: &'a EventBus,
    context: ReadContext<'a>,
    began: Instant,
    has_ended: bool,
}

impl<'a> PrimitiveReadGuard<'a> {
    /// Starts a read, which is reported when it ends.
    pub fn begin(listeners: &'a EventBus, context: ReadContext<'a>) -> Self {
        Self { listeners, context, began: Instant::now(), has_ended: false }
    }

    /// Records the rule that allowed or denied the read.
    pub fn set_rule(&mut self, rule: Option<String>) {
        self.context.rule = rule.map(Into::into);
    }

    /// Reports the end of the read, with the size of its result or error, if any.
    pub fn end(mut self, ending: CallOutcome, result_bytes: Option<usize>) {
        self.finish(ending, result_bytes);
    }

    fn finish(&mut self, ending: CallOutcome, result_bytes: Option<usize>) {
        self.has_ended = true;
        let took = self.began.elapsed();
        let end = CallEnd { outcome: ending, took, result_bytes, ..CallEnd::default() };
        self.listeners.emit(Event::ReadEnded(&self.context, &end));
    }
}

impl Drop for PrimitiveReadGuard<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.finish(self.listeners.drop_outcome(), None);
        }
    }
}
