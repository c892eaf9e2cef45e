//! Statistics of language models: requests, failures, latencies and tokens.

use foldhash::HashMap;

use crate::telemetry::stats::{micros, percentile};

#[derive(Debug, Default)]
pub struct ModelStats {
    pub name: String,
    pub requests: u64,
    pub failed: u64,
    /// Input tokens.
    pub tokens_read: u64,
    /// Output tokens.
    pub tokens_written: u64,
    /// Latencies of successful requests, in microseconds.
    times: Vec<u32>,
}

#[derive(Debug, Default)]
pub(super) struct Models {
    models: Vec<ModelStats>,
    places: HashMap<String, usize>,
}

pub(super) struct Request<'a> {
    pub(super) model: &'a str,
    pub(super) outcome: &'a str,
    pub(super) ms: Option<f64>,
    pub(super) tokens: [u64; 2],
}

impl Models {
    pub(super) fn add(&mut self, request: &Request<'_>) {
        let index = if let Some(place) = self.places.get(request.model) {
            *place
        } else {
            self.places.insert(request.model.to_owned(), self.models.len());
            self.models
                .push(ModelStats { name: request.model.to_owned(), ..ModelStats::default() });
            self.models.len() - 1
        };
        let Some(model) = self.models.get_mut(index) else { return };
        let [read, written] = request.tokens;
        model.requests += 1;
        model.tokens_read = model.tokens_read.saturating_add(read);
        model.tokens_written = model.tokens_written.saturating_add(written);
        match request.outcome {
            "ok" => model.times.extend(request.ms.map(micros)),
            "cancelled" | "shutting_down" => {}
            _ => model.failed += 1,
        }
    }

    /// Returns the models, most requests first.
    pub(super) fn finish(mut self) -> Vec<ModelStats> {
        for model in &mut self.models {
            model.times.sort_unstable();
        }
        self.models.sort_by(|a, b| b.requests.cmp(&a.requests).then_with(|| a.name.cmp(&b.name)));
        self.models
    }
}

impl ModelStats {
    /// Returns a percentile of the latency of successful requests, in milliseconds.
    pub fn percentile(&self, percent: usize) -> Option<f64> {
        percentile(&self.times, percent)
    }
}
