//! Statistics of language models: requests, failures, latencies and tokens.

use foldhash::HashMap;

use crate::telemetry::stats::audit_line::LlmLine;
use crate::telemetry::stats::measures::{micros, percentile};

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

impl Models {
    pub(super) fn add(&mut self, line: &LlmLine<'_>) {
        let index = if let Some(place) = self.places.get(&*line.model) {
            *place
        } else {
            self.places.insert((*line.model).to_owned(), self.models.len());
            self.models
                .push(ModelStats { name: (*line.model).to_owned(), ..ModelStats::default() });
            self.models.len() - 1
        };
        let Some(model) = self.models.get_mut(index) else { return };
        model.requests += 1;
        model.tokens_read = model.tokens_read.saturating_add(line.tokens_read);
        model.tokens_written = model.tokens_written.saturating_add(line.tokens_written);
        match &*line.outcome {
            "ok" => model.times.extend(line.ms.map(micros)),
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
