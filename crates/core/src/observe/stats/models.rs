//! Statistics of language models: how often each was asked, how that went, and what it took.

use foldhash::HashMap;

use crate::observe::stats::{micros, percentile};

/// The statistics of one model.
#[derive(Debug, Default)]
pub struct Model {
    /// The model's name.
    pub name: String,
    /// How often it was asked.
    pub requests: u64,
    /// How often that failed.
    pub failed: u64,
    /// The tokens that it has read.
    pub tokens_read: u64,
    /// The tokens that it has written.
    pub tokens_written: u64,
    /// How long it took to answer, in microseconds.
    times: Vec<u32>,
}

/// All models, in the order in which they are met.
#[derive(Debug, Default)]
pub(super) struct Models {
    models: Vec<Model>,
    places: HashMap<String, usize>,
}

/// A line that tells of a request.
pub(super) struct Request<'a> {
    pub(super) model: &'a str,
    pub(super) outcome: &'a str,
    pub(super) ms: Option<f64>,
    pub(super) tokens: [u64; 2],
}

impl Models {
    pub(super) fn add(&mut self, request: &Request<'_>) {
        let place = if let Some(place) = self.places.get(request.model) {
            *place
        } else {
            self.places.insert(request.model.to_owned(), self.models.len());
            self.models.push(Model { name: request.model.to_owned(), ..Model::default() });
            self.models.len() - 1
        };
        let Some(model) = self.models.get_mut(place) else { return };
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

    /// All of them, the one that was asked most first.
    pub(super) fn finish(mut self) -> Vec<Model> {
        for model in &mut self.models {
            model.times.sort_unstable();
        }
        self.models.sort_by(|a, b| b.requests.cmp(&a.requests).then_with(|| a.name.cmp(&b.name)));
        self.models
    }
}

impl Model {
    /// The time that so many of a hundred answers did not pass, in milliseconds.
    pub fn percentile(&self, percent: usize) -> Option<f64> {
        percentile(&self.times, percent)
    }
}
