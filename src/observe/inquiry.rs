//! One request to a language model under observation: counted and recorded when it ends, however it
//! ends. What was asked and answered is not in it.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use crate::name::AgentName;
use crate::observe::{Audit, Observer};

/// The outcome of a request to a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Response {
    /// It answered.
    Ok,
    /// Its endpoint cannot be reached.
    Unreachable,
    /// No answer in time.
    TimedOut,
    /// Its endpoint does not take the key.
    Unauthorized,
    /// Its endpoint does not know it.
    UnknownModel,
    /// Its endpoint wants to be paid.
    Unpaid,
    /// Its endpoint was asked too often.
    RateLimited,
    /// Its endpoint, or the agent's client, answered with an error.
    Failed,
    /// The answer cannot be used.
    Unusable,
    /// The answer was too long.
    Oversized,
    /// The agent's client, or its user, said no.
    Declined,
    /// The agent's client does not lend its model.
    Unable,
    /// The agent gave up what it was asked for, or left.
    Cancelled,
    /// The workbench ended.
    ShuttingDown,
    /// An error of ours.
    Panicked,
}

impl Response {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Unreachable => "unreachable",
            Self::TimedOut => "timed_out",
            Self::Unauthorized => "unauthorized",
            Self::UnknownModel => "unknown_model",
            Self::Unpaid => "unpaid",
            Self::RateLimited => "rate_limited",
            Self::Failed => "failed",
            Self::Unusable => "unusable",
            Self::Oversized => "oversized",
            Self::Declined => "declined",
            Self::Unable => "unable",
            Self::Cancelled => "cancelled",
            Self::ShuttingDown => "shutting_down",
            Self::Panicked => "panicked",
        }
    }
}

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

/// A finished request to a model, as it is recorded.
#[derive(Debug)]
pub(crate) struct Answered {
    /// Counts the calls and requests of this process.
    pub(crate) serial: u64,
    pub(crate) at: SystemTime,
    pub(crate) agent: Option<AgentName>,
    pub(crate) session: u64,
    pub(crate) model: String,
    pub(crate) purpose: &'static str,
    pub(crate) response: Response,
    pub(crate) took: Duration,
    pub(crate) read: u64,
    pub(crate) written: u64,
    /// How many requests it took.
    pub(crate) attempts: u32,
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
