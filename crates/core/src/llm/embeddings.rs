//! Embedding vectors of texts.

use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;

use crate::llm::{Endpoint, LlmError, RequestLimits};
use mcp_workbench_wire::json::RawJson;

/// Maximum number of texts in a request, and their maximum size in bytes unless it is only one.
const MAX_TEXTS: usize = 64;
const MAX_BYTES: usize = 64 * 1024;
/// Maximum number of bytes sent of a text. Models truncate long inputs, and the start matters most.
const LONGEST_TEXT: usize = 8 * 1024;
/// Maximum response size in bytes, enough for long vectors with many digits.
const MAX_ANSWER: usize = 16 * 1024 * 1024;
/// Maximum number of dimensions.
const MAX_NUMBERS: usize = 8 * 1024;

#[derive(Deserialize)]
struct Answer {
    data: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    index: Option<usize>,
    embedding: Vec<f32>,
}

impl Endpoint {
    /// Returns a vector for each text, in the same order and all of the same length.
    pub async fn embed(&self, texts: &[&str], until: Instant) -> Result<Vec<Vec<f32>>, LlmError> {
        let within = RequestLimits { deadline: until, requests: u32::MAX };
        let mut vectors: Vec<Vec<f32>> = Vec::with_capacity(texts.len());
        while vectors.len() < texts.len() {
            let batch = batch(&texts[vectors.len()..]);
            let body = RawJson::encode(&json!({"model": self.config().model, "input": batch}));
            let posted = self.post_with_retries("embeddings", &body, MAX_ANSWER, within).await;
            vectors.extend(read(&posted.answer?, batch.len())?);
            let length = vectors.first().map(Vec::len);
            if vectors.iter().any(|vector| Some(vector.len()) != length) {
                return Err(unusable("the vectors have different lengths"));
            }
        }
        Ok(vectors)
    }
}

/// Returns as many of the first texts as fit in one request, each truncated.
fn batch<'t>(texts: &[&'t str]) -> Vec<&'t str> {
    let mut bytes = 0;
    let mut batch = Vec::new();
    for text in texts.iter().take(MAX_TEXTS) {
        let text = &text[..text.floor_char_boundary(LONGEST_TEXT)];
        bytes += text.len();
        if bytes > MAX_BYTES && !batch.is_empty() {
            break;
        }
        batch.push(text);
    }
    batch
}

/// Parses a response into vectors in the order of the texts.
fn read(answer: &RawJson, count: usize) -> Result<Vec<Vec<f32>>, LlmError> {
    let Answer { data } = answer.parse().map_err(|_| unusable("not a list of vectors"))?;
    if data.len() != count {
        return Err(unusable("the number of vectors differs from the number of texts"));
    }
    let mut vectors = vec![Vec::new(); count];
    for (at, Item { index, embedding }) in data.into_iter().enumerate() {
        let is_usable = (1..=MAX_NUMBERS).contains(&embedding.len())
            && embedding.iter().all(|number| number.is_finite());
        if !is_usable {
            return Err(unusable("a vector is empty, too long or not finite"));
        }
        // Some endpoints omit `index` and keep the order.
        let place = vectors.get_mut(index.unwrap_or(at)).filter(|place| place.is_empty());
        let Some(place) = place else {
            return Err(unusable("invalid or repeated vector index"));
        };
        *place = embedding;
    }
    Ok(vectors)
}

fn unusable(why: &str) -> LlmError {
    LlmError::Unusable(why.to_owned())
}
