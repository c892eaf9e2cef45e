//! The metrics of a server in a toolbox, looked up once and used by all of its calls.

use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use crate::telemetry::outcome::{CallEnd, CallOutcome};

/// The metrics of a server in a toolbox.
#[derive(Debug)]
pub struct ServerMetrics {
    pub(crate) calls: [Counter<u64, AtomicU64>; CallOutcome::ALL.len()],
    pub(crate) seconds: Histogram,
    pub(crate) argument_bytes: Counter,
    pub(crate) result_bytes: Counter,
    pub(crate) running: Gauge,
    pub(crate) started: Counter,
    pub(crate) not_started: Counter,
    pub(crate) restarts: Counter,
    pub(crate) crashes: Counter,
}

impl Default for ServerMetrics {
    /// Metrics that are not exported, with a single histogram bucket.
    fn default() -> Self {
        Self {
            calls: Default::default(),
            seconds: Histogram::new([]),
            argument_bytes: Counter::default(),
            result_bytes: Counter::default(),
            running: Gauge::default(),
            started: Counter::default(),
            not_started: Counter::default(),
            restarts: Counter::default(),
            crashes: Counter::default(),
        }
    }
}

impl ServerMetrics {
    pub(crate) fn record_call(&self, argument_bytes: usize, end: &CallEnd) {
        self.calls[end.outcome as usize].inc();
        self.seconds.observe(end.took.as_secs_f64());
        self.argument_bytes.inc_by(argument_bytes as u64);
        self.result_bytes.inc_by(end.result_bytes.unwrap_or_default() as u64);
    }

    /// `again` is `true` if the server has run before.
    pub(crate) fn record_start(&self, again: bool) {
        self.started.inc();
        self.restarts.inc_by(u64::from(again));
        self.running.inc();
    }

    pub(crate) fn record_stop(&self) {
        self.running.dec();
    }

    pub(crate) fn record_start_failure(&self) {
        self.not_started.inc();
    }

    pub(crate) fn record_crash(&self) {
        self.crashes.inc();
    }
}
