//! One request to a language model under observation: told when it ends, however it ends. What was
//! asked and answered is not in it.

use std::time::{Duration, Instant, SystemTime};

use crate::name::AgentName;
use crate::observe::event::{Event, LlmContext};
use crate::observe::listeners::Listeners;
use crate::observe::llm_outcome::LlmOutcome;

/// A request to a model, and for whom it is made.
#[derive(Clone, Copy, Debug)]
pub struct Prompted<'a> {
    /// The agent, where it has a name.
    pub agent: Option<&'a AgentName>,
    /// A number for the agent's session.
    pub session: u64,
    /// The model, in a word of the configuration.
    pub model: &'a str,
    /// The purpose of the request.
    pub purpose: &'static str,
}

/// A request that is under observation. One that is dropped was given up.
#[must_use]
pub struct LlmRequest<'a> {
    listeners: &'a Listeners,
    /// Its context.
    pub context: LlmContext<'a>,
    began: Instant,
    has_ended: bool,
}

impl Listeners {
    /// A request to a model begins.
    pub fn begin_llm_request<'a>(&'a self, prompted: Prompted<'a>) -> LlmRequest<'a> {
        let Prompted { agent, session, model, purpose } = prompted;
        let context = LlmContext {
            agent,
            session,
            model,
            named: None,
            purpose,
            at: SystemTime::now(),
            took: Duration::ZERO,
            tokens: [0; 2],
            attempts: 1,
        };
        LlmRequest { listeners: self, context, began: Instant::now(), has_ended: false }
    }
}

impl LlmRequest<'_> {
    /// The request has ended.
    pub fn end(mut self, outcome: LlmOutcome) {
        self.finish(outcome);
    }

    fn finish(&mut self, outcome: LlmOutcome) {
        self.has_ended = true;
        self.context.took = self.began.elapsed();
        self.listeners.tell(Event::LlmRequestEnded(&self.context, outcome));
    }
}

impl Drop for LlmRequest<'_> {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        let outcome = if std::thread::panicking() {
            LlmOutcome::Panicked
        } else if self.listeners.are_closing() {
            LlmOutcome::ShuttingDown
        } else {
            LlmOutcome::Cancelled
        };
        self.finish(outcome);
    }
}

#[cfg(test)]
mod tests;
