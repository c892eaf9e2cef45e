//! The context of a call: its request, and the details that become known while it is processed.
//!
//! It is created when a call begins and is passed along with the call. All listeners read it and
//! nothing else, so they report the same facts.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use crate::catalog::Listing;
use crate::telemetry::call_span::CallSpan;
use crate::telemetry::outcome::CallEnd;
use crate::telemetry::server_metrics::ServerMetrics;
use crate::telemetry::start::CallRequest;
use mcp_workbench_names::{AgentName, ServerName, ToolboxName};
use mcp_workbench_wire::json::{Member, RawJson};

/// A call in flight.
pub struct CallContext<'a> {
    pub subject: CallRequest<'a>,
    /// Completed when the call ends.
    pub end: CallEnd,
    /// `true` if the server has requested input from the client. The result is then not cached.
    pub has_asked: bool,
    pub(crate) meters: &'a ServerMetrics,
    /// Set if spans are exported.
    pub(crate) trace: OnceLock<Box<CallSpan>>,
    facts: OnceLock<Arc<CallStart>>,
    numbers: &'a AtomicU64,
    /// When the call began; `None` if no listener needs its duration.
    began: Option<Instant>,
    /// `true` if a listener wants `EventKinds::CALL_TEXTS`.
    wants_texts: bool,
    /// `true` if the live view was recording when the call began.
    pub(crate) is_watched: bool,
}

/// The facts known when a call begins, in a form that can outlive the call.
#[derive(Debug)]
pub struct CallStart {
    /// Numbers the calls and LLM requests of this process that a listener wants to record.
    pub number: u64,
    pub at: SystemTime,
    /// `None` for an anonymous agent.
    pub agent: Option<AgentName>,
    /// Numbers the sessions of this process.
    pub session: u64,
    /// `None` if the called name matches no tool.
    pub toolbox: Option<ToolboxName>,
    /// `None` if the called name matches no tool.
    pub server: Option<ServerName>,
    pub tool: String,
    /// The arguments as the agent sent them.
    pub arguments: Option<RawJson>,
}

impl<'a> CallContext<'a> {
    /// A call that begins now. Its number is the next of `numbers`.
    pub(crate) fn new(
        subject: CallRequest<'a>,
        meters: &'a ServerMetrics,
        numbers: &'a AtomicU64,
        is_timed: bool,
        wants_texts: bool,
    ) -> Self {
        Self {
            subject,
            end: CallEnd::default(),
            has_asked: false,
            meters,
            trace: OnceLock::new(),
            facts: OnceLock::new(),
            numbers,
            began: is_timed.then(Instant::now),
            wants_texts,
            is_watched: false,
        }
    }

    /// Returns the facts known from the beginning. The context holds a reference until the call
    /// ends, so that weak references to them die with the call.
    pub fn start(&self) -> &Arc<CallStart> {
        self.facts.get_or_init(|| {
            let CallRequest {
                agent,
                session,
                toolbox,
                server,
                tool,
                arguments,
                client: _,
                meta: _,
            } = self.subject;
            Arc::new(CallStart {
                number: self.numbers.fetch_add(1, Ordering::Relaxed),
                at: SystemTime::now(),
                agent: agent.cloned(),
                session,
                toolbox: toolbox.cloned(),
                server: server.cloned(),
                tool: tool.to_owned(),
                arguments: arguments.cloned(),
            })
        })
    }

    /// Returns the size of the arguments in bytes.
    pub fn argument_bytes(&self) -> usize {
        self.subject.arguments.map_or(0, RawJson::len)
    }

    /// Returns the `_meta` members to send to the server, if they differ from the request's.
    pub fn take_meta(&mut self) -> Option<Vec<Member>> {
        self.trace.get_mut().map(|trace| std::mem::take(&mut trace.meta))
    }

    /// Records the rule that allowed or denied the call. The closure runs only if a listener wants
    /// texts.
    pub fn set_rule(&mut self, rule: impl FnOnce() -> Option<Cow<'static, str>>) {
        if self.wants_texts {
            self.end.decision.rule = rule();
        }
    }

    /// Records why the call is denied.
    pub fn set_denial_reason(&mut self, reason: &str) {
        if self.wants_texts {
            self.end.decision.reason = Some(reason.to_owned());
        }
    }

    /// Records the listing of the server of a tool that the agent can't see. Whether the server has
    /// the tool is checked later, on the audit thread, so that the agent can't notice a difference.
    pub fn mark_not_found(&mut self, listing: impl FnOnce() -> Option<Arc<Listing>>) {
        if self.wants_texts {
            self.end.decision.listing = listing();
        }
    }

    /// Returns the time since the call began, or zero if no listener needs it.
    pub(crate) fn took(&self) -> Duration {
        self.began.map_or(Duration::ZERO, |began| began.elapsed())
    }
}
