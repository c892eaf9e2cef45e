//! The context of a call: who calls what, and what has come to light of it on its way.
//!
//! It is made once, when a call begins, and travels with it. Whoever observes calls reads this and
//! nothing else, so that all of them tell the same.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use crate::catalog::Listing;
use crate::name::{AgentName, ServerName, ToolboxName};
use crate::observe::meters::Meters;
use crate::observe::subject::Subject;
use crate::observe::trace::Trace;
use crate::raw::{Member, Raw};

/// A call on its way.
pub struct CallContext<'a> {
    /// Who calls what.
    pub subject: Subject<'a>,
    /// The details that have come to light so far.
    pub details: CallDetails,
    /// `true` if its server has asked something of its agent.
    pub has_asked: bool,
    /// The counters of its server.
    pub(crate) meters: &'a Meters,
    /// The trace that it belongs to, where somebody traces calls.
    pub(crate) trace: OnceLock<Box<Trace>>,
    facts: OnceLock<Arc<CallFacts>>,
    numbers: &'a AtomicU64,
    /// When it began; `None`: nobody wants to know how long it takes.
    began: Option<Instant>,
    /// `true` if somebody wants the texts of its details.
    wants_texts: bool,
    /// `true` if somebody was looking when it began.
    pub(crate) is_watched: bool,
}

/// The details of a call that come to light on its way.
#[derive(Clone, Debug, Default)]
pub struct CallDetails {
    /// `true` if the tool is dangerous, as the configuration or its server says.
    pub is_dangerous: bool,
    /// `true` if the user was asked and agreed.
    pub is_confirmed: bool,
    /// `true` if it was answered with what its server had answered before.
    pub is_cached: bool,
    /// How long it waited for other calls to end.
    pub waited: Duration,
    /// The cause that stopped it, if it was not let through though its tool is there.
    pub stopped_by: Option<Stop>,
    /// The rule that decided on it, whichever way.
    pub(crate) rule: Option<Cow<'static, str>>,
    /// Why it was not let through.
    pub(crate) reason: Option<String>,
    /// The tools of its server, where a tool was not found among those that the agent may know of.
    pub(crate) listing: Option<Arc<Listing>>,
}

/// A cause that stops a call of a tool that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// There were too many calls in the last minute.
    Rate,
    /// Too many calls were running, for too long.
    Concurrency,
    /// The user did not agree, or could not be asked.
    Confirmation,
}

/// The facts about a call that are known when it begins, for whoever wants them longer than it lasts.
#[derive(Debug)]
pub struct CallFacts {
    /// Counts the calls of this process of which somebody wanted the facts.
    pub number: u64,
    /// When it began.
    pub at: SystemTime,
    /// The agent, where it has a name.
    pub agent: Option<AgentName>,
    /// Counts the agents of this process.
    pub session: u64,
    /// The toolbox; `None`: nobody knows it.
    pub toolbox: Option<ToolboxName>,
    /// The server; `None`: nobody knows it.
    pub server: Option<ServerName>,
    /// The tool.
    pub tool: String,
    /// Its arguments, as the agent gave them.
    pub arguments: Option<Raw>,
}

impl<'a> CallContext<'a> {
    /// A call that begins now. Its facts get the next of these `numbers`.
    pub(crate) fn new(
        subject: Subject<'a>,
        meters: &'a Meters,
        numbers: &'a AtomicU64,
        is_timed: bool,
        wants_texts: bool,
    ) -> Self {
        Self {
            subject,
            details: CallDetails::default(),
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

    /// The facts that are known from the beginning. As long as the call lasts, somebody has them.
    pub fn facts(&self) -> &Arc<CallFacts> {
        self.facts.get_or_init(|| {
            let Subject { agent, session, toolbox, server, tool, arguments, meta: _ } =
                self.subject;
            Arc::new(CallFacts {
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

    /// The bytes of its arguments.
    pub fn argument_bytes(&self) -> usize {
        self.subject.arguments.map_or(0, Raw::len)
    }

    /// Takes the members of the request's `_meta` that go on to the server, where they are not those
    /// that it came with.
    pub fn take_meta(&mut self) -> Option<Vec<Member>> {
        self.trace.get_mut().map(|trace| std::mem::take(&mut trace.meta))
    }

    /// Takes note of the rule that decided on the call, whichever way.
    pub fn decided_by(&mut self, rule: impl FnOnce() -> Option<Cow<'static, str>>) {
        if self.wants_texts {
            self.details.rule = rule();
        }
    }

    /// Takes note of why the call is not let through.
    pub fn refused_for(&mut self, reason: &str) {
        if self.wants_texts {
            self.details.reason = Some(reason.to_owned());
        }
    }

    /// Takes note that the tool is not among what the agent may know of. Whether its server has it all
    /// the same is found out later, so that the agent does not notice.
    pub fn not_found(&mut self, listing: impl FnOnce() -> Option<Arc<Listing>>) {
        if self.wants_texts {
            self.details.listing = listing();
        }
    }

    /// How long it has taken so far, if somebody wants to know.
    pub(crate) fn took(&self) -> Duration {
        self.began.map_or(Duration::ZERO, |began| began.elapsed())
    }
}

impl Stop {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Concurrency => "concurrency",
            Self::Confirmation => "confirmation",
        }
    }
}
