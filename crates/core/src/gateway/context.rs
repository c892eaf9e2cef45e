//! The context of a request: who asks, and how.

use std::sync::atomic::AtomicBool;

use crate::backend::{Call, LogLevel, Patience, Presence, events};
use crate::gateway::Caller;
use crate::raw::{Member, Raw};
use crate::state::SessionKey;

/// A request context: who asks, what they can take, and where they hear of what happens meanwhile.
#[derive(Clone, Copy)]
pub struct RequestContext<'a> {
    /// The agent, as servers can reach it.
    pub agent: &'a Presence,
    /// Who that is, as policy knows it.
    pub caller: &'a Caller,
    /// The session that it belongs to; `None`: none that lasts.
    pub session: Option<&'a SessionKey>,
    /// `true` if it is of the modern form (2026-07-28), where what the server asks is part of an
    /// answer.
    pub is_modern: bool,
    /// `true` if it knows links to resources in results (from 2025-06-18 on).
    pub reads_links: bool,
    /// The members of its `_meta` that go on to the server.
    pub meta: &'a [Member],
    /// The least urgent lines of servers' logs that are heard while it runs.
    pub log: LogLevel,
    /// Where what the server says while it runs goes; `None`: nobody listens, nobody can be asked.
    pub events: Option<&'a events::Sender>,
    /// `true` if the agent wants to hear of progress.
    pub wants_progress: bool,
    /// Where it is noted that it goes to its server; `None`: nobody wants to know.
    pub sent: Option<&'a AtomicBool>,
}

impl<'a> RequestContext<'a> {
    /// Nobody in particular, who hears and is asked nothing.
    pub fn nobody(agent: &'a Presence) -> Self {
        Self {
            agent,
            caller: &Caller::NOBODY,
            session: None,
            is_modern: false,
            reads_links: true,
            meta: &[],
            log: LogLevel::NOTHING,
            events: None,
            wants_progress: false,
            sent: None,
        }
    }

    /// A request with these members of `params`.
    pub(crate) fn call<'b>(
        &'b self,
        params: &'b [(&'b str, &'b Raw)],
        patience: Patience,
    ) -> Call<'b> {
        let Self { meta, log, events, sent, .. } = *self;
        Call { params, meta, log, events, patience, sent }
    }

    /// Where progress goes, if it is wanted.
    pub fn progress(&self) -> Option<&'a events::Sender> {
        self.events.filter(|_| self.wants_progress)
    }
}
