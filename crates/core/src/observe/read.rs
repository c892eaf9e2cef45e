//! One read of a resource or a prompt under observation: told when it has ended, however it ends.

use std::time::Instant;

use crate::observe::ending::{CallEnd, Ending};
use crate::observe::event::{Event, Kinds, ReadContext, Readable};
use crate::observe::listeners::Listeners;

/// A read that is under observation. One that is dropped was given up.
#[must_use]
pub struct ObservedRead<'a> {
    listeners: &'a Listeners,
    context: ReadContext<'a>,
    began: Instant,
    has_ended: bool,
}

impl Listeners {
    /// Returns `true` if anybody wants to hear of reads.
    pub fn want_reads(&self) -> bool {
        self.want(Kinds::READS)
    }

    /// A read begins.
    pub fn begin_read<'a>(&'a self, context: ReadContext<'a>) -> ObservedRead<'a> {
        ObservedRead { listeners: self, context, began: Instant::now(), has_ended: false }
    }
}

impl ObservedRead<'_> {
    /// This rule has decided on it.
    pub fn decided_by(&mut self, rule: Option<String>) {
        self.context.rule = rule.map(Into::into);
    }

    /// The read has ended, with a result or an error of so many bytes if there was one.
    pub fn end(mut self, ending: Ending, result_bytes: Option<usize>) {
        self.finish(ending, result_bytes);
    }

    fn finish(&mut self, ending: Ending, result_bytes: Option<usize>) {
        self.has_ended = true;
        let end = CallEnd { ending, took: self.began.elapsed(), result_bytes };
        self.listeners.tell(Event::ReadEnded(&self.context, end));
    }
}

impl Drop for ObservedRead<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.finish(self.listeners.given_up(), None);
        }
    }
}

impl Readable {
    /// The kind of thing that a request reads, and the parameter that names it; `None` if it is no
    /// read.
    pub fn of(method: &str) -> Option<(Self, &'static str)> {
        match method {
            "resources/read" => Some((Self::Resource, "uri")),
            "prompts/get" => Some((Self::Prompt, "name")),
            _ => None,
        }
    }

    /// The word for it, in records.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Resource => "resource",
            Self::Prompt => "prompt",
        }
    }
}
