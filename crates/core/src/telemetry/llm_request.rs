//! The guard of a request to a language model, which reports its end. Prompts and answers are not
//! reported.

use std::time::{Duration, Instant, SystemTime};

use crate::telemetry::event::{Event, LlmContext};
use crate::telemetry::event_bus::EventBus;
use crate::telemetry::llm_outcome::LlmOutcome;
use mcp_workbench_names::AgentName;

/// A request to a model, and the agent that it serves.
#[derive(Clone, Copy, Debug)]
pub struct LlmRequestInfo<'a> {
    /// `None` for an anonymous agent.
    pub agent: Option<&'a AgentName>,
    pub session: u64,
    /// The name of the model in the configuration.
    pub model: &'a str,
    pub purpose: &'static str,
}

/// A request in flight. If dropped, it is reported as cancelled, panicked or shutting down.
#[must_use]
pub struct LlmRequestGuard<'a> {
    listeners: &'a EventBus,
    pub context: LlmContext<'a>,
    began: Instant,
    has_ended: bool,
}

impl<'a> LlmRequestGuard<'a> {
    /// Starts a request, which is reported when it ends.
    pub fn begin(listeners: &'a EventBus, prompted: LlmRequestInfo<'a>) -> Self {
        let LlmRequestInfo { agent, session, model, purpose } = prompted;
        let context = LlmContext {
            agent,
            session,
            model,
            reported_model: None,
            purpose,
            at: SystemTime::now(),
            took: Duration::ZERO,
            tokens: [0; 2],
            attempts: 1,
        };
        Self { listeners, context, began: Instant::now(), has_ended: false }
    }

    /// Reports the end of the request.
    pub fn end(mut self, outcome: LlmOutcome) {
        self.finish(outcome);
    }

    fn finish(&mut self, outcome: LlmOutcome) {
        self.has_ended = true;
        self.context.took = self.began.elapsed();
        self.listeners.emit(Event::LlmRequestEnded(&self.context, outcome));
    }
}

impl Drop for LlmRequestGuard<'_> {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        let outcome = if std::thread::panicking() {
            LlmOutcome::InternalError
        } else if self.listeners.is_shutting_down() {
            LlmOutcome::ShuttingDown
        } else {
            LlmOutcome::Cancelled
        };
        self.finish(outcome);
    }
}

#[cfg(test)]
mod tests;
