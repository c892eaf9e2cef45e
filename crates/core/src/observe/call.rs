//! One call under observation: told when it begins, and when it ends, however it ends.

use crate::observe::context::CallContext;
use crate::observe::ending::{CallEnd, Ending};
use crate::observe::event::{Event, Kinds};
use crate::observe::listeners::Listeners;
use crate::observe::meters::Meters;
use crate::observe::subject::Subject;

/// A call that is under observation. One that is dropped was given up.
#[must_use]
pub struct ObservedCall<'a> {
    listeners: &'a Listeners,
    /// Its context, for whoever the call passes.
    pub context: CallContext<'a>,
    has_ended: bool,
}

impl Listeners {
    /// A call begins.
    pub fn begin_call<'a>(&'a self, meters: &'a Meters, subject: Subject<'a>) -> ObservedCall<'a> {
        let is_timed = self.want(Kinds::CALLS_BEGUN.and(Kinds::CALLS_ENDED));
        let wants_texts = self.want(Kinds::CALL_TEXTS);
        let mut context = CallContext::new(subject, meters, self.calls(), is_timed, wants_texts);
        if self.live().is_watched() {
            context.is_watched = true;
            self.live().begin();
        }
        self.tell(Event::CallBegan(&context));
        ObservedCall { listeners: self, context, has_ended: false }
    }
}

impl ObservedCall<'_> {
    /// The call has ended, with a result or an error of so many bytes if there was one.
    pub fn end(mut self, ending: Ending, result_bytes: Option<usize>) {
        self.finish(ending, result_bytes);
    }

    fn finish(&mut self, ending: Ending, result_bytes: Option<usize>) {
        self.has_ended = true;
        if self.listeners.want(Kinds::CALLS_ENDED) {
            let end = CallEnd { ending, took: self.context.took(), result_bytes };
            self.listeners.tell(Event::CallEnded(&self.context, end));
        }
    }
}

impl Drop for ObservedCall<'_> {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        self.finish(self.listeners.given_up(), None);
    }
}
