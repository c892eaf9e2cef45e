//! Reports the start, the state changes and the end of a server run.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::catalog::{DefinitionChange, Listing};
use crate::telemetry::event::{Event, ServerContext, ServerStopReason};
use crate::telemetry::observer::Telemetry;

/// A server run. Dropping it reports that the server was stopped for a shutdown.
#[must_use]
pub struct ServerRunGuard {
    observer: Arc<Telemetry>,
    context: ServerContext,
    has_ended: bool,
}

impl Telemetry {
    /// Reports that a server is starting. `label` is its name in logs.
    pub fn begin_server_run(
        self: &Arc<Self>,
        toolbox: &str,
        server: &str,
        label: &str,
    ) -> ServerRunGuard {
        let context = ServerContext {
            run: self.runs.fetch_add(1, Ordering::Relaxed),
            toolbox: toolbox.to_owned(),
            server: server.to_owned(),
            label: label.to_owned(),
            pid: None,
            was_ready: false,
            has_run_before: false,
        };
        self.bus().emit(Event::ServerStarting(&context));
        ServerRunGuard { observer: Arc::clone(self), context, has_ended: false }
    }
}

impl ServerRunGuard {
    /// Reports that the server is ready. `again` is true if an earlier run was ready, too.
    pub fn mark_ready(&mut self, pid: Option<u32>, again: bool, listing: &Listing) {
        self.context.pid = pid;
        self.context.was_ready = true;
        self.context.has_run_before = again;
        self.tell(Event::ServerStarted(&self.context, listing));
    }

    /// Reports a changed listing.
    pub fn record_listing(&self, listing: &Listing) {
        self.tell(Event::ListingChanged(&self.context, listing));
    }

    /// Reports definitions that changed during this run or since an earlier one.
    pub fn record_changes(&self, changed: &[DefinitionChange]) {
        if !changed.is_empty() {
            self.tell(Event::DefinitionsChanged(&self.context, changed));
        }
    }

    /// Reports that the server failed to start.
    pub fn fail(mut self, reason: &str) {
        self.has_ended = true;
        self.tell(Event::ServerFailed(&self.context, reason));
    }

    /// Reports that the server exited unexpectedly.
    pub fn mark_died(mut self, cause: &str) {
        self.has_ended = true;
        self.tell(Event::ServerDied(&self.context, cause));
    }

    /// Reports that the server can't be reached over HTTP, or with `None`, that it can be again.
    pub fn mark_unreachable(&self, why: Option<&str>) {
        self.tell(Event::ServerUnreachable(&self.context, why));
    }

    /// Reports that the server was stopped.
    pub fn stop(mut self, why: ServerStopReason) {
        self.has_ended = true;
        self.tell(Event::ServerStopped(&self.context, why));
    }

    fn tell(&self, event: Event<'_>) {
        self.observer.bus().emit(event);
    }
}

impl Drop for ServerRunGuard {
    fn drop(&mut self) {
        if !self.has_ended {
            self.tell(Event::ServerStopped(&self.context, ServerStopReason::Shutdown));
        }
    }
}
