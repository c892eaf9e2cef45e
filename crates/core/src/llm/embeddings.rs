//! The meanings of texts, as vectors of a model.

use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;

use crate::llm::{Endpoint, Failure, Within};
use crate::raw::Raw;

/// The most texts of one request, and the most bytes of them, if it is more than one.
const MOST_TEXTS: usize = 64;
const MOST_BYTES: usize = 64 * 1024;
/// How much of one text is sent: models take so much, and say first what they are about.
const LONGEST_TEXT: usize = 8 * 1024;
/// The most bytes of an answer: long vectors, written with many digits.
const MOST_ANSWER: usize = 16 * 1024 * 1024;
/// The most numbers of a vector.
const MOST_NUMBERS: usize = 8 * 1024;

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
    /// A vector for each text, in their order and all of one length.
    pub async fn embed(&self, texts: &[&str], until: Instant) -> Result<Vec<Vec<f32>>, Failure> {
        let within = Within { until, requests: u32::MAX };
        let mut vectors: Vec<Vec<f32>> = Vec::with_capacity(texts.len());
        while vectors.len() < texts.len() {
            let batch = batch(&texts[vectors.len()..]);
            let body = Raw::encode(&json!({"model": self.config().model, "input": batch}));
            let posted = self.post_counted("embeddings", &body, MOST_ANSWER, within).await;
            vectors.extend(read(&posted.answer?, batch.len())?);
            let length = vectors.first().map(Vec::len);
            if vectors.iter().any(|vector| Some(vector.len()) != length) {
                return Err(unusable("its vectors are not of one length"));
            }
        }
        Ok(vectors)
    }
}

/// As many of the first texts as go into one request, none of them too long.
fn batch<'t>(texts: &[&'t str]) -> Vec<&'t str> {
    let mut bytes = 0;
    let mut batch = Vec::new();
    for text in texts.iter().take(MOST_TEXTS) {
        let text = &text[..text.floor_char_boundary(LONGEST_TEXT)];
        bytes += text.len();
        if bytes > MOST_BYTES && !batch.is_empty() {
            break;
        }
        batch.push(text);
    }
    batch
}

/// The vectors of an answer, in the order of the texts.
fn read(answer: &Raw, count: usize) -> Result<Vec<Vec<f32>>, Failure> {
    let Answer { data } = answer.parse().map_err(|_| unusable("it is no list of vectors"))?;
    if data.len() != count {
        return Err(unusable("it has more or fewer vectors than there were texts"));
    }
    let mut vectors = vec![Vec::new(); count];
    for (at, Item { index, embedding }) in data.into_iter().enumerate() {
        let is_usable = (1..=MOST_NUMBERS).contains(&embedding.len())
            && embedding.iter().all(|number| number.is_finite());
        if !is_usable {
            return Err(unusable("a vector of it is none"));
        }
        // Some leave it out, and mean the order.
        let place = vectors.get_mut(index.unwrap_or(at)).filter(|place| place.is_empty());
        let Some(place) = place else {
            return Err(unusable("it does not say which vector is whose"));
        };
        *place = embedding;
    }
    Ok(vectors)
}

fn unusable(why: &str) -> Failure {
    Failure::Unusable(why.to_owned())
}
