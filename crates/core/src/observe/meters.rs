//! The counters of one server in one toolbox, which are looked up once and travel with its calls.

use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use crate::observe::ending::{CallEnd, Ending};

/// The metrics of one server in one toolbox.
#[derive(Debug)]
pub struct Meters {
    pub(crate) calls: [Counter<u64, AtomicU64>; Ending::ALL.len()],
    pub(crate) seconds: Histogram,
    pub(crate) argument_bytes: Counter,
    pub(crate) result_bytes: Counter,
    pub(crate) running: Gauge,
    pub(crate) started: Counter,
    pub(crate) not_started: Counter,
    pub(crate) restarts: Counter,
    pub(crate) deaths: Counter,
}

impl Default for Meters {
    /// Counters that are in no family, with one bucket for all times.
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
            deaths: Counter::default(),
        }
    }
}

impl Meters {
    /// A call has ended, which had so many bytes of arguments.
    pub(crate) fn call(&self, argument_bytes: usize, end: CallEnd) {
        self.calls[end.ending as usize].inc();
        self.seconds.observe(end.took.as_secs_f64());
        self.argument_bytes.inc_by(argument_bytes as u64);
        self.result_bytes.inc_by(end.result_bytes.unwrap_or_default() as u64);
    }

    /// A server runs from now on; `again`: one has run before it.
    pub(crate) fn up(&self, again: bool) {
        self.started.inc();
        self.restarts.inc_by(u64::from(again));
        self.running.inc();
    }

    /// It runs no more.
    pub(crate) fn down(&self) {
        self.running.dec();
    }

    /// A server could not be started.
    pub(crate) fn not_started(&self) {
        self.not_started.inc();
    }

    /// A server has ended by itself.
    pub(crate) fn died(&self) {
        self.deaths.inc();
    }
}
