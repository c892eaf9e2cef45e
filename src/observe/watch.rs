//! One call under observation: what is found out on its way, told when it ends, however it ends.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use crate::catalog::Listing;
use crate::observe::record::{Begun, Ended, Notes};
use crate::observe::spans::Spanning;
use crate::observe::subject::Subject;
use crate::observe::{Audit, Ending, Meters, Observer};
use crate::raw::{Member, Raw};

/// A call that is under observation. One that is dropped was given up.
#[must_use]
pub struct Watch<'a> {
    observer: &'a Observer,
    meters: &'a Meters,
    began: Instant,
    argument_bytes: usize,
    record: Option<Box<Recorded<'a>>>,
    span: Option<Box<Spanning>>,
}

struct Recorded<'a> {
    audit: &'a Audit,
    begun: Arc<Begun>,
    rule: Option<Cow<'static, str>>,
    reason: Option<String>,
    listing: Option<Arc<Listing>>,
    notes: Notes,
}

impl Observer {
    /// Begins to watch a call, which is recorded if there is an audit.
    pub fn watch<'a>(
        &'a self,
        audit: Option<&'a Audit>,
        meters: &'a Meters,
        subject: Subject<'_>,
    ) -> Watch<'a> {
        let record = audit.map(|audit| {
            let begun = Arc::new(Begun {
                serial: audit.next_serial(),
                at: SystemTime::now(),
                agent: subject.agent.cloned(),
                session: subject.session,
                toolbox: subject.toolbox.cloned(),
                server: subject.server.cloned(),
                tool: subject.tool.to_owned(),
                arguments: subject.arguments.cloned(),
            });
            audit.begin(&begun);
            Box::new(Recorded {
                audit,
                begun,
                rule: None,
                reason: None,
                listing: None,
                notes: Notes::default(),
            })
        });
        let span = self.spans.as_ref().map(|spans| Box::new(spans.begin(&self.run, &subject)));
        let argument_bytes = subject.arguments.map_or(0, Raw::len);
        Watch { observer: self, meters, began: Instant::now(), argument_bytes, record, span }
    }
}

impl Watch<'_> {
    /// The members of the request's `_meta` that go on to the server, where they are not those it
    /// came with.
    pub fn meta(&mut self) -> Option<Vec<Member>> {
        self.span.as_mut().map(|span| std::mem::take(&mut span.meta))
    }

    /// The rule that decided on the call, whichever way.
    pub fn decided_by(&mut self, rule: impl FnOnce() -> Option<Cow<'static, str>>) {
        if let Some(record) = &mut self.record {
            record.rule = rule();
        }
    }

    /// Why the call is not let through.
    pub fn refused_for(&mut self, reason: &str) {
        if let Some(record) = &mut self.record {
            record.reason = Some(reason.to_owned());
        }
    }

    /// How the call went.
    pub fn went(&mut self, notes: Notes) {
        if let Some(record) = &mut self.record {
            record.notes = notes;
        }
    }

    /// The tool is not among what the agent may know of. Whether its server has it all the same is
    /// found out later, so that the agent does not notice.
    pub fn not_found(&mut self, listing: impl FnOnce() -> Option<Arc<Listing>>) {
        if let Some(record) = &mut self.record {
            record.listing = listing();
        }
    }

    /// The call has ended, with a result or an error of so many bytes if there was one.
    pub fn end(mut self, ending: Ending, result_bytes: Option<usize>) {
        self.finish(ending, result_bytes);
        // It has ended once.
        std::mem::forget(self);
    }

    fn finish(&mut self, ending: Ending, result_bytes: Option<usize>) {
        let took = self.began.elapsed();
        self.meters.call(ending, took, [self.argument_bytes, result_bytes.unwrap_or_default()]);
        if let Some(span) = self.span.take() {
            span.end(ending);
        }
        if let Some(record) = self.record.take() {
            record.end(ending, took, result_bytes);
        }
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        let ending = if std::thread::panicking() {
            Ending::Panicked
        } else if self.observer.is_ending.load(Ordering::Relaxed) {
            Ending::ShuttingDown
        } else {
            Ending::Cancelled
        };
        self.finish(ending, None);
    }
}

impl Recorded<'_> {
    fn end(self, ending: Ending, took: Duration, result_bytes: Option<usize>) {
        let Self { audit, begun, rule, reason, listing, notes } = self;
        audit.end(begun, Ended { ending, took, result_bytes, rule, reason, listing, notes });
    }
}
