//! One run of a server under observation: told when it begins, what becomes of it, and when it ends,
//! however it ends.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::catalog::{ChangedDefinition, Listing};
use crate::observe::Observer;
use crate::observe::event::{Event, ServerContext, StoppedFor};

/// A run of a server that is under observation. One that is dropped was given up.
#[must_use]
pub struct ServerRun {
    observer: Arc<Observer>,
    context: ServerContext,
    has_ended: bool,
}

impl Observer {
    /// A server begins to start, which is called `label` in logs.
    pub fn begin_run(self: &Arc<Self>, toolbox: &str, server: &str, label: &str) -> ServerRun {
        let context = ServerContext {
            run: self.runs.fetch_add(1, Ordering::Relaxed),
            toolbox: toolbox.to_owned(),
            server: server.to_owned(),
            label: label.to_owned(),
            pid: None,
            was_ready: false,
            has_run_before: false,
        };
        self.listeners().tell(Event::ServerStarting(&context));
        ServerRun { observer: Arc::clone(self), context, has_ended: false }
    }
}

impl ServerRun {
    /// It is ready, as this process, with this listing; `again`: it has been ready in an earlier run.
    pub fn is_ready(&mut self, pid: Option<u32>, again: bool, listing: &Listing) {
        self.context.pid = pid;
        self.context.was_ready = true;
        self.context.has_run_before = again;
        self.tell(Event::ServerStarted(&self.context, listing));
    }

    /// It has another listing than before.
    pub fn lists(&self, listing: &Listing) {
        self.tell(Event::ListingChanged(&self.context, listing));
    }

    /// These definitions are not what they were, in this run or in an earlier one.
    pub fn has_changed(&self, changed: &[ChangedDefinition]) {
        if !changed.is_empty() {
            self.tell(Event::DefinitionsChanged(&self.context, changed));
        }
    }

    /// It could not be started.
    pub fn fail(mut self, reason: &str) {
        self.has_ended = true;
        self.tell(Event::ServerFailed(&self.context, reason));
    }

    /// It has ended by itself.
    pub fn die(mut self, cause: &str) {
        self.has_ended = true;
        self.tell(Event::ServerDied(&self.context, cause));
    }

    /// It cannot be reached over HTTP for this reason; `None`: it can be again.
    pub fn is_away(&self, why: Option<&str>) {
        self.tell(Event::ServerAway(&self.context, why));
    }

    /// It has been stopped.
    pub fn stop(mut self, why: StoppedFor) {
        self.has_ended = true;
        self.tell(Event::ServerStopped(&self.context, why));
    }

    fn tell(&self, event: Event<'_>) {
        self.observer.listeners().tell(event);
    }
}

impl Drop for ServerRun {
    fn drop(&mut self) {
        if !self.has_ended {
            self.tell(Event::ServerStopped(&self.context, StoppedFor::Shutdown));
        }
    }
}
