//! One request to a language model under observation: counted and recorded when it ends, however it
//! ends. What was asked and answered is not in it.

use std::sync::atomic::Ordering;
use std::time::{Instant, SystemTime};

use crate::name::AgentName;
use crate::observe::answered::{Answered, Response};
use crate::observe::{Audit, Observer};

/// A request to a model, and for whom it is made.
#[derive(Clone, Copy, Debug)]
pub struct Inquired<'a> {
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
pub struct Inquiry<'a> {
    observer: &'a Observer,
    audit: Option<&'a Audit>,
    asked: Inquired<'a>,
    began: Instant,
    at: SystemTime,
    /// The name that the model gives itself, where it is the agent's.
    named: Option<String>,
    /// The tokens that were read and written so far.
    pub tokens: [u64; 2],
    /// How many requests were made so far.
    pub attempts: u32,
}

impl Observer {
    /// Begins to watch a request to a model, which is recorded if there is an audit.
    pub fn inquire<'a>(&'a self, audit: Option<&'a Audit>, asked: Inquired<'a>) -> Inquiry<'a> {
        Inquiry {
            observer: self,
            audit,
            asked,
            began: Instant::now(),
            at: SystemTime::now(),
            named: None,
            tokens: [0; 2],
            attempts: 1,
        }
    }
}

impl Inquiry<'_> {
    /// The model calls itself so.
    pub fn named(&mut self, model: &str) {
        self.named = Some(model.to_owned());
    }

    /// The request has ended.
    pub fn end(mut self, response: Response) {
        self.finish(response);
        // It has ended once.
        std::mem::forget(self);
    }

    fn finish(&mut self, response: Response) {
        let Inquired { agent, session, model, purpose } = self.asked;
        let [read, written] = self.tokens;
        self.observer.metrics.inquired(model, response, self.tokens);
        let Some(audit) = self.audit else { return };
        audit.inquired(Answered {
            serial: audit.next_serial(),
            at: self.at,
            agent: agent.cloned(),
            session,
            model: self.named.take().unwrap_or_else(|| model.to_owned()),
            purpose,
            response,
            took: self.began.elapsed(),
            read,
            written,
            attempts: self.attempts,
        });
    }
}

impl Drop for Inquiry<'_> {
    fn drop(&mut self) {
        let response = if std::thread::panicking() {
            Response::Panicked
        } else if self.observer.is_ending.load(Ordering::Relaxed) {
            Response::ShuttingDown
        } else {
            Response::Cancelled
        };
        self.finish(response);
    }
}

#[cfg(test)]
mod tests;
